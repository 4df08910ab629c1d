"""The cores beside the machine of late messages: what processes that have died had sent is kept, and arrives later."""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from tidegauge.impl.partition import messages
from tidegauge.model_tests.harness.cores import steps
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.refusals import heartbeat
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, Broker, Roles
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication import faults
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.late import (
    FetchArrivesLate,
    HeartbeatArrivesLate,
    LeftBehind,
    ProposalArrivesLate,
    ResponseArrivesLate,
)
from tidegauge.spec.replication.machine import Replication

Served: TypeAlias = tuple[messages.FollowerFetch, messages.PartitionFetchResponse]
"""A fetch, and the response to it."""


@attrs.define
class Left:
    """What a broker's former processes have left behind, by the specification's message."""

    fetches: dict[spec.FetchRequest, messages.FollowerFetch] = attrs.field(factory=dict)
    responses: dict[spec.FetchResponse, Served] = attrs.field(factory=dict)
    proposals: dict[spec.AlterPartitionRequest, messages.AlterPartitionRequest] = attrs.field(factory=dict)


class LateCores(ReplicationCores):
    """Brokers, controller and messages, some of which outlive their senders."""

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.left = [Left() for _ in range(machine.brokers)]
        super().__init__(machine, roles, additions)

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        left = self.left[number]
        behind = LeftBehind(tuple(sorted(left.fetches)), tuple(sorted(left.responses)), tuple(sorted(left.proposals)))
        return with_part(super()._look_at_replica(number, broker), behind)

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def crash(cores: LateCores, action: faults.Crash) -> None:
    dead = action.broker
    for left, broker in zip(cores.left, cores.brokers, strict=True):
        for request in [request for request in left.fetches if request.leader == dead]:
            del left.fetches[request]
        for response in [response for response in left.responses if response.request.follower == dead]:
            del left.responses[response]
        broker.seen = None
    left = cores.left[dead]
    left.fetches.update((m, fetch) for m, fetch in cores.fetches.items() if m.follower == dead)
    left.proposals.update((m, proposal) for m, proposal in cores.alters.items() if m.leader == dead)
    for response, served in cores.fetch_responses.items():
        if response.request.leader == dead:
            waiting = cores.brokers[response.request.follower].outstanding
            left.responses[response] = waiting[response.request], served
    steps.crash(cores, action)


def fetch_arrives_late(cores: LateCores, action: FetchArrivesLate) -> None:
    follower = action.request.follower
    cores.fetches[action.request] = cores.left[follower].fetches.pop(action.request)
    cores.brokers[follower].seen = None


def proposal_arrives_late(cores: LateCores, action: ProposalArrivesLate) -> None:
    leader = action.request.leader
    cores.alters[action.request] = cores.left[leader].proposals.pop(action.request)
    cores.brokers[leader].seen = None


def response_arrives_late(cores: LateCores, action: ResponseArrivesLate) -> None:
    request = action.response.request
    fetch, response = cores.left[request.leader].responses.pop(action.response)
    cores.fetch_responses[action.response] = response
    cores.brokers[request.follower].outstanding[request] = fetch
    for broker in (request.leader, request.follower):
        cores.brokers[broker].seen = None


def heartbeat_arrives_late(cores: LateCores, action: HeartbeatArrivesLate) -> None:
    """It says that its sender has all metadata: no heartbeat of its time says more."""
    broker_epoch = cores.epochs.broker_epoch(action.broker, action.broker_epoch)
    heartbeat(cores, action.broker, broker_epoch, cores.metadata_log.end_offset)


STEPS: Final = Steps[LateCores, [], None](
    on(faults.Crash, crash),
    on(FetchArrivesLate, fetch_arrives_late),
    on(ProposalArrivesLate, proposal_arrives_late),
    on(ResponseArrivesLate, response_arrives_late),
    on(HeartbeatArrivesLate, heartbeat_arrives_late),
    over=steps.STEPS,
)
