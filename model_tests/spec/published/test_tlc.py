"""Our explorer and TLC agree on the published models: states, levels, steps, and shortest counterexamples."""

from __future__ import annotations

from collections import Counter

import pytest

from tidegauge.model_tests.spec.published.searches import SEARCHES
from tidegauge.model_tests.spec.published.tlc import RUNS, Search, runs_of
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.published.kraft.machine import Kraft
from tidegauge.spec.published.transactions_diary.machine import FirstDiary

DISTINCT = {one.names[0]: one for one in SEARCHES.values()}
ORDINARY = [pytest.param(name, marks=[pytest.mark.deep] * one.deep) for name, one in DISTINCT.items()]


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("name", ORDINARY)
def test_a_search_finds_what_tlc_found(name: str, engine: Engine) -> None:
    DISTINCT[name].agrees(engine)


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        (Kraft(servers=2), "t1"),  # TLC counts some fetches twice
        (FirstDiary(clients=1), "txn01_2c"),
        (Kraft(servers=2, max_elections=2), "KB7_noquorum"),
    ],
    ids=["steps", "states", "counterexample"],
)
def test_another_machine_finds_something_else(machine: Kraft | FirstDiary, name: str) -> None:
    with pytest.raises(AssertionError):
        Search(machine, (name,)).agrees(Engine.FAST)


def test_a_run_is_searched_once() -> None:
    names = Counter(name for one in DISTINCT.values() for name in one.names)
    assert set(names.values()) == {1}
    assert names.keys() <= RUNS.keys()


def test_runs_of_one_search_have_the_same_states() -> None:
    for one in DISTINCT.values():
        assert len({(RUNS[name].spec, RUNS[name].distinct, RUNS[name].symmetry) for name in one.names}) == 1


@pytest.mark.parametrize("text", ['{"t1": {}, "t1": {}}', '{"t1": {"spec": "kraft", "spec": "kraft"}}'])
def test_a_run_that_is_there_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        runs_of(text)
