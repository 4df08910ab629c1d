"""What a lockstep attempts though it is forbidden: requests that the specification refuses in a reached state.

A machine says which requests a party might send (`attempts`: an action's own candidates, and near misses of them).
Those whose guard returns a `Refusal` are forbidden. A draw takes the class of action that was
refused least in this lockstep, and of its errors the one that was least: an error that is rare, and can be had in few
states, is not missed where it can.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.kernel.machine import Action

SHARE: Final = 0.05
"""Of the actions of a walk or an example, those before which something forbidden is attempted."""


def drawn_forbidden(lockstep: Lockstep[Any], rng: Random, share: float = SHARE) -> Action | None:
    """Something forbidden to attempt now, in one of `share` draws; None in the others, or if nothing can be."""
    if rng.random() >= share:
        return None
    machine = lockstep.machine
    if not isinstance(machine, GuardedMachine):
        return None
    refused = lockstep.refused
    of_kind = Counter[str]()
    for (name, _), count in refused.items():
        of_kind[name] += count
    kinds = [kind for kind in machine.attempted_types if lockstep.can_send(kind)]
    rng.shuffle(kinds)
    for kind in sorted(kinds, key=lambda kind: of_kind[kind.__name__]):
        by_error: dict[str, list[Action]] = {}
        for action, refusal in machine.refused(lockstep.state, kind):
            by_error.setdefault(refusal.error.name, []).append(action)
        if by_error:
            return rng.choice(by_error[min(by_error, key=lambda error: refused[kind.__name__, error])])
    return None
