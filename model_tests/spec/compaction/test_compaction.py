"""Compaction as a machine: explored, and broken on purpose, one rule at a time."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.compaction.machine import (
    DELETED,
    Append,
    BeginRound,
    CleanGroup,
    Compaction,
    EndRound,
    Read,
    Record,
    RemoveOld,
    Roll,
    Round,
    Segment,
    State,
    Tick,
)
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, NotEnabled

QUICK = (
    Compaction(max_records=2, max_time=1, reads=False),
    Compaction(max_records=3, keys=1, max_time=1, reads=False),
    Compaction(max_records=2, keys=1, max_time=1),
)
COUNTS = ((4_262, 8_766), (10_659, 22_868), (4_447, 14_282))
"""States and steps of each."""
DEEP = (
    Compaction(max_records=3, max_time=2, reads=False),
    Compaction(max_records=4, keys=1, max_time=2, reads=False),
    Compaction(max_records=2, max_time=2),
    Compaction(max_records=3, keys=1, max_time=2),
)


@pytest.mark.parametrize(("machine", "counts"), tuple(zip(QUICK, COUNTS, strict=True)))
def test_no_value_is_lost_and_none_comes_back(machine: Compaction, counts: tuple[int, int]) -> None:
    exploration = explore(machine, converges=True)
    assert exploration.complete
    assert counted(exploration) == counts
    assert exploration.holds, exploration.violations[0]


@pytest.mark.deep
@pytest.mark.parametrize("machine", DEEP)
def test_no_value_is_lost_in_larger_logs(machine: Compaction) -> None:
    exploration = explore(machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations[0]


def test_everything_that_should_happen_does() -> None:
    assert not explore(Compaction(max_records=2, keys=1, max_time=2)).unreached


@attrs.frozen
class RoundsDoNotEnd(Compaction):
    """A round that has gone over everything stays."""

    def guard(self, state: State, action: Action) -> str:
        return "not yet" if isinstance(action, EndRound) else super().guard(state, action)


@attrs.frozen
class ReaderStops(Compaction):
    """A reader does not get beyond a record that was taken out."""

    def guard(self, state: State, action: Action) -> str:
        gap = isinstance(action, Read) and all(one.offset != state.position for one in self.visible(state))
        return "nothing is at this offset" if gap else super().guard(state, action)


@pytest.mark.parametrize(
    ("machine", "goal"),
    [
        (RoundsDoNotEnd(max_records=2, keys=1, max_time=1, reads=False), "what is closed gets clean"),
        (ReaderStops(max_records=2, keys=1, max_time=1), "a reader that has begun gets to the end"),
    ],
    ids=["RoundsDoNotEnd", "ReaderStops"],
)
def test_a_cleaner_or_a_reader_that_stands_still_is_found(machine: Compaction, goal: str) -> None:
    found = explore(machine, converges=True)
    assert not found.violations
    assert found.convergence is not None
    assert [lasso.goal for lasso in found.convergence.lassos] == [goal]


@attrs.frozen
class TombstonesGoAtOnce(Compaction):
    def keeps(self, state: State, round_: Round, record: Record) -> bool:
        return super().keeps(state, round_, record) and record.value != DELETED


@attrs.frozen
class WhatLiesBeyondTheMapGoesAsWell(Compaction):
    def keeps(self, state: State, round_: Round, record: Record) -> bool:
        return record.key in dict(round_.offsets) and super().keeps(state, round_, attrs.evolve(record, offset=0))


@attrs.frozen
class TheOlderValueStays(Compaction):
    def keeps(self, state: State, round_: Round, record: Record) -> bool:
        return record.offset >= round_.end or record.offset <= dict(round_.offsets).get(record.key, record.offset)


@attrs.frozen
class ARecoveryForgetsTheLastOfTheGroup(Compaction):
    """It takes the end of the last record that is left for the end of the group, and the youngest went first."""

    def replaces(self, swap: Segment, segment: Segment) -> bool:
        end = swap.records[-1].offset + 1 if swap.records else swap.base + 1
        return swap.base <= segment.base < end

    def next_to_remove(self, replaced: tuple[Segment, ...]) -> Segment:
        return replaced[-1]


@attrs.frozen
class TombstonesBeyondTheMapGetTheirTime(Compaction):
    """As in Apache Kafka: the time runs before the older values are gone, and a reader may meet those alone."""

    def meets(self, round_: Round, record: Record) -> bool:
        return True


@pytest.mark.parametrize(
    ("machine", "invariant"),
    [
        (TombstonesGoAtOnce(max_records=2, keys=1), "PromptReader"),
        (WhatLiesBeyondTheMapGoesAsWell(max_records=3, reads=False), "NewestValues"),
        (TombstonesBeyondTheMapGetTheirTime(max_records=3, max_time=1, max_crashes=0), "PromptReader"),
        (TheOlderValueStays(max_records=3, keys=1, reads=False), "CleanPart"),
        (ARecoveryForgetsTheLastOfTheGroup(max_records=3, keys=1, reads=False), "CleanPart"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Compaction) else value,
)
def test_each_rule_is_needed(machine: Compaction, invariant: str) -> None:
    exploration = explore(machine)
    assert exploration.violations, "nothing is violated"
    assert exploration.violations[0].invariant == invariant


def test_a_round_that_has_not_begun_does_not_end() -> None:
    machine = Compaction()
    (state,) = machine.initial()
    with pytest.raises(NotEnabled, match=r"EndRound\(\) is not enabled: the round is not over"):
        machine.step(state, EndRound())


def test_the_time_of_a_tombstone_begins_with_the_first_round_that_meets_it_and_with_no_later_one() -> None:
    machine = Compaction(retention=3, max_time=2)
    (state,) = machine.initial()
    once: tuple[Action, ...] = (BeginRound(keys=1), CleanGroup(segments=1), RemoveOld(), EndRound())
    for action in (Append(0, tombstone=True), Roll(), *once, Tick(), Append(0, tombstone=True), Roll()):
        state = machine.step(state, action)
    first, _ = state.records
    assert first.horizon == 3
    state = machine.step(state, BeginRound(keys=1))
    assert state.round is not None
    unmapped = attrs.evolve(state, round=attrs.evolve(state.round, offsets=()))
    state = machine.step(unmapped, CleanGroup(segments=2))
    assert state.round is not None
    assert state.round.swap is not None
    assert [one.horizon for one in state.round.swap.records] == [3, 4]
