"""docs/published.md says of each of TLC's runs whether a test holds it, and has every published model."""

from __future__ import annotations

import re

from tidegauge.model_tests.docs import published_page
from tidegauge.model_tests.harness.published import STEPS
from tidegauge.model_tests.spec.published.searches import NOT_SEARCHED, SEARCHES
from tidegauge.model_tests.spec.published.tlc import RUNS


def test_the_page_says_what_the_tests_hold() -> None:
    assert published_page.PAGE.read_text(encoding="utf-8") == published_page.page(), (
        "run python -m tidegauge.model_tests.docs.published_page"
    )


def test_every_run_is_searched_or_there_is_a_reason() -> None:
    assert SEARCHES.keys() | NOT_SEARCHED.keys() == RUNS.keys()
    assert not SEARCHES.keys() & NOT_SEARCHED.keys()


def test_the_page_has_every_published_model() -> None:
    written = re.findall(r"^\| `([\w.-]+)` \| \[", published_page.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert written == list(STEPS)


def test_a_run_that_is_held_by_no_test_has_its_reason() -> None:
    name = next(iter(NOT_SEARCHED))
    assert published_page.row(name).endswith(f"| no: {NOT_SEARCHED[name]} |")
