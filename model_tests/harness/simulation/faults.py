"""The injector: it injects faults into a cluster, and heals each a little later.

Which faults it injects and when depends on the seed alone. `heal` heals all of them at once.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random

import trio

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.disk_faults import DiskOperations
from tidegauge.impl.cluster.names import NodeName, broker_name
from tidegauge.impl.ports.failing_disk import SYNCS
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.simulation.coordination import cut_in_two
from tidegauge.model_tests.harness.simulation.disks import CONTROLLER, DELAYS, SPARED, BadDisk, medium
from tidegauge.model_tests.harness.simulation.losses import LossBudget
from tidegauge.model_tests.harness.simulation.moments import Moments
from tidegauge.model_tests.harness.simulation.operators import Operators
from tidegauge.model_tests.harness.simulation.options import DAMAGED, Fault, Options
from tidegauge.model_tests.harness.simulation.recreation import Recreation, partitions_of

AN_HOUR_MS = 3_600_000
LOOKS = 40
"""How often a fault that waits for its moment looks for it."""
MOMENTS_SHARE = 0.6
"""Of the faults of a dense run, those that wait for a moment at which something is under way."""


class Injector:
    """The faults of one run."""

    def __init__(self, cluster: Cluster, options: Options) -> None:
        self.cluster = cluster
        self.options = options
        self.injected: Counter[str] = Counter()
        """Fault -> times injected."""
        self.seen: Counter[str] = Counter()
        """What no trace shows -> times seen."""
        self.lied: set[tuple[int, int]] = set()
        """(broker, which of its processes' ends, from 0) at which a sync had lied."""
        self.damaged: set[tuple[int, int]] = set()
        """The same after which the disk was damaged, or had been while the process ran."""
        self.slowed: set[int] = set()
        """Brokers whose syncs took their time."""
        self.lacking: set[int] = set()
        """Brokers that have lacked room or descriptors."""
        self._rng = Random(f"faults/{options.seed}")
        self._busy: set[int] = set()
        """Brokers that are crashed or paused."""
        self._cut: Counter[NodeName] = Counter()
        """Node -> how many faults have cut links of it."""
        self.disk = BadDisk(cluster, options, self._rng, self._busy, self._cut)
        self.losses = LossBudget(cluster, options)
        self._controller = trio.Lock()
        self._awaited: set[Fault] = set()
        """Faults that wait for their moment."""
        self._moments = Moments(cluster, options)
        self._severed: list[Callable[[], None]] = []
        """What cuts links now."""
        self._do: dict[Fault, Callable[[], Awaitable[None]]] = {
            Fault.CRASH: self.crash,
            Fault.PAUSE: self.pause,
            Fault.ISOLATE: self.isolate,
            Fault.ONE_WAY: self.one_way,
            Fault.SPLIT: self.split,
            Fault.RESET: self.reset,
            Fault.EXPIRY: self.expire_session,
            Fault.CONTROLLER: self.restart_controller,
            Fault.FULL_DISK: self.fill_disk,
            Fault.FAILED_SYNC: self.fail_sync,
            Fault.FAILED_FLUSH: self.fail_flushes,
            Fault.SHUTDOWN: self.shut_down,
            Fault.FAILED_DISK: self.fail_disk,
            Fault.CLOCK: self.jump_clock,
            Fault.DAMAGE: self.damage_log,
            Fault.ROT: self.rot,
            Fault.MET_ROT: self.meet_rot,
            Fault.LYING_SYNC: self.lie,
            Fault.POWER_CUT: self.cut_power,
            Fault.LOST_LOG: self.remove_log,
            Fault.SLOW_SYNC: self.delay_syncs,
        }
        self.recreation = Recreation(cluster, options, self._rng)
        operators = Operators(cluster, options, self._rng, self.disk)
        operations: dict[Fault, Callable[[], Awaitable[None]]] = {
            Fault.PREFERRED: partial(operators.elect, unclean=False),
            Fault.UNCLEAN: partial(operators.elect, unclean=True),
            Fault.GROWTH: operators.grow,
            Fault.REASSIGNMENT: operators.reassign,
            Fault.CANCELLATION: operators.cancel,
            Fault.DELETION: operators.delete_records,
            Fault.SETTINGS: operators.change_settings,
            Fault.UNREGISTERING: operators.unregister,
            Fault.RECREATION: self.recreation.recreate,
        }
        self._do |= {fault: self._operated(fault, operation) for fault, operation in operations.items()}

    def disturb_links(self) -> None:
        """Loss, delay and reordering on all links; duplicates where brokers fetch from each other, and nowhere else:
        a produce or an ISR proposal that comes twice is not what TCP does, and the protocol is not made for it.
        """
        options, cluster = self.options, self.cluster
        cluster.delay(0, options.delay_ms)
        cluster.drop(options.loss)
        cluster.reorder(options.reorder)
        for source in range(options.brokers):
            for destination in range(options.brokers):
                if source != destination and options.duplicate:
                    cluster.delay(0, options.delay_ms, source, destination)
                    cluster.drop(options.loss, source, destination)
                    cluster.reorder(options.reorder, source, destination)
                    cluster.duplicate(options.duplicate, source, destination)

    async def run(self) -> None:
        """One fault after the other, overlapping, until cancelled."""
        faults = self.options.faults
        if not faults:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._turn)
            while True:
                await trio.sleep(self._rng.uniform(0.2, 2) * self.options.fault_interval)
                if self.options.dense and self._rng.random() < MOMENTS_SHARE:
                    await self._moments.wait(self._rng, 4 * self.options.fault_interval)
                (fault,) = self._rng.choices(list(faults), list(faults.values()))
                nursery.start_soon(self._do[fault])

    async def _turn(self) -> None:
        """Draw other faults from the times on that the options name."""
        began = trio.current_time()
        for at, number in self.options.turns:
            await trio.sleep_until(began + at)
            self._rng.seed(f"turn/{number}")

    def _note(self, fault: Fault) -> None:
        self.injected[fault.value] += 1

    async def _last(self) -> None:
        await trio.sleep(self._rng.choice(self.options.outages))

    def _victim(self) -> int | None:
        """A broker that is whole; of a dense run often a leader, and seldom the last of two; never a last good copy."""
        idle = [
            broker for broker in range(self.options.brokers) if broker not in self._busy and not self.spares(broker)
        ]
        if self.options.dense:
            if len(idle) <= 1 and self._rng.random() < 0.8:
                return None
            leaders = [broker for broker in self._moments.leaders() if broker in idle]
            if leaders and self._rng.random() < 0.5:
                return self._rng.choice(leaders)
        return self._rng.choice(idle) if idle else None

    def spares(self, broker: int) -> bool:
        """Whether a partition would be left without a good copy if something happened to the broker."""
        return self._spares(broker)

    def _spares(self, *victims: NodeName) -> bool:
        return self.disk.spares(*victims) or self.losses.spares(*victims)

    def _pair(self) -> list[int]:
        """Two brokers; of a dense run a leader and one of its followers, where there is a leader."""
        if self.options.dense and (pairs := self._moments.feeding()):
            return self._rng.choice(pairs)
        return self._rng.sample(range(self.options.brokers), 2)

    async def crash(self) -> None:
        """A broker dies with a part of what it had not synced, and comes back."""
        victim = self._victim()
        if victim is None:
            return
        self._note(Fault.CRASH)
        self._busy.add(victim)
        with trio.CancelScope(shield=True):
            await self.kill(victim, self._rng.choice((None, True, False)))
        await self._last()
        with trio.CancelScope(shield=True):
            await self.cluster.restart(victim)
        self._busy.discard(victim)

    async def damage_log(self) -> None:
        """Broker 0 goes, its disk damages a log, and it comes back; it is always the same disk that does."""
        if DAMAGED in self._busy or not self.disk.allows():
            return
        self._note(Fault.DAMAGE)
        self._busy.add(DAMAGED)
        with trio.CancelScope(shield=True):
            await self._end_of_damaged(self._rng.choice((None, True, False)))
        await self._last()
        with trio.CancelScope(shield=True):
            if self.disk.allows():
                self.disk.damage()
            await self.cluster.restart(DAMAGED)
        self._busy.discard(DAMAGED)

    async def rot(self) -> None:
        """A bit flips under broker 0, which runs on and may meet it; then its next process does."""
        await self._restart_after(Fault.ROT, self.disk.rot, self._rng.choice((None, True, False)))

    async def meet_rot(self) -> None:
        """A bit flips under broker 0, which reads it: it repairs its replica, and runs on, where others have it all."""
        if DAMAGED in self._busy or not self.disk.allows():
            return
        self._note(Fault.MET_ROT)
        self._busy.add(DAMAGED)
        self.disk.rot()
        self.disk.read_rotten()
        await self._last()
        if self.disk.rots:  # it leads alone, or waits for the controller
            with trio.CancelScope(shield=True):
                await self._end_of_damaged(self._rng.choice((None, True, False)))
                await self.cluster.restart(DAMAGED)
        self._busy.discard(DAMAGED)

    async def lie(self) -> None:
        """A sync of broker 0 says that it is done and is not, and a while later its machine dies."""
        await self._restart_after(Fault.LYING_SYNC, self.disk.lie, self._rng.choice((None, True)))

    async def cut_power(self) -> None:
        """A sync of broker 0 says that it is done and is not, and as soon as it has said so its machine dies.

        So others have what is then lost.
        """
        async with self._alone_with_damaged(Fault.POWER_CUT, self.disk.unsynced_logs) as is_there:
            if is_there:
                self.disk.lie_of_unsynced()
                await self._comes(lambda: self.disk.has_lied() and self.disk.copies_are_good())
                with trio.CancelScope(shield=True):
                    await self._end_of_damaged(lose=True)
                    await self.cluster.restart(DAMAGED)

    async def remove_log(self) -> None:
        """Broker 0 goes, and with it one of its logs, which had records on stable storage."""
        async with self._alone_with_damaged(Fault.LOST_LOG, lambda: any(self.disk.flushed_logs())) as is_there:
            if is_there:
                with trio.CancelScope(shield=True):
                    await self._end_of_damaged(lose=False)
                    if self.disk.allows():
                        self.disk.remove_log()
                    await self.cluster.restart(DAMAGED)

    @asynccontextmanager
    async def _alone_with_damaged(self, fault: Fault, condition: Callable[[], object]) -> AsyncIterator[bool]:
        """Broker 0 in nobody else's hands, at a moment at which it may be damaged; False if none comes."""
        if fault in self._awaited:
            yield False
            return
        self._awaited.add(fault)
        try:
            is_there = await self._comes(lambda: self._is_free() and self.disk.copies_are_good() and condition())
        finally:
            self._awaited.discard(fault)
        if is_there and self.disk.allows():
            self._note(fault)
            self._busy.add(DAMAGED)
            try:
                yield True
            finally:
                self._busy.discard(DAMAGED)
        else:
            yield False

    def _is_free(self) -> bool:
        return DAMAGED not in self._busy and self.cluster.is_alive(DAMAGED)

    async def _comes(self, condition: Callable[[], object]) -> bool:
        """Wait for a moment, for as long as the longest outage."""
        for _ in range(LOOKS):
            if condition():
                return True
            await trio.sleep(max(self.options.outages) / LOOKS)
        return False

    async def _restart_after(self, fault: Fault, act: Callable[[], None], lose: bool | None) -> None:
        if DAMAGED in self._busy or not self.disk.allows():
            return
        self._note(fault)
        self._busy.add(DAMAGED)
        act()
        await self._last()
        with trio.CancelScope(shield=True):
            await self._end_of_damaged(lose)
            await self.cluster.restart(DAMAGED)
        self._busy.discard(DAMAGED)

    async def _end_of_damaged(self, lose: bool | None) -> None:
        """Broker 0 ends; a sync that has lied costs it something only where others have it."""
        self.disk.hide_rot()
        end = DAMAGED, sum(ends_process(event, DAMAGED) for event in self.cluster.trace)
        self.damaged.add(end)
        if self.disk.lies:
            self.lied.add(end)
            lose = lose if self.disk.allows() else False
            await self.kill(DAMAGED, lose)
        elif self._rng.random() < 0.5:
            await self.kill(DAMAGED, lose)
        else:
            await self.cluster.shutdown(DAMAGED, patient=False)
        self.disk.show_rot()
        self.disk.lies = False

    async def delay_syncs(self) -> None:
        """A broker's syncs take their time; a crash may come before they are done."""
        victim = self._rng.randrange(self.options.brokers)
        self._note(Fault.SLOW_SYNC)
        self.slowed.add(victim)
        medium(self.cluster, victim).sync_delay = self._rng.choice(DELAYS)
        await self._last()
        medium(self.cluster, victim).sync_delay = 0.0

    async def fill_disk(self) -> None:
        """A broker's disk has little space left, or none; what needs more fails until there is room."""
        victim = self._victim()
        if victim is not None:
            self.lacking.add(victim)
            free = self._rng.choice((0, 100, 2_000))
            self.cluster.fill_disk(victim, free_bytes=free, directory=self._directory(victim))
            await self._bear(Fault.FULL_DISK, victim)

    async def fail_sync(self) -> None:
        """A broker's next sync fails; what it was to save may be lost."""
        victim = self._victim()
        if victim is not None:
            self.cluster.fail_disk(victim, "syncs", times=1, directory=self._directory(victim))
            await self._bear(Fault.FAILED_SYNC, victim)

    async def fail_flushes(self) -> None:
        """A broker has no descriptors for what a flush has to open: each fails, and what was appended stays."""
        victim = self._victim()
        if victim is not None:
            self.lacking.add(victim)
            disk = self.cluster.host.disk(broker_name(victim))
            disk.fail(operations=SYNCS, error=errno.EMFILE)
            await self._bear(Fault.FAILED_FLUSH, victim)

    async def fail_disk(self) -> None:
        """A broker's disk fails at whatever is asked of it, or at whatever it is to keep."""
        victim = self._victim()
        if victim is not None:
            what: DiskOperations = self._rng.choice(("everything", "writes", "syncs"))
            self.cluster.fail_disk(victim, what, directory=self._directory(victim))
            await self._bear(Fault.FAILED_DISK, victim)

    def _directory(self, broker: int) -> str | None:
        """One of a broker's disks, if it has several; the others go on."""
        if self.options.log_directories == 1:
            return None
        return self._rng.choice(sorted(self.cluster.broker(broker).replicas.directories.paths))

    async def _bear(self, fault: Fault, victim: int) -> None:
        """A while with a bad disk; then it is whole again, and a broker that has stopped is started.

        One that has lost a directory and lives goes on without it for a while, and is started anew.
        """
        self._note(fault)
        self._busy.add(victim)
        await self._last()
        with trio.CancelScope(shield=True):
            await self._mend_disk(victim)
        if self.cluster.broker(victim).replicas.directories.offline:
            await self._last()
            with trio.CancelScope(shield=True):
                await self._renew(victim)
        self._busy.discard(victim)

    async def _mend_disk(self, broker: int) -> None:
        self.cluster.heal_disk(broker)
        if self.cluster.broker(broker).halted is not None:
            while self.cluster.is_alive(broker):  # noqa: ASYNC110 - it ends by itself
                await trio.sleep(0.001)
            await self.cluster.restart(broker)

    async def _renew(self, broker: int) -> None:
        """A broker is stopped and started, so that a directory that failed comes back."""
        if self._rng.random() < 0.5 and not self.spares(broker):
            await self.kill(broker, self._rng.choice((None, True, False)))
        else:
            await self.cluster.shutdown(broker, patient=False)
        await self.cluster.restart(broker)

    async def kill(self, broker: int, lose_unsynced: bool | None = None) -> None:
        """A broker dies, with a part of what it has not synced, as far as the run's crashes take that."""
        self.seen["a broker crashed while a sync waited"] += medium(self.cluster, broker).waiting > 0
        if self.options.transactions:
            self.seen.update(cut_in_two(self.cluster, broker))
        if not self.losses.may_lose(broker):
            lose_unsynced = False
        await self.cluster.crash(broker, lose_unsynced=lose_unsynced)

    async def jump_clock(self) -> None:
        """A broker's wall clock is wrong for a while, and the controller's by as much in the other direction."""
        victim = self._rng.randrange(self.options.brokers)
        ms = self._rng.choice((-AN_HOUR_MS, -2_000, 2_000, AN_HOUR_MS))
        self._note(Fault.CLOCK)
        self.cluster.jump_clock(victim, ms)
        self.cluster.jump_controller_clock(-ms)
        try:
            await self._last()
        finally:  # healing cancels it
            self.cluster.jump_clock(victim, -ms)
            self.cluster.jump_controller_clock(ms)

    async def shut_down(self) -> None:
        """A broker leaves in good order, as far as it reaches the controller, and comes back."""
        victim = self._victim()
        if victim is None:
            return
        self._note(Fault.SHUTDOWN)
        self._busy.add(victim)
        with trio.CancelScope(shield=True):
            await self.cluster.shutdown(victim, patient=self._rng.choice((True, False)))
        await self._last()
        with trio.CancelScope(shield=True):
            await self.cluster.restart(victim)
        self._busy.discard(victim)

    async def pause(self) -> None:
        victim = self._victim()
        if victim is None:
            return
        self._note(Fault.PAUSE)
        self._busy.add(victim)
        self.cluster.pause(victim)
        await self._last()
        self.cluster.resume(victim)
        self._busy.discard(victim)

    async def isolate(self) -> None:
        """One node is alone: a broker or the controller."""
        node: NodeName = self._rng.choice([*range(self.options.brokers), CONTROLLER])
        durations = self.options.outages
        await self._sever(Fault.ISOLATE, partial(self.cluster.isolate, node), durations, node, healed=(node,))

    async def one_way(self) -> None:
        """One link carries nothing in one direction."""
        source, destination = self._rng.sample([*range(self.options.brokers), CONTROLLER], 2)
        sever = partial(self.cluster.block, source, destination)
        await self._sever(Fault.ONE_WAY, sever, self.options.separations, source, destination)

    async def split(self) -> None:
        """Two brokers cannot reach each other, while both reach the controller and the third."""
        one, other = self._pair()

        def sever() -> None:
            self.cluster.block(one, other)
            self.cluster.block(other, one)

        await self._sever(Fault.SPLIT, sever, self.options.separations, one, other)

    async def _sever(
        self,
        fault: Fault,
        sever: Callable[[], None],
        durations: Sequence[float],
        *touched: NodeName,
        healed: tuple[NodeName, ...] = (),
    ) -> None:
        """Cut links of some nodes for a while, unless one of them has a last good copy.

        Healing some heals all; of a dense run, what others have cut stays cut.
        """
        if self._spares(*touched):
            self.disk.counted[SPARED] += 1
            return
        self._note(fault)
        sever()
        self._severed.append(sever)
        self._cut.update(touched)
        await trio.sleep(self._rng.choice(durations))
        self._cut.subtract(touched)
        self._severed.remove(sever)
        self.cluster.heal(*healed)
        if self.options.dense:
            for still in self._severed:
                still()

    async def reset(self) -> None:
        self._note(Fault.RESET)
        self.cluster.reset_connections(self._rng.randrange(self.options.brokers))

    async def expire_session(self) -> None:
        """The controller fences a broker that lives: it leaves every ISR, which the last good copy must not."""
        victim = self._rng.randrange(self.options.brokers)
        if self.spares(victim):
            return
        self._note(Fault.EXPIRY)
        await self.cluster.expire_session(victim)

    def _operated(self, fault: Fault, operation: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def operate() -> None:
            self._note(fault)
            await operation()

        return operate

    async def restart_controller(self) -> None:
        self._note(Fault.CONTROLLER)
        async with self._controller:
            with trio.CancelScope(shield=True):
                await self.cluster.restart_controller()

    async def heal(self) -> None:
        """End every fault. Call it when `run` was cancelled."""
        cluster = self.cluster
        self._cut.clear()
        cluster.clear_faults()
        cluster.heal()
        if (self.disk.lies or self.disk.rots) and cluster.is_alive(DAMAGED):
            cluster.resume(DAMAGED)
            cluster.heal_disk(DAMAGED)
            await self._end_of_damaged(lose=False)
        if self.options.transactions and self.injected[Fault.CLOCK.value]:
            self.pass_the_hour()
        for broker in range(self.options.brokers):
            medium(cluster, broker).sync_delay = 0.0
            await self._mend_disk(broker)
            if not cluster.is_alive(broker):
                await cluster.restart(broker)
                continue
            cluster.resume(broker)
            if cluster.broker(broker).replicas.directories.offline or self.disk.has_given_up(broker):
                await self._renew(broker)

    def pass_the_hour(self) -> None:
        """By which a clock was ahead: a transaction that began by it is overdue then, and not before."""
        for broker in range(self.options.brokers):
            self.cluster.jump_clock(broker, AN_HOUR_MS)

    async def settle(self) -> None:
        """The operator decides what no rule may: who leads a partition of which nobody has all that was committed.

        The topic has elected uncleanly, lost its leader, and does not elect uncleanly any more. Or a reassignment was
        taken back, and with it went the replica that had led last.
        """
        await self.recreation.settle()
        for topic, partition in partitions_of(self.options):
            registration = self.cluster.controller.controller.image.partition(topic, partition)
            if registration is None or registration.isr | registration.elr:
                continue
            if self.options.changes_unclean or registration.last_known_leader not in registration.replicas:
                with suppress(KafkaError):
                    await self.cluster.elect(topic, partition, unclean=True)


def ends_process(event: TraceEvent, broker: int) -> bool:
    return event.node == broker and isinstance(event.decision, events.Crash | events.Stop)
