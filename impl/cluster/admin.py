"""Administration of a running cluster: topics, partitions, elections and ACLs.

Each method sends the request that Kafka's admin client would send, or asks the controller directly, and returns when
the brokers have applied the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from tidegauge.impl.cluster.clients import Clients
from tidegauge.impl.cluster.nodes import Nodes
from tidegauge.impl.metadata.access import Acl, AclFilter

if TYPE_CHECKING:
    from tidegauge.impl.partition.registration import PartitionRegistration


UNFENCING_S: Final = 20.0


class Admin:
    """What an operator does with a cluster."""

    def __init__(self, nodes: Nodes, clients: Clients) -> None:
        self.nodes = nodes
        self.clients = clients

    # --- topics -------------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        assignments: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic and wait until its brokers have applied that.

        Brokers that have just been started or healed are waited for when too few others are unfenced.

        replication_factor: the number of brokers unless it is given.
        config: settings of the topic under Kafka's names.
        assignments: each partition's brokers, the preferred leader first; in place of the two numbers.

        Raises KafkaError.
        """
        configs = {key: config_text(value) for key, value in (config or {}).items()}
        factor = self.nodes.options.brokers if replication_factor is None else replication_factor
        if not assignments and self.nodes.options.timers:
            await self._wait_for_unfenced(factor)
        async with self.clients.client("admin") as admin:
            await admin.create_topic(name, partitions, factor, configs=configs, assignments=assignments)
        await self.settle_metadata()

    async def _wait_for_unfenced(self, count: int) -> None:
        """Wait until `count` brokers are unfenced, as long as so many could be, `UNFENCING_S` seconds at most."""
        with trio.move_on_after(UNFENCING_S):
            while len(self.nodes.controller.controller.image.unfenced_brokers()) < count:
                if sum(map(self.nodes.reaches_controller, self.nodes.broker_ids)) < count:
                    return
                await trio.sleep(0.01)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until its brokers have removed it; one that is down removes it when it returns.

        Raises KafkaError.
        """
        from tidegauge.impl.client import topic_requests

        topic_requests.check_deleted(await self._ask(topic_requests.delete_topic(name)))
        await self.settle_metadata()

    async def create_partitions(self, name: str, count: int, *, assignments: Sequence[Sequence[int]] = ()) -> None:
        """Let a topic grow to `count` partitions and wait until its brokers have applied that.

        assignments: the brokers of each new partition, the preferred leader first.

        Raises KafkaError.
        """
        from tidegauge.impl.client import topic_requests

        topic_requests.check_grown(await self._ask(topic_requests.create_partitions(name, count, assignments)))
        await self.settle_metadata()

    async def reassign(
        self, topic: str, brokers: Sequence[int] | None, partition: int = 0, *, wait: bool = True
    ) -> None:
        """Move a partition to these brokers, the preferred leader first, while clients write to it (KIP-455).

        brokers: None cancels a reassignment that is in progress.
        wait: return when the partition has moved, and not already when the reassignment has begun. Bound the wait
            with a trio timeout.

        Raises KafkaError.
        """
        from tidegauge.impl.client import topic_requests

        topic_requests.check_reassigned(await self._ask(topic_requests.reassign(topic, partition, brokers)))
        await self.settle_metadata()
        wait = wait and self.nodes.options.timers
        while wait and self.is_reassigned(topic, partition):  # noqa: ASYNC110 - callers bound it
            await trio.sleep(0.01)
        await self.settle_metadata()

    async def elect(self, topic: str, partition: int = 0, *, unclean: bool = False) -> None:
        """Elect the preferred leader of a partition.

        With `unclean`, elect any live replica of a partition without a leader: records that only other replicas have
        are lost. Raises KafkaError when the controller refuses.
        """
        async with self.clients.client("admin") as admin:
            await admin.elect_leaders(topic, partition, unclean=unclean)

    async def _ask(self, request: Any) -> Any:
        async with self.clients.client("admin") as admin:
            return await admin.ask_once(request)

    # --- partitions ---------------------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition according to the controller; -1 for none. Raises ValueError."""
        return self._registration(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The in-sync replicas of a partition according to the controller, sorted. Raises ValueError."""
        return tuple(sorted(self._registration(topic, partition).isr))

    def replicas(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The partition's brokers, the preferred leader first. Raises ValueError when there is no such partition."""
        return self._registration(topic, partition).replicas

    def is_reassigned(self, topic: str, partition: int = 0) -> bool:
        """Whether a reassignment of the partition is in progress; False when there is no such partition."""
        registration = self.nodes.controller.controller.image.partition(topic, partition)
        return registration is not None and registration.is_reassigned

    def _registration(self, topic: str, partition: int) -> PartitionRegistration:
        registration = self.nodes.controller.controller.image.partition(topic, partition)
        if registration is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        return registration

    async def wait_for_isr(self, topic: str, members: Iterable[int], partition: int = 0) -> None:
        """Wait until the ISR is exactly `members`. Bound the wait with a trio timeout."""
        wanted = set(members)
        while set(self.isr(topic, partition)) != wanted:  # noqa: ASYNC110 - callers bound it
            await trio.sleep(0.01)

    async def wait_for_leader(self, topic: str, partition: int = 0, *, other_than: int = -1) -> int:
        """Wait until a partition has a leader other than this one and that broker knows; return it.

        Bound the wait with a trio timeout.
        """
        while True:
            leader = self.leader(topic, partition)
            if leader not in (-1, other_than) and self.nodes.task(leader).alive:
                hosted = self.nodes.broker(leader).replicas.get(topic, partition)
                if hosted is not None and hosted.replica.is_leader:
                    return leader
            await trio.sleep(0.01)

    async def settle_metadata(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - a bound on a convenience
        """Wait, `timeout` seconds at most, until every broker that reaches the controller has applied all metadata."""
        end_offset = self.nodes.controller.log.end_offset
        with trio.move_on_after(timeout):
            for broker in self.nodes.brokers:
                while self.nodes.reaches_controller(broker.id) and broker.metadata.offset_in_force < end_offset:
                    if self.nodes.options.timers:
                        await trio.sleep(0.001)
                    else:
                        await broker.actions.apply_metadata()

    # --- access -------------------------------------------------------------------------------------------------------

    def bootstrap_servers_of(self, listener: str) -> str:
        """Where clients of a listener begin: `host:port` of every broker, separated by commas. Raises ValueError."""
        endpoints = [broker.listeners.advertised for broker in self.nodes.brokers]
        if any(listener not in of_one for of_one in endpoints):
            raise ValueError(f"listener {listener!r}: there is {', '.join(endpoints[0])}")
        return ",".join(str(of_one[listener]) for of_one in endpoints)

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add ACLs and wait until every broker applies them.

        Raises ValueError for an ACL that Kafka does not allow, and in a cluster without an authorizer.
        """
        if not self.nodes.options.config.authorizer_class_name:
            raise ValueError("ACLs have no effect here: make the cluster with security=Security(…, acls=[…])")
        async with self.nodes.controller.decisions.turn() as turn:
            refusals = await turn.commit(turn.controller.acls.create(list(acls)))
        await self.settle_metadata()
        if wrong := [refusal for refusal in refusals if refusal]:
            raise ValueError(wrong[0])

    async def delete_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """Remove the ACLs that match a filter (all without one), wait until no broker applies them, and return them."""
        async with self.nodes.controller.decisions.turn() as turn:
            (found,) = await turn.commit(turn.controller.acls.delete([wanted or AclFilter()]))
        await self.settle_metadata()
        return found


def config_text(value: Any) -> str:
    """A setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
