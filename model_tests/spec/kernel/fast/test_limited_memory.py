"""With limited memory the fast engine finds what it finds without a limit, though most states have left its table."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.kernel.fast.random_machines import RandomMachine
from tidegauge.model_tests.spec.kernel.fast.random_posts import RandomPost
from tidegauge.model_tests.spec.kernel.toys import Ceremony, DieHard
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.fast import table
from tidegauge.spec.kernel.fast.in_memory import InMemory
from tidegauge.spec.kernel.fast.runs import Runs
from tidegauge.spec.kernel.fast.views import Run
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.progress import Limits, Stop
from tidegauge.spec.registry import REGISTRY


class Narrow(InMemory):
    """As if there were little memory."""

    def __init__(self, memory: int = 1) -> None:
        super().__init__()
        self.memory = memory
        self.runs: set[str] = set()

    def array(self, name: str, *how: Any) -> Any:
        self.runs |= {name} if name.startswith("run-") else set()
        return super().array(name, *how)


@pytest.fixture
def smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has room for a dozen states."""
    monkeypatch.setattr(table, "_SMALLEST", 16)
    monkeypatch.setattr(table, "_STEPS", 0)


def both(machine: Machine[Any], **how: Any) -> tuple[Exploration[Any], Exploration[Any], Narrow]:
    """What is found without and with a limit, and where the latter kept it."""
    storage = Narrow()
    how = {"converges": True, "engine": Engine.FAST, **how}
    return explore(machine, **how), explore(machine, storage=storage, **how), storage


@pytest.mark.usefixtures("smallest")
def test_random_machines_are_explored_alike() -> None:
    spilled = 0
    for seed in range(amount(40, deep=2000)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        limits = Limits(states=400) if seed % 4 else Limits(states=1 + seed % 90, depth=2 + seed % 7)
        whole, limited, storage = both(RandomMachine(seed), stop=stop, limits=limits)
        assert limited == whole, f"RandomMachine({seed}), {stop}, {limits}"
        spilled += bool(storage.runs)
    assert spilled > 10


@pytest.mark.usefixtures("smallest")
@pytest.mark.parametrize("symmetry", [False, True])
def test_random_machines_of_values_by_keys_are_explored_alike(symmetry: bool) -> None:
    spilled = 0
    for seed in range(amount(15, deep=300)):
        stop = (Stop.FIRST, Stop.EACH, Stop.NEVER)[seed % 3]
        how = {"stop": stop, "limits": Limits(states=300), "symmetry": symmetry}
        whole, limited, storage = both(RandomPost(seed), **how)
        assert limited == whole, f"RandomPost({seed}), {how}"
        spilled += bool(storage.runs)
    assert spilled > 6


@pytest.mark.usefixtures("smallest")
@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("machine", [DieHard((3, 5, 7)), Ceremony()], ids=lambda machine: machine.name)
def test_a_violation_ends_the_search_at_the_same_step(machine: Machine[Any], stop: Stop) -> None:
    whole, limited, _ = both(machine, stop=stop)
    assert limited == whole


@pytest.mark.usefixtures("smallest")
@pytest.mark.parametrize("limits", [Limits(states=1), Limits(states=70), Limits(depth=1), Limits(depth=6)])
def test_a_limit_cuts_at_the_same_state(limits: Limits) -> None:
    whole, limited, _ = both(DieHard((3, 5, 7)), limits=limits, stop=Stop.NEVER)
    assert limited == whole
    assert whole.cut is not None


@pytest.mark.usefixtures("smallest")
@pytest.mark.parametrize("capacities", [(3, 3), (2, 2, 4), (5, 5, 5)])
def test_orbits_are_known_by_files_as_well(capacities: tuple[int, ...]) -> None:
    whole, limited, storage = both(DieHard(capacities), symmetry=True, stop=Stop.NEVER)
    assert limited == whole
    assert bool(storage.runs) is (whole.distinct > 12)


@pytest.mark.parametrize("symmetry", [False, True])
def test_a_model_whose_states_leave_the_table_many_times(symmetry: bool) -> None:
    machine = REGISTRY.machine("kip320")
    whole, limited, storage = both(machine, stop=Stop.NEVER, symmetry=symmetry, limits=Limits(states=15_000))
    assert limited == whole
    assert len(storage.runs) >= 4


@pytest.mark.deep
@pytest.mark.parametrize("name", REGISTRY.names)
def test_every_model_is_explored_alike(name: str) -> None:
    whole, limited, storage = both(REGISTRY.machine(name), limits=Limits(states=15_000))
    assert limited == whole
    assert bool(storage.runs) or whole.distinct < 4000


def test_a_run_finds_all_that_have_a_hash_and_no_others() -> None:
    rng = np.random.default_rng(7)
    runs, known = Runs(InMemory()), np.zeros(0, np.uint64)
    for size in (1, 3, 500, 20, 2000, 1, 4000, 9):
        new = rng.integers(0, 1 << 12, size).astype(np.uint64) << np.uint64(52 if size % 2 else 3)
        runs.add(new, len(known))
        known = np.concatenate([known, new])
        wanted = np.unique(np.concatenate([rng.choice(known, 5), rng.integers(0, 1 << 63, 5).astype(np.uint64)]))
        hashes, numbers = runs.find(wanted)
        assert np.array_equal(known[numbers], hashes)
        assert sorted(numbers.tolist()) == np.flatnonzero(np.isin(known, wanted)).tolist()
    assert len(runs) < 5


def test_no_run_of_a_rule_outlives_itself() -> None:
    """No collector looks for circles during a search: a view that refers to itself would stay to its end."""
    gc.collect()
    gc.disable()
    try:
        explore(REGISTRY.machine("network"), engine=Engine.FAST, limits=Limits(states=300))
        left = [each for each in gc.get_objects() if isinstance(each, Run)]
    finally:
        gc.enable()
    assert len(left) < 3, "a rule may remember what it was asked last"
