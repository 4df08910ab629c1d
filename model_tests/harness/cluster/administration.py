"""A controller's node in lockstep with the machine of administration: every request is sent over the network.

Theory of operation
-------------------
The cluster's brokers do nothing by themselves: what they would say to the controller is said for them, by an operator's
connection. A leader's AlterPartition, a heartbeat and a registration are what the action says, in the epochs that the
controller has. So nothing is compared but what the controller makes of requests, and what it responds.

Where the controller chooses the brokers of a topic, it draws random numbers: that is for cores alone.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Listener
from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from tidegauge.impl.client import requests as client_requests
from tidegauge.impl.client import topic_requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.controller.decision import Decision
from tidegauge.impl.controller.producer_ids import LAST_PRODUCER_ID
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import ProducerIdsRecord
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.server.broker.alter_partition import wire_request_of
from tidegauge.impl.wire.primitives import BrokerId, i16, i64, u16
from tidegauge.model_tests.harness.cluster import operator_messages as messages
from tidegauge.model_tests.harness.cluster.guest_cluster import GuestCluster
from tidegauge.model_tests.harness.cores.administration_abstraction import BLOCK, MetadataOfController, name_of
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.administration import altering, brokers, replicas, requests, topics
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.settings import MIN_INSYNC
from tidegauge.spec.administration.state import State
from tidegauge.spec.kernel.machine import Action

SEED: Final = 1


class AdministrationCluster(MetadataOfController):
    """A controller's node, and brokers that are registered from the start."""

    def __init__(self, machine: Administration, roles: Roles = CORRECT) -> None:
        self.machine = machine
        self.created = 0
        self.numbers: dict[str, int] = {}
        """Of each topic's id, how many topics there had been when it came, and itself."""
        config = {MIN_INSYNC: machine.min_insync}
        make = partial(
            Cluster, machine.brokers, SEED, config, timers=False, trace=False, controller_class=roles.controller
        )
        self._hosted = GuestCluster(SEED, make, self._prepare)
        self.cluster = self._hosted.cluster

    async def _prepare(self, cluster: Cluster) -> None:
        """So many blocks of producer ids are left."""
        async with cluster.controller.decisions.turn() as turn:
            decision = Decision(turn.controller.image)
            decision.write(ProducerIdsRecord(0, 0, LAST_PRODUCER_ID - BLOCK * self.machine.blocks))
            await turn.commit(decision.propose(None))

    def close(self) -> None:
        """Stop the cluster."""
        self._hosted.close()

    @property
    def image(self) -> ClusterImage:
        return self.cluster.controller.controller.image

    def number_of(self, topic_id: str) -> int:
        return self.numbers[topic_id]

    def can_perform(self, action: Action, before: State) -> bool:
        """A topic whose brokers the request leaves to the controller may come to be on others."""
        return not (isinstance(action, topics.CreateTopic) and action.is_spread)

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        error = self._hosted.run.call(self._ask, action)
        assert error is ErrorCode.none, f"{action} is refused: {error.name}"

    def can_send(self, kind: type[Action]) -> bool:
        return issubclass(kind, requests.Request)

    def refuse(self, action: Action, before: State) -> ErrorCode:
        """What the controller says to a request that changes nothing."""
        return self._hosted.run.call(self._ask, action)

    async def _ask(self, action: Action) -> ErrorCode:
        error: ErrorCode = await ASKED.perform(self, action)
        return error

    async def told(self, request: Any) -> Any:
        """The controller's response, which comes at once."""
        response = await self._hosted.told_at_once(self.cluster.controller.address, request)
        assert response is not None, f"the controller does not respond to {request}"
        return response

    def epoch_of(self, broker: int) -> i64:
        """The broker epoch of a broker's registered process; -1 if there is none."""
        known = self.image.brokers.get(broker)
        return i64(-1 if known is None else known.broker_epoch)


# --- one request of the specification = one function -----------------------------------------------------------------


async def create_topic(cluster: AdministrationCluster, action: topics.CreateTopic) -> ErrorCode:
    assignments = () if action.is_spread else action.assignments
    numbers = (1, len(action.assignments[0])) if action.is_spread else (0, 1)
    request = messages.create_topic(name_of(action.topic), *numbers, dict(action.settings), assignments)
    error: ErrorCode = (await cluster.told(request)).topics[0].error_code
    if error is ErrorCode.none:
        topic_id = cluster.image.topics[name_of(action.topic)].topic_id
        cluster.numbers[topic_id] = cluster.created = len(cluster.numbers) + 1
    return error


async def check_topic(cluster: AdministrationCluster, action: topics.CheckTopic) -> ErrorCode:
    request = messages.create_topic(name_of(action.topic), action.partitions, action.factor, {}, (), validate_only=True)
    error: ErrorCode = (await cluster.told(request)).topics[0].error_code
    return error


async def delete_topic(cluster: AdministrationCluster, action: topics.DeleteTopic) -> ErrorCode:
    error: ErrorCode = (await cluster.told(topic_requests.delete_topic(name_of(action.topic)))).responses[0].error_code
    return error


async def grow(cluster: AdministrationCluster, action: topics.Grow) -> ErrorCode:
    request = messages.create_partitions(
        name_of(action.topic), action.count, action.assignments, validate_only=action.is_checked
    )
    error: ErrorCode = (await cluster.told(request)).results[0].error_code
    return error


async def reassign(cluster: AdministrationCluster, action: replicas.Reassign) -> ErrorCode:
    return await moved(cluster, action, action.target, keeps_factor=action.keeps_factor)


