"""How the suite is collected and spread: what a long search takes when it is not run, and what one worker runs."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from tidegauge.model_tests import amounts, conftest

SEARCHES = """
import pytest

@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
def test_search(seed):
    pass

@pytest.mark.parametrize("seed", range(2))
def test_quick(seed):
    pass

@pytest.mark.deep
class TestSearches:
    @pytest.mark.parametrize("seed", range(3))
    def test_more(self, seed):
        pass

@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_some(seed):
    pass
"""


@pytest.mark.parametrize(
    ("options", "passed", "skipped"),
    [
        ((), 3, 3),
        (("--deep",), 10, 0),
        (("-k", "quick or test_more"), 2, 1),
        (("test_searches.py::test_search",), 0, 1),
        (("test_searches.py::test_search[1]",), 0, 1),
        (("test_searches.py::test_search[1]", "--deep"), 1, 0),
        (("test_searches.py::TestSearches",), 0, 1),
    ],
)
def test_a_long_search_that_is_not_run_is_one_item(
    pytester: pytest.Pytester, options: tuple[str, ...], passed: int, skipped: int
) -> None:
    pytester.makepyfile(test_searches=SEARCHES)
    pytester.makeini("[pytest]\nmarkers = deep")
    ran = pytester.inline_run(*options, plugins=[conftest])
    assert [len(found) for found in ran.listoutcomes()] == [passed, skipped, 0]


REPORTED = """
import pytest

@pytest.fixture
def broken():
    raise ValueError

@pytest.fixture
def unclosed():
    yield
    raise ValueError

@pytest.fixture
def said():
    print("something")

def test_good():
    pass

def test_bad():
    assert False

def test_never_begun(broken):
    pass

def test_never_ended(unclosed):
    pass

@pytest.mark.skip
def test_left_out():
    pass

def test_told(said):
    pass
"""


def test_a_worker_tells_once_of_a_test_that_passes_and_all_of_one_that_does_not(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_reported=REPORTED)
    pytester.makeini("[pytest]\nmarkers = deep")
    ran = pytester.inline_run(plugins=[conftest, conftest.FewReports()])
    reports = ran.getreports("pytest_runtest_logreport")
    told = [(one.nodeid.rpartition("::test_")[2], one.when, one.outcome) for one in reports]
    assert told == [
        ("good", "call", "passed"),
        ("bad", "call", "failed"),
        ("never_begun", "setup", "failed"),
        ("never_ended", "call", "passed"),
        ("never_ended", "teardown", "failed"),
        ("left_out", "setup", "skipped"),
        *[("told", when, "passed") for when in ("setup", "call", "teardown")],
    ]
    assert ran.countoutcomes() == [3, 1, 3]


@pytest.mark.parametrize(
    ("is_worker", "asked", "tells_little"),
    [
        (True, {}, True),
        (True, {"verbose": -1}, True),
        (False, {}, False),
        *((True, {name: value}, False) for name, value in (("verbose", 1), ("durations", 9), ("xmlpath", "file"))),
    ],
)
def test_a_worker_tells_all_where_that_is_asked_for(is_worker: bool, asked: dict[str, Any], tells_little: bool) -> None:
    config: Any = SimpleNamespace(getoption=asked.get, **{"workerinput": {}} if is_worker else {})
    assert conftest.tells_little(config) is tells_little


AMOUNTS = """
import pytest
from tidegauge.model_tests.amounts import amount

SEEDS = range(amount(2, deep=5))

@pytest.mark.parametrize("seed", SEEDS)
def test_search(seed):
    pass
"""


@pytest.mark.parametrize(("options", "passed"), [((), 2), (("--deep",), 5)])
def test_a_search_has_its_deep_amount_only_in_a_deep_run(
    pytester: pytest.Pytester, options: tuple[str, ...], passed: int
) -> None:
    before = amounts.choose_deep(False)
    try:
        pytester.makepyfile(test_amounts=AMOUNTS)
        pytester.makeini("[pytest]\nmarkers = deep")
        ran = pytester.inline_run(*options, plugins=[conftest])
        assert len(ran.listoutcomes()[0]) == passed
        assert amounts.amount(1, deep=3) == 1, "the run around this one is what it was"
    finally:
        amounts.choose_deep(before)


def test_every_choice_and_both_ends_are_tried_and_all_there_is_in_a_deep_run() -> None:
    before = amounts.choose_deep(False)
    try:
        assert amounts.crossed("abc", [1, 2]) == [("a", 1), ("b", 2), ("c", 1)]
        assert [amounts.ends(range(count)) for count in range(5)] == [[], [0], [0, 1], [0, 2], [0, 3]]
        assert amounts.stride(3) == 3
        amounts.choose_deep(True)
        assert amounts.stride(3) == 1
        assert len(set(amounts.crossed("abc", [1, 2]))) == 6
        assert amounts.ends(range(4)) == [0, 1, 2, 3]
    finally:
        amounts.choose_deep(before)


def test_a_deep_amount_is_larger_than_the_ordinary_one() -> None:
    with pytest.raises(ValueError, match="a deep run has more than an ordinary one: 3, 3"):
        amounts.amount(3, deep=3)


def test_the_files_that_are_told_apart_are_there() -> None:
    for name in (*conftest._LONGEST, *chain.from_iterable(conftest._TOGETHER.values())):
        assert (conftest._HERE / name).exists(), name


def test_one_worker_runs_all_that_takes_the_session_of_spark() -> None:
    """A file that is forgotten has a JVM of its own started and warmed up."""
    files = (conftest._HERE / "spark_check").glob("test_*.py")
    asking = {f"spark_check/{file.name}" for file in files if "spark: SparkSession" in file.read_text()}
    assert asking <= {*conftest._TOGETHER["Spark"]}
    assert asking


@pytest.mark.parametrize(("dist", "is_ours"), [("loadfile", True), ("load", False)])
def test_one_worker_runs_the_files_that_share_something(dist: str, is_ours: bool) -> None:
    config: Any = SimpleNamespace(getoption={"dist": dist}.__getitem__, getvalue={"tx": ["2*popen"]}.__getitem__)
    scheduling = conftest.pytest_xdist_make_scheduler(config, None)
    assert (scheduling is not None) is is_ours
    if is_ours:
        files = (
            *("spark_check/test_job.py", "docs/test_code_blocks.py", "spark_check/test_units.py"),
            *("mutants/test_trials.py", "mutants/test_rooms.py"),
        )
        scopes = [scheduling._split_scope(f"model_tests/{file}::test_it[1]") for file in files]
        assert scopes == ["Spark", "Spark", "model_tests/spark_check/test_units.py", "mutants", "mutants"]
