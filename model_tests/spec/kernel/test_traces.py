"""Replay, minimising, and what a step changed."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from tidegauge.model_tests.spec.kernel.toys import (
    Award,
    Badges,
    Ceremony,
    DieHard,
    Empty,
    Fill,
    Jug,
    Mood,
    Pour,
    Relax,
    Table,
)
from tidegauge.spec.kernel.changes import ABSENT, Change, changes, plain
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Invariant
from tidegauge.spec.kernel.narrating import narrate
from tidegauge.spec.kernel.simulation import walks
from tidegauge.spec.kernel.traces import Step, Trace, minimise, replay
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip320.variants import ExpandWithoutHighWatermark

SOLUTION = (Fill(1), Pour(1, 0), Empty(0), Pour(1, 0), Fill(1), Pour(1, 0))


def test_replay_skips_what_is_not_enabled() -> None:
    again = replay(DieHard(), (Empty(0), Fill(1), Fill(1), Pour(1, 0)))
    assert again.trace.actions == (Fill(1), Pour(1, 0))
    assert again.skipped == (Empty(0), Fill(1))
    assert again.violation is None
    assert again.trace.last == Table((Jug(3, 3), Jug(2, 5)))


def test_replay_stops_at_the_violation() -> None:
    again = replay(DieHard(), (*SOLUTION, Fill(0)))
    assert again.trace.actions == SOLUTION
    assert again.violation is not None
    assert again.violation.invariant == "NotFour"


def test_replay_can_look_for_one_invariant_only() -> None:
    again = replay(DieHard(), (*SOLUTION, Empty(0)), invariant="Another")
    assert again.violation is None
    assert again.trace.actions == (*SOLUTION, Empty(0))


def test_replay_stops_at_a_broken_step() -> None:
    again = replay(Ceremony(), map(Award, ("tin", "gold", "brass", "silver")))
    assert again.violation is not None
    assert again.violation.invariant == "NoThirdInARow"
    assert len(again.trace) == 4


def test_replay_starts_where_it_is_told() -> None:
    start = Table((Jug(3, 3), Jug(0, 5)))
    assert replay(DieHard(), (Pour(0, 1),), initial=start).trace.states == (start, Table((Jug(0, 3), Jug(3, 5))))


def test_a_detour_is_cut_out() -> None:
    detour = (Fill(0), Empty(0), Fill(0), Pour(0, 1), Empty(1), *SOLUTION)
    long = replay(DieHard(), detour).violation
    assert long is not None
    assert len(long.trace) == len(detour) + 1
    assert minimise(DieHard(), long).trace.actions == SOLUTION


def test_minimising_keeps_to_the_invariant_and_to_the_initial_state() -> None:
    @attrs.frozen
    class Two(DieHard):
        @property
        def invariants(self) -> Mapping[str, Invariant[Table]]:
            return {"NotFive": lambda state: state.jugs[1].litres != 5, **super().invariants}

    start = Table((Jug(2, 3), Jug(0, 5)))
    long = replay(Two(), (Fill(0), Empty(0), *SOLUTION), initial=start, invariant="NotFour")
    assert long.violation is not None
    small = minimise(Two(), long.violation)
    assert small.invariant == "NotFour"
    assert small.trace.initial == start
    assert small.trace.actions == (Fill(1), Pour(1, 0))
    easy = replay(Two(), (Fill(0), Empty(0), Fill(1)), initial=start, invariant="NotFive").violation
    assert easy is not None
    assert minimise(Two(), easy).trace == Trace(start, (Step(Fill(1), Table((Jug(2, 3), Jug(5, 5)))),))


def test_no_action_of_a_minimised_trace_can_be_dropped() -> None:
    machine = ExpandWithoutHighWatermark()
    shortest = len(explore(machine).violations[0].trace)
    found = [walk.violation for walk in walks(machine, seed=3, count=200, length=80) if walk.violation is not None]
    assert len(found) >= 5
    for violation in found[:5]:
        small = minimise(machine, violation)
        assert small.invariant == violation.invariant
        assert shortest <= len(small.trace) <= len(violation.trace)
        actions = small.trace.actions
        for index in range(len(actions)):
            rest = actions[:index] + actions[index + 1 :]
            assert replay(machine, rest, invariant=violation.invariant).violation is None


def test_what_does_not_fail_can_not_be_minimised() -> None:
    (violation,) = explore(ExpandWithoutHighWatermark()).violations
    with pytest.raises(ValueError, match="does not violate WeakIsr on Kip320"):
        minimise(Kip320(), violation)


def test_a_trace_knows_its_states_and_transitions() -> None:
    trace = replay(DieHard(), SOLUTION[:2]).trace
    assert len(trace) == len(trace.states) == 3
    assert [before for before, _, _ in trace.transitions()] == list(trace.states[:-1])
    assert [after for _, _, after in trace.transitions()] == list(trace.states[1:])
    assert Trace(trace.initial).last == trace.initial


def test_changes_are_the_innermost_differences() -> None:
    before, after = replay(DieHard(), (Fill(0), Pour(0, 1))).trace.states[1:]
    assert list(changes(before, after)) == [Change("jugs[0].litres", 3, 0), Change("jugs[1].litres", 0, 3)]
    assert list(changes(before, before)) == []


def test_changes_show_what_was_added_and_taken_away() -> None:
    one, two = Table((Jug(1, 3),)), Table((Jug(1, 3), Jug(2, 5)))
    assert list(changes(one, two)) == [Change("jugs[1]", ABSENT, Jug(2, 5))]
    assert str(next(changes(two, one))) == "jugs[1]: Jug(litres=2, capacity=5) → –"


def test_sets_enums_and_none_are_written_plainly() -> None:
    before = Badges(frozenset({"tin", "gold"}), Mood.FREE, None)
    after = Badges(frozenset({"gold", "silver", "tin"}), Mood.BUSY, 2)
    assert list(map(str, changes(before, after))) == [
        "held: {gold, tin} → {gold, silver, tin}",
        "mood: FREE → BUSY",
        "lead: None → 2",
    ]
    assert plain((frozenset({(2, "b"), (1, "a")}), Relax())) == "[{[1, a], [2, b]}, Relax(mood=FREE)]"


def test_fields_at_their_defaults_are_left_out_of_values_but_not_of_actions() -> None:
    @attrs.frozen
    class Seat:
        number: int
        taken: bool = False
        badges: tuple[str, ...] = ()

    assert plain((Seat(1), Seat(2, taken=True))) == "[Seat(number=1), Seat(number=2, taken=True)]"
    assert plain(Relax()) == "Relax(mood=FREE)"
    assert plain(frozenset({1, "a", None})) == "{1, None, a}"


def test_a_trace_can_be_told() -> None:
    assert list(narrate(replay(DieHard(), (Fill(0), Pour(0, 1))).trace)) == [
        "0. initial state",
        "     jugs: [Jug(litres=0, capacity=3), Jug(litres=0, capacity=5)]",
        "1. Fill(jug=0)",
        "     jugs[0].litres: 0 → 3",
        "2. Pour(source=0, target=1)",
        "     jugs[0].litres: 3 → 0",
        "     jugs[1].litres: 0 → 3",
    ]
