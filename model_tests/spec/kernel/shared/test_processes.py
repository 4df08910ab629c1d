"""Workers are processes: they find what one finds, end with the search, and one that dies is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing import active_children
from typing import Any

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.kernel.fast.random_machines import RandomMachine
from tidegauge.model_tests.spec.kernel.test_leads_to import Unjust
from tidegauge.model_tests.spec.kernel.toys import DieHard, Jug, Table
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.progress import Cut, Limits, Progress, Stop
from tidegauge.spec.kernel.shared.processes import Processes
from tidegauge.spec.kernel.shared.search import DiedError
from tidegauge.spec.kernel.shared.share import Share
from tidegauge.spec.registry import REGISTRY

WIDE = DieHard((5, 7, 11))


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Iterator[None]:
    before = set(active_children())
    yield
    assert set(active_children()) <= before


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("machine", [DieHard(), Unjust(), REGISTRY.machine("crash")], ids=lambda machine: machine.name)
def test_workers_find_what_one_process_finds(machine: Machine[Any], workers: int) -> None:
    how: dict[str, Any] = {"converges": True, "limits": Limits(states=200), "stop": Stop.EACH}
    found = explore(machine, workers=workers, **how)
    assert found == explore(machine, engine=Engine.PLAIN, **how)
    assert found.workers == workers


def test_random_machines_are_explored_alike_by_workers() -> None:
    for seed in range(1000, 1000 + amount(3, deep=300)):
        how: dict[str, Any] = {"converges": True, "limits": Limits(states=100), "stop": Stop.EACH}
        found = explore(RandomMachine(seed), workers=2, **how)
        assert found == explore(RandomMachine(seed), engine=Engine.PLAIN, **how), f"RandomMachine({seed})"


def test_symmetry_and_workers_go_together() -> None:
    how: dict[str, Any] = {"symmetry": True, "stop": Stop.NEVER}
    found = explore(DieHard((3, 3, 5)), workers=2, **how)
    assert found == explore(DieHard((3, 3, 5)), engine=Engine.PLAIN, **how)


@attrs.frozen
class Harmed(DieHard):
    """Something happens to who expands the state in which the first jug has one litre."""

    harm: Callable[[], object] = int

    def actions(self, state: Table) -> Iterator[Action]:
        if state.jugs[0].litres == 1:
            self.harm()
        yield from super().actions(state)


WAY = "Fill(jug=0), Pour(source=0, target=1), Fill(jug=0), Pour(source=0, target=1)"


def test_a_worker_that_dies_is_told_with_the_state_that_it_was_at() -> None:
    with pytest.raises(DiedError, match=r"worker \d of 2 was killed by SIGKILL") as caught:
        explore(Harmed(harm=lambda: os.kill(os.getpid(), signal.SIGKILL)), workers=2, stop=Stop.NEVER)
    assert notes(caught) == [f"while Harmed took steps from the state after these actions: {WAY}"]


def test_a_worker_that_ends_is_told_with_its_status() -> None:
    with pytest.raises(DiedError, match=r"worker \d of 2 ended with status 3"):
        explore(Harmed(harm=lambda: os._exit(3)), workers=2, stop=Stop.NEVER)


def test_a_rule_that_raises_in_a_worker_says_how_to_get_there_and_where_it_was() -> None:
    def fail() -> None:
        raise LookupError("no such litre")

    with pytest.raises(LookupError, match="no such litre") as caught:
        explore(Harmed(harm=fail), workers=2, stop=Stop.NEVER)
    in_worker, way = notes(caught)
    assert "in fail" in in_worker
    assert way.endswith(WAY)


def test_an_exception_that_cannot_be_sent_is_told_in_words() -> None:
    class OddError(Exception):
        """Known in this function only."""

    def fail() -> None:
        raise OddError("how odd")

    with pytest.raises(RuntimeError, match="OddError: how odd"):
        explore(Harmed(harm=fail), workers=2, stop=Stop.NEVER)


def test_who_interrupts_the_search_ends_the_workers() -> None:
    def interrupt(at: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(DieHard(), workers=2, progress=interrupt)


def test_a_limit_on_seconds_is_kept_and_progress_is_told() -> None:
    told: list[Progress] = []
    ticks = map(float, count()).__next__
    found = explore(WIDE, limits=Limits(seconds=8), clock=ticks, progress=told.append, workers=2, stop=Stop.NEVER)
    assert found.cut is Cut.SECONDS
    assert [at.distinct for at in told] == sorted(at.distinct for at in told)
    assert (told[-1].distinct, told[-1].generated) == (found.distinct, found.generated)
    assert sum(found.levels) == found.distinct < explore(WIDE, stop=Stop.NEVER, engine=Engine.PLAIN).distinct


class Endless(Share[Any]):
    """Asks whether the time is up, until it is."""

    def ask(self, most: int) -> int:
        return next((asked for asked in range(most) if self.watch(asked, 0)), most)


def test_workers_learn_that_the_time_is_up_while_they_work() -> None:
    with Processes(2, lambda index, at: Endless(DieHard(), index, 2)) as crew:
        asked = crew.call("ask", [(100_000,)] * 2, lambda share, expanded, taken: expanded > 3)
    assert max(asked) < 100_000


def test_what_one_worker_raises_is_raised_when_the_others_are_done() -> None:
    with Processes(2, lambda index, at: Endless(DieHard(), index, 2)) as crew:
        with pytest.raises(TypeError, match="'str' object cannot be interpreted as an integer"):
            crew.call("ask", [("none",), (1000,)])
        assert crew.call("ask", [(1,), (2,)]) == [1, 2]


def test_states_of_a_class_that_no_other_process_knows_are_refused_in_words() -> None:
    @attrs.frozen
    class Hidden(Jug):
        """Known in this function only."""

    @attrs.frozen
    class Hiding(DieHard):
        def step(self, state: Table, action: Action) -> Table:
            return Table(tuple(Hidden(jug.litres, jug.capacity) for jug in super().step(state, action).jugs))

    with pytest.raises(TypeError, match=r"states cannot be sent from worker to worker: .*Hidden"):
        explore(Hiding(), workers=2, stop=Stop.NEVER)


def test_what_workers_cannot_do_is_refused() -> None:
    for workers in (-1, 0, 65, 10**9):
        with pytest.raises(ValueError, match=f"workers={workers}: a search takes at least one, and at most 64"):
            explore(DieHard(), workers=workers)
    with pytest.raises(ValueError, match="declares no interchangeable processes"):
        explore(REGISTRY.machine("idempotence-two-producers"), workers=2, symmetry=True)


def notes(caught: pytest.ExceptionInfo[BaseException]) -> list[str]:
    return list(caught.value.__notes__)
