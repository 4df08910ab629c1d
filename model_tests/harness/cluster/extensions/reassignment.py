"""The actions of reassignment on a cluster: an operator starts it or cancels it, over the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tidegauge.impl.client import topic_requests
from tidegauge.model_tests.harness.cluster.binding import PARTITION, TOPIC, ClusterBinding
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication.extensions.reassignment import CancelReassignment, StartReassignment
from tidegauge.spec.replication.state import State


async def reassign(binding: ClusterBinding, target: tuple[int, ...] | None) -> None:
    cluster, request = binding.cluster, topic_requests.reassign(TOPIC, PARTITION, target)
    topic_requests.check(await ask_at(cluster, cluster.controller.address, request), "the reassignment was refused")


async def start_reassignment(binding: ClusterBinding, action: StartReassignment, before: State) -> None:
    await reassign(binding, action.target)


async def cancel_reassignment(binding: ClusterBinding, action: CancelReassignment, before: State) -> None:
    await reassign(binding, None)


STEPS: Final[Mapping[type[Action], Callable[[ClusterBinding, Any, State], Awaitable[None]]]] = {
    StartReassignment: start_reassignment,
    CancelReassignment: cancel_reassignment,
}
