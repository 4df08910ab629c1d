"""How the suite is collected: a long search that is not run is one item, unless it is asked for by its parameters."""

from __future__ import annotations

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
