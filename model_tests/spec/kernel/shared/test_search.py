"""Several shares find what the plain engine finds: states, levels, tallies, verdicts and traces, at the same step."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.kernel.fast.random_machines import RandomMachine
from tidegauge.model_tests.spec.kernel.shared.in_one_process import crew_of, explore_by_shares
from tidegauge.model_tests.spec.kernel.test_leads_to import Counter, Shop, Shut, Unjust, drawn
from tidegauge.model_tests.spec.kernel.toys import Ceremony, DieHard, Empty, Fill, Jug, Table
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, Invariant, Machine
from tidegauge.spec.kernel.progress import Limits, Stop
from tidegauge.spec.kernel.shared.orbits import NamedOrbits
from tidegauge.spec.kernel.shared.search import LEAST, MOST, OrderError
from tidegauge.spec.kernel.shared.values import Values
from tidegauge.spec.kernel.symmetry import AsymmetryError
from tidegauge.spec.registry import REGISTRY

COUNTS = (1, 2, 3)
PARTS = (1, 3, MOST)
"""States of a part of a level, by the number of shares."""


def plainly(machine: Machine[Any], **how: Any) -> Exploration[Any]:
    """What the plain engine finds in one process."""
    return explore(machine, engine=Engine.PLAIN, **{"converges": True, **how})


def both(machine: Machine[Any], count: int, **how: Any) -> tuple[Exploration[Any], Exploration[Any]]:
    """What the plain engine finds, and what so many shares find."""
    most = how.pop("most", MOST)
    return plainly(machine, **how), explore_by_shares(machine, count, most=most, **how)


@pytest.mark.parametrize("most", PARTS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("machine", [DieHard(), Ceremony(), Shop(), Shut(), Unjust()], ids=lambda machine: machine.name)
def test_small_machines_are_explored_alike(machine: Machine[Any], stop: Stop, count: int, most: int) -> None:
    one, shared = both(machine, count, stop=stop, most=most)
    assert shared == one


LIMITS = [Limits(states=1), Limits(states=7), Limits(states=15), Limits(depth=1), Limits(depth=3)]


@pytest.mark.parametrize("most", PARTS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("limits", LIMITS)
def test_a_limit_cuts_at_the_same_state(limits: Limits, count: int, most: int) -> None:
    one, shared = both(DieHard(), count, limits=limits, stop=Stop.NEVER, most=most)
    assert shared == one
    assert one.cut is not None


@pytest.mark.parametrize("most", PARTS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("capacities", [(3, 3), (2, 2, 4), (5, 5, 5)])
def test_one_state_of_each_orbit_is_kept_and_it_is_the_same_one(
    capacities: tuple[int, ...], count: int, most: int
) -> None:
    one, shared = both(DieHard(capacities), count, symmetry=True, stop=Stop.NEVER, most=most)
    assert shared == one
    assert one.orbits is not None
    assert one.orbits > one.distinct


MODELS = ("kip320", "elections", "transactions-coordinator", "groups-leaving")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in MODELS else pytest.mark.deep) for name in REGISTRY.names]
)
def test_every_model_is_explored_alike(name: str) -> None:
    machine = REGISTRY.machine(name)
    for symmetry in (False, True) if machine.interchangeable > 1 else (False,):
        limits = Limits(states=amount(90, deep=20_000))
        one, shared = both(machine, 2, limits=limits, symmetry=symmetry)
        assert shared == one, f"{name}, symmetry={symmetry}, {limits}"


BUGS = [(registration.name, bug.name) for registration in REGISTRY for bug in registration.bugs]


@pytest.mark.deep
@pytest.mark.parametrize(("name", "bug"), BUGS)
def test_every_bug_is_found_by_the_same_trace(name: str, bug: str) -> None:
    one, shared = both(REGISTRY.bug(bug).machine(), 2, limits=Limits(states=20_000))
    assert shared == one, f"{name} --bug {bug}"


def test_random_machines_are_explored_alike() -> None:
    reached: set[str] = set()
    for seed in range(amount(36, deep=3000)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        limits = Limits(states=60) if seed % 4 else Limits(states=1 + seed % 90, depth=2 + seed % 7)
        most = (1, 2, 5, 16, MOST)[seed % 5]
        one, shared = both(RandomMachine(seed), 1 + seed % 3, stop=stop, limits=limits, most=most)
        assert shared == one, f"RandomMachine({seed}), {1 + seed % 3} shares, parts of {most}, {stop}, {limits}"
        reached |= {found.invariant for found in one.violations} | {str(one.cut)}
        reached |= {"lasso"} if one.convergence and one.convergence.lassos else set()
    assert reached >= {"step", "invariant 0", "invariant 1", "None", "Cut.STATES", "Cut.DEPTH", "lasso"}


def test_random_graphs_owe_alike() -> None:
    failed = 0
    for seed in range(amount(120, deep=3000)):
        one, shared = both(drawn(seed), 1 + seed % 3, most=(1, 2, MOST)[seed % 4 % 3])
        assert shared == one, f"seed {seed}"
        assert one.responses is not None
        failed += bool(one.responses.lassos)
    assert failed > 10


@attrs.frozen
class Counted(Shop):
    """Notes of which states its steps were asked."""

    asked: ClassVar[list[Counter]] = []

    def actions(self, state: Counter) -> Iterator[Action]:
        self.asked.append(state)
        return super().actions(state)


def test_what_is_always_served_is_not_asked_of_the_machine_again() -> None:
    """By the steps that shares have kept nothing can be owed for ever, so no state is expanded twice."""
    machine = Counted(clients=3)
    machine.asked.clear()
    found = explore_by_shares(machine, 2)
    assert found.responses is not None
    assert found.responses.holds
    assert found.distinct == len(machine.asked) == 8


@attrs.frozen
class Cracked(DieHard):
    """Rules raise where the first jug has one litre; `where` says which."""

    where: str = "actions"
    alarm: tuple[int, int] = (0, 0)
    """With so many litres something is violated."""

    def actions(self, state: Table) -> Iterator[Action]:
        for place, action in enumerate(super().actions(state)):
            assert self.where != "actions" or state.jugs[0].litres != 1 or not place, "cracked"
            yield action

    def is_fair(self, before: Table, action: Action, after: Table) -> bool:
        assert self.where != "is_fair" or after.jugs[0].litres != 1, "cracked"
        return super().is_fair(before, action, after)

    @property
    def converges(self) -> Mapping[str, Invariant[Table]]:
        return {"anything": lambda state: True}

    @property
    def invariants(self) -> Mapping[str, Invariant[Table]]:
        def whole(state: Table) -> bool:
            assert self.where != "invariants" or state.jugs[0].litres != 1, "cracked"
            return (state.jugs[0].litres, state.jugs[1].litres) != self.alarm

        return {"Whole": whole}


@pytest.mark.parametrize("most", PARTS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("where", ["actions", "is_fair", "invariants"])
@pytest.mark.parametrize("alarm", [(0, 3), (3, 3), (1, 5), (1, 0), (9, 9)])
def test_a_rule_that_raises_is_told_unless_a_violation_comes_first(
    where: str, alarm: tuple[int, int], count: int, most: int
) -> None:
    machine = Cracked(where=where, alarm=alarm)
    found: list[Exploration[Table] | str] = []
    notes: list[str] = []
    for workers in (0, count):
        try:
            found.append(explore_by_shares(machine, workers, most=most) if workers else plainly(machine))
        except AssertionError as error:
            found.append(str(error))
            notes.append(error.__notes__[-1])
    assert found[0] == found[1]
    assert len(set(notes)) <= 1
    assert not notes or "while Cracked took steps from the state after these actions: Fill(jug=0)" in notes[0]


@attrs.frozen
class Forgetful(DieHard):
    action_types: ClassVar[tuple[type[Action], ...]] = (Fill, Empty)


def test_an_action_that_was_not_declared_is_named() -> None:
    with pytest.raises(TypeError, match=r"Pour is not among Forgetful\.action_types"):
        explore_by_shares(Forgetful(), 2)


@attrs.frozen
class Favouring(DieHard):
    """Its goal tells the jugs apart."""

    capacities: tuple[int, ...] = (3, 3)

    @property
    def invariants(self) -> Mapping[str, Invariant[Table]]:
        return {}

    @property
    def converges(self) -> Mapping[str, Invariant[Table]]:
        return {"the first is empty": lambda state: not state.jugs[0].litres}


def test_a_goal_that_tells_processes_apart_is_refused_with_symmetry() -> None:
    with pytest.raises(AsymmetryError, match="the goal 'the first is empty' of Favouring tells"):
        explore_by_shares(Favouring(), 2, symmetry=True)


@attrs.frozen
class Fickle(DieHard):
    """One jug may be filled, and no more; which comes first is another one each time that it is asked."""

    asked: ClassVar[list[Table]] = []

    def actions(self, state: Table) -> Iterator[Action]:
        self.asked.append(state)
        order = (0, 1) if len(self.asked) % 2 else (1, 0)
        yield from (Fill(jug) for jug in order if not any(jug.litres for jug in state.jugs))

    def step(self, state: Table, action: Action) -> Table:
        assert isinstance(action, Fill)
        return Table(tuple(Jug(jug.capacity * (at == action.jug), jug.capacity) for at, jug in enumerate(state.jugs)))

    @property
    def invariants(self) -> Mapping[str, Invariant[Table]]:
        return {"SecondIsEmpty": lambda state: not state.jugs[1].litres}


def test_a_machine_without_an_order_of_its_steps_is_told_so() -> None:
    with pytest.raises(OrderError, match="Fickle gives the steps of equal states in different orders"):
        explore_by_shares(Fickle(), 1)


@attrs.frozen
class Waits(DieHard):
    """Whatever is done is somebody's choice: each state that was expanded is a bottom component of its own."""

    def is_fair(self, before: Table, action: Action, after: Table) -> bool:
        return False

    @property
    def converges(self) -> Mapping[str, Invariant[Table]]:
        return {"the first is empty": lambda state: not state.jugs[0].litres}