async def cancel_reassignment(cluster: AdministrationCluster, action: replicas.CancelReassignment) -> ErrorCode:
    return await moved(cluster, action, None)


async def moved(
    cluster: AdministrationCluster,
    action: replicas.Reassign | replicas.CancelReassignment,
    target: tuple[int, ...] | None,
    *,
    keeps_factor: bool = False,
) -> ErrorCode:
    request = messages.reassign(name_of(action.topic), action.index, target, keeps_factor=keeps_factor)
    error: ErrorCode = (await cluster.told(request)).responses[0].partitions[0].error_code
    return error


async def join_isr(cluster: AdministrationCluster, action: replicas.JoinIsr) -> ErrorCode:
    topic = cluster.image.topics[name_of(action.topic)]
    old = topic.partitions[action.index]
    isr = tuple((member, cluster.epoch_of(member)) for member in sorted(old.isr | {action.broker}))
    request = AlterPartitionRequest(
        old.leader, cluster.epoch_of(old.leader), old.leader_epoch, old.partition_epoch, isr
    )
    response = await cluster.told(wire_request_of(topic.topic_id, action.index, request))
    error: ErrorCode = response.topics[0].partitions[0].error_code
    if cluster.image.topics[name_of(action.topic)].partitions[action.index].leader_epoch != old.leader_epoch:
        assert error is ErrorCode.new_leader_elected, error.name
        return ErrorCode.none
    return error


async def elect(cluster: AdministrationCluster, action: replicas.ElectPreferred | replicas.ElectUncleanly) -> ErrorCode:
    unclean = isinstance(action, replicas.ElectUncleanly)
    response = await cluster.told(client_requests.elect_leaders(name_of(action.topic), action.index, unclean=unclean))
    error: ErrorCode = response.replica_election_results[0].partition_result[0].error_code
    return error


async def alter_settings(cluster: AdministrationCluster, action: altering.AlterSettings) -> ErrorCode:
    request = messages.alter(action.resource, action.changes)
    error: ErrorCode = (await cluster.told(request)).responses[0].error_code
    return error


async def replace_settings(cluster: AdministrationCluster, action: altering.ReplaceSettings) -> ErrorCode:
    error: ErrorCode = (await cluster.told(messages.replace(action.resource, action.values))).responses[0].error_code
    return error


async def check_settings(cluster: AdministrationCluster, action: altering.CheckSettings) -> ErrorCode:
    if action.is_whole:
        request: Any = messages.replace(action.resource, action.values, validate_only=True)
    else:
        request = messages.alter(action.resource, action.changes, validate_only=True)
    error: ErrorCode = (await cluster.told(request)).responses[0].error_code
    return error


async def allocate_block(cluster: AdministrationCluster, action: brokers.AllocateBlock) -> ErrorCode:
    first = cluster.image.next_producer_id
    epoch = i64(cluster.epoch_of(action.broker) + (not action.is_last_process))
    response = await cluster.told(AllocateProducerIdsRequest(broker_id=BrokerId(action.broker), broker_epoch=epoch))
    error: ErrorCode = response.error_code
    if error is ErrorCode.none:
        assert (response.producer_id_start, response.producer_id_len) == (first, BLOCK), f"{response} after {first}"
    return error


async def fence(cluster: AdministrationCluster, action: brokers.Fence) -> ErrorCode:
    assert await cluster.cluster.expire_session(action.broker), "it is fenced already"
    return ErrorCode.none


async def unfence(cluster: AdministrationCluster, action: brokers.Unfence) -> ErrorCode:
    request = BrokerHeartbeatRequest(
        broker_id=BrokerId(action.broker),
        broker_epoch=cluster.epoch_of(action.broker),
        current_metadata_offset=i64(cluster.cluster.controller.log.end_offset),
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )
    error: ErrorCode = (await cluster.told(request)).error_code
    return error


async def register(cluster: AdministrationCluster, action: brokers.Restart | brokers.Register) -> ErrorCode:
    """A new process, whose predecessor is connected to nobody."""
    request = BrokerRegistrationRequest(
        broker_id=BrokerId(action.broker),
        cluster_id=cluster.cluster.broker(action.broker).registration.cluster_id,
        incarnation_id=None,
        listeners=(Listener(name="PLAINTEXT", host="again", port=u16(9092), security_protocol=i16(0)),),
        features=(),
        rack=None,
    )
    error: ErrorCode = (await cluster.told(request)).error_code
    return error


async def unregister(cluster: AdministrationCluster, action: brokers.Unregister) -> ErrorCode:
    error: ErrorCode = (await cluster.told(UnregisterBrokerRequest(broker_id=BrokerId(action.broker)))).error_code
    return error


ASKED: Final = Steps[AdministrationCluster, [], Awaitable[ErrorCode]](
    on(topics.CreateTopic, create_topic),
    on(topics.CheckTopic, check_topic),
    on(topics.DeleteTopic, delete_topic),
    on(topics.Grow, grow),
    on(replicas.Reassign, reassign),
    on(replicas.CancelReassignment, cancel_reassignment),
    on(replicas.JoinIsr, join_isr),
    on(replicas.ElectPreferred, elect),
    on(replicas.ElectUncleanly, elect),
    on(altering.AlterSettings, alter_settings),
    on(altering.ReplaceSettings, replace_settings),
    on(altering.CheckSettings, check_settings),
    on(brokers.AllocateBlock, allocate_block),
    on(brokers.Fence, fence),
    on(brokers.Unfence, unfence),
    on(brokers.Restart, register),
    on(brokers.Register, register),
    on(brokers.Unregister, unregister),
)
