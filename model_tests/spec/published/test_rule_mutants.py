"""A wrong rule of a published model that breaks no property shows in TLC's counts all the same."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.published.rule_mutants import COUNTED
from tidegauge.model_tests.spec.published.tlc import RUNS
from tidegauge.model_tests.spec.rule_mutant import RuleMutant
from tidegauge.spec.kernel.explorer import Limits, explore


@pytest.mark.parametrize(
    ("mutant", "level"), COUNTED, ids=[f"{type(one.model).__name__}-{one.name}" for one, _ in COUNTED]
)
def test_a_wrong_rule_changes_a_level(mutant: RuleMutant, level: int) -> None:
    found = explore(mutant.machine, limits=Limits(depth=level + 1)).levels
    expected = RUNS[mutant.violates].levels[: level + 1]
    assert found[:level] == expected[:level]
    assert found[level] != expected[level]
