"""What has to be seen of a bug that is switched on in the cores: walks that differ, and the saved counterexample."""

from __future__ import annotations

from typing import Any

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.counterexamples.files import FOLDER, Failure, load
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import Registration


def assert_walks_differ(harnessed: Registration, bug: CoreBug[Any], seed: int, limit: int, first: int = 0) -> None:
    """One of so many walks with the bug differs from the correct specification; without the bug it does not.

    The search begins at the walk with the number `first`.
    """
    found = harnessed.first_failure(seed, limit, first=first, roles=bug.roles)
    assert found is not None, f"{bug.name} went unnoticed in {limit} walks"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert harnessed.walk(seed, found.number).failure is None, "without the bug the same walk shows nothing"


def assert_wrong_alike(bug: CoreBug[Any]) -> None:
    """Specification and cores that are wrong alike go the saved counterexample's way, and violate what it violates."""
    saved = load(FOLDER / f"{bug.name}.json")
    failure = failure_of(CoresLockstep(saved.buggy_machine(), bug.roles), saved.actions)
    assert failure is not None, f"{bug.name} went unnoticed"
    assert failure.expected == saved.expected
    assert failure.expected.name in bug.twin.violates
