"""Controlled shutdown on a cluster: a broker asks to stop, is allowed to, ends, and has a note of it on its disk."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.names import BROKER
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH
from tidegauge.impl.server.broker_server import Broker
from tidegauge.model_tests.harness.cluster.binding import ClusterBinding, ClusterExtension
from tidegauge.model_tests.harness.cores.extensions.shutdown import ShutdownMessages
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.extensions.shutdown import (
    BeginShutdown,
    CleanStop,
    ControlledShutdown,
    GiveUpWaiting,
    GrantShutdown,
    Stop,
    StopUnasked,
)
from tidegauge.spec.replication.faults import Crash
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Replica, State


async def begin_shutdown(binding: ClusterBinding, action: BeginShutdown, before: State) -> None:
    """The first half of what a heartbeat does: the other is `GrantShutdown`."""
    async with binding.cluster.controller.decisions.turn() as turn:
        await turn.commit(turn.controller.members.begin_shutdown(action.broker))


async def grant_shutdown(binding: ClusterBinding, action: GrantShutdown, before: State) -> None:
    await ask_to_stop(binding.broker(action.broker), want_fence=False)


async def give_up_waiting(binding: ClusterBinding, action: GiveUpWaiting, before: State) -> None:
    await ask_to_stop(binding.broker(action.broker), want_fence=True)


async def ask_to_stop(broker: Broker, *, want_fence: bool) -> None:
    response = await broker.controller.heartbeat(
        broker.metadata.image.offset, want_fence=want_fence, want_shut_down=True
    )
    assert response.should_shut_down, "it leads nothing that another could lead"


async def stop(binding: ClusterBinding, action: Stop, before: State) -> None:
    """It asks once more, as a broker does that has not received the response, and ends."""
    await end(binding, action.broker, before)


async def stop_unasked(binding: ClusterBinding, action: StopUnasked, before: State) -> None:
    broker = binding.broker(action.broker)
    broker.config.current = attrs.evolve(broker.config.current, controlled_shutdown_enable=False)
    await end(binding, action.broker, before)


async def end(binding: ClusterBinding, number: int, before: State) -> None:
    """The process stops cleanly. Its responses still arrive; all else to it and from it counts as lost."""
    network, stopped = binding.cluster.network, binding.memory[number]
    awaited = frozenset(m.request for m in before.network.fetch_responses)
    for follower in range(binding.machine.brokers):
        binding.note_cut(follower, number, but=awaited)
    node = f"{BROKER}{number}"
    for frame in list(network.in_flight):
        if frame.destination == node or (frame.is_request and frame.source == node):
            network.drop(frame)
    binding.extension(ShutdownOnCluster).notes[number] = binding.broker(number).registration.broker_epoch
    stopped.flushed, stopped.checkpoint = len(stopped.log), before.replicas[number].high_watermark
    await binding.cluster.shutdown(number, patient=False)
    stopped.running, stopped.paused = False, False
    stopped.cut.clear()


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(BeginShutdown, begin_shutdown),
    on(GrantShutdown, grant_shutdown),
    on(GiveUpWaiting, give_up_waiting),
    on(Stop, stop),
    on(StopUnasked, stop_unasked),
)


async def refuse_to_grant_shutdown(binding: ClusterBinding, action: GrantShutdown, before: State) -> ErrorCode | None:
    """A heartbeat that asks to stop is taken, and the broker is not told that it may."""
    if not binding.memory[action.broker].acts:
        return None
    broker = binding.broker(action.broker)
    response = await broker.controller.heartbeat(broker.metadata.image.offset, want_shut_down=True)
    assert not response.should_shut_down, f"broker {action.broker} is told to stop"
    return response.error_code


class ShutdownOnCluster(ClusterExtension):
    """The notes of clean stops. A broker of any machine must have none that did not stop cleanly."""

    extends = ControlledShutdown
    messages = ShutdownMessages()
    steps = STEPS
    refusals = Steps(on(GrantShutdown, refuse_to_grant_shutdown))

    def __init__(self, binding: ClusterBinding) -> None:
        super().__init__(binding)
        self.notes = [UNKNOWN_BROKER_EPOCH] * binding.machine.brokers
        """The broker epoch in which each broker's last process stopped cleanly, while none runs."""

    @classmethod
    def reads(cls, machine: Replication) -> bool:
        return True

    def performed(self, action: Action) -> None:
        if isinstance(action, Crash):
            self.notes[action.broker] = UNKNOWN_BROKER_EPOCH

    def replica(self, number: int, beside: Replica, seen: Replica) -> Replica:
        note = self.binding.broker(number).controller.previous_broker_epoch if seen.running else self.notes[number]
        return with_part(seen, CleanStop(self.binding.epochs.number(number, note)))
