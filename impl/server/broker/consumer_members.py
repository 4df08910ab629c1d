"""The members of consumer groups (KIP-848) at one broker: the shell around the core of their protocol.

The core decides on heartbeats, and says what has to be in the log first (`coordinators.groups.consumer`). What is to be
written waits in line (`write_line`), so that appends are in the order of the core's decisions. A response waits until
its records are committed, and so does one that says what earlier calls have decided.

Regular expressions of topics are resolved by a task of their own, which holds them against names in slices; a heartbeat
begins it, and does not wait.

A group may have members of the classic protocol besides, and become a classic one (`coordinators.groups.migration`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import JoinResponse, SyncResponse
from tidegauge.impl.coordinators.groups.consumer.state import HeartbeatResponse
from tidegauge.impl.metadata.group_configs import group_default
from tidegauge.impl.server.broker.consumer_group_lines import ConsumerGroupLines
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog, Led
from tidegauge.impl.server.broker.topic_expressions import ImageTopics, TopicExpressions, TopicHashes, TopicsOfImage
from tidegauge.impl.server.broker.write_line import WriteLine
from tidegauge.impl.server.pace import Pace
from tidegauge.impl.server.settings.server_config import group_settings

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.groups.classic.messages import (
        Heartbeat,
        JoinGroup,
        Leaving,
        Left,
        Moment,
        Outcome,
        SyncGroup,
    )
    from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerWrite, Resolution
    from tidegauge.impl.coordinators.groups.consumer.state import ConsumerHeartbeat
    from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
    from tidegauge.impl.coordinators.groups.migration.coordinator import Decision
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.tasks import BrokerTasks

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
_TIMEOUT_UNITS: Final = 20
"""Of work, as `impl.server.pace` counts it, to act on one deadline."""


@attrs.define(eq=False, repr=False)
class Queued:
    """A write in line, until it is known what becomes of it."""

    led: Led[GroupCoordinator]
    write: ConsumerWrite
    is_expiry: bool = False
    """Whether time has come about it, and no request."""
    error: ErrorCode | None = None
    done: trio.Event = attrs.field(factory=trio.Event)

    def end(self, error: ErrorCode) -> None:
        if self.error is None:
            self.error = error
            self.done.set()

    async def ended(self) -> ErrorCode:
        """NONE once it is in the log; else COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_SERVER_ERROR."""
        await self.done.wait()
        assert self.error is not None, "it is done"
        return self.error


@attrs.frozen(eq=False)
class _Begun:
    """Expressions that are to be resolved."""

    led: Led[GroupCoordinator]
    resolution: Resolution
    may_describe: Callable[[str], bool]
    """Which topics the sender of the heartbeat may know that has begun it."""


class ConsumerMembers:
    """The members of the consumer groups that this broker coordinates."""

    def __init__(
        self,
        log: CoordinatorLog[GroupCoordinator],
        tasks: BrokerTasks,
        line: WriteLine,
        metadata: MetadataCache,
        config: DynamicConfig,
        *,
        clock: Clock,
        now: Callable[[], Moment],
        carry_out: Callable[[Led[GroupCoordinator], Outcome], None],
        timers: bool,
    ) -> None:
        """`carry_out`: does what the core of the classic protocol says.

        `timers`: whether deadlines are met by time, and expressions resolved when that is begun; else a driver orders
        it (`meet_deadlines`, `resolve_begun`).
        """
        self._log = log
        self._tasks = tasks
        self._metadata = metadata
        self._config = config
        self._clock = clock
        self._now = now
        self._timers = timers
        self._is_keeping_time = False
        self._alarm = trio.CancelScope()
        """Wakes the task that keeps the time, by its deadline."""
        self._line = line
        self._carry_out = carry_out
        self._lines = ConsumerGroupLines()
        self._expressions = TopicExpressions()
        self._hashes = TopicHashes()
        self._begun: list[_Begun] = []
        """What a driver orders to be resolved."""
        self._changed = trio.Event()
        """Set and replaced whenever something is committed, or given up."""

    # --- settings --------------------------------------------------------------------------------------------------

    def setting(self, group: str, name: str) -> int:
        """A setting of a group, or the brokers' for all groups, in ms."""
        own = self._metadata.image.group_configs.get(group, {})
        if name in own:
            return int(own[name])
        default = group_default(name, group_settings(self._config.current.properties))
        assert isinstance(default, int), name
        return default

    def known(self, may_describe: Callable[[str], bool], now: Moment) -> TopicsOfImage:
        """What the core is to know of topics now."""
        return TopicsOfImage(self._metadata.image, self._expressions, self._hashes, may_describe, now.wall_ms)

    # --- requests --------------------------------------------------------------------------------------------------

    async def heartbeat(
        self, led: Led[GroupCoordinator], request: ConsumerHeartbeat, may_describe: Callable[[str], bool]
    ) -> HeartbeatResponse:
        """The core's response to a heartbeat, once it is in the log. `may_describe`: which topics its sender may know.

        Errors: those of `Migration.heartbeat`, and of the append: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
        """
        now, session_ms = self._now(), self.setting(request.group, SESSION_TIMEOUT)
        known = self.known(may_describe, now)
        made = led.state.migration.heartbeat(request, known, session_ms, now)
        self._set_alarm(led)
        if isinstance(made, HeartbeatResponse):
            return made
        self._begin(led, made.write.resolution, may_describe)
        error = await self._decide(led, made)
        if error is not ErrorCode.none:
            return HeartbeatResponse(error)
        led.state.consumers.responded(made.write)
        return made.write.response

    async def _decide(self, led: Led[GroupCoordinator], decision: Decision) -> ErrorCode:
        """Have in the log what was decided; classic members are told at once what they are told."""
        if not decision.write.records:
            return await self._until_committed(led, decision.write)
        queued = self.queue(led, decision.write)
        self._carry_out(led, decision.outcome)
        return await queued.ended()

    async def _until_committed(self, led: Led[GroupCoordinator], write: ConsumerWrite) -> ErrorCode:
        """Return when all that the core has decided of a group is in the log."""
        with trio.move_on_after(self._config.initial.offsets_commit_timeout_ms / 1000):
            while led.is_led and not led.state.consumers.is_committed(write):
                await self._changed.wait()
            return ErrorCode.none if led.is_led else ErrorCode.not_coordinator
        return ErrorCode.coordinator_not_available

    # --- members of the classic protocol -----------------------------------------------------------------------------

    async def join(
        self, led: Led[GroupCoordinator], request: JoinGroup, may_describe: Callable[[str], bool]
    ) -> JoinResponse | None:
        """The response to a JoinGroup in a consumer group; None if it has no members by now, or is a classic one.

        Errors: those of `Migration.join`, and of the append.
        """
        if led.state.migration.mixed_group(request.group) is None:
            return None
        now = self._now()
        known = self.known(may_describe, now)
        made = led.state.migration.join(request, known, now)
        self._set_alarm(led)
        if isinstance(made, JoinResponse):
            return made
        self._begin(led, made.write.resolution, may_describe)
        error = await self._decide(led, made)
        if error is not ErrorCode.none:
            return JoinResponse(error, request.member_id)
        return led.state.migration.join_response(request, made.write.response)

    async def sync(self, led: Led[GroupCoordinator], request: SyncGroup) -> SyncResponse:
        """What a classic member of a consumer group has, once that is in the log."""
        made = led.state.migration.sync(request, ImageTopics(self._metadata.image), self._now())
        self._set_alarm(led)
        if isinstance(made, ErrorCode):
            return SyncResponse(made)
        write, response = made
        error = await self._until_committed(led, write)
        return response if error is ErrorCode.none else SyncResponse(error)

    def beat(self, led: Led[GroupCoordinator], request: Heartbeat) -> ErrorCode:
        """A classic member of a consumer group lives."""
        error = led.state.migration.beat(request, self._now())
        self._set_alarm(led)
        return error

    async def leave(self, led: Led[GroupCoordinator], group: str, leaving: Leaving) -> Left:
        """A classic member leaves a consumer group; the response waits until that is in the log."""
        left, decision = led.state.migration.leave(group, leaving, ImageTopics(self._metadata.image), self._now())
        if decision is None:
            return left
        error = await self._decide(led, decision)
        return left._replace(error=error)

    # --- regular expressions -----------------------------------------------------------------------------------------

    def _begin(
        self, led: Led[GroupCoordinator], resolution: Resolution | None, may_describe: Callable[[str], bool]
    ) -> None:
        if resolution is None:
            return
        begun = _Begun(led, resolution, may_describe)
        if self._timers:
            self._tasks.start_soon(self._resolve, begun)
        else:
            self._begun.append(begun)

    async def _resolve(self, begun: _Begun) -> None:
        """Hold expressions against the topics, and have in the log what they match."""
        led, pace = begun.led, Pace(until_running=self._clock.until_running)
        await self._expressions.learn(begun.resolution.expressions, self._metadata.image.topics, pace)
        if not led.is_led:
            return
        now = self._now()
        known = self.known(begun.may_describe, now)
        write = led.state.consumers.end_resolution(begun.resolution, known)
        if write is not None and write.records:
            self.queue(led, write)

    async def resolve_begun(self) -> None:
        """Resolve what was begun, as a driver orders it."""
        begun, self._begun = self._begun, []
        for one in begun:
            await self._resolve(one)

    # --- what the core has decided -----------------------------------------------------------------------------------

    def queue(self, led: Led[GroupCoordinator], write: ConsumerWrite, *, is_expiry: bool = False) -> Queued:
        """The write is in line; nothing is awaited."""
        queued = Queued(led, write, is_expiry)
        give_up = partial(queued.end, ErrorCode.coordinator_not_available)
        self._line.add(led, write.group_id, partial(self._write, queued), give_up)
        return queued

    async def _write(self, queued: Queued) -> None:
        """Have it in the log, and tell the core what becomes of it."""
        led, write, core = queued.led, queued.write, queued.led.state

        def apply(base_offset: int) -> None:
            core.consumers_written(write, base_offset)
            self._lines.written(write, is_expiry=queued.is_expiry)
            self._tell()

        def drop() -> None:
            outcome = core.consumers_failed(write, self._now())
            self._lines.not_written(write)
            self._line.give_up(led, write.group_id)
            self._carry_out(led, outcome)
            self._set_alarm(led)
            self._tell()

        timeout_ms = self._config.initial.offsets_commit_timeout_ms
        queued.end(await self._log.append(led, write.records, apply, timeout_ms=timeout_ms, drop=drop))
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # --- leader epochs -----------------------------------------------------------------------------------------------

    async def load(self, led: Led[GroupCoordinator], pace: Pace) -> None:
        """The members that the log tells of have sessions from now on."""
        async for group in pace.each(list(led.state.consumers.committed)):
            led.state.consumers.load(group, self.setting(group, SESSION_TIMEOUT), self._now().timer_ms)

    def loaded(self, led: Led[GroupCoordinator]) -> None:
        """Deadlines count from now on."""
        self._set_alarm(led)
        if self._timers and not self._is_keeping_time:
            self._is_keeping_time = True
            self._tasks.start_soon(self._keep_time)

    def resigned(self, led: Led[GroupCoordinator]) -> None:
        """Who waits is to look for another coordinator."""
        led.state.consumers.unload()
        self._tell()

    # --- time --------------------------------------------------------------------------------------------------------

    def _set_alarm(self, led: Led[GroupCoordinator]) -> None:
        due = led.state.consumers.next_deadline()
        if due is not None and due / 1000 < self._alarm.deadline:
            self._alarm.deadline = due / 1000

    async def _keep_time(self) -> None:
        pace = Pace(until_running=self._clock.until_running)
        while self._log.is_leading:
            due = (led.state.consumers.next_deadline() for led in self._log)
            first = min((at for at in due if at is not None), default=math.inf)
            with trio.CancelScope(deadline=first / 1000) as self._alarm:
                await trio.sleep_forever()
            await self._clock.until_running()
            await self.meet_deadlines(pace)
        self._is_keeping_time = False

    async def meet_deadlines(self, pace: Pace) -> None:
        """Act on what is due."""
        for led in self._log:
            for write in led.state.consumers.time_passed(self._now().timer_ms):
                topics = ImageTopics(self._metadata.image)
                decision = led.state.migration.decided(write, topics, self._now())
                self.queue(led, decision.write, is_expiry=True)
                self._carry_out(led, decision.outcome)
                await pace.did(_TIMEOUT_UNITS)
                if not led.is_led:
                    break
