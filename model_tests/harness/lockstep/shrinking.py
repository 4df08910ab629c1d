"""The shortest list of actions on which specification and implementation still differ, and its counterexample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Expected, Failure, Found
from tidegauge.model_tests.harness.lockstep.lockstep import Bind, Difference, Lockstep
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.minimising import minimised


def counterexample_of(
    bind: Bind, machine: Machine[Any], actions: Sequence[Action], found: Found, bug: str | None = None
) -> Counterexample:
    """The shortest list found on which the two still differ, to be saved. Raises ValueError if they don't."""
    shortest, difference = shrunk(bind, machine, actions)
    return Counterexample(machine, bug, shortest, Expected(Failure.DIFFERENCE, difference.path), found)


def shrunk(
    bind: Bind, machine: Machine[Any], actions: Sequence[Action], attempts: int = 600
) -> tuple[tuple[Action, ...], Difference]:
    """The shortest list found on which the two still differ, and the difference. Raises ValueError if they don't."""

    def needed(shorter: Sequence[Action]) -> Sequence[Action] | None:
        return None if difference_of(bind, machine, shorter) is None else shorter

    shortest = minimised(actions, needed, attempts=attempts)
    difference = difference_of(bind, machine, shortest)
    assert difference is not None, "the shortest list differs, too"
    return shortest, difference


def difference_of(bind: Bind, machine: Machine[Any], actions: Iterable[Action]) -> Difference | None:
    """The first difference when `actions` are performed; None when there is none."""
    binding = bind(machine)
    try:
        lockstep: Lockstep[Any] = Lockstep(machine, binding)
        for action in actions:
            lockstep.perform(action)
    except Difference as difference:
        return difference
    finally:
        binding.close()
    return None
