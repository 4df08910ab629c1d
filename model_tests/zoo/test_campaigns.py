"""Campaigns alone find every bug of replication and of idempotence, by the seeds that the docs say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs
import pytest

from tidegauge.model_tests.bugs import BUGS
from tidegauge.model_tests.bugs.idempotence import IDEMPOTENCE_BUGS
from tidegauge.model_tests.harness.simulation.options import draw
from tidegauge.model_tests.harness.simulation.simulation import simulate
from tidegauge.model_tests.zoo.campaigns import FOUND_BY

EXTENDING: Final = Path(__file__).parents[2] / "docs" / "extending.md"
QUICKLY: Final = ("kafka_13916",)
"""What every run can afford: beside it `test_runs` and `test_producers` have seven bugs."""


def test_the_docs_say_which_seed_finds_each_bug() -> None:
    assert FOUND_BY.keys() == BUGS.keys() | IDEMPOTENCE_BUGS.keys()
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*)[^|]*\| (\d+) \| [^|]*\|$", EXTENDING.read_text(), re.MULTILINE)
    told = {bug: int(seed) for bugs, seed in rows for bug in re.findall(r"\w+", bugs)}
    assert {bug: told.get(bug) for bug in FOUND_BY} == FOUND_BY


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[pytest.mark.deep] * (bug not in QUICKLY)) for bug in FOUND_BY]
)
def test_the_seed_finds_the_bug_and_holds_without_it(bug: str) -> None:
    options = draw(FOUND_BY[bug], bug=bug)
    assert not simulate(options).holds, f"{bug} does not show in seed {options.seed}"
    assert simulate(attrs.evolve(options, bug=None)).holds, f"seed {options.seed} fails without {bug}, too"
