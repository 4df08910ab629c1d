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
FALSE: Final[Mapping[str, int]] = {
    "replication": 1084,
    "kip320": 16,
    "reassignment": 1144,
    "controlled-shutdown": 917,
    "retention": 1012,
    "directories": 919,
    "damage": 926,
    "lost-logs": 958,
    "running-damage": 982,
    "late-messages": 905,
    "unregistering": 1045,
    "deletion": 809,
    "reads": 902,
    "settings": 992,
    "composed-replication": 1220,
    "idempotence": 382,
    "transactions": 374,
    "offsets": 295,
    "compaction": 458,
    "recovery": 173,
    "authentication": 235,
    "membership": 311,
    "succession": 195,
    "placement": 94,
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


@pytest.mark.parametrize("name", NAMES)
def test_properties_are_false_of_so_many_crosses(name: str) -> None:
    machine, false = machine_of(name), 0
    of_states = (*machine.invariants.values(), *machine.converges.values())
    for before, action, cross in steps(name):
        false += sum(is_false(holds, cross) for holds in of_states)
        if action is not None:
            false += sum(is_false(holds, before, action, cross) for holds in machine.step_invariants.values())
    assert FALSE.get(name) == false, (
        "if the machine is new, or its properties are meant to have changed, this is its number"
    )
