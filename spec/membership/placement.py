"""A replica in one of two log directories, of which one may fail and come back: which log is the replica's (KIP-858).

The controller gives a replica to a broker, takes it away and gives it again. The broker makes its log in a directory
that works, and tells the controller in which one (`Tell`). A directory that fails keeps its log, though the replica may
be taken away meanwhile and made anew in the other one. A process that starts with both directories finds two logs.

Two rules keep what was written:

* The log counts whose directory the controller knows. Where it knows none of them, the one that has records does
  (`that_counts`). The other one is kept aside, and never looked at again.
* While a directory is offline, a replica that was made by this process acts only when the controller knows where it is
  (`may_act`). So whatever was written to it, the controller knows it.

Each is a method, so that a bug may override it. What is taken away is deleted where it can be; no rule concerns that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, StepInvariant

DIRECTORIES = (0, 1)


@attrs.frozen
class OneLog:
    """The log of a replica in one directory."""

    life: int
    """How often the replica had been given when it was made."""
    written: bool = False
    """Whether it has records, which are on stable storage."""


@attrs.frozen
class Host:
    """One broker with two directories, and what the controller says of its replica."""

    life: int = 1
    """How often the controller has given the replica to the broker."""
    listed: bool = True
    known: int | None = None
    """The directory that the controller knows of the replica."""
    running: bool = True
    offline: frozenset[int] = frozenset()
    logs: tuple[OneLog | None, OneLog | None] = (None, None)
    hosted: int | None = None
    """The directory whose log the process takes for the replica's."""
    failed_life: int = 0
    """The life of the replica that the process has lost with a directory; 0 for none."""
    made: bool = False
    """Whether this process has made the log."""
    losses: int = 0


@attrs.frozen
class Give(Action):
    """The controller gives the broker the replica."""


@attrs.frozen
class TakeAway(Action):
    """The controller takes it away, and the broker deletes what it can."""


@attrs.frozen
class Make(Action):
    """The broker makes the log of a replica that it does not have, in a directory that works."""

    directory: int


@attrs.frozen
class Tell(Action):
    """The broker tells the controller in which directory the replica is."""


@attrs.frozen
class Write(Action):
    """Records are written to the replica, flushed and acknowledged."""


@attrs.frozen
class Fail(Action):
    """A directory fails."""

    directory: int


@attrs.frozen
class Stop(Action):
    """The process ends, in whatever way."""


@attrs.frozen
class Start(Action):
    """A process starts: all directories are back, and the metadata are read."""


