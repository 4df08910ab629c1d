"""What a trio cluster has that is in lockstep with transactions: requests on their way, and what they come to.

Theory of operation
-------------------
Clients are the same as beside the cores (`harness.cores.transaction_clients`). A request waits here until the action
that delivers it, which opens a connection and sends it; so requests are late, arrive twice, or never. A response that
does not come in the same step comes with the action that commits what it waits for. FindCoordinator says where requests
go, and is asked again when the coordinator changes.

A record is sent twice. `Verify` sends it damaged: its leader asks the coordinator, and then refuses what its checksum
says is damaged. `Append` sends it again, whole. So verification and append are two steps on the wire too.

Every marker that a coordinator sends by itself is lost, once it was looked at. `WriteMarker` has the coordinator send
one to one leader, also one that was late and that it does not wait for any more. A former coordinator's marker comes
over another connection.

Producer ids are allocated in blocks, by each broker: here they have the numbers in whose order they first appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.client import requests
from tidegauge.impl.client.route import Route
from tidegauge.impl.coordinators.transactions.messages import Marker, Outstanding, ProducerGiven
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata
from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.impl.ports.network import Address
from tidegauge.impl.records.lazy import in_memory
from tidegauge.model_tests.harness.cluster import transaction_requests as wire
from tidegauge.model_tests.harness.cluster.coordinator_brokers import lose_connection
from tidegauge.model_tests.harness.cluster.in_flight import message_of
from tidegauge.model_tests.harness.cluster.transaction_brokers import TOPIC, TransactionBrokers, is_marker
from tidegauge.model_tests.harness.cluster.transaction_group import GROUP, TransactionGroup
from tidegauge.model_tests.harness.cores.transaction_abstraction import (
    has_all_markers,
    itself,
    known_version,
    metadata_of,
    partition_of,
    read_otherwise,
    returned,
)
from tidegauge.model_tests.harness.cores.transaction_clients import (
    RETRIABLE,
    TransactionClients,
    told_version,
)
from tidegauge.model_tests.harness.cores.transaction_roles import CORRECT, TransactionRoles
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.transactions import partitioning
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.actions import Waiting, own_markers
from tidegauge.spec.transactions.machine import Transactions

TIMEOUT_MS: Final = 1_000
MUCH: Final = 1 << 20
NOBODYS: Final = 1_000_000_000
"""A producer id that no broker has given."""
ASKED_ONLY: Final = (ErrorCode.corrupt_message, ErrorCode.offset_metadata_too_large, ErrorCode.illegal_generation)
"""Upon what was sent to have the coordinator asked, and nothing else; the group may have something against it too."""
TRIED_AGAIN: Final = (*RETRIABLE, ErrorCode.not_enough_replicas, ErrorCode.not_coordinator)


@attrs.define
class Awaited:
    """A request to the coordinator that has no response yet."""

    request: Waiting
    is_late: bool
    responses: list[Any]


@attrs.define
class Read:
    """What a partition has been found to be, and what a consumer got from it."""

    partition: spec.Partition
    stable: int
    offsets: tuple[int, ...]


class TransactionBinding(TransactionClients):
    """Producers, a cluster, and what is on its way between them, in the machine's initial state."""

    def __init__(self, machine: Transactions, roles: TransactionRoles = CORRECT) -> None:
        super().__init__(machine)
        self.numbers: dict[int, int] = {spec.NONE: spec.NONE}
        """Producer id -> its number in the specification."""
        self.awaited: list[Awaited | None] = [None] * machine.transactional_ids
        self.least = [0] * machine.partitions
        """How much of each partition every replica has."""
        self.elections = 0
        self.found_coordinator: Address | None = None
        self.sent_markers: list[spec.MarkerRequest] = []
        """What the coordinator has sent by itself in the last step."""
        self.were_wanted: set[spec.MarkerRequest] = set()
        """The markers that it had to send before that step."""
        self.read: list[Read | None] = [None] * machine.partitions
        self.offset_commits: dict[int, list[Any]] = {}
        """What is in the log of offsets: the responses to who waits, when they come."""
        self.brokers = TransactionBrokers(machine, roles)
        self.beginning_ms = self.brokers.coordinator.clock.now_ms()
        self.group = TransactionGroup(self.brokers)
        self.generation = self.brokers.run.call(self.group.join) if machine.inputs else 0

    def close(self) -> None:
        """Stop the cluster."""
        self.brokers.close()

    def is_asking(self, place: int) -> bool:
        """Whether the leader of a partition waits for the coordinator to have added it to a transaction."""
        asked = [one.request for one in self.awaited if one is not None]
        return any(isinstance(request, spec.ProduceRequest) and request.partition == place for request in asked)

    # --- producer ids --------------------------------------------------------------------------------------------

    def number(self, producer_id: int) -> int:
        """A producer id as the specification numbers it."""
        return self.numbers.setdefault(producer_id, len(self.numbers) - 1)

    def real(self, number: int) -> int:
        """The producer id of a number."""
        known = list(self.numbers)
        return known[number + 1] if number + 1 < len(known) else NOBODYS + number

    def on_wire(self, request: Any) -> Any:
        """A request with the producer id that the cluster knows."""
        return attrs.evolve(request, producer_id=self.real(request.producer_id))

    # --- requests to the coordinator -----------------------------------------------------------------------------

    async def ask_coordinator(self, request: Waiting) -> list[Any]:
        """Send a request of a client or a leader to the coordinator."""
        name = self.brokers.names[self.machine.id_of(request.producer)]
        known, located = self.on_wire(request), self.brokers.located(getattr(request, "partition", 0))
        if isinstance(request, spec.AddRequest) and request.partition == self.group.place:
            message: Any = wire.add_offsets(name, GROUP, known)
        else:
            message = wire.to_coordinator(located, name, TIMEOUT_MS, known, two_phase=self.machine.two_phase)
        return await self.brokers.asked(await self.find_coordinator(name), message)

    async def find_coordinator(self, name: str) -> Address:
        """Where the coordinator is, as a broker says that has no part in it."""
        if self.found_coordinator is None:
            (response,) = await self.brokers.asked(self.brokers.leader(0).address, wire.find(name))
            (found,) = response.coordinators
            assert found.error_code is ErrorCode.none, found
            self.found_coordinator = Address(found.host, found.port)
        return self.found_coordinator

    async def receive(self, request: Waiting, *, late: bool) -> None:
        """A request reaches the coordinator, or a record its leader that asks about it; who waits for it is told."""
        if isinstance(request, spec.ProduceRequest):
            responses = await self.produce(request, damaged=True)
        else:
            responses = await self.ask_coordinator(request)
        awaited = Awaited(request, late, responses)
        if responses:
            await self.told(awaited)
        else:
            self.awaited[self.machine.id_of(request.producer)] = awaited

    async def told(self, awaited: Awaited) -> None:
        """The response has come, or has been lost."""
        request, response = awaited.request, next(iter(awaited.responses), None)
        if isinstance(request, spec.ProduceRequest):
            await self.told_of_verification(request, response, is_late=awaited.is_late)
        elif response is not None and not awaited.is_late:
            said = wire.said_by_coordinator(request, response)
            if isinstance(said, ProducerGiven):
                ongoing = self.number(said.ongoing[0]), said.ongoing[1]
                said = said._replace(producer_id=self.number(said.producer_id), ongoing=ongoing)
            self.deliver(request, said)

    async def told_of_verification(self, request: spec.ProduceRequest, response: Any, *, is_late: bool) -> None:
        """A record that was damaged is refused in the end; what its leader was not told, it asks again."""
        error = None if response is None else wire.said_by_leader(response)
        if error in (*ASKED_ONLY, None, *TRIED_AGAIN, ErrorCode.not_leader_or_follower):
            if not self.is_verified(request):
                await self.produce(request, damaged=True)
        elif not is_late:
            self.stop(request.producer)

    def is_verified(self, request: spec.ProduceRequest) -> bool:
        """Whether the leader has been told that the transaction may begin in its partition."""
        verifications = self.brokers.led(request.partition).replica.verifications
        return verifications.is_verified(self.real(request.producer_id), request.epoch)

    # --- requests to leaders -------------------------------------------------------------------------------------

    async def produce(self, request: spec.ProduceRequest, *, damaged: bool = False) -> list[Any]:
        """Send a record to its leader, or an offset to the group's coordinator."""
        broker = self.brokers.leader(request.partition)
        name = self.brokers.names[self.machine.id_of(request.producer)]
        if self.group.is_of(request):
            message: Any = self.group.commit(name, self.on_wire(request), only_asks=damaged)
            return await self.brokers.asked(broker.address, message)
        message = wire.produce(TOPIC, name, self.on_wire(request), broker.clock.now_ms(), damaged=damaged)
        return await self.brokers.asked(broker.address, message, wire.PRODUCE_OF_VERSION[request.version])

    def is_sent_by_coordinator(self, request: spec.MarkerRequest, before: spec.State) -> bool:
        """Whether the coordinator sends this marker now, and has not done so before."""
        partition = before.partitions[request.partition]
        is_there = partitioning.marker_of(request) in partition.log[partition.high_watermark :]
        return not is_there and request in own_markers(self.machine, before)

    def is_busy(self, place: int) -> bool:
        """Whether the coordinator waits for the response to a marker from the leader of a partition."""
        return self.brokers.leader(place).id in self.brokers.coordinator.transactions.markers._parts

    def marker(self, request: spec.MarkerRequest) -> Marker:
        """A marker as the coordinator has it."""
        return Marker(
            self.brokers.names[request.transactional_id],
            request.transactional_id,
            request.coordinator_epoch,
            self.real(request.producer_id),
            request.epoch,
            request.decision is spec.Decision.COMMIT,
            told_version(request.version),
            frozenset({self.brokers.located(request.partition)}),
        )

    async def send_marker(self, place: int, marker: Marker) -> None:
        """The coordinator sends a marker to one leader, where it arrives."""
        network, transactions = self.brokers.cluster.network, self.brokers.coordinator.transactions
        leader, asked = self.brokers.leader(place).id, self.brokers.located(place)
        transactions._tasks.start_soon(transactions.markers._write_at, leader, marker, [asked], {})
        await wait_all_tasks_blocked()
        (frame,) = (one for one in network.in_flight if is_marker(one))
        network.release(frame)
        await wait_all_tasks_blocked()

    async def send_late_marker(self, request: spec.MarkerRequest) -> ErrorCode:
        """Somebody else sends a marker; returns the error."""
        message = wire.write_marker(self.brokers.located(request.partition), self.on_wire(request))
        response = await self.brokers.asked(self.brokers.leader(request.partition).address, message)
        return wire.said_of_marker(response[0]) if response else ErrorCode.none

    async def lose_markers(self) -> None:
        """What the coordinator has sent by itself is lost, with its connection: it is sent again when that is told."""
        network = self.brokers.cluster.network
        while frames := [one for one in network.in_flight if is_marker(one)]:
            for frame in frames:
                self.sent_markers += self.markers_in(message_of(frame))
                lose_connection(network, frame)
            await wait_all_tasks_blocked()

    def markers_in(self, message: Any) -> Iterator[spec.MarkerRequest]:
        """A WriteTxnMarkers as the specification's requests."""
        for marker in message.markers:
            for topic in marker.topics:
                for place in topic.partition_indexes:
                    yield spec.MarkerRequest(
                        self.id_of_producer(marker.producer_id),
                        self.brokers.place_of(TopicPartition(topic.name, place)),
                        self.number(marker.producer_id),
                        marker.producer_epoch,
                        marker.coordinator_epoch,
                        spec.Decision.COMMIT if marker.transaction_result else spec.Decision.ABORT,
                        known_version(marker.transaction_version),
                    )

    def id_of_producer(self, producer_id: int) -> int:
        """The transactional id that has a producer id now."""
        cached = (self.brokers.core.describe(name).metadata for name in self.brokers.names)
        return next(
            place
            for place, known in enumerate(cached)
            if known is not None and producer_id in (known.producer_id, known.ongoing_producer_id)
        )

    def outstanding(self, transactional_id: int) -> Outstanding:
        """What the coordinator has yet to do for an id; records that complete wait for the action that writes them."""
        core, now_ms = self.brokers.core, self.brokers.coordinator.clock.now_ms()
        outstanding = core.outstanding_of(transactional_id, self.brokers.names[transactional_id], now_ms)
        for append in outstanding.appends:
            core.failed(append)
        return outstanding

    # --- as the specification has it -----------------------------------------------------------------------------

    def abstraction(self, expected: spec.State) -> spec.State:
        """All of it; which transaction is which, what clients wish and what is late is the specification's."""
        self.expect(expected)
        return self.brokers.run.call(self._abstraction, expected)

    async def _abstraction(self, expected: spec.State) -> spec.State:
        coordination = tuple(map(self._coordination, range(len(self.brokers.names)), expected.coordination))
        partitions = [await self._partition(place, one.log) for place, one in enumerate(expected.partitions)]
        return spec.State(
            producers=self.producers,
            coordination=coordination,
            partitions=tuple(partitions),
            coordinator_epoch=self._coordinator_epoch(),
            producer_ids=len(self.numbers) - 1,
            transactions=expected.transactions,
            late=expected.late,
            group=attrs.evolve(expected.group, generation=self.generation),
            spent=expected.spent,
        )

    def _coordinator_epoch(self) -> int:
        """The leader epoch of all partitions of the log."""
        broker = self.brokers.coordinator
        hosted = [self.brokers.hosted(broker.id, TRANSACTION_STATE, index) for index in range(len(self.brokers.names))]
        (epoch,) = {one.replica.leader_epoch for one in hosted}
        return epoch

    def _coordination(self, number: int, expected: spec.Coordination) -> spec.Coordination:
        described = self.brokers.core.describe(self.brokers.names[number])
        is_loading = described.error is ErrorCode.coordinator_load_in_progress
        return spec.Coordination(
            self._metadata(self.brokers.logged(number), expected.logged),
            None if is_loading else self._metadata(described.metadata, expected.cached),
            self._pending(number, expected.pending),
            self._is_unattended(number, described.metadata),
        )

    def _is_unattended(self, number: int, cached: TransactionMetadata | None) -> bool:
        """Whether a transaction has all its markers, and the coordinator has never wanted to complete it."""
        name = self.brokers.names[number]
        found = self.brokers.core.partitions[number].ids.get(name)
        is_pending = found is not None and found.pending is not None
        return has_all_markers(cached) and not is_pending and name not in self.brokers.due

    def _pending(self, number: int, expected: spec.Pending | None) -> spec.Pending | None:
        one = self.brokers.core.partitions[number].ids.get(self.brokers.names[number])
        if one is None or one.pending is None:
            return None
        metadata = self._metadata(one.pending.metadata, expected.metadata if expected is not None else None)
        awaited = self.awaited[number]
        if awaited is None or (awaited.is_late and not isinstance(awaited.request, spec.ProduceRequest)):
            return spec.Pending(metadata)
        is_fencing = isinstance(awaited.request, spec.InitRequest) and metadata.status is spec.Status.PREPARE_ABORT
        return spec.Pending(metadata, None if is_fencing else awaited.request)

    def _metadata(self, found: TransactionMetadata | None, expected: spec.Metadata | None) -> spec.Metadata:
        known, numbered = expected or spec.Metadata(), (self.number, self.brokers.place_of)
        return metadata_of(found, known, self.brokers.rules, *numbered, self.beginning_ms)

    async def _partition(self, place: int, expected: spec.Log) -> spec.Partition:
        hosted, known = self.brokers.led(place), self.read[place]
        at = self.group.offset_without_members if place == self.group.place else itself
        found = partition_of(hosted.replica, hosted.log.read(0, MUCH), expected, self.number, at)
        if known is None or known.partition != found:
            self.read[place] = await self._consume(place, found, at)
        return found

    async def _consume(self, place: int, found: spec.Partition, at: Callable[[int], int]) -> Read:
        """What a consumer with read_committed gets, over the network."""
        broker = self.brokers.leader(place)
        topic, index = self.brokers.located(place)
        topic_id = self.brokers.cluster.controller.controller.image.topics[topic].topic_id
        leader = self.brokers.led(place).replica
        route = Route(topic, topic_id, index, broker.id, leader.leader_epoch, broker.address)
        (response,) = await self.brokers.asked(
            broker.address, requests.fetch(route, 0, 0, 0, MUCH, read_committed=True)
        )
        (data,) = response.topics[0].partitions
        if data.error_code is ErrorCode.offset_not_available and not leader.knows_high_watermark:
            return Read(found, at(leader.high_watermark), ())  # it begins at what is not known to be committed: KIP-207
        assert data.error_code is ErrorCode.none, data
        batches = in_memory(data.records or b"")
        offsets = tuple(map(at, returned(batches, data.aborted_transactions or ())))
        return Read(found, at(data.last_stable_offset), offsets)

    def differences(self, expected: spec.State) -> Iterator[Change]:
        """What readers see otherwise, and markers that are not the specification's: on their way, or to be sent."""
        for place, one in enumerate(self.read):
            assert one is not None, "each partition was read"
            yield from read_otherwise(
                self.machine, f"partitions[{place}]", expected.partitions[place], one.stable, one.offsets
            )
        wanted = set(own_markers(self.machine, expected))
        found = set(self.brokers.run.call(self._outstanding_markers))
        if wanted != found:
            yield Change("markers", tuple(sorted(wanted)), tuple(sorted(found)))
        if sent := tuple(one for one in self.sent_markers if one not in wanted | self.were_wanted):
            yield Change("markers sent", (), sent)
        yield from self.told_otherwise(expected)

    async def _outstanding_markers(self) -> list[spec.MarkerRequest]:
        return [
            spec.MarkerRequest(
                number,
                self.brokers.place_of(partition),
                self.number(marker.producer_id),
                marker.epoch,
                marker.coordinator_epoch,
                spec.Decision.COMMIT if marker.is_commit else spec.Decision.ABORT,
                known_version(marker.transaction_version),
            )
            for number in range(len(self.brokers.names))
            for marker in self.outstanding(number).markers
            for partition in marker.partitions
        ]
