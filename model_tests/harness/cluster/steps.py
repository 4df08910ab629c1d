"""One function for each action of the specification, which makes a cluster perform the action.

The counterpart of `model_tests.harness.cores.steps`. Each is called only when the specification allows the action, and
decides nothing. What a function sets off (responses, proposals, acknowledgements) happens before the call ends.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.model_tests.harness.cluster.binding import PARTITION, RECORD_SIZE, TOPIC, ClusterBinding
from tidegauge.model_tests.harness.cluster.in_flight import limited
from tidegauge.model_tests.harness.cluster.refusals import REFUSALS
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.state import State

# --- produce and fetch ---------------------------------------------------------------------------------------------


async def append(binding: ClusterBinding, action: protocol.Append, before: State) -> None:
    binding.produce(action.broker, len(before.history.acks), int(action.acks))


async def send_fetch(binding: ClusterBinding, action: protocol.SendFetch, before: State) -> None:
    follower = before.replicas[action.broker]
    binding.leaders[follower.leader_epoch] = follower.leader
    binding.broker(action.broker).actions.send_fetch(TOPIC, PARTITION)


async def receive_fetch(binding: ClusterBinding, action: protocol.ReceiveFetch, before: State) -> None:
    frame = binding.frames.fetches[action.request]
    if action.duplicate:
        frame = binding.cluster.network.duplicate(frame)
    binding.cluster.network.release(limited(frame, action.records * RECORD_SIZE))


async def hold_fetch(binding: ClusterBinding, action: protocol.HoldFetch, before: State) -> None:
    """A held fetch is the same fetch handled twice: here a copy is handled, and its empty response is dropped."""
    network = binding.cluster.network
    copy = network.duplicate(binding.frames.fetches[action.request])
    await binding.release_and_drop_the_response(copy)


async def receive_fetch_response(binding: ClusterBinding, action: protocol.ReceiveFetchResponse, before: State) -> None:
    binding.cluster.network.release(binding.frames.fetch_responses[action.response])


# --- ISR changes, metadata, elections ------------------------------------------------------------------------------


async def shrink_isr(binding: ClusterBinding, action: control.ShrinkIsr, before: State) -> None:
    binding.broker(action.broker).actions.shrink_isr(TOPIC, PARTITION, lagging=action.lagging)


async def retry_alter_partition(binding: ClusterBinding, action: control.RetryAlterPartition, before: State) -> None:
    binding.broker(action.broker).actions.retry_alter_partition(TOPIC, PARTITION)


async def receive_alter_partition(
    binding: ClusterBinding, action: control.ReceiveAlterPartition, before: State
) -> None:
    binding.cluster.network.release(binding.frames.alters[action.request])


async def receive_alter_partition_response(
    binding: ClusterBinding, action: control.ReceiveAlterPartitionResponse, before: State
) -> None:
    binding.cluster.network.release(binding.frames.alter_responses[action.response])


async def apply_metadata(binding: ClusterBinding, action: control.ApplyMetadata, before: State) -> None:
    await binding.broker(action.broker).actions.apply_metadata()


async def preferred_election(binding: ClusterBinding, action: control.PreferredElection, before: State) -> None:
    async with binding.cluster.controller.decisions.turn() as turn:
        await turn.commit(turn.controller.elections.elect_preferred(TOPIC, PARTITION))


async def unclean_election(binding: ClusterBinding, action: control.UncleanElection, before: State) -> None:
    async with binding.cluster.controller.decisions.turn() as turn:
        await turn.commit(turn.controller.elections.elect_uncleanly(TOPIC, PARTITION))


# --- membership ----------------------------------------------------------------------------------------------------


async def expire_session(binding: ClusterBinding, action: faults.ExpireSession, before: State) -> None:
    await binding.cluster.expire_session(action.broker)


async def register(binding: ClusterBinding, action: faults.Register, before: State) -> None:
    binding.epochs.register(action.broker, await binding.broker(action.broker).actions.register())


async def unfence(binding: ClusterBinding, action: faults.Unfence, before: State) -> None:
    await binding.broker(action.broker).actions.heartbeat()


async def controller_failover(binding: ClusterBinding, action: faults.ControllerFailover, before: State) -> None:
    await binding.cluster.restart_controller()


# --- disk, pauses, the network -------------------------------------------------------------------------------------


async def flush(binding: ClusterBinding, action: faults.Flush, before: State) -> None:
    binding.broker(action.broker).actions.flush()


async def checkpoint_high_watermark(
    binding: ClusterBinding, action: faults.CheckpointHighWatermark, before: State
) -> None:
    binding.broker(action.broker).actions.checkpoint_high_watermark()


async def crash(binding: ClusterBinding, action: faults.Crash, before: State) -> None:
    dead = binding.memory[action.broker]
    for number in range(binding.machine.brokers):
        binding.note_cut(number, action.broker)
    kept = {(TOPIC, PARTITION): action.kept} if binding.has_log(action.broker) else {}
    await binding.cluster.crash(action.broker, keep=kept)
    dead.log, dead.flushed = dead.log[: action.kept], action.kept
    dead.running, dead.paused = False, False
    dead.cut.clear()


async def restart(binding: ClusterBinding, action: faults.Restart, before: State) -> None:
    await binding.cluster.restart(action.broker)
    binding.memory[action.broker].running = True


async def pause(binding: ClusterBinding, action: faults.Pause, before: State) -> None:
    binding.cluster.pause(action.broker)
    binding.memory[action.broker].paused = True


async def resume(binding: ClusterBinding, action: faults.Resume, before: State) -> None:
    binding.cluster.resume(action.broker)
    binding.memory[action.broker].paused = False
    binding.memory[action.broker].cut.clear()


async def disconnect(binding: ClusterBinding, action: faults.Disconnect, before: State) -> None:
    binding.note_cut(action.follower, action.leader)
    link = action.follower, action.leader
    frames = [frame for request, frame in binding.frames.fetches.items() if (request.follower, request.leader) == link]
    frames += [
        frame
        for response, frame in binding.frames.fetch_responses.items()
        if (response.request.follower, response.request.leader) == link
    ]
    binding.frames.cut(frames)


async def disconnect_controller(binding: ClusterBinding, action: faults.DisconnectController, before: State) -> None:
    frames = [frame for request, frame in binding.frames.alters.items() if request.leader == action.broker]
    frames += [frame for response, frame in binding.frames.alter_responses.items() if response.leader == action.broker]
    binding.frames.cut(frames)


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(protocol.Append, append),
    on(protocol.SendFetch, send_fetch),
    on(protocol.ReceiveFetch, receive_fetch),
    on(protocol.HoldFetch, hold_fetch),
    on(protocol.ReceiveFetchResponse, receive_fetch_response),
    on(control.ShrinkIsr, shrink_isr),
    on(control.RetryAlterPartition, retry_alter_partition),
    on(control.ReceiveAlterPartition, receive_alter_partition),
    on(control.ReceiveAlterPartitionResponse, receive_alter_partition_response),
    on(control.ApplyMetadata, apply_metadata),
    on(control.PreferredElection, preferred_election),
    on(control.UncleanElection, unclean_election),
    on(faults.ExpireSession, expire_session),
    on(faults.Register, register),
    on(faults.Unfence, unfence),
    on(faults.ControllerFailover, controller_failover),
    on(faults.Flush, flush),
    on(faults.CheckpointHighWatermark, checkpoint_high_watermark),
    on(faults.Crash, crash),
    on(faults.Restart, restart),
    on(faults.Pause, pause),
    on(faults.Resume, resume),
    on(faults.Disconnect, disconnect),
    on(faults.DisconnectController, disconnect_controller),
)


class ReplicationCluster(ClusterBinding):
    """A cluster that performs the specification's actions."""

    def perform(self, action: Action, before: State) -> None:
        """Make it happen, and let everything come to rest. Raises whatever a broker raises."""
        steps = next((one.steps for one in self.extensions if type(action) in one.steps), STEPS)
        self.guest.call(steps.perform, self, action, before)
        for extension in self.extensions:
            extension.performed(action)
        if self.surprises:
            raise AssertionError("; ".join(self.surprises))

    def can_send(self, kind: type[Action]) -> bool:
        return kind in self._refusals(kind)

    def refuse(self, action: Action, before: State) -> ErrorCode | None:
        """Send what is refused; returns the error, None for what no connection carries."""
        kind = type(action)
        return self.guest.call(self._refusals(kind).perform, self, action, before) if self.can_send(kind) else None

    def _refusals(self, kind: type[Action]) -> Steps[ClusterBinding, [State], Awaitable[ErrorCode | None]]:
        """The table that has the class of action, if any has."""
        return next((one.refusals for one in self.extensions if kind in one.refusals), REFUSALS)
