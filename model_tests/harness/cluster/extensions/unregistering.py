"""Unregistering on a cluster: an operator removes a broker over the wire, and its process comes back by its heartbeat.

A process that registers again has the response at once. What the specification keeps apart, that it goes on under its
old epoch for a while, is done here: the epoch that it was given is taken from it, until it is to learn it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from tidegauge.impl.wire.primitives import BrokerId
from tidegauge.model_tests.harness.cluster.binding import ClusterBinding, ClusterExtension
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cores.extensions.unregistering import UnregisteringMessages
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.replication import faults
from tidegauge.spec.replication.extensions.unregistering import (
    LearnBrokerEpoch,
    Rejoin,
    Unregister,
    Unregistering,
)
from tidegauge.spec.replication.state import State


async def response_to(binding: ClusterBinding, broker: int) -> ErrorCode:
    """What an operator is told who removes a broker."""
    cluster = binding.cluster
    response = await ask_at(cluster, cluster.controller.address, UnregisterBrokerRequest(broker_id=BrokerId(broker)))
    error: ErrorCode = response.error_code
    return error


async def unregister(binding: ClusterBinding, action: Unregister, before: State) -> None:
    """It counts as an incarnation, whose epoch is where the log says so: no process has that."""
    error = await response_to(binding, action.broker)
    assert error is ErrorCode.none, error.name
    binding.epochs.register(action.broker, binding.cluster.controller.log.end_offset - 1)


async def refuse_to_unregister(binding: ClusterBinding, action: Unregister, before: State) -> ErrorCode:
    return await response_to(binding, action.broker)


async def rejoin(binding: ClusterBinding, action: Rejoin, before: State) -> None:
    broker = binding.broker(action.broker)
    known = broker.registration.broker_epoch
    assert not await broker.actions.heartbeat(), "nobody is unfenced by a heartbeat that was refused"
    binding.epochs.register(action.broker, broker.registration.broker_epoch)
    broker.registration.broker_epoch = known


async def learn_broker_epoch(binding: ClusterBinding, action: LearnBrokerEpoch, before: State) -> None:
    epoch = binding.epochs.broker_epoch(action.broker, action.broker_epoch)
    binding.broker(action.broker).registration.broker_epoch = epoch


async def unfence(binding: ClusterBinding, action: faults.Unfence, before: State) -> None:
    """The broker has read all metadata, and may have to act on them yet."""
    await binding.broker(action.broker).controller.heartbeat(binding.cluster.controller.log.end_offset)


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(Unregister, unregister),
    on(Rejoin, rejoin),
    on(LearnBrokerEpoch, learn_broker_epoch),
    on(faults.Unfence, unfence),
)


class UnregisteringOnCluster(ClusterExtension):
    """Brokers that are removed; in machines without it nobody is."""

    extends = Unregistering
    messages = UnregisteringMessages()
    steps = STEPS
    refusals = Steps(on(Unregister, refuse_to_unregister))
