"""Faults of a cluster's processes and machines: crash, pause, a clock that jumps, and leaving in good order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegauge.impl.cluster.hosts import SimulatedHost, UnsupportedFaultError
from tidegauge.impl.cluster.names import CONTROLLER, broker_name
from tidegauge.impl.cluster.nodes import Nodes
from tidegauge.impl.server import trace

if TYPE_CHECKING:
    from tidegauge.impl.ports.simulated_disk import CrashOutcome


class ProcessFaults:
    """Faults of nodes as a whole."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    async def crash(
        self, broker_id: int, *, keep: Mapping[tuple[str, int], int] | None = None, lose_unsynced: bool | None = None
    ) -> None:
        """Let the broker's machine die: its connections break, and what was in flight and its unsynced bytes are lost.

        The seed decides how many of the unsynced bytes are lost, torn batches included. `lose_unsynced` says all (True)
        or none (False); `keep` says up to which log end offset each (topic, partition) survives. Raises ValueError when
        the broker is down already, or `keep` asks for an offset that a crash cannot leave.
        """
        task, host, name = self.nodes.task(broker_id), self.nodes.host, broker_name(broker_id)
        if not task.alive:
            raise ValueError(f"broker {broker_id} is down already: restart it first")
        if isinstance(host, SimulatedHost):
            from tidegauge.impl.storage.surviving_logs import unsynced_bytes_below

            directories = self.nodes.broker(broker_id).replicas.directories.paths
            kept = None if keep is None else unsynced_bytes_below(host.medium(name), directories, keep)
            host.cut(name, kept, tails=_outcome(lose_unsynced))
        else:
            if lose_unsynced:
                raise UnsupportedFaultError(
                    "files of the real host keep everything that was written: crash without `lose_unsynced`"
                )
            host.cut(name, None if keep is None else {})
        await self._end(broker_id)

    async def _end(self, broker_id: int) -> None:
        """End the process of a node that was cut off, and record what its disk has kept for the next process."""
        task, host, name = self.nodes.task(broker_id), self.nodes.host, broker_name(broker_id)
        await task.kill()
        host.power_on(name)
        self._record_end(broker_id, crashed=True)
        task.abandon()

    def _record_end(self, broker_id: int, *, crashed: bool) -> None:
        """Record that the process ended, and what its disk has kept."""
        broker = self.nodes.broker(broker_id)
        if broker.tracer.trace is not None:
            from tidegauge.impl.storage.surviving_logs import survivors

            # A fault of the disk concerns the broker; the trace reads what is behind it.
            disk = self.nodes.host.disk(broker_name(broker_id)).disk
            left = survivors(disk, broker.replicas.directories.paths)
            said = {"kept": left.ends, "starts": left.starts, "high_watermarks": left.high_watermarks}
            if crashed:
                broker.tracer.record(trace.events.Crash, **said)
            else:
                broker.tracer.record(trace.events.Stop, **said, noted=left.noted)

    async def restart(self, broker_id: int) -> None:
        """Start a broker that crashed, or that stopped because its disk failed, from what its disk kept.

        With timers it registers, catches up and rejoins by itself; without them it only runs. Raises ValueError when
        the broker is up.
        """
        task = self.nodes.task(broker_id)
        if task.alive:
            raise ValueError(f"broker {broker_id} is up: crash it first")
        if self.nodes.broker(broker_id).halted is not None and task.has_files:
            self.nodes.host.cut(broker_name(broker_id))
            await self._end(broker_id)
        await self.nodes.start_broker(broker_id)

    async def shutdown(self, broker_id: int, *, patient: bool = True) -> None:
        """Let a broker leave in good order, as SIGTERM does: it hands over what it leads, flushes its logs and stops.

        If it is the last in-sync replica of a partition, it waits for another one: controlled.shutdown.retry.backoff.ms
        up to controlled.shutdown.max.retries times. Then, or at once if it is not `patient`, it leaves, and the
        partition is offline until it is back. `restart` starts it again. Raises ValueError when the broker is down.
        """
        task, host, name = self.nodes.task(broker_id), self.nodes.host, broker_name(broker_id)
        if not task.alive:
            raise ValueError(f"broker {broker_id} is down already: restart it first")
        await self.nodes.broker(broker_id).membership.leave(patient=patient)
        if not task.alive:
            return
        await task.kill()
        task.stop()
        if isinstance(host, SimulatedHost):
            host.cut(name, lose_sent=False)
        else:
            host.cut(name)
        host.power_on(name)
        self._record_end(broker_id, crashed=False)

    def pause(self, broker_id: int) -> None:
        """Stop the broker's process as SIGSTOP does: it keeps its connections, and what is sent to it piles up.

        It does not know that time passes. After `resume` it is a zombie that acts on what it knew.
        """
        name = self.nodes.alive(broker_id)
        self.nodes.host.links.pause(name)
        self.nodes.host.clock(name).stop()
        tracer = self.nodes.broker(broker_id).tracer
        if tracer.trace is not None:
            tracer.record(trace.events.Pause)

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        name = self.nodes.alive(broker_id)
        tracer = self.nodes.broker(broker_id).tracer
        if tracer.trace is not None:
            tracer.record(trace.events.Resume)
        self.nodes.host.clock(name).go_on()
        self.nodes.host.links.resume(name)

    def jump_clock(self, broker_id: int, ms: int) -> None:
        """Let the broker's wall clock jump, forwards or back.

        That changes its timestamps and how old it thinks records are, not when its timers fire, nor durations.
        """
        self.nodes.task(broker_id)
        self.nodes.host.clock(broker_name(broker_id)).offset_ms += ms

    def jump_controller_clock(self, ms: int) -> None:
        """Let the controller's wall clock jump, forwards or back: no session ends sooner or later by that."""
        self.nodes.host.clock(CONTROLLER).offset_ms += ms

    async def restart_controller(self) -> None:
        """Kill the controller's process and start a new one, which takes over from its log: the controller epoch rises.

        Requests on their way to the old process are lost; responses that it had sent still arrive.
        """
        host, task = self.nodes.host, self.nodes.tasks[CONTROLLER]
        if isinstance(host, SimulatedHost):
            from tidegauge.impl.ports.simulated_disk import CrashOutcome

            host.cut(CONTROLLER, {}, tails=CrashOutcome.LOST, lose_sent=False)
        else:
            host.cut(CONTROLLER)
        await task.kill()
        task.abandon()
        host.power_on(CONTROLLER)
        await self.nodes.start_controller()

    async def expire_session(self, broker_id: int) -> bool:
        """Let the controller fence a broker as if its heartbeats had stopped; False when it is fenced already.

        The broker does not know until it reads the metadata or sends a heartbeat. Its next heartbeat brings it back.
        """
        self.nodes.task(broker_id)
        return await self.nodes.controller.actions.expire_session(broker_id)


def _outcome(lose_unsynced: bool | None) -> CrashOutcome | None:
    from tidegauge.impl.ports.simulated_disk import CrashOutcome

    if lose_unsynced is None:
        return None
    return CrashOutcome.LOST if lose_unsynced else CrashOutcome.KEPT
