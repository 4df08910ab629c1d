"""A replica that moves between two log directories, which may fail or be full: which log is its own (KIP-113, KIP-858).

A replica that moves gets a *future* log in the target, which copies the replica's. When it has everything it takes the
other one's place, in steps of which each may be the last of a process, or of a disk:

* `Prepare`: the future log and its high watermark are brought to stable storage in the target.
* `Leave`, `SyncLeft`: the log in the source gets the name of one that was *left*, which has the move's number.
* `Adopt`, `SyncAdopted`: the future log gets the replica's name.
* `Tell`: the controller learns the new directory. `Free`: the log that was left is removed.

The source's name is what decides: a log is the replica's until it is left, and what was left never counts again. So no
two logs bear the replica's name, and a process that starts finds one of three things:

* a log. What else there is of a move is of no account.
* none, but a log that was left, and the future log of the same move: that one is adopted (`is_successor`). A future log
  is kept while a directory is offline, for that may have what was left (`may_drop`).
* none, but a log that was left, and a directory that is offline: the replica is there, and is not made anew
  (`may_make`). So that the process knows, what was left is kept until the controller knows the new directory
  (`may_free`).

The rules are methods, so that a bug may override one. Names are on stable storage when their directory was synced; a
machine that loses power shows of each directory the names as they were synced, or later ones. Records that are
acknowledged are on stable storage here; that is for replication, and for recovery, to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, StepInvariant
from tidegauge.spec.membership.moving import (
    DIRECTORIES,
    IN_DIRECTORY,
    SIMPLE,
    Adopt,
    Append,
    As,
    Begin,
    Copy,
    Disks,
    Fail,
    Fill,
    Free,
    Give,
    GiveUp,
    Leave,
    Make,
    MakeRoom,
    NamedLog,
    Names,
    Prepare,
    Stage,
    Start,
    Stop,
    SyncAdopted,
    SyncLeft,
    TakeAway,
    Tell,
    WriteDown,
)
from tidegauge.spec.membership.placement import Placement


@attrs.frozen
class Moves(Machine[Disks]):
    """One replica that moves, and where its log is."""

    action_types: ClassVar[tuple[type[Action], ...]] = (*SIMPLE, *IN_DIRECTORY, Stop, Start)
    records: int = 1
    max_moves: int = 2
    failures: int = 1
    """How often a directory fails, or is still offline when a process starts."""
    fills: bool = True
    """Whether disks may be full."""
    lives: int = 2
    """How often the replica is given. A process of a later life than the first starts with both directories."""

    def initial(self) -> Iterable[Disks]:
        names: tuple[Names, ...] = ((NamedLog(As.OWN, 1),), ())
        return (Disks(names, names),)

    def actions(self, state: Disks) -> Iterator[Action]:
        candidates: list[Action] = [kind() for kind in SIMPLE]
        candidates += [kind(directory) for kind in IN_DIRECTORY for directory in DIRECTORIES]
        unsynced = [(False, True) if state.names[d] != state.stable[d] else (False,) for d in DIRECTORIES]
        candidates += [Stop(frozenset(d for d in DIRECTORIES if lost[d])) for lost in product(*unsynced)]
        candidates += [Start(), *map(Start, DIRECTORIES)]
        return (action for action in candidates if not self.guard(state, action))

    def step(self, state: Disks, action: Action) -> Disks:
        if reason := self.guard(state, action):
            raise NotEnabled(action, reason)
        match action:
            case Start(without):
                return self._started(state, frozenset() if without is None else frozenset({without}))
            case Stop(forgetful):
                return self._stopped(state, forgetful)
            case Begin() | Copy() | Prepare() | GiveUp() | Leave() | SyncLeft() | Adopt() | SyncAdopted():
                return self._moved(state, action)
        return self._changed(state, action)

    def is_fair(self, before: Disks, action: Action, after: Disks) -> bool:
        """What the broker does by itself, once the disks work: a move that was begun ends."""
        if isinstance(action, Start):
            return action.without is None
        return isinstance(action, (Make, Tell, Free, Copy, Prepare, GiveUp, Leave, SyncLeft, Adopt, SyncAdopted))

    # --- guards --------------------------------------------------------------------------------------------------

    def guard(self, state: Disks, action: Action) -> str:
        """Why the action is not enabled; "" when it is."""
        match action:
            case Start(without):
                return "the broker runs" if state.running else self._not_without(state, without)
            case Give():
                return "" if not state.listed and state.life < self.lives else "it is not given"
            case MakeRoom(directory):
                return "" if directory in state.full else "there is room"
        if not state.running:
            return "the broker is down"
        match action:
            case Append():
                may = state.hosted is not None and state.acknowledged < self.records and self.may_append(state)
                return "" if may and self._acts(state) else "nothing is appended"
            case Tell():
                may = state.hosted is not None and state.known != state.hosted and self._is_settled(state)
                return "" if may else "there is nothing to tell"
            case TakeAway():
                return "" if state.listed and state.life < self.lives and self._is_settled(state) else "it stays"
            case Stop(forgetful):
                return "" if all(state.names[d] != state.stable[d] for d in forgetful) else "all names were synced"
            case Make() | Free() | Fail() | Fill() | WriteDown():
                return self._no_work(state, action)
        return self._no_move(state, action)

    def _not_without(self, state: Disks, without: int | None) -> str:
        may = without is None or (state.failures < self.failures and state.life == 1 and state.listed)
        return "" if may else "all directories are back"

    def _no_work(self, state: Disks, action: Action) -> str:
        match action:
            case WriteDown():
                may = state.hosted is not None and state.hosted not in state.full and self._is_settled(state)
                return "" if may and state.written[state.hosted or 0] != state.acknowledged else "it is written"
            case Make(directory):
                if not state.listed or state.hosted is not None or state.is_lost or directory in state.offline:
                    return "the replica is not made here"
                return "" if self.may_make(state) else "the replica may be in a directory that is offline"
            case Free(directory):
                if directory in state.offline or not any(log.name is As.LEFT for log in state.names[directory]):
                    return "nothing was left here"
                return "" if self._is_settled(state) and self.may_free(state) else "it is kept"
            case Fail(directory):
                may = directory not in state.offline and state.failures < self.failures and self._is_told(state)
                return "" if may else "no directory fails"
            case Fill(directory):
                return "" if self.fills and directory not in state.full | state.offline else "it is not filled"
        raise NotImplementedError(action)

    def _no_move(self, state: Disks, action: Action) -> str:
        if isinstance(action, Begin):
            may = state.hosted is not None and state.stage is Stage.NONE and state.moves < self.max_moves
            return "" if may and state.listed and not state.offline else "nothing is to move"
        target = 1 - state.source
        match action, state.stage:
            case (Copy(), Stage.COPYING):
                return "" if not self._is_copied(state) else "all is copied"
            case (Prepare(), Stage.COPYING):
                if not self._is_copied(state):
                    return "not all is copied"
                return "the target is full" if target in state.full and self.needs_room() else ""
            case (GiveUp(), Stage.COPYING | Stage.PREPARED) | (Leave(), Stage.PREPARED):
                return ""
            case (SyncLeft(), Stage.LEAVING) | (Adopt(), Stage.LEFT) | (SyncAdopted(), Stage.ADOPTING):
                return ""
        return "the move is not so far"

    def _is_settled(self, state: Disks) -> bool:
        """Whether no move is in its last steps; nothing else happens between these but failures."""
        return state.stage in (Stage.NONE, Stage.COPYING)

    def _is_told(self, state: Disks) -> bool:
        """Of a replica that was made: as in `Placement.is_told`."""
        return not state.made or state.known == state.hosted or bool(state.offline)

    def _acts(self, state: Disks) -> bool:
        """The rule of `Placement.may_act`, of a replica that is hosted, and so is listed."""
        return not (state.made and state.offline) or state.known == state.hosted

    def _is_copied(self, state: Disks) -> bool:
        own, future = (self._log(state, d, name) for d, name in ((state.source, As.OWN), (1 - state.source, As.FUTURE)))
        return own is not None and future is not None and own.records == future.records

    # --- effects -------------------------------------------------------------------------------------------------

    def _changed(self, state: Disks, action: Action) -> Disks:
        match action:
            case Append():
                assert state.hosted is not None
                return evolve(self._appended(state, state.hosted), acknowledged=state.acknowledged + 1)
            case WriteDown():
                offsets = [state.written[d] if d in state.full | state.offline else 0 for d in DIRECTORIES]
                assert state.hosted is not None
                offsets[state.hosted] = state.acknowledged
                return evolve(state, written=tuple(offsets), noted=max(state.noted, state.acknowledged))
            case Tell():
                return evolve(state, known=state.hosted)
            case Free(directory):
                return self._without(state, directory, As.LEFT)
            case Make(directory):
                return evolve(self._with(state, directory, NamedLog(As.OWN, state.life)), hosted=directory, made=True)
            case TakeAway():
                for directory in DIRECTORIES:
                    if directory not in state.offline:
                        for name in (As.OWN, As.FUTURE, As.LEFT):
                            state = self._without(state, directory, name)
                offsets = [state.written[d] if d in state.offline else 0 for d in DIRECTORIES]
                state = evolve(state, written=tuple(offsets), stage=Stage.NONE, listed=False, known=None)
                return evolve(state, hosted=None, is_lost=False, made=False)
            case Give():
                return evolve(state, listed=True, life=state.life + 1, acknowledged=0, noted=0)
            case Fail(directory):
                return self._failed(state, directory)
            case Fill(directory):
                return evolve(state, full=state.full | {directory})
            case MakeRoom(directory):
                return evolve(state, full=state.full - {directory})
        raise NotImplementedError(action)

    def _moved(self, state: Disks, action: Action) -> Disks:
        source, target = state.source, 1 - state.source
        own, future = self._log(state, source, As.OWN), self._log(state, target, As.FUTURE)
        match action:
            case Begin():
                assert state.hosted is not None
                begun = evolve(state, moves=state.moves + 1, source=state.hosted, stage=Stage.COPYING)
                return self._with(begun, 1 - begun.source, NamedLog(As.FUTURE, state.life, begun.moves))
            case Copy():
                assert own is not None
                assert future is not None
                copied = self._without(state, target, As.FUTURE, synced=False)
                return self._with(copied, target, evolve(future, records=own.records), synced=False)
            case Prepare():
                return evolve(self.prepared(state, target), stage=Stage.PREPARED)
            case GiveUp():
                return evolve(self._without(state, target, As.FUTURE, synced=False), stage=Stage.NONE)
            case Leave():
                return evolve(self._left(state, self.leaves_first()), stage=Stage.LEAVING)
            case SyncLeft():
                first = source if self.leaves_first() else target
                synced = self._synced(state, first) if self.syncs_before_the_target() else state
                return evolve(synced, stage=Stage.LEFT)
            case Adopt():
                return evolve(self._left(state, not self.leaves_first()), stage=Stage.ADOPTING)
            case SyncAdopted():
                both = self._synced(self._synced(state, source), target)
                noted = max(state.noted, state.written[target])
                return evolve(both, hosted=target, made=False, stage=Stage.NONE, noted=noted)
        raise NotImplementedError(action)

    def _left(self, state: Disks, is_source: bool) -> Disks:
        """One of the two renames."""
        source, target = state.source, 1 - state.source
        if is_source:
            own = self._log(state, source, As.OWN)
            assert own is not None
            left = evolve(own, name=As.LEFT, move=state.moves)
            return self._with(self._without(state, source, As.OWN, synced=False), source, left, synced=False)
        future = self._log(state, target, As.FUTURE)
        assert future is not None
        adopted = evolve(future, name=As.OWN, move=0)
        return self._with(self._without(state, target, As.FUTURE, synced=False), target, adopted, synced=False)

    def _failed(self, state: Disks, directory: int) -> Disks:
        """A move that has not left the source fails with either directory; then the replica is where it was."""
        state = evolve(state, offline=state.offline | {directory}, failures=state.failures + 1)
        target = 1 - state.source
        match state.stage:
            case Stage.NONE:
                has_lost = state.hosted == directory
            case Stage.COPYING | Stage.PREPARED | Stage.LEAVING:
                if state.stage is Stage.LEAVING:
                    return evolve(state, hosted=None, is_lost=True, stage=Stage.NONE)
                has_lost = directory == state.source
                if has_lost:
                    state = self._without(state, target, As.FUTURE, synced=False)
            case _:
                if directory != target:
                    return state
                has_lost = True
        if has_lost:
            return evolve(state, hosted=None, is_lost=True, stage=Stage.NONE)
        return evolve(state, stage=Stage.NONE)

    def _stopped(self, state: Disks, forgetful: frozenset[int]) -> Disks:
        names = tuple(state.stable[d] if d in forgetful else state.names[d] for d in DIRECTORIES)
        return evolve(
            state, names=names, stable=names, running=False, hosted=None, is_lost=False, made=False, stage=Stage.NONE
        )

    def _started(self, state: Disks, offline: frozenset[int]) -> Disks:
        """What a process makes of the names that it finds."""
        state = evolve(state, running=True, offline=offline, failures=state.failures + len(offline))
        state = self._adopted(state, offline)
        found = {d: own for d in DIRECTORIES if d not in offline and (own := self._log(state, d, As.OWN)) is not None}
        hosted = Placement().that_counts(state.known, {d: bool(own.records) for d, own in found.items()})
        hosted = hosted if state.listed else None
        for directory in found.keys() - {hosted}:
            state = self._without(state, directory, As.OWN)
        if hosted is not None and found[hosted].life != state.life:
            # Replication makes of the log of a former life what this one has: nothing yet.
            state = self._with(self._without(state, hosted, As.OWN), hosted, NamedLog(As.OWN, state.life))
        return evolve(state, hosted=hosted)

    def _adopted(self, state: Disks, offline: frozenset[int]) -> Disks:
        """Future logs are the replica's, or are dropped."""
        online = [d for d in DIRECTORIES if d not in offline]
        left = [log for d in online for log in state.names[d] if log.name is As.LEFT]
        for directory in online:
            for future in [log for log in state.names[directory] if log.name is As.FUTURE]:
                is_free = not is_named(state.names[directory], As.OWN)
                is_successor = is_free and any(self.is_successor(future, each) for each in left)
                if not is_successor and not self.may_drop(offline):
                    continue
                state = self._without(state, directory, As.FUTURE, synced=False)
                if is_successor:
                    state = self._with(state, directory, evolve(future, name=As.OWN, move=0))
        return state

    def _appended(self, state: Disks, directory: int) -> Disks:
        def more(names: Names) -> Names:
            return tuple(
                evolve(log, records=log.records + 1) if log.name is As.OWN and log.life == state.life else log
                for log in names
            )

        names, stable = (
            tuple(more(each) if d == directory else each for d, each in enumerate(all_names))
            for all_names in (state.names, state.stable)
        )
        return evolve(state, names=names, stable=stable)

    def _log(self, state: Disks, directory: int, name: As) -> NamedLog | None:
        return next((log for log in state.names[directory] if log.name is name), None)

    def _with(self, state: Disks, directory: int, log: NamedLog, *, synced: bool = True) -> Disks:
        return self._renamed(state, directory, tuple(sorted((*state.names[directory], log))), synced=synced)

    def _without(self, state: Disks, directory: int, name: As, *, synced: bool = True) -> Disks:
        kept = tuple(log for log in state.names[directory] if log.name is not name)
        return self._renamed(state, directory, kept, synced=synced)

    def _renamed(self, state: Disks, directory: int, names: Names, *, synced: bool) -> Disks:
        changed = tuple(names if d == directory else each for d, each in enumerate(state.names))
        state = evolve(state, names=changed)
        return self._synced(state, directory) if synced else state

    def _synced(self, state: Disks, directory: int) -> Disks:
        stable = tuple(state.names[d] if d == directory else each for d, each in enumerate(state.stable))
        return evolve(state, stable=stable)

    # --- the rules -----------------------------------------------------------------------------------------------

    def leaves_first(self) -> bool:
        """The source's name changes before the target's."""
        return True

    def syncs_before_the_target(self) -> bool:
        """The first of the two names is on stable storage before the second changes."""
        return True

    def may_append(self, state: Disks) -> bool:
        """Nothing is appended between the last look at the source and the end of the move."""
        return self._is_settled(state)

    def needs_room(self) -> bool:
        """A target that does not take the high watermark does not take the replica."""
        return True

    def prepared(self, state: Disks, target: int) -> Disks:
        """The future log is on stable storage, and its high watermark is written down beside it."""
        if target not in state.full:
            offsets = tuple(state.acknowledged if d == target else state.written[d] for d in DIRECTORIES)
            state = evolve(state, written=offsets)
        return self._synced(state, target)

    def is_successor(self, future: NamedLog, left: NamedLog) -> bool:
        """Whether a future log takes the place of one that was left."""
        return future.move == left.move

    def may_drop(self, offline: frozenset[int]) -> bool:
        """Whether a future log that succeeds nobody is of no use: what was left may be in an offline directory."""
        return not offline

    def may_make(self, state: Disks) -> bool:
        """Whether the replica may be made anew: it is in no directory that is offline."""
        if not state.offline:
            return True
        left = any(log.name is As.LEFT and log.life == state.life for names in state.names for log in names)
        return state.known not in state.offline and not left

    def may_free(self, state: Disks) -> bool:
        """Whether what was left is needed no more: the controller knows where the replica is."""
        return state.hosted is not None and state.known == state.hosted

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def invariants(self) -> Mapping[str, Invariant[Disks]]:
        return {"WhatWasAcknowledgedIsThere": acknowledged_is_there}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Disks]]:
        return {"HighWatermarkIsKept": high_watermark_is_kept, "OneLogCounts": one_log_counts}

    @property
    def converges(self) -> Mapping[str, Invariant[Disks]]:
        return {
            "the replica is in a directory that the controller knows": lambda state: (
                not state.listed or bool(state.offline) or (state.hosted is not None and state.known == state.hosted)
            ),
            "nothing is left of a move": lambda state: (
                bool(state.offline)
                or not state.listed
                or all(log.name is As.OWN for names in state.names for log in names)
            ),
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[Disks]]:
        return {
            "a replica has moved there and back": lambda state: state.hosted == 0 and is_named(state.names[1], As.LEFT),
            "a process dies between the two names": lambda state: (
                not state.running
                and not any(is_named(names, As.OWN) for names in state.names)
                and any(is_named(names, As.FUTURE) for names in state.names)
            ),
            "a replica is kept offline, since it may have moved": lambda state: (
                state.running and not self.may_make(state) and state.known not in state.offline
            ),
        }


def is_named(names: Names, name: As) -> bool:
    """Whether a directory has a log of that kind."""
    return any(log.name is name for log in names)


def acknowledged_is_there(state: Disks) -> bool:
    """The log that a process takes for the replica's has what was acknowledged in this life."""
    if state.hosted is None or not state.acknowledged or state.stage not in (Stage.NONE, Stage.COPYING, Stage.PREPARED):
        return True
    own = next((log for log in state.names[state.hosted] if log.name is As.OWN), None)
    return own is not None and own.records == state.acknowledged and own.life == state.life


def high_watermark_is_kept(before: Disks, action: Action, after: Disks) -> bool:
    """A process begins with a high watermark that is not lower than the last one that was written down."""
    if not isinstance(action, Start) or after.hosted is None:
        return True
    return after.written[after.hosted] >= before.noted


def one_log_counts(before: Disks, action: Action, after: Disks) -> bool:
    """A process that starts with all directories finds the replica if it was ever acknowledged to."""
    if not isinstance(action, Start) or action.without is not None or not before.listed or not before.acknowledged:
        return True
    return after.hosted is not None
