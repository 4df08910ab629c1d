"""Under symmetry too the fast engine finds what the plain one finds: the same orbits, as large, by the same traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import attrs
import pytest

from tidegauge.model_tests.spec.kernel.fast.random_crowds import RandomCrowd
from tidegauge.model_tests.spec.kernel.fast.random_posts import RandomPost
from tidegauge.model_tests.spec.kernel.fast.test_search import both
from tidegauge.model_tests.spec.kernel.test_convergence import Lamps, NobodyRaises
from tidegauge.model_tests.spec.kernel.toys import DieHard
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import AsymmetryError, check_symmetry, explore
from tidegauge.spec.kernel.fast.layout import Layout, ShapeError
from tidegauge.spec.kernel.fast.renaming import Renaming
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled
from tidegauge.spec.kernel.progress import Limits, Stop
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.registry import REGISTRY

SYMMETRIC = [name for name in REGISTRY.names if REGISTRY.machine(name).interchangeable > 1]


def test_machines_of_each_kind_declare_their_symmetry() -> None:
    kinds = {type(REGISTRY.machine(name)).__name__ for name in SYMMETRIC}
    assert kinds == {"Kip320", "Kraft", "PullRaft", "PullRaft2", "Replication", "Transactions"}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_orbits_of_every_machine_are_the_same_at_the_beginning(name: str) -> None:
    plain, fast = both(REGISTRY.machine(name), symmetry=True, limits=Limits(states=60))
    assert fast == plain
    assert plain.orbits is not None
    assert plain.orbits > plain.distinct


@pytest.mark.deep
@pytest.mark.parametrize("name", SYMMETRIC)
def test_orbits_of_every_machine_are_the_same(name: str) -> None:
    plain, fast = both(REGISTRY.machine(name), symmetry=True, limits=Limits(states=30_000))
    assert fast == plain


BUGS = [
    bug.name
    for registration in REGISTRY
    for bug in registration.bugs
    if REGISTRY.bug(bug.name).machine().interchangeable > 1
]


@pytest.mark.deep
@pytest.mark.parametrize("bug", BUGS)
def test_every_bug_is_found_by_the_same_trace(bug: str) -> None:
    plain, fast = both(REGISTRY.bug(bug).machine(), symmetry=True, limits=Limits(states=30_000))
    assert fast == plain


SEEDS = [range(16), *(range(start, start + 400) for start in range(16, 2_016, 400))]


@pytest.mark.parametrize(
    "seeds", [pytest.param(seeds, marks=pytest.mark.deep if seeds.start else ()) for seeds in SEEDS]
)
def test_random_crowds_are_explored_alike(seeds: range) -> None:
    reached: set[str] = set()
    for seed in seeds:
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        limits = Limits(states=60) if seed % 4 else Limits(states=1 + seed % 90, depth=2 + seed % 7)
        plain, fast = both(RandomCrowd(seed), symmetry=True, stop=stop, limits=limits)
        assert fast == plain, f"RandomCrowd({seed}), {stop}, {limits}"
        reached |= {found.invariant for found in plain.violations} | {str(plain.cut)}
        reached |= {"large"} if (plain.orbits or 0) > 2 * plain.distinct > 60 else set()
        reached |= {"lasso"} if plain.convergence and plain.convergence.lassos else set()
    assert reached >= {"step", "invariant 0", "None", "Cut.STATES", "Cut.DEPTH", "large", "lasso"}


@pytest.mark.parametrize(
    "seeds", [range(30), *(pytest.param(range(start, start + 400), marks=pytest.mark.deep) for start in (30, 430))]
)
def test_random_machines_of_values_by_keys_are_explored_alike(seeds: range) -> None:
    reached: set[str] = set()
    for seed in seeds:
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        plain, fast = both(RandomPost(seed), symmetry=True, stop=stop, limits=Limits(states=200))
        assert fast == plain, f"RandomPost({seed}), {stop}"
        reached |= {found.invariant for found in plain.violations} | {str(plain.cut)}
        reached |= {"large"} if (plain.orbits or 0) > 1.5 * plain.distinct > 60 else set()
    assert reached >= {"step", "invariant", "None", "Cut.STATES", "large"}


@pytest.mark.parametrize("stop", Stop)
def test_a_violation_ends_the_search_at_the_same_step(stop: Stop) -> None:
    plain, fast = both(DieHard((3, 3, 5)), symmetry=True, stop=stop)
    assert (fast.distinct, fast.violations) == (plain.distinct, plain.violations)


def test_a_large_search_takes_the_fast_engine_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.spec.kernel.explorer.TRIAL", 1000)
    found = explore(Kip320(), symmetry=True)
    assert (found.engine, found.distinct, found.orbits) == (Engine.FAST, 6713, 39_619)


@attrs.frozen
class Favourite(NobodyRaises):
    @property
    def converges(self) -> Mapping[str, Invariant[Lamps]]:
        return {"the first lamp burns": lambda state: state.burning[0]}


@pytest.mark.parametrize("engine", Engine)
def test_a_goal_that_tells_processes_apart_is_refused(engine: Engine) -> None:
    with pytest.raises(AsymmetryError, match="'the first lamp burns' of Favourite tells interchangeable"):
        explore(Favourite(), converges=True, symmetry=True, engine=engine)


def test_the_orbits_hold_all_states() -> None:
    assert check_symmetry(REGISTRY.machine("shrink"), limits=Limits(depth=9)) > 500


# --- what renamings may do to words ----------------------------------------------------------------------------------


@attrs.frozen
class Number:
    """What `number` is depends on the flag: a process, or a count."""

    number: int
    is_process: bool
    marked: tuple[int, ...]


@attrs.frozen
class Change(Action):
    number: int
    is_process: bool


@attrs.frozen
class Numbers(Machine[Number]):
    """A renaming changes the number if the flag says that it is a process."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Change,)
    first: int

    def initial(self) -> Iterable[Number]:
        yield Number(self.first, False, (0, 0))

    def actions(self, state: Number) -> Iterator[Action]:
        yield from (Change(number, flag) for number in (-1, 0, 1) for flag in (False, True))

    def step(self, state: Number, action: Action) -> Number:
        if not isinstance(action, Change):
            raise NotEnabled(action, "numbers change, and nothing else")
        return evolve(state, number=action.number, is_process=action.is_process)

    @property
    def interchangeable(self) -> int:
        return 2

    def permute(self, state: Number, permutation: tuple[int, ...]) -> Number:
        if not state.is_process or state.number < 0:
            return state
        return evolve(state, number=permutation[state.number])


