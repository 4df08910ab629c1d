"""What the explorer promises, on machines that can be counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import attrs
import pytest

from tidegauge.model_tests.spec.kernel.toys import Award, Badges, Ceremony, DieHard, Empty, Fill, Pour, Table
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.explaining import BECAUSE
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, Invariant
from tidegauge.spec.kernel.progress import Cut, Limits, Progress, Stop
from tidegauge.spec.kernel.traces import replay


def ticking() -> Callable[[], float]:
    """A clock on which a second passes at each look."""
    return map(float, count()).__next__


@attrs.frozen
class Goal(DieHard):
    """DieHard without its invariant: everything may happen."""

    @property
    def invariants(self) -> Mapping[str, Invariant[Table]]:
        return {}


def test_the_first_counterexample_is_a_shortest_one() -> None:
    found = explore(DieHard())
    (violation,) = found.violations
    assert violation.trace.actions == (Fill(1), Pour(1, 0), Empty(0), Pour(1, 0), Fill(1), Pour(1, 0))
    assert len(violation.trace) == found.depth == 7
    assert found.cut is Cut.VIOLATION
    assert not found.complete
    assert not found.holds


def test_a_counterexample_names_the_invariant_and_its_values_and_replays() -> None:
    (violation,) = explore(DieHard()).violations
    assert violation.invariant == "NotFour"
    assert violation.values == {BECAUSE: "jug.litres == 4", "jug.litres": 4, "litres": (3, 4)}
    again = replay(DieHard(), violation.trace.actions)
    assert again.trace == violation.trace
    assert again.violation == violation


def test_every_state_is_visited_once_and_every_step_counted() -> None:
    found = explore(DieHard(), stop=Stop.NEVER)
    # By hand: on the rim of the 4 × 6 grid of (first, second) litres, sixteen states.
    assert found.distinct == sum(found.levels) == 16
    assert found.levels == (1, 2, 3, 2, 2, 2, 2, 2)
    assert found.generated == sum(len(tuple(DieHard().actions(state))) for state in reachable(DieHard()))
    assert found.complete
    assert found.violation("NotFour") is not None
    assert found.violations[0].count == 2  # (3, 4) and (0, 4)


def reachable(machine: DieHard) -> set[Table]:
    """A search written as simply as can be, to compare with."""
    known: set[Table] = set()
    queue = list(machine.initial())
    while queue:
        state = queue.pop()
        if state not in known:
            known.add(state)
            queue += [machine.step(state, action) for action in machine.actions(state)]
    return known


def test_coverage_counts_states_steps_and_discoveries_for_each_kind() -> None:
    found = explore(DieHard(), stop=Stop.NEVER)
    rows = {row.action: row for row in found.coverage}
    states = reachable(DieHard())
    for kind in (Fill, Empty, Pour):
        steps = [sum(isinstance(action, kind) for action in DieHard().actions(state)) for state in states]
        assert rows[kind.__name__].taken == sum(steps)
        assert rows[kind.__name__].enabled == sum(map(bool, steps))
    assert rows["Fill"].enabled < rows["Fill"].taken
    assert sum(row.found for row in found.coverage) == found.distinct - 1
    assert sum(row.taken for row in found.coverage) == found.generated
    assert found.never_enabled == ("Smash",)


def test_goals_come_with_a_shortest_trace_or_are_reported() -> None:
    found = explore(DieHard(), stop=Stop.NEVER)
    assert found.reached["FirstFull"].actions == (Fill(0),)
    assert found.unreached == ("Six",)


def test_a_step_that_breaks_a_step_invariant_ends_the_trace() -> None:
    found = explore(Ceremony(), stop=Stop.NEVER)
    (violation,) = found.violations
    assert violation.invariant == "NoThirdInARow"
    assert violation.trace.actions == (Award("gold"), Award("silver"), Award("tin"))
    assert violation.count == 6 * 2 + 4  # a third for each of six pairs, or relaxing with one of four triples
    assert explore(Ceremony()).cut is Cut.VIOLATION


def test_a_step_to_a_known_state_is_checked_too() -> None:
    @attrs.frozen
    class Strict(Goal):
        @property
        def step_invariants(self) -> Mapping[str, Callable[[Table, Action, Table], bool]]:
            return {"NoWayBack": lambda before, action, after: after != next(iter(self.initial()))}

    (violation,) = explore(Strict()).violations
    assert violation.trace.actions == (Fill(0), Empty(0))


def test_stop_each_goes_on_until_every_invariant_is_violated() -> None:
    @attrs.frozen
    class Two(DieHard):
        @property
        def invariants(self) -> Mapping[str, Invariant[Table]]:
            return {"NotFive": lambda state: state.jugs[1].litres != 5, **super().invariants}

    found = explore(Two(), stop=Stop.EACH)
    assert [(violation.invariant, len(violation.trace)) for violation in found.violations] == [
        ("NotFive", 2),
        ("NotFour", 7),
    ]
    assert found.cut is Cut.VIOLATION
    assert [violation.invariant for violation in explore(Two()).violations] == ["NotFive"]


def test_an_initial_state_may_be_the_violation() -> None:
    @attrs.frozen
    class Born(Goal):
        def initial(self) -> Iterator[Table]:
            yield from super().initial()
            yield DieHard().step(next(iter(super().initial())), Fill(0))

        @property
        def invariants(self) -> Mapping[str, Invariant[Table]]:
            return {"Empty": lambda state: not state.jugs[0].litres}

    (violation,) = explore(Born()).violations
    assert len(violation.trace) == 1
    assert explore(Born(), stop=Stop.NEVER).levels[0] == 2


@pytest.mark.parametrize("states", [1, 5, 15])
def test_a_limit_on_states_is_kept_exactly(states: int) -> None:
    found = explore(Goal(), limits=Limits(states=states))
    assert (found.distinct, found.cut) == (states, Cut.STATES)


def test_a_limit_that_is_not_reached_cuts_nothing() -> None:
    found = explore(Goal(), limits=Limits(states=16, depth=9, seconds=1e9), clock=ticking())
    assert found.complete
    assert found.distinct == 16


def test_a_limit_on_depth_cuts_after_a_level() -> None:
    found = explore(Goal(), limits=Limits(depth=3))
    assert (found.levels, found.cut) == ((1, 2, 3), Cut.DEPTH)


def test_a_limit_on_seconds_is_told_by_the_clock_that_was_passed() -> None:
    found = explore(Goal(), limits=Limits(seconds=0.5), clock=ticking())
    assert found.cut is Cut.SECONDS
    assert found.distinct < 16
    assert found.seconds is not None
    assert found.rate == found.distinct / found.seconds


def test_without_a_clock_there_is_no_rate_and_no_limit_on_time() -> None:
    assert explore(Goal()).rate is None
    with pytest.raises(ValueError, match="needs a clock"):
        explore(Goal(), limits=Limits(seconds=1))


@pytest.mark.parametrize("limit", ["states", "depth", "seconds"])
def test_limits_that_leave_nothing_are_refused(limit: str) -> None:
    with pytest.raises(ValueError, match=f"{limit}=0 leaves nothing to search"):
        Limits(**{limit: 0})


def test_progress_tells_the_frontier_and_the_rate() -> None:
    seen: list[Progress] = []
    found = explore(Goal(), clock=ticking(), progress=seen.append)
    assert seen[0].distinct == seen[0].frontier == 1
    assert seen[-1].distinct == found.distinct
    assert seen[-1].generated == found.generated
    assert seen[-1].frontier == 0
    assert seen[-1].rate is not None


def test_progress_of_a_search_that_was_cut_tells_what_is_left() -> None:
    seen: list[Progress] = []
    found = explore(Goal(), limits=Limits(depth=3), progress=seen.append)
    assert seen[-1].frontier == found.levels[-1] == 3
    assert seen[-1].depth == 3


def test_terminal_states_are_counted() -> None:
    assert explore(Ceremony(("gold", "tin")), stop=Stop.NEVER).terminal == 1  # both held, and free


def test_an_action_that_was_not_declared_is_named() -> None:
    @attrs.frozen
    class Forgetful(Goal):
        action_types = (Fill, Empty)

    with pytest.raises(TypeError, match=r"Pour is not among Forgetful\.action_types"):
        explore(Forgetful())


def test_a_rule_that_raises_says_how_to_get_there() -> None:
    @attrs.frozen
    class Cracked(Goal):
        def actions(self, state: Table) -> Iterator[Action]:
            assert state.jugs[0].litres != 1, "cracked"
            yield from super().actions(state)

    with pytest.raises(AssertionError, match="cracked") as caught:
        explore(Cracked())
    (note,) = caught.value.__notes__
    actions: Iterable[Action] = (Fill(0), Pour(0, 1), Fill(0), Pour(0, 1))
    assert note.endswith(", ".join(map(plain, actions)))


def test_the_same_search_gives_the_same_result() -> None:
    assert explore(Ceremony(), stop=Stop.NEVER) == explore(Ceremony(), stop=Stop.NEVER)
    assert isinstance(explore(Ceremony()).violations[0].trace.last, Badges)


def test_what_is_no_machine_is_refused_in_words() -> None:
    machine: Any = "kip320"
    with pytest.raises(TypeError, match=r"explore takes a machine, not 'kip320': for example .*Replication"):
        explore(machine)
