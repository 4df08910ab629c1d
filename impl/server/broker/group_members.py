"""The members of groups at one broker: the shell around the core of the classic protocol.

The core rules on requests and says who has a response now, and what is to be written (`coordinators.groups.classic`).
This shell lets requests wait, appends what is to be written, and wakes up when something in the core is due. A request
that waits is not its connection: when its client goes away nobody reads the response, and the member stays until its
session ends.

What is to be written waits in line (`write_line`), so that appends are in the order of the core's decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast
from uuid import UUID

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import GroupWrite, Outcome, Response
from tidegauge.impl.coordinators.groups.group_metadata import group_record
from tidegauge.impl.coordinators.groups.migration.coordinator import tombstones
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog, Led
from tidegauge.impl.server.broker.group_lines import GroupLines
from tidegauge.impl.server.broker.write_line import WriteLine
from tidegauge.impl.server.pace import Pace

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.groups.classic.coordinator import ClassicGroups
    from tidegauge.impl.coordinators.groups.classic.messages import Moment
    from tidegauge.impl.coordinators.groups.classic.state import Token
    from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.randomness import Randomness
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.transport.context import RequestContext

R = TypeVar("R", bound=Response)
_TIMEOUT_UNITS: Final = 20
"""Of work, as `impl.server.pace` counts it, to act on one deadline."""


@attrs.define(eq=False, repr=False)
class WaitingRequest:
    """A token of the core: a request, until it has its response."""

    response: Response | None = None
    responded: trio.Event = attrs.field(factory=trio.Event)

    def respond(self, response: Response) -> None:
        """This is the response; a later one comes too late."""
        if self.response is None:
            self.response = response
            self.responded.set()


class GroupMembers:
    """The members of the groups that this broker coordinates."""

    def __init__(
        self,
        log: CoordinatorLog[GroupCoordinator],
        tasks: BrokerTasks,
        line: WriteLine,
        randomness: Randomness,
        *,
        clock: Clock,
        now: Callable[[], Moment],
        append_timeout_ms: Callable[[], int],
        max_bytes: Callable[[Led[GroupCoordinator]], float],
        timers: bool,
    ) -> None:
        """`max_bytes`: of a record (`max.message.bytes`). `timers`: whether deadlines are met by time; else a driver
        orders it (`meet_deadlines`).
        """
        self._log = log
        self._tasks = tasks
        self._randomness = randomness
        self._clock = clock
        self._now = now
        self._append_timeout_ms = append_timeout_ms
        self._max_bytes = max_bytes
        self._timers = timers
        self._is_keeping_time = False
        self._alarm = trio.CancelScope()
        """Wakes the task that keeps the time, by its deadline."""
        self._line = line
        self._lines = GroupLines()

    def unique_id(self) -> str:
        """The end of a member id: other members have other ones."""
        return str(UUID(bytes=self._randomness.token(16), version=4))

    # --- requests ----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        led: Led[GroupCoordinator],
        call: Callable[[ClassicGroups, Token, Moment], Outcome],
        context: RequestContext,
        kind: type[R],
    ) -> R:
        """The core's response to a request, when it has one; of this kind."""
        waiting = WaitingRequest()
        self.carry_out(led, call(led.state.classic, waiting, self._now()))
        if waiting.response is None:
            await context.while_connected(waiting.responded.wait)
        assert isinstance(waiting.response, kind), waiting.response
        return waiting.response

    def carry_out(self, led: Led[GroupCoordinator], outcome: Outcome) -> None:
        """Do what a call of the core says; nothing is awaited."""
        self._lines.tell(outcome.notes)
        for token, response in outcome.responses:
            cast("WaitingRequest", token).respond(response)
        for write in outcome.writes:
            self._line.add(led, write.group, partial(self._write, led, write), partial(self._given_up, led, write))
        self._set_alarm(led)

    async def _write(self, led: Led[GroupCoordinator], write: GroupWrite) -> None:
        """Have it in the log, and tell the core what becomes of it."""
        core = led.state
        beneath = core.migration.beneath(write.group)

        def apply(base_offset: int) -> None:
            self.carry_out(led, core.group_written(write, base_offset, self._now(), beneath))

        record = group_record(write.group, write.metadata)
        if len(record.value or b"") > self._max_bytes(led):
            error = ErrorCode.unknown_server_error
        else:
            records = [record, *tombstones(beneath)]
            error = await self._log.append(led, records, apply, timeout_ms=self._append_timeout_ms())
        if error is not ErrorCode.none:
            self.carry_out(led, core.classic.failed(write, error, self._now()))

    def _given_up(self, led: Led[GroupCoordinator], write: GroupWrite) -> None:
        error = ErrorCode.coordinator_not_available
        self.carry_out(led, led.state.classic.failed(write, error, self._now()))

    # --- leader epochs -----------------------------------------------------------------------------------------------

    async def load(self, led: Led[GroupCoordinator], pace: Pace) -> None:
        """The members that the log tells of have sessions from now on."""
        async for group in pace.each(list(led.state.offsets.metadata)):
            if not led.is_led:
                return
            self.carry_out(led, led.state.take_over(group, self._now()))

    def loaded(self, led: Led[GroupCoordinator]) -> None:
        """Deadlines count from now on."""
        self._set_alarm(led)
        if self._timers and not self._is_keeping_time:
            self._is_keeping_time = True
            self._tasks.start_soon(self._keep_time)

    def resigned(self, led: Led[GroupCoordinator]) -> None:
        """Who waits is to look for another coordinator."""
        self.carry_out(led, led.state.classic.unload())

    # --- time --------------------------------------------------------------------------------------------------------

    def _set_alarm(self, led: Led[GroupCoordinator]) -> None:
        due = led.state.classic.next_deadline()
        if due is not None and due / 1000 < self._alarm.deadline:
            self._alarm.deadline = due / 1000

    async def _keep_time(self) -> None:
        pace = Pace(until_running=self._clock.until_running)
        while self._log.is_leading:
            due = (led.state.classic.next_deadline() for led in self._log)
            first = min((at for at in due if at is not None), default=math.inf)
            with trio.CancelScope(deadline=first / 1000) as self._alarm:
                await trio.sleep_forever()
            await self._clock.until_running()
            await self.meet_deadlines(pace)
        self._is_keeping_time = False

    async def meet_deadlines(self, pace: Pace) -> None:
        """Act on what is due."""
        for led in self._log:
            for outcome in led.state.classic.time_passed(self._now()):
                self.carry_out(led, outcome)
                await pace.did(_TIMEOUT_UNITS)
                if not led.is_led:
                    break
