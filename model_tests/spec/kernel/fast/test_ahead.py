"""Who looks ahead finds what is found without: the same states, tallies, verdicts and traces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.kernel.fast.random_crowds import RandomCrowd
from tidegauge.model_tests.spec.kernel.fast.random_machines import RandomMachine
from tidegauge.model_tests.spec.kernel.fast.test_limited_memory import Narrow
from tidegauge.model_tests.spec.kernel.toys import Ceremony, DieHard
from tidegauge.spec.kernel.bounds import Bounds, Spent
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.fast import ahead, kernel, table
from tidegauge.spec.kernel.fast.ahead import Ahead
from tidegauge.spec.kernel.guarded import EnumeratedAction, EnumeratingMachine
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.progress import Limits, Stop
from tidegauge.spec.registry import REGISTRY


class Told:
    """How many steps were known ahead: by threads, and by the kernel behind a state that it had to ask about."""

    def __init__(self) -> None:
        self.by_threads = self.by_kernel = self.repacked = 0


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Threads look ahead at a single state already, and have room for a few steps."""
    found = Told()
    begin = Ahead.begin

    def counted(self: Ahead, start: int, end: int, lanes: int) -> None:
        _, _, known, _, _, info = self.arrays
        shared = self.workers * ahead.ROOM if self.workers > 1 else 0
        found.by_threads += len(self.arrays[0]) and int((known[:shared, 2] != kernel.UNSEEN).any())
        found.by_kernel += int(info[kernel.FREE]) - shared if info[kernel.FREE] else 0
        found.repacked += int(not info[kernel.IS_PACKED])
        begin(self, start, end, lanes)
        known[:, 2] = kernel.UNSEEN

    monkeypatch.setattr(Ahead, "begin", counted)
    monkeypatch.setattr(ahead, "_FEW", 1)
    monkeypatch.setattr(ahead, "_MANY_ASKED", 0)
    monkeypatch.setattr(ahead, "ROOM", 64)
    return found


def both(machine: Machine[Any], workers: int, **how: Any) -> tuple[Exploration[Any], Exploration[Any]]:
    """What the plain engine finds, and the fast one with so many workers; but for the engine it must be the same."""
    storage = how.pop("storage", None)
    how = {"converges": True, **how}
    plain = explore(machine, engine=Engine.PLAIN, **how)
    fast = explore(machine, engine=Engine.FAST, workers=workers, storage=storage, **how)
    assert fast.workers == workers
    return plain, evolve(fast, engine=Engine.PLAIN)


def test_random_machines_are_explored_alike(told: Told) -> None:
    for seed in range(amount(60, deep=3000)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        limits = Limits(states=400) if seed % 4 else Limits(states=1 + seed % 90, depth=2 + seed % 7)
        plain, fast = both(RandomMachine(seed), 1 + seed % 4, stop=stop, limits=limits)
        assert fast == plain, f"RandomMachine({seed}), {stop}, {limits}"
    assert told.by_threads > 60
    assert told.by_kernel > 100
    assert told.repacked


def test_random_crowds_are_explored_alike(told: Told) -> None:
    for seed in range(amount(30, deep=1000)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        how: dict[str, Any] = {"stop": stop, "limits": Limits(states=300), "symmetry": True, "converges": False}
        plain, fast = both(RandomCrowd(seed), 2, **how)
        assert fast == plain, f"RandomCrowd({seed}), {stop}"
    assert told.by_threads > 30


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("machine", [DieHard((3, 5, 7)), Ceremony()], ids=lambda machine: str(machine.name))
def test_a_violation_ends_the_search_at_the_same_step(machine: Machine[Any], stop: Stop) -> None:
    plain, fast = both(machine, 3, stop=stop)
    assert fast == plain


@pytest.mark.parametrize("name", ["network", "idempotence-two-producers", "transactions-coordinator", "kip320"])
def test_models_are_explored_alike(name: str) -> None:
    plain, fast = both(REGISTRY.machine(name), 2, limits=Limits(states=amount(4_000, deep=30_000)))
    assert fast == plain


def test_with_limited_memory_the_same_is_found(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_SMALLEST", 16)
    monkeypatch.setattr(table, "_STEPS", 0)
    storage = Narrow()
    plain, fast = both(DieHard((3, 5, 7)), 2, stop=Stop.NEVER, storage=storage)
    assert fast == plain
    assert storage.runs
    assert told.by_threads


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


def test_what_threads_packed_in_another_way_is_made_again(told: Told) -> None:
    plain, fast = both(Grid(40), 2)
    assert fast == plain
    assert plain.distinct == 41 * 41
    assert told.repacked > 2
    assert told.by_threads > 30


def test_threads_rest_where_programs_have_to_run_in_most_states() -> None:
    crew = Ahead(2)
    with crew.working():
        assert crew.is_worthwhile(1000, 0)
        assert not crew.is_worthwhile(1000, 900)
        assert crew.is_worthwhile(1000, 901)
        assert not crew.is_worthwhile(100, 901)
    assert not crew.is_worthwhile(1000, 901)
