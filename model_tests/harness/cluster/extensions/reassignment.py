"""Reassignment on a cluster: an operator starts it or cancels it, over the wire; brokers have replica lists."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.client import topic_requests
from tidegauge.model_tests.harness.cluster.binding import PARTITION, TOPIC, ClusterBinding, ClusterExtension
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cores.extensions.reassignment import with_lists
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.extensions.reassignment import (
    CancelReassignment,
    Reassignment,
    ReplicaList,
    StartReassignment,
    assigned,
)
from tidegauge.spec.replication.state import Controller, Replica, State


async def reassign(binding: ClusterBinding, target: tuple[int, ...] | None) -> None:
    topic_requests.check_reassigned(await response_to(binding, target))


async def response_to(binding: ClusterBinding, target: tuple[int, ...] | None) -> Any:
    """The controller's response to an operator who moves the partition; None cancels."""
    cluster, request = binding.cluster, topic_requests.reassign(TOPIC, PARTITION, target)
    return await ask_at(cluster, cluster.controller.address, request)


async def start_reassignment(binding: ClusterBinding, action: StartReassignment, before: State) -> None:
    await reassign(binding, action.target)


async def cancel_reassignment(binding: ClusterBinding, action: CancelReassignment, before: State) -> None:
    await reassign(binding, None)


async def refuse_to_reassign(binding: ClusterBinding, action: StartReassignment, before: State) -> ErrorCode:
    return error_of(await response_to(binding, action.target))


async def refuse_to_cancel(binding: ClusterBinding, action: CancelReassignment, before: State) -> ErrorCode:
    return error_of(await response_to(binding, None))


def error_of(response: Any) -> ErrorCode:
    """What the controller says of the one partition."""
    (topic,) = response.responses
    error: ErrorCode = topic.partitions[0].error_code
    return error


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(StartReassignment, start_reassignment),
    on(CancelReassignment, cancel_reassignment),
)


class ReassignmentOnCluster(ClusterExtension):
    """Replica lists that change; in machines without it every broker is a replica."""

    extends = Reassignment
    steps = STEPS
    refusals = Steps(on(StartReassignment, refuse_to_reassign), on(CancelReassignment, refuse_to_cancel))

    def assignment(self, initial: Controller) -> tuple[int, ...]:
        return assigned(initial)

    def controller(self, seen: Controller) -> Controller:
        return with_lists(seen, self.binding.registration)

    def replica(self, number: int, beside: Replica, seen: Replica) -> Replica:
        if not seen.running:
            return seen
        hosted = self.binding.hosted(number)
        told = hosted.replica if hosted else self.binding.told(number)
        return with_part(seen, ReplicaList(told.replicas)) if told else seen
