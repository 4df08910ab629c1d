"""Threads that expand states together find what one thread finds: states, numbers, fair steps, tallies and traces."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import attrs
import numpy as np
import numpy.typing as npt
import pytest
from numba.core.decorators import njit  # which keeps nothing

from tidegauge.model_tests.amounts import amount, crossed
from tidegauge.model_tests.spec.kernel.fast.random_crowds import RandomCrowd
from tidegauge.model_tests.spec.kernel.fast.random_machines import RandomMachine
from tidegauge.model_tests.spec.kernel.fast.random_posts import RandomPost
from tidegauge.model_tests.spec.kernel.fast.random_shops import RandomShop
from tidegauge.model_tests.spec.kernel.fast.test_limited_memory import Narrow
from tidegauge.model_tests.spec.kernel.toys import Ceremony, DieHard
from tidegauge.spec.kernel.bounds import Bounds, Spent
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.fast import in_phases, kernel, packing, phases, search, table, threads
from tidegauge.spec.kernel.fast.candidates import Candidates
from tidegauge.spec.kernel.fast.in_phases import InPhases
from tidegauge.spec.kernel.fast.meanwhile import Meanwhile
from tidegauge.spec.kernel.fast.search import FastSearch
from tidegauge.spec.kernel.fast.threads import Threads
from tidegauge.spec.kernel.fast.trie_tables import EMPTY
from tidegauge.spec.kernel.guarded import EnumeratedAction, EnumeratingMachine
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.progress import Limits, Stop
from tidegauge.spec.registry import REGISTRY

WORKERS = (2, 3, 5)


class Told:
    """How often states were expanded together, and how; and the searches themselves."""

    def __init__(self) -> None:
        self.together = self.left = self.orbits = self.limited = self.begun_again = self.asked = 0
        self.meanwhile = self.held = self.packed_again = self.given_up = self.superseded = 0
        self.searches: list[Any] = []


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """A single state for each thread is enough, there is room for a few steps, and states are packed again often."""
    found = Told()
    expand, tried, ask, number = InPhases.expand, InPhases._tried, Meanwhile.ask_rest, InPhases._number
    run, pack, give_up = FastSearch.run, InPhases._pack_again, InPhases._give_up

    def counted(self: InPhases, start: int, end: int) -> bool:
        is_done = expand(self, start, end)
        found.left += not is_done and self._threads.workers > 1
        return is_done

    def counted_numbers(self: InPhases) -> None:
        firsts = np.concatenate([self._candidates.firsts[slice(*used)] for used in self._used()])
        found.superseded += len(firsts) - int(self._news.sum())
        found.together += 1
        found.orbits += len(self._search.renamings) > 0
        found.limited += self._search.table.first > 0
        number(self)

    def counted_tries(self: InPhases, start: int, end: int) -> int:
        how = tried(self, start, end)
        found.begun_again += how == kernel.ROOM
        return how

    def counted_packs(self: InPhases, places: Any) -> None:
        found.packed_again += int((self._free - self._candidates.first).sum()) > 0
        pack(self, places)

    def counted_asks(self: Meanwhile) -> None:
        found.asked += 1
        ask(self)

    def counted_given_up(self: InPhases) -> None:
        """The table is as it was before."""
        known = int((self._search.table.slots != EMPTY).sum())
        give_up(self)
        left = self._search.table.slots[self._search.table.slots != EMPTY]
        assert ((left & 0xFFFFFFFF) < self._search.count).all()
        found.given_up += known > len(left)

    def kept(self: FastSearch[Any]) -> Exploration[Any]:
        found.searches.append(self)
        return run(self)

    monkeypatch.setattr(InPhases, "expand", counted)
    monkeypatch.setattr(InPhases, "_number", counted_numbers)
    monkeypatch.setattr(InPhases, "_give_up", counted_given_up)
    monkeypatch.setattr(InPhases, "_tried", counted_tries)
    monkeypatch.setattr(InPhases, "_pack_again", counted_packs)
    monkeypatch.setattr(Meanwhile, "ask_rest", counted_asks)
    watch_what_threads_read(monkeypatch, found)
    monkeypatch.setattr(FastSearch, "run", kept)
    monkeypatch.setattr(search, "INTERVAL", 64)
    monkeypatch.setattr(threads, "_FEW", 1)
    monkeypatch.setattr(table, "_MOVED", 1)
    monkeypatch.setattr(in_phases, "_INTERVALS", 1)
    monkeypatch.setattr(in_phases, "_MANY_ASKED", 0)
    monkeypatch.setattr(in_phases, "_ROOM", 4)
    monkeypatch.setattr(in_phases, "_STEPS", 1)
    monkeypatch.setattr(in_phases, "_MORE_STEPS", 1)
    monkeypatch.setattr(packing, "_HALF_FULL", 1.0)
    return found


def watch_what_threads_read(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """Hold each array that threads read while the machine is asked against what it was when they began."""
    begin, learn, ask = Meanwhile.__init__, Meanwhile.learn, FastSearch.ask
    before: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
    is_meanwhile = [False]

    def begun(self: Meanwhile, search: Any, misses: Any) -> None:
        begin(self, search, misses)
        before[:] = [(part, part.copy()) for part in parts_that_threads_read(search)]
        is_meanwhile[0] = True

    def learned(self: Meanwhile) -> None:
        is_meanwhile[0] = False
        assert all(np.array_equal(part, copy) for part, copy in before)
        told.held += len(self._search.tries._held or ()) + len(self._search.layout.questions._held)
        learn(self)

    def counted(self: FastSearch[Any], program: int, *given: Any) -> None:
        told.meanwhile += is_meanwhile[0]
        ask(self, program, *given)

    monkeypatch.setattr(Meanwhile, "__init__", begun)
    monkeypatch.setattr(Meanwhile, "learn", learned)
    monkeypatch.setattr(FastSearch, "ask", counted)


def parts_that_threads_read(search: FastSearch[Any]) -> list[npt.NDArray[Any]]:
    tries, questions, values = search.tries, search.layout.questions, search.layout.values
    asked = questions.words[: len(questions._asked)]
    return [
        tries.keys, tries.codes, tries.nodes[: tries.filled], tries.roots[: tries.programs],
        tries.kinds[: tries.programs], tries.leaf_start[: tries.leaves + 1], tries.leaf_flags[: tries.leaves],
        tries.leaf_items[: tries.items], asked, search.packing.places, search.rows[: search.count],
        *(questions.table[number, : len(values[word])] for number, word in enumerate(asked.tolist())),
        *search.renamed_words(),
    ]  # fmt: skip


def held(told: Told, machine: Machine[Any], workers: int, **how: Any) -> Exploration[Any]:
    """What so many workers find; it must be what one finds, to the number of each state and the last fair step."""
    storage = how.pop("storage", None)
    how = {"converges": True, "engine": Engine.FAST, **how}
    one = explore(machine, **how)
    single = told.searches[-1]
    several = explore(machine, workers=workers, storage=storage, **how)
    last = told.searches[-1]
    assert several == one, f"{machine}, {workers} workers, {how}"
    assert several.workers == workers
    assert last.states[:] == single.states[:]
    assert np.array_equal(last.parents[: last.count], single.parents[: last.count])
    if last.fair is not None:
        assert (last.fair.count, last.fair.closed) == (single.fair.count, single.fair.closed)
        for name, end in (("targets", last.fair.count), ("starts", last.fair.closed + 1)):
            assert np.array_equal(getattr(last.fair, name)[:end], getattr(single.fair, name)[:end])
    return several


def test_random_machines_are_explored_alike(told: Told) -> None:
    for seed in range(amount(60, deep=3000)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        limits = Limits(states=400) if seed % 4 else Limits(states=1 + seed % 90, depth=2 + seed % 7)
        held(told, RandomMachine(seed), WORKERS[seed // 3 % 3], stop=stop, limits=limits)
    assert told.together > 120
    assert told.left > 30
    assert told.asked > 300
    assert told.begun_again > 20
    assert told.packed_again > 30
    assert told.given_up > 20
    assert told.superseded > 200
    assert told.meanwhile > 1000
    assert told.held > 100


def test_random_machines_of_states_in_parts_are_explored_alike(told: Told) -> None:
    for seed in range(amount(25, deep=1000)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        held(told, RandomShop(seed), WORKERS[seed // 3 % 3], stop=stop, limits=Limits(states=600))
    assert told.together > 60


@pytest.mark.parametrize("symmetry", [False, True])
def test_random_machines_of_values_by_keys_are_explored_alike(symmetry: bool, told: Told) -> None:
    for seed in range(amount(20, deep=500)):
        stop, workers = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3], WORKERS[seed // 3 % 3]
        held(told, RandomPost(seed), workers, stop=stop, symmetry=symmetry, limits=Limits(states=400))
    assert told.together > 20


def test_random_crowds_are_explored_alike(told: Told) -> None:
    for seed in range(amount(25, deep=1000)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        how: dict[str, Any] = {"stop": stop, "limits": Limits(states=300), "symmetry": True}
        held(told, RandomCrowd(seed), WORKERS[seed // 3 % 3], **how)
    assert told.orbits > 60


@pytest.mark.parametrize(
    ("machine", "stop", "workers"),
    [(machine, stop, WORKERS[n % 3]) for machine in (DieHard((3, 5, 7)), Ceremony()) for n, stop in enumerate(Stop)],
)
def test_a_violation_ends_the_search_at_the_same_step(
    machine: Machine[Any], workers: int, stop: Stop, told: Told
) -> None:
    found = held(told, machine, workers, stop=stop)
    assert found.violations
    assert told.together


@pytest.mark.parametrize("limits", [*(Limits(states=most) for most in (1, 7, 40, 90, 140)), Limits(depth=6)])
def test_a_limit_cuts_at_the_same_state(limits: Limits, told: Told) -> None:
    found = held(told, DieHard((3, 5, 7)), 2, limits=limits, stop=Stop.NEVER)
    assert found.cut is not None


MODELS = ("network", "idempotence-two-producers", "transactions-coordinator", "kip320", "groups-leaving")


@pytest.mark.parametrize(("name", "workers"), crossed(MODELS, WORKERS))
def test_models_are_explored_alike(name: str, workers: int, told: Told) -> None:
    held(told, REGISTRY.machine(name), workers, limits=Limits(states=amount(2_000, deep=30_000)))
    assert told.together > 5


@pytest.mark.parametrize("name", ["shrink", "kip320"])
def test_models_are_explored_alike_with_symmetry(name: str, told: Told) -> None:
    held(told, REGISTRY.machine(name), 3, limits=Limits(states=amount(3_000, deep=30_000)), symmetry=True)
    assert told.orbits > 5


@pytest.mark.deep
@pytest.mark.parametrize("name", REGISTRY.names)
def test_every_model_is_explored_alike(name: str, told: Told) -> None:
    held(told, REGISTRY.machine(name), 3, limits=Limits(states=15_000))
    assert told.together


BUGS = [(registration.name, bug.name) for registration in REGISTRY for bug in registration.bugs]
ALWAYS = ("kafka_13916", "Kip279", "kafka_5494", "swaps_at_once", "kafka_18464")


@pytest.mark.parametrize(
    ("name", "bug"),
    [pytest.param(*case, marks=() if case[1] in ALWAYS else pytest.mark.deep) for case in BUGS],
)
def test_every_bug_is_found_by_the_same_trace(name: str, bug: str, told: Told) -> None:
    held(told, REGISTRY.bug(bug).machine(), 3, limits=Limits(states=15_000))


@pytest.mark.parametrize("workers", WORKERS)
def test_with_limited_memory_the_same_is_found(workers: int, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_SMALLEST", 64)
    monkeypatch.setattr(table, "_STEPS", 0)
    storage = Narrow()
    held(told, DieHard((3, 5, 7)), workers, stop=Stop.NEVER, storage=storage)
    held(told, DieHard((5, 5, 9)), workers, stop=Stop.NEVER, storage=storage, symmetry=True)
    assert storage.runs
    assert told.limited


@pytest.mark.parametrize("symmetry", [False, True])
def test_a_model_whose_states_leave_the_table_many_times(symmetry: bool, told: Told) -> None:
    storage = Narrow()
    machine = REGISTRY.machine("kip320")
    limits = Limits(states=15_000)
    held(told, machine, 2, stop=Stop.NEVER, symmetry=symmetry, limits=limits, storage=storage)
    assert len(storage.runs) >= 4
    assert told.limited > 5


@attrs.frozen
class Place:
    x: int
    y: int
    spent: Spent = ()


@attrs.frozen
class East(EnumeratedAction["Grid", Place]):
    @classmethod
    def candidates(cls, machine: Grid, state: Place) -> Iterable[East]:
        yield cls()

    def guard(self, machine: Grid, state: Place) -> str:
        return "" if state.x < machine.size else "here the grid ends"

    def effect(self, machine: Grid, state: Place) -> Place:
        return evolve(state, x=state.x + 1)


@attrs.frozen
class North(EnumeratedAction["Grid", Place]):
    @classmethod
    def candidates(cls, machine: Grid, state: Place) -> Iterable[North]:
        yield cls()

    def guard(self, machine: Grid, state: Place) -> str:
        return "" if state.y < machine.size else "here the grid ends"

    def effect(self, machine: Grid, state: Place) -> Place:
        return evolve(state, y=state.y + 1)


@attrs.frozen(slots=False)
class Grid(EnumeratingMachine[Place]):
    """At two ends of each level there are new values, so that states are packed in other ways again and again."""

    action_base = EnumeratedAction
    action_types: ClassVar[tuple[type[EnumeratedAction[Any, Any]], ...]] = (East, North)
    size: int
    bounds: Bounds = Bounds()  # noqa: RUF009 - it never changes

    def initial(self) -> Iterable[Place]:
        yield Place(0, 0)

    def is_fair(self, before: Place, action: Action, after: Place) -> bool:
        return True


@pytest.mark.parametrize("workers", WORKERS)
def test_where_states_are_packed_in_another_way_so_are_candidates(workers: int, told: Told) -> None:
    found = held(told, Grid(70), workers)
    assert found.distinct == 71 * 71
    assert told.packed_again >= 2
    assert told.together > 60


def test_a_slot_is_exchanged_only_for_what_it_had_when_it_was_read() -> None:
    compiled: Any = njit
    exchange = compiled(lambda slots, slot, before, after: phases.exchanged(slots, slot, before, after))
    slots = np.array([7, 8, 9], np.uint64)
    assert exchange(slots, 1, np.uint64(8), np.uint64(80)) == 8
    assert slots.tolist() == [7, 80, 9]
    assert exchange(slots, 1, np.uint64(8), np.uint64(800)) == 80
    assert slots.tolist() == [7, 80, 9]


def test_of_many_threads_that_claim_the_same_slots_each_gets_its_own() -> None:
    """Hashes that are alike, so that all look for slots from the same one on."""
    crew, each, room = Threads(4), 50, 1 << 12
    table_ = np.full(room, EMPTY, np.uint64)
    candidates = Candidates(each, 40, 1, 0)
    candidates.hashes[:] = np.arange(len(candidates.hashes)) % 3
    candidates.firsts[:] = np.arange(len(candidates.firsts))
    first = candidates.first.tolist()
    with crew.working():
        crew.each(each, lambda _, i: phases.claimed_again(first[i], first[i] + 40, table_, 5, candidates.arrays))
    taken = table_[table_ != EMPTY]
    assert sorted((taken & 0xFFFFFFFF).tolist()) == [*range(5, 5 + each * 40)]
    slots = candidates.arrays[5]
    assert ((table_[slots] & 0xFFFFFFFF) == np.arange(len(slots)) + 5).all()


def test_threads_rest_where_programs_have_to_run_in_most_states() -> None:
    crew = Threads(2)
    together = InPhases(None, crew)
    with crew.working():
        assert together.is_worthwhile(1000, 0)
        assert not together.is_worthwhile(1000, 900)
        assert together.is_worthwhile(1000, 901)
        assert not together.is_worthwhile(100, 901)
    assert not together.is_worthwhile(1000, 901)


def test_each_item_is_done_once_by_threads_and_not_by_who_waits() -> None:
    crew, me = Threads(3), threading.get_ident()

    def work(worker: int, item: int) -> tuple[int, int, bool]:
        return worker, item, threading.get_ident() != me

    with crew.working():
        found = crew.each(50, work)
    assert [item for _, item, _ in found] == [*range(50)]
    assert all(is_another for _, _, is_another in found)
    assert {worker for worker, _, _ in found} <= {0, 1, 2}


def test_what_is_wanted_is_done_while_threads_go_on_and_in_the_order_of_items() -> None:
    crew, me, is_told = Threads(2), threading.get_ident(), threading.Event()
    told: list[tuple[int, int]] = []

    def work(worker: int, item: int) -> int:
        if item == 5:
            assert is_told.wait(30)
        return item % 2

    def meanwhile(item: int, given: int) -> None:
        assert threading.get_ident() == me
        told.append((item, given))
        if item == 3:
            is_told.set()

    with crew.working():
        assert crew.each(20, work, meanwhile) == [0, 1] * 10
    assert told == [(item, item % 2) for item in range(20)]


def test_what_is_raised_meanwhile_comes_once_all_threads_are_at_rest() -> None:
    crew, is_raised, done = Threads(3), threading.Event(), list[int]()

    def work(worker: int, item: int) -> int:
        if item:
            assert is_raised.wait(30)
        done.append(item)
        return 1

    def meanwhile(item: int, given: int) -> None:
        is_raised.set()
        raise ValueError(f"item {item}")

    def begin() -> None:
        try:
            crew.each(9, work, meanwhile)
        finally:
            assert sorted(done) == [*range(9)]

    with crew.working(), pytest.raises(ValueError, match="item 0"):
        begin()


def test_python_is_as_it_was_after_a_search_with_threads() -> None:
    before = sys.getswitchinterval()
    with Threads(2).working():
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before


def test_what_a_thread_raises_ends_the_search(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    stepping: Callable[..., Any] = InPhases._stepping

    def failing(self: InPhases, todo: Any) -> Any:
        step = stepping(self, todo)

        def fail(worker: int, each: int) -> Any:
            if each == 3:
                raise MemoryError("no room for this slice")
            return step(worker, each)

        return fail

    monkeypatch.setattr(InPhases, "_stepping", failing)
    before = threading.active_count()
    with pytest.raises(MemoryError, match="no room for this slice"):
        explore(DieHard((3, 5, 7)), stop=Stop.NEVER, engine=Engine.FAST, workers=2)
    assert threading.active_count() == before
