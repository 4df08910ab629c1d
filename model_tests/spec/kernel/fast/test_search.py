"""The fast engine finds what the plain one finds: states, levels, tallies, verdicts and traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, ClassVar

import attrs
import pytest

from tidegauge.model_tests.spec.kernel.fast.random_machines import RandomMachine
from tidegauge.model_tests.spec.kernel.fast.random_posts import RandomPost
from tidegauge.model_tests.spec.kernel.fast.random_shops import RandomShop
from tidegauge.model_tests.spec.kernel.toys import Ceremony, DieHard
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import SAMPLES, TRIAL, Exploration, explore
from tidegauge.spec.kernel.fast.layout import Layout
from tidegauge.spec.kernel.fast.search import FastSearch
from tidegauge.spec.kernel.machine import Action, Invariant, Machine
from tidegauge.spec.kernel.piecemeal import IN_PARTS
from tidegauge.spec.kernel.progress import Cut, Limits, Progress, Stop
from tidegauge.spec.registry import REGISTRY


def both(machine: Machine[Any], **how: Any) -> tuple[Exploration[Any], Exploration[Any]]:
    """What the plain and the fast engine find; but for the engine it must be the same."""
    how.setdefault("converges", True)
    return (
        explore(machine, engine=Engine.PLAIN, **how),
        evolve(explore(machine, engine=Engine.FAST, **how), engine=Engine.PLAIN),
    )


@pytest.mark.parametrize("name", [registration.name for registration in REGISTRY])
def test_every_machine_is_explored_alike_at_its_beginning(name: str) -> None:
    plain, fast = both(REGISTRY.machine(name), limits=Limits(states=250))
    assert fast == plain


@pytest.mark.deep
@pytest.mark.parametrize("name", REGISTRY.names)
def test_every_model_is_explored_alike(name: str) -> None:
    plain, fast = both(REGISTRY.machine(name), limits=Limits(states=30_000))
    assert fast == plain


BUGS = [(registration.name, bug.name) for registration in REGISTRY for bug in registration.bugs]
ALWAYS = ("kafka_13916", "Kip279", "kafka_5494", "swaps_at_once", "kafka_18464", "kafka_20442")


@pytest.mark.parametrize(
    ("name", "bug"),
    [pytest.param(*case, marks=() if case[1] in ALWAYS else pytest.mark.deep) for case in BUGS],
)
def test_every_bug_is_found_by_the_same_trace(name: str, bug: str) -> None:
    plain, fast = both(REGISTRY.bug(bug).machine(), limits=Limits(states=30_000))
    assert fast == plain


SEEDS = [range(80), *(range(start, start + 500) for start in range(80, 10_080, 500))]


@pytest.mark.parametrize(
    "seeds", [pytest.param(seeds, marks=pytest.mark.deep if seeds.start else ()) for seeds in SEEDS]
)
def test_random_machines_are_explored_alike(seeds: range) -> None:
    reached: set[str] = set()
    for seed in seeds:
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        limits = Limits(states=400) if seed % 4 else Limits(states=1 + seed % 90, depth=2 + seed % 7)
        plain, fast = both(RandomMachine(seed), stop=stop, limits=limits)
        assert fast == plain, f"RandomMachine({seed}), {stop}, {limits}"
        reached |= {found.invariant for found in plain.violations} | {str(plain.cut)}
        reached |= {"large"} if plain.distinct > 100 else set()
        reached |= {"lasso"} if plain.convergence and plain.convergence.lassos else set()
        reached |= {f"owed for ever: {not plain.responses.holds}"} if plain.convergence and plain.responses else set()
    assert reached >= {"step", "invariant 0", "invariant 1", "None", "Cut.STATES", "Cut.DEPTH", "large", "lasso"}
    assert reached >= {"owed for ever: True", "owed for ever: False"}


@pytest.mark.parametrize(
    "seeds", [pytest.param(seeds, marks=pytest.mark.deep if seeds.start else ()) for seeds in SEEDS[:5]]
)
def test_random_machines_of_states_in_parts_are_explored_alike(seeds: range) -> None:
    reached: set[str] = set()
    for seed in seeds:
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        plain, fast = both(RandomShop(seed), stop=stop, limits=Limits(states=600))
        assert fast == plain, f"RandomShop({seed}), {stop}"
        reached |= {found.invariant for found in plain.violations} | {str(plain.cut)}
        reached |= {"large"} if plain.distinct > 100 else set()
        reached |= {"lasso"} if plain.convergence and plain.convergence.lassos else set()
    assert reached >= {"step", "each step", "all", "each", "None", "Cut.STATES", "large", "lasso"}


@pytest.mark.parametrize(
    "seeds", [range(60), *(pytest.param(range(start, start + 500), marks=pytest.mark.deep) for start in (60, 560))]
)
def test_random_machines_of_values_by_keys_are_explored_alike(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, run, layouts = set[str](), FastSearch.run, list[Layout]()

    def kept(search: FastSearch[Any]) -> Exploration[Any]:
        layouts.append(search.layout)
        return run(search)

    monkeypatch.setattr(FastSearch, "run", kept)
    for seed in seeds:
        layouts.clear()
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        plain, fast = both(RandomPost(seed), stop=stop, limits=Limits(states=400))
        assert fast == plain, f"RandomPost({seed}), {stop}"
        reached |= {found.invariant for found in plain.violations} | {str(plain.cut)}
        reached |= {"large"} if plain.distinct > 100 else set()
        reached |= {"keys"} if len(layouts[-1].keys) > 20 else set()
        reached |= {"one word"} if len(layouts) > 1 else set()
        reached |= {"lasso"} if plain.convergence and plain.convergence.lassos else set()
    assert reached >= {"step", "invariant", "None", "Cut.STATES", "large", "keys", "one word", "lasso"}


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("machine", [DieHard(), Ceremony()], ids=lambda machine: str(machine.name))
def test_a_violation_ends_the_search_at_the_same_step(machine: Machine[Any], stop: Stop) -> None:
    plain, fast = both(machine, stop=stop)
    assert fast == plain
    assert plain.violations


@pytest.mark.parametrize("limits", [Limits(states=1), Limits(states=7), Limits(depth=1), Limits(depth=3)])
def test_a_limit_cuts_at_the_same_state(limits: Limits) -> None:
    plain, fast = both(DieHard(), limits=limits, stop=Stop.NEVER)
    assert fast == plain
    assert plain.cut is not None


def test_a_limit_on_seconds_is_kept_and_progress_is_told() -> None:
    told: list[Progress] = []
    ticks = map(float, count()).__next__
    found = explore(
        REGISTRY.machine("kip320"), limits=Limits(seconds=6), clock=ticks, progress=told.append, engine=Engine.FAST
    )
    assert found.cut is Cut.SECONDS
    assert [at.distinct for at in told] == sorted(at.distinct for at in told)
    assert told[-1].distinct == found.distinct < 39_619
    assert told[-1].generated == found.generated


def test_a_large_search_takes_the_fast_engine_by_itself() -> None:
    machine = REGISTRY.machine("kip320")
    found = explore(machine)
    assert (found.engine, found.distinct) == (Engine.FAST, 39_619)
    assert explore(machine, limits=Limits(states=TRIAL)).engine is Engine.PLAIN
    assert explore(DieHard(), stop=Stop.NEVER).engine is Engine.PLAIN
    assert explore(machine, limits=Limits(depth=3)).engine is Engine.PLAIN


def test_a_caller_who_has_loaded_compiled_code_asks_for_a_shorter_trial() -> None:
    controller = REGISTRY.model("controller").machine
    plain, fast = explore(controller), explore(controller, trial=SAMPLES)
    assert (plain.engine, fast.engine) == (Engine.PLAIN, Engine.FAST)
    assert SAMPLES < plain.distinct == fast.distinct < TRIAL


@attrs.frozen
class Count:
    number: int
    shape: Any = None


@attrs.frozen
class More(Action):
    by: int


@attrs.frozen
class Counting(Machine[Count]):
    """Counts up to `most`."""

    action_types: ClassVar[tuple[type[Action], ...]] = (More,)
    most: int

    def initial(self) -> Iterable[Count]:
        yield Count(0)

    def actions(self, state: Count) -> Iterator[Action]:
        yield from (More(by) for by in (1, 2) if state.number + by <= self.most)

    def step(self, state: Count, action: Action) -> Count:
        assert isinstance(action, More)
        return self.counted(state, state.number + action.by)

    def counted(self, state: Count, number: int) -> Count:
        return evolve(state, number=number)


@attrs.frozen
class Shapes(Counting):
    """The shape of its states changes once it has counted far."""

    def counted(self, state: Count, number: int) -> Count:
        shape = (Count(number), *[Count(1)] * (number > 1200)) if number > 1100 else None
        return Count(number, shape)


@attrs.frozen
class Mistaken(Counting):
    """A rule raises, far from the initial state."""

    def counted(self, state: Count, number: int) -> Count:
        return Count(number // (number != 1100))


def test_a_word_may_have_very_many_values() -> None:
    plain, fast = both(Counting(20_000))
    assert fast == plain
    assert plain.distinct == 20_001


def test_a_state_of_another_shape_than_those_before_is_taken_as_a_whole() -> None:
    plain, fast = both(Shapes(1500))
    assert fast == plain


@attrs.frozen
class Batch:
    number: int
    parts: tuple[Count, ...] = attrs.field(default=(), metadata=IN_PARTS)


@attrs.frozen
class Ledger:
    number: int = 0
    waiting: tuple[Batch, ...] = attrs.field(default=(Batch(0, (Count(0),)),), metadata=IN_PARTS)
    written: Batch = Batch(0)


@attrs.frozen
class Writing(Machine[Ledger]):
    """Batches wait and are written in their order; the further it has counted, the more wait, of more parts."""

    action_types: ClassVar[tuple[type[Action], ...]] = (More,)

    def initial(self) -> Iterable[Ledger]:
        yield Ledger()

    def actions(self, state: Ledger) -> Iterator[Action]:
        yield from (More(by) for by in (1, 2, 3) if (state.number < 1200 if by == 1 else state.waiting))

    def step(self, state: Ledger, action: Action) -> Ledger:
        assert isinstance(action, More)
        if action.by == 1:
            number, kept = state.number + 1, 1 + state.number // 400
            parts = tuple(Count(number % 3, part) for part in range(kept))
            more = (Batch(number % 2, parts),) if number % 100 == 0 else ()
            return evolve(state, number=number, waiting=(*state.waiting, *more)[-kept:])
        return evolve(state, written=state.waiting[0], waiting=state.waiting[1:] if action.by == 2 else ())

    @property
    def sometimes(self) -> Mapping[str, Invariant[Ledger]]:
        return {"the last": lambda state: state.number == 1200 and not state.waiting}


def test_longer_tuples_do_not_make_the_search_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[FastSearch[Any]] = []
    begin = FastSearch.begin

    def noted(search: FastSearch[Any]) -> None:
        begun.append(search)
        begin(search)

    monkeypatch.setattr(FastSearch, "begin", noted)
    plain, fast = both(Writing())
    assert fast == plain
    assert plain.distinct > TRIAL
    (search,) = begun
    assert len([place for place in search.layout.places if ".parts[2]" in place]) > 0


def test_what_only_moves_is_asked_of_once_for_each_length(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    step = Writing.step

    def noted(machine: Writing, state: Ledger, action: Action) -> Ledger:
        if isinstance(action, More) and action.by == 2:
            asked.append(len(state.waiting))
        return step(machine, state, action)

    monkeypatch.setattr(Writing, "step", noted)
    search = FastSearch(Writing(), Limits(), Stop.FIRST, None, None, layout=Layout([Ledger()]))
    assert search.run().distinct > TRIAL
    assert sorted(set(asked)) == [1, 2, 3]
    assert len(asked) <= 3 + 3, "one is asked again where a tuple turns out to be longer"


def test_a_mistake_in_a_rule_is_told_by_the_plain_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"the fast engine cannot follow Mistaken, .*ZeroDivisionError"):
        explore(Mistaken(2000), engine=Engine.FAST)
    monkeypatch.setattr("tidegauge.spec.kernel.explorer.TRIAL", 1000)
    with pytest.raises(ZeroDivisionError) as raised:
        explore(Mistaken(2000))
    assert "took steps from the state after these actions: More(by=2)" in raised.value.__notes__[0]


@attrs.frozen
class Pair:
    first: int = 0
    second: int = 0


@attrs.frozen
class Pairs(Machine[Pair]):
    """Two numbers that count up to 200 each."""

    action_types: ClassVar[tuple[type[Action], ...]] = (More,)

    def initial(self) -> Iterable[Pair]:
        yield Pair()

    def actions(self, state: Pair) -> Iterator[Action]:
        yield from (More(by) for by in (1, 2))

    def step(self, state: Pair, action: Action) -> Pair:
        assert isinstance(action, More)
        if action.by == 1:
            return evolve(state, first=min(state.first + 1, 200))
        return evolve(state, second=min(state.second + 1, 200))

    @property
    def invariants(self) -> Mapping[str, Invariant[Pair]]:
        return {"Small": lambda state: state.first < 100 or state.second < 200}


def test_a_violation_beyond_the_trial_has_a_shortest_trace() -> None:
    found = explore(Pairs())
    assert found.engine is Engine.FAST
    assert found.distinct > TRIAL
    assert len(found.violations[0].trace) == 301


@attrs.frozen
class Wide(Counting):
    """Its states have many words, and each is asked about."""

    def initial(self) -> Iterable[Count]:
        yield Count(0, (Count(1),) * 100)


def test_a_machine_that_is_asked_in_each_of_its_wide_states_is_left_to_the_plain_engine() -> None:
    machine = Wide(12_000)
    assert (explore(machine, engine=Engine.FAST).asked or 0) > 2 * 12_000
    found = explore(machine)
    assert (found.engine, found.asked) == (Engine.PLAIN, None)
    assert found.distinct == 12_001


def test_a_machine_that_is_asked_in_each_of_its_narrow_states_is_not() -> None:
    assert explore(Counting(12_000)).engine is Engine.FAST
