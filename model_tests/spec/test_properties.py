"""What properties say of states that never happen: crosses, each a state with a piece of another one in it.

No behaviour of a machine as it is tells an invariant from a weaker one, nor a goal from an easier one. Crosses do, and
so each machine has its number: how often its properties are false, of all that they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

import attrs
import pytest

from tidegauge.model_tests.spec.walked import NAMES, machine_of, walked
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.fields import fields_of
from tidegauge.spec.kernel.machine import Action

CROSSES: Final = 300
DEEPER: Final = 0.7
"""How likely a piece is crossed in turn, and not taken as a whole."""
NUDGED: Final = 0.3
"""How likely a number is one more or one less, and not that of the other state."""
FALSE: Final[Mapping[str, int]] = {
    "replication": 1051,
    "kip320": 13,
    "kip848": 283,
    "kip848-first": 292,
    "reassignment": 1152,
    "controlled-shutdown": 959,
    "retention": 1033,
    "directories": 915,
    "damage": 924,
    "lost-logs": 963,
    "running-damage": 973,
    "late-messages": 963,
    "unregistering": 1043,
    "deletion": 789,
    "reads": 941,
    "settings": 962,
    "composed-replication": 1145,
    "idempotence": 391,
    "transactions": 335,
    "classic-groups": 554,
    "consumer-groups": 315,
    "group-migration": 418,
    "group-loading": 195,
    "committed-reads": 487,
    "unclean-transactions": 413,
    "offsets": 281,
    "compaction": 482,
    "transactional-compaction": 444,
    "recovery": 173,
    "lag": 37,
    "administration": 164,
    "authentication": 240,
    "membership": 302,
    "succession": 204,
    "placement": 91,
    "workers": 360,
    "moves": 210,
    "idempotence of one producer": 342,
    "transactions of version 1": 542,
    "transactions that a database decides": 421,
}
"""How often the properties of a machine are false, of all that they are asked."""


def crossed(rng: Random, one: Any, other: Any) -> Any:
    """One value with a piece of another one."""
    if attrs.has(type(one)) and type(one) is type(other):
        field, piece = rng.choice(list(fields_of(other)) or [("", None)])
        return evolve(one, **{field: crossed(rng, getattr(one, field), piece)}) if field else one
    if isinstance(one, tuple) and isinstance(other, tuple) and one and other and rng.random() < DEEPER:
        place = rng.randrange(len(one))
        return (*one[:place], crossed(rng, one[place], rng.choice(other)), *one[place + 1 :])
    if type(one) is int and rng.random() < NUDGED:
        return one + rng.choice((-1, 1))
    return other


def steps(name: str) -> Iterator[tuple[Any, Action | None, Any]]:
    """A state, what may happen in it, and a cross."""
    states, rng = list(walked(name).items()), Random(name)
    for _ in range(CROSSES):
        (before, actions), (one, _), (other, _) = (rng.choice(states) for _ in range(3))
        yield before, rng.choice(actions) if actions else None, crossed(rng, rng.choice((before, one)), other)


def is_false(holds: Callable[..., bool], *asked: object) -> bool:
    """Whether it does not hold; of some crosses nothing can be said, and it doesn't."""
    try:
        return not holds(*asked)
    except (LookupError, TypeError, AssertionError, ValueError, AttributeError, StopIteration):
        return True


def false_of(name: str) -> int:
    """How often the properties of a machine are false, of all that they are asked."""
    machine, false = machine_of(name), 0
    of_states = (*machine.invariants.values(), *machine.converges.values())
    for before, action, cross in steps(name):
        false += sum(is_false(holds, cross) for holds in of_states)
        if action is not None:
            false += sum(is_false(holds, before, action, cross) for holds in machine.step_invariants.values())
    return false


@pytest.mark.parametrize("name", NAMES)
def test_properties_are_false_of_so_many_crosses(name: str) -> None:
    assert FALSE.get(name) == false_of(name), (
        "if the machine is new, or its properties are meant to have changed, this is its number"
    )
