"""What walks have to show of a bug that is switched on in the cores: a difference, and none without it."""

from __future__ import annotations

from typing import Any

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import Registration


def assert_walks_differ(harnessed: Registration, bug: CoreBug[Any], seed: int, limit: int) -> None:
    """One of so many walks with the bug differs from the correct specification; without the bug it does not."""
    found = harnessed.first_failure(seed, limit, roles=bug.roles)
    assert found is not None, f"{bug.name} went unnoticed in {limit} walks"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert harnessed.walk(seed, found.number).failure is None, "without the bug the same walk shows nothing"