@attrs.frozen
class Placement(Machine[Host]):
    """One replica, and where its log is."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Give, TakeAway, Make, Tell, Write, Fail, Stop, Start)
    lives: int = 2
    losses: int = 2
    """How often a directory fails."""

    def initial(self) -> Iterable[Host]:
        return (Host(),)

    def actions(self, state: Host) -> Iterator[Action]:
        candidates: list[Action] = [Give(), TakeAway(), Tell(), Write(), Stop(), Start()]
        candidates += [kind(directory) for directory in DIRECTORIES for kind in (Make, Fail)]
        return (action for action in candidates if not self.guard(state, action))

    def guard(self, state: Host, action: Action) -> str:
        """Why the action is not enabled; "" when it is."""
        if isinstance(action, Start):
            return "the broker runs" if state.running else ""
        if not state.running and not isinstance(action, Give):
            return "the broker is down"
        match action:
            case Give():
                return "" if not state.listed and state.life < self.lives else "it is not given"
            case TakeAway():
                return "" if state.listed else "it is not there"
            case Make(directory):
                lost = state.hosted is not None or state.failed_life == state.life
                return "it has it" if lost or not state.listed or directory in state.offline else ""
            case Tell():
                return "" if state.hosted not in (None, state.known) and state.listed else "there is nothing to tell"
            case Write():
                may = state.hosted is not None and state.listed and self.may_act(state)
                return "" if may else "the replica does not act"
            case Fail(directory):
                may = directory not in state.offline and state.losses < self.losses and self.is_told(state)
                return "" if may else "no directory fails"
            case Stop():
                return ""
        raise NotImplementedError(action)

    def is_told(self, state: Host) -> bool:
        """Where all directories work a replica may act before it is told; that none fails so soon is assumed."""
        return state.known == state.hosted or bool(state.offline)

    def step(self, state: Host, action: Action) -> Host:
        if reason := self.guard(state, action):
            raise NotEnabled(action, reason)
        match action:
            case Give():
                return evolve(state, listed=True, life=state.life + 1, known=None)
            case TakeAway():
                logs = self._without(state, set() if state.hosted is None else {state.hosted})
                return evolve(state, listed=False, known=None, hosted=None, failed_life=0, logs=logs)
            case Make(directory):
                logs = self._with(state, directory, OneLog(state.life))
                return evolve(state, logs=logs, hosted=directory, made=True)
            case Tell():
                return evolve(state, known=state.hosted)
            case Write():
                assert state.hosted is not None
                log = state.logs[state.hosted]
                assert log is not None
                return evolve(state, logs=self._with(state, state.hosted, evolve(log, written=True)))
            case Fail(directory):
                lost = directory == state.hosted
                return evolve(
                    state,
                    offline=state.offline | {directory},
                    hosted=None if lost else state.hosted,
                    failed_life=state.life if lost else state.failed_life,
                    losses=state.losses + 1,
                )
            case Stop():
                return evolve(state, running=False, hosted=None, made=False)
        assert isinstance(action, Start), "the guard knows no other"
        return self._started(state)

    def _started(self, state: Host) -> Host:
        """Both directories are there: one log counts, the other is kept aside."""
        found = {directory: log for directory, log in enumerate(state.logs) if log is not None}
        hosted = self.that_counts(state.known, {directory: log.written for directory, log in found.items()})
        aside = found.keys() - ({hosted} if state.listed else set())
        return evolve(
            state,
            running=True,
            offline=frozenset(),
            failed_life=0,
            hosted=hosted if state.listed else None,
            logs=self._without(state, set(aside)),
        )

    def _with(self, state: Host, directory: int, log: OneLog | None) -> tuple[OneLog | None, OneLog | None]:
        return (log, state.logs[1]) if directory == 0 else (state.logs[0], log)

    def _without(self, state: Host, directories: set[int]) -> tuple[OneLog | None, OneLog | None]:
        first, second = (None if each in directories else state.logs[each] for each in DIRECTORIES)
        return first, second

    def is_fair(self, before: Host, action: Action, after: Host) -> bool:
        """The broker is started, makes what it is given, and tells where that is."""
        return isinstance(action, Start | Make | Tell)

    # --- the rules -----------------------------------------------------------------------------------------------

    def that_counts(self, known: int | None, found: Mapping[int, bool]) -> int | None:
        """The directory whose log is the replica's; `found` says of each log whether it has records.

        None where two have records and the controller knows neither.
        """
        if known in found:
            return known
        with_records = [directory for directory, has_records in found.items() if has_records]
        if len(with_records) > 1:
            return None
        return next(iter(with_records or found), None)

    def may_act(self, state: Host) -> bool:
        """Whether the replica leads or follows already."""
        return not (state.made and state.offline) or state.known == state.hosted

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def invariants(self) -> Mapping[str, Invariant[Host]]:
        return {"OneOfTwoLogsCounts": one_counts}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Host]]:
        return {"WhatWasWrittenCounts": what_was_written_counts}

    @property
    def converges(self) -> Mapping[str, Invariant[Host]]:
        return {
            "a replica that is listed is in a directory that the controller knows": lambda state: (
                not state.listed
                or state.failed_life == state.life
                or state.offline == set(DIRECTORIES)
                or (state.running and state.hosted is not None and state.known == state.hosted)
            ),
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[Host]]:
        return {
            "two logs have records": lambda state: all(log is not None and log.written for log in state.logs),
            "a replica was made anew beside a former log": lambda state: (
                state.hosted is not None and None not in state.logs
            ),
            "a replica waits until the controller knows where it is": lambda state: (
                state.hosted is not None and not self.may_act(state)
            ),
        }


def one_counts(state: Host) -> bool:
    """What two logs have written, the controller can tell apart."""
    written = [directory for directory, log in enumerate(state.logs) if log is not None and log.written]
    return not state.listed or len(written) < 2 or state.known in written


def what_was_written_counts(before: Host, action: Action, after: Host) -> bool:
    """A process that starts takes the log that was written to since the replica was last given."""
    if not isinstance(action, Start) or not before.listed:
        return True
    latest = [d for d, log in enumerate(before.logs) if log is not None and log.written and log.life == before.life]
    return all(after.hosted == directory for directory in latest)
