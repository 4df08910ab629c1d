"""The machine of moves keeps its invariants, and each of its rules is needed."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.kernel.explorer import Stop as StopExploring
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.membership.moves import Moves
from tidegauge.spec.membership.moving import (
    Adopt,
    Append,
    Begin,
    Copy,
    Disks,
    Free,
    Leave,
    NamedLog,
    Prepare,
    Start,
    Stop,
    SyncAdopted,
    SyncLeft,
    Tell,
)

MOVE = (Begin(), Copy(), Prepare(), Leave(), SyncLeft(), Adopt(), SyncAdopted())


def test_the_machine_keeps_its_invariants() -> None:
    found = explore(Moves(), stop=StopExploring.NEVER, converges=True)
    assert found.holds
    assert found.complete
    assert counted(found) == (45_376, 176_344)
    assert not found.unreached
    assert not found.never_enabled


@pytest.mark.deep
@pytest.mark.parametrize(
    ("machine", "count"), [(Moves(failures=1, records=2), (158_720, 638_138)), (Moves(failures=2), (116_696, 447_602))]
)
def test_it_keeps_them_with_more_records_and_failures(machine: Moves, count: tuple[int, int]) -> None:
    found = explore(machine, stop=StopExploring.NEVER, converges=True)
    assert found.holds
    assert counted(found) == count


@attrs.frozen
class AdoptsFirst(Moves):
    """The target's log gets the replica's name before the source's has lost it."""

    def leaves_first(self) -> bool:
        return False


@attrs.frozen
class SyncsAtTheEnd(Moves):
    """Both names are brought to stable storage when both have changed."""

    def syncs_before_the_target(self) -> bool:
        return False


@attrs.frozen
class AppendsOn(Moves):
    """Records are appended until the move is complete."""

    def may_append(self, state: Disks) -> bool:
        return True


@attrs.frozen
class NeedsNoRoom(Moves):
    """A target that cannot take the high watermark takes the replica."""

    def needs_room(self) -> bool:
        return False


@attrs.frozen
class WritesNoHighWatermark(Moves):
    """The high watermark is written down when the move is over."""

    def prepared(self, state: Disks, target: int) -> Disks:
        return self._synced(state, target)


@attrs.frozen
class FlushesNothing(Moves):
    """The future log is not flushed before the source is left."""

    def prepared(self, state: Disks, target: int) -> Disks:
        return attrs.evolve(super().prepared(state, target), stable=state.stable)


@attrs.frozen
class DropsAllFutures(Moves):
    """A start removes future logs, as if the replica always were where it came from."""

    def is_successor(self, future: NamedLog, left: NamedLog) -> bool:
        return False


@attrs.frozen
class AnyFutureSucceeds(Moves):
    """A start does not look at which move a future log is of."""

    def is_successor(self, future: NamedLog, left: NamedLog) -> bool:
        return True


@attrs.frozen
class DropsBesideTheOffline(Moves):
    """A future log without its like is dropped, though what was left may be in a directory that is offline."""

    def may_drop(self, offline: frozenset[int]) -> bool:
        return True


@attrs.frozen
class MakesBesideWhatWasLeft(Moves):
    """What was left is not looked at when a replica is made anew."""

    def may_make(self, state: Disks) -> bool:
        return state.known not in state.offline


@attrs.frozen
class FreesAtOnce(Moves):
    """What was left is removed before the controller knows the new directory."""

    def may_free(self, state: Disks) -> bool:
        return state.hosted is not None


ACKNOWLEDGED, HIGH_WATERMARK, ONE_COUNTS = "WhatWasAcknowledgedIsThere", "HighWatermarkIsKept", "OneLogCounts"


@pytest.mark.parametrize(
    ("machine", "violated"),
    [
        (AdoptsFirst(fills=False, lives=1), ACKNOWLEDGED),
        (SyncsAtTheEnd(fills=False, lives=1), ACKNOWLEDGED),
        (AppendsOn(fills=False, lives=1), ACKNOWLEDGED),
        (NeedsNoRoom(lives=1), HIGH_WATERMARK),
        (WritesNoHighWatermark(fills=False, lives=1), HIGH_WATERMARK),
        (FlushesNothing(fills=False, lives=1), ACKNOWLEDGED),
        (DropsAllFutures(fills=False, lives=1), ONE_COUNTS),
        (AnyFutureSucceeds(fills=False, lives=1), ACKNOWLEDGED),
        (DropsBesideTheOffline(fills=False, lives=1), ONE_COUNTS),
        (MakesBesideWhatWasLeft(fills=False, lives=1), ACKNOWLEDGED),
        (FreesAtOnce(fills=False, lives=1), ACKNOWLEDGED),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_rule_that_is_wrong_is_found(machine: Moves, violated: str) -> None:
    found = explore(machine, stop=StopExploring.FIRST)
    assert [violation.invariant for violation in found.violations] == [violated]


@attrs.frozen
class NeverFrees(Moves):
    """What was left is never removed."""

    def guard(self, state: Disks, action: Action) -> str:
        return "it is kept" if isinstance(action, Free) else super().guard(state, action)


def test_what_is_never_removed_is_found() -> None:
    found = explore(NeverFrees(max_moves=1, failures=0, fills=False), converges=True)
    assert found.convergence is not None
    assert [lasso.goal for lasso in found.convergence.lassos] == ["nothing is left of a move"]


@pytest.mark.parametrize("steps", range(len(MOVE) + 1))
def test_after_each_step_a_process_finds_the_replica(steps: int) -> None:
    machine = Moves()
    (state,) = machine.initial()
    for action in (Append(), *MOVE[:steps], Stop(), Start()):
        state = machine.step(state, action)
    adopted = steps > MOVE.index(Leave())
    assert (state.hosted, state.written[1]) == (int(adopted), int(steps > MOVE.index(Prepare())))
    assert [len(names) for names in state.names] == [1, int(adopted)]


def test_what_was_left_is_kept_until_the_controller_is_told() -> None:
    machine = Moves()
    (state,) = machine.initial()
    for action in (Append(), *MOVE):
        state = machine.step(state, action)
    with pytest.raises(NotEnabled, match="it is kept"):
        machine.step(state, Free(0))
    assert machine.step(machine.step(state, Tell()), Free(0)).names[0] == ()
