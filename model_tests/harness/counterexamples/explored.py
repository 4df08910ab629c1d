"""Counterexamples as the explorer finds them: the shortest behaviour on which something goes wrong.

Random walks of a cluster seldom come to what few behaviours show. The explorer knows the way there, and a lockstep can
follow it: the correct specification beside an implementation with the bug.
"""

from __future__ import annotations

from typing import Any

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Expected, Failure, Found
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.explorer import Exploration, explore
from tidegauge.spec.kernel.machine import Machine

BY_EXPLORER = Found("explorer")


def counterexample_in(found: Exploration[Any], correct: Machine[Any], bug: str | None) -> Counterexample | None:
    """The first counterexample of an exploration, of the correct machine with the name of its bug; None if none."""
    if found.violations:
        violation = found.violations[0]
        expected = Expected(Failure.INVARIANT, violation.invariant)
        return Counterexample(correct, bug, violation.trace.actions, expected, BY_EXPLORER)
    for lasso in found.lassos[:1]:
        cycle = tuple(step.action for step in lasso.cycle)
        expected = Expected(Failure.GOAL, lasso.goal)
        return Counterexample(correct, bug, lasso.stem.actions, expected, BY_EXPLORER, cycle)
    return None


def shortest_counterexample(bug: Bug[Any]) -> Counterexample:
    """Explore the small model with the bug: a shortest way to an invariant that is violated, or else to a lasso.

    Raises AssertionError if there is none: then the specification no longer shows the bug.
    """
    machine, correct = bug.machine(), bug.correct_machine()
    for converges in (False, True):
        found = counterexample_in(explore(machine, converges=converges), correct, bug.name)
        if found is not None:
            return found
    raise AssertionError(f"{bug.name}: the explorer finds nothing in {machine}")