def test_words_that_hang_together_are_kept_as_one() -> None:
    plain, fast = both(Numbers(0), symmetry=True)
    assert fast == plain
    assert (plain.distinct, plain.orbits) == (5, 6)


def test_two_words_that_become_one_are_kept_as_one() -> None:
    machine = RandomCrowd(next(seed for seed in range(9) if RandomCrowd(seed).interchangeable == 2))
    layout = Layout([next(iter(machine.initial()))], {".processes[0].notes"})
    renaming = Renaming(machine, layout, ((1, 0),))
    one, other = (layout.places.index(f".processes[1].notes[{i}].value") for i in range(2))
    renaming.learn(one, layout.number(one, 1))
    with pytest.raises(ShapeError) as raised:
        renaming.learn(other, layout.number(other, 1))
    assert raised.value.place == ".processes[1].notes"


def test_a_word_that_turns_out_to_depend_on_another_one_ends_the_fast_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"cannot follow Numbers, .*: what its renamings make of a word depends on"):
        explore(Numbers(-1), symmetry=True, engine=Engine.FAST)
    monkeypatch.setattr("tidegauge.spec.kernel.explorer.TRIAL", 2)
    found = explore(Numbers(-1), symmetry=True)
    assert (found.engine, found.distinct, found.orbits) == (Engine.PLAIN, 5, 6)


@attrs.frozen
class Unnameable(Numbers):
    def permute(self, state: Number, permutation: tuple[int, ...]) -> Number:
        raise IndexError("no such process")


def test_a_machine_that_cannot_rename_is_told_of_by_the_plain_engine() -> None:
    layout = Layout([Number(0, False, ())])
    with pytest.raises(Exception, match="permute: IndexError: no such process"):
        Renaming(Unnameable(0), layout, ((1, 0),))
    with pytest.raises(IndexError, match="no such process"):
        explore(Unnameable(0), symmetry=True)


def test_what_the_fast_engine_cannot_do_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"cannot follow DieHard, .* 5040 renamings, more than 720"):
        explore(DieHard((1,) * 7), symmetry=True, limits=Limits(states=1), engine=Engine.FAST)