@pytest.mark.parametrize("most", PARTS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("limits", [*LIMITS, Limits(states=4), Limits(depth=7), Limits()])
def test_a_search_that_was_cut_checks_goals_in_the_states_that_were_expanded(
    limits: Limits, count: int, most: int
) -> None:
    one, shared = both(Waits(), count, limits=limits, stop=Stop.NEVER, most=most)
    assert shared == one


@attrs.frozen
class Add(Action):
    digit: int


@attrs.frozen
class Numerals(Machine[int]):
    """Twenty states follow each one, so that a level has nearly twenty times as many as all before it."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Add,)
    asked: ClassVar[list[int]] = []
    bad: int = -1

    def initial(self) -> Iterable[int]:
        yield 1

    def actions(self, state: int) -> Iterator[Action]:
        self.asked.append(state)
        yield from map(Add, range(20))

    def step(self, state: int, action: Action) -> int:
        assert isinstance(action, Add)
        return 20 * state + action.digit

    @property
    def invariants(self) -> Mapping[str, Invariant[int]]:
        return {"Good": lambda state: state != self.bad}


@pytest.mark.parametrize(
    ("machine", "limits"),
    [
        (Numerals(), Limits(states=9000)),
        (Numerals(), Limits(states=12_000)),
        (Numerals(bad=20**3), Limits()),
        (Numerals(bad=20**4 + 3), Limits()),
    ],
    ids=["a limit", "a larger limit", "a violation", "a violation in a large level"],
)
def test_little_is_expanded_behind_the_end_of_a_search(machine: Numerals, limits: Limits) -> None:
    """The last level has 8,000 states and leads to 160,000, of which next to none count."""
    machine.asked.clear()
    one = plainly(machine, limits=limits)
    alone = len(set(machine.asked))
    machine.asked.clear()
    shared = explore_by_shares(machine, 2, limits=limits, most=300)
    assert shared == one
    assert one.cut is not None
    assert alone <= len(set(machine.asked)) <= alone + 600
    if limits.states is not None:
        assert len(set(machine.asked)) <= alone + 2 * LEAST


def test_a_search_that_has_as_many_states_as_its_limit_comes_to_its_end() -> None:
    one, shared = both(DieHard(), 2, limits=Limits(states=16), stop=Stop.NEVER, most=1)
    assert shared == one
    assert (one.cut, one.distinct) == (None, 16)


def test_a_share_whose_time_is_up_expands_no_more() -> None:
    (share,) = crew_of(DieHard(), 1, converges=False).shares
    begun = share.begin()
    first = share.place(begun.parcels)
    share.number(array("q", [0]).tobytes(), ())
    share.watch = lambda expanded, taken: True
    assert (len(first), share.expand(8).expanded) == (8, 0)


@attrs.frozen
class Alike:
    """Two of them are equal, and so are their hashes with those of others."""

    number: int

    def __hash__(self) -> int:
        return self.number % 2


@attrs.frozen
class Pair:
    left: Alike
    right: Alike


@attrs.frozen
class Raise(Action):
    left: bool


@attrs.frozen
class Twins(Machine[Pair]):
    """Two counters, interchangeable, whose hashes say little."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Raise,)
    most: int = 4

    def initial(self) -> Iterable[Pair]:
        yield Pair(Alike(0), Alike(0))

    def actions(self, state: Pair) -> Iterator[Action]:
        yield from [Raise(True)] * (state.left.number < self.most)
        yield from [Raise(False)] * (state.right.number < self.most)

    def step(self, state: Pair, action: Action) -> Pair:
        assert isinstance(action, Raise)
        left, right = state.left.number + action.left, state.right.number + (not action.left)
        return Pair(Alike(left), Alike(right))

    @property
    def interchangeable(self) -> int:
        return 2

    def permute(self, state: Pair, permutation: tuple[int, ...]) -> Pair:
        return Pair(state.right, state.left) if permutation == (1, 0) else state


def test_an_orbit_has_the_same_name_in_whatever_order_values_were_met() -> None:
    pairs = [Pair(Alike(left), Alike(right)) for left in range(8) for right in range(8)]
    names = []
    for order in (pairs, pairs[::-1]):
        values = Values(pairs[0])
        orbits = NamedOrbits(Twins(), values)
        keys = {pair: values.key(pair) for pair in order}
        names.append([values.state(orbits.of(keys[pair], pair)[0]) for pair in pairs])
    assert names[0] == names[1]
    assert len(set(names[0])) == 36


@pytest.mark.parametrize("symmetry", [False, True])
def test_states_are_told_apart_though_their_hashes_are_equal(symmetry: bool) -> None:
    one, shared = both(Twins(), 3, symmetry=symmetry)
    assert shared == one
    assert one.distinct == (15 if symmetry else 25)


def test_the_trace_of_a_violation_is_told_as_by_one_process() -> None:
    one, shared = both(DieHard(), 3)
    assert [plain(action) for action in shared.violations[0].trace.actions] == [
        plain(action) for action in one.violations[0].trace.actions
    ]
    assert len(shared.violations[0].trace) == 7
