"""The shortest list of actions on which specification and implementation still differ, and its counterexample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Expected, Failure, Found
from tidegauge.model_tests.harness.lockstep.lockstep import Bind, Difference, Lockstep, M
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.minimising import minimised
from tidegauge.spec.kernel.nearest import nearest_enabled


def counterexample_of(
    bind: Bind[M], machine: M, actions: Sequence[Action], found: Found, bug: str | None = None
) -> Counterexample:
    """The shortest list found on which the two still differ, to be saved. Raises ValueError if they don't."""
    shortest, difference = minimise(bind, machine, actions)
    return Counterexample(machine, bug, shortest, Expected(Failure.DIFFERENCE, difference.path), found)


def minimise(
    bind: Bind[M], machine: M, actions: Sequence[Action], attempts: int = 600
) -> tuple[tuple[Action, ...], Difference]:
    """The shortest list found on which the two still differ, and the difference. Raises ValueError if they don't.

    Actions are left out first as they are, then with the nearest action in place of each that is not enabled any more;
    each may take `attempts` trials.
    """

    def needed(shorter: Sequence[Action], nearest: bool = False) -> Sequence[Action] | None:
        performed, difference = _perform(bind, machine, shorter, nearest=nearest)
        return None if difference is None else performed

    shortest = minimised(actions, needed, attempts=attempts)
    shortest = minimised(shortest, partial(needed, nearest=True), attempts=attempts)
    difference = difference_of(bind, machine, shortest)
    assert difference is not None, "the shortest list differs, too"
    return shortest, difference


def difference_of(bind: Bind[M], machine: M, actions: Iterable[Action]) -> Difference | None:
    """The first difference when `actions` are performed; None when there is none."""
    return _perform(bind, machine, actions)[1]


def _perform(
    bind: Bind[M], machine: M, actions: Iterable[Action], *, nearest: bool = False
) -> tuple[Sequence[Action], Difference | None]:
    """The actions that were performed up to the first difference, and that."""
    binding = bind(machine)
    performed: Sequence[Action] = ()
    try:
        lockstep: Lockstep[M] = Lockstep(machine, binding)
        performed = lockstep.sent
        for action in actions:
            if not lockstep.perform(action) and nearest:
                instead = nearest_enabled(machine, lockstep.state, action)
                if instead is not None:
                    lockstep.perform(instead)
    except Difference as difference:
        return performed, difference
    finally:
        binding.close()
    return performed, None
