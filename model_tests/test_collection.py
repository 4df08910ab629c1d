"""How the suite is collected and spread: a long search that is not run is one item, and one worker runs Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidegauge.model_tests import conftest

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


def test_the_files_that_are_told_apart_are_there() -> None:
    for name in (*conftest._LONGEST, *conftest._ON_SPARK):
        assert (conftest._HERE / name).exists(), name


@pytest.mark.parametrize(("dist", "is_ours"), [("loadfile", True), ("load", False)])
def test_one_worker_runs_the_files_that_need_spark(dist: str, is_ours: bool) -> None:
    config: Any = SimpleNamespace(getoption={"dist": dist}.__getitem__, getvalue={"tx": ["2*popen"]}.__getitem__)
    scheduling = conftest.pytest_xdist_make_scheduler(config, None)
    assert (scheduling is not None) is is_ours
    if is_ours:
        files = ("spark_check/test_job.py", "docs/test_code_blocks.py", "spark_check/test_units.py")
        scopes = [scheduling._split_scope(f"model_tests/{file}::test_it[1]") for file in files]
        assert scopes == ["Spark", "Spark", "model_tests/spark_check/test_units.py"]
