"""What properties say of states that never happen: crosses, each a state with a piece of another one in it.

No behaviour of a machine as it is tells an invariant from a weaker one, nor a goal from an easier one. Crosses do, and
so each machine has its number: how often its properties and goals are false, of all that they are asked.
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

CROSSES: Final = 800
DEEPER: Final = 0.7
"""How likely a piece is crossed in turn, and not taken as a whole."""
NUDGED: Final = 0.3
"""How likely a number is one more or one less, and a truth value the other one, and not that of the other state."""
FALSE: Final[Mapping[str, int]] = {
    "replication": 9090,
    "kip320": 2599,
    "replication-3.5": 2651,
    "kip848": 2745,
    "kip848-first": 2694,
    "transactions-diary": 3221,
    "kraft": 974,
    "pull-raft": 1123,
    "pull-raft-2": 1187,
    "kip853": 3046,
    "kip996": 3197,
    "reassignment": 9924,
    "controlled-shutdown": 9008,
    "retention": 11343,
    "directories": 10925,
    "damage": 9048,
    "lost-logs": 9514,
    "running-damage": 12038,
    "late-messages": 9708,
    "unregistering": 9080,
    "deletion": 10951,
    "reads": 10345,
    "settings": 9661,
    "composed-replication": 19148,
    "idempotence": 6940,
    "transactions": 8460,
    "classic-groups": 5413,
    "consumer-groups": 6700,
    "group-migration": 3716,
    "group-loading": 2894,
    "committed-reads": 2406,
    "unclean-transactions": 1978,
    "offsets": 3393,
    "compaction": 3470,
    "transactional-compaction": 3632,
    "recovery": 2940,
    "lag": 2525,
    "administration": 3614,
    "authentication": 3036,
    "membership": 3784,
    "succession": 2682,
    "placement": 2679,
    "workers": 3946,
    "moves": 3108,
    "idempotence of one producer": 3236,
    "idempotence of deleted records": 2292,
    "classic groups that commit": 3318,
    "group migration of static members": 2701,
    "transactions of version 1": 5320,
    "recovery of logs of all kinds": 2896,
    "transactions that a database decides": 5854,
}
"""How often the properties and goals of a machine are false, of all that they are asked."""
SHOWN: Final[Mapping[str, int]] = {
    "replication": 28910,
    "replication-3.5": 14406,
    "kip848": 2040,
    "kip848-first": 1632,
    "transactions-diary": 1089,
    "kraft": 2440,
    "pull-raft": 1120,
    "pull-raft-2": 1208,
    "kip853": 2430,
    "kip996": 3570,
    "reassignment": 41904,
    "controlled-shutdown": 25740,
    "retention": 43537,
    "directories": 19392,
    "damage": 25830,
    "lost-logs": 28128,
    "running-damage": 29784,
    "late-messages": 24780,
    "unregistering": 26280,
    "deletion": 20874,
    "reads": 30928,
    "settings": 24444,
    "composed-replication": 52992,
    "idempotence": 13008,
    "transactions": 15792,
    "classic-groups": 20376,
    "consumer-groups": 27645,
    "group-migration": 14600,
    "group-loading": 564,
    "committed-reads": 29512,
    "unclean-transactions": 1965,
    "offsets": 4520,
    "transactional-compaction": 2610,
    "workers": 1660,
    "idempotence of one producer": 8316,
    "idempotence of deleted records": 10836,
    "classic groups that commit": 9120,
    "group migration of static members": 2960,
    "transactions of version 1": 8715,
    "transactions that a database decides": 6103,
}
"""How many things a machine shows beside a property that is false; most show none."""


def crossed(rng: Random, one: Any, other: Any) -> Any:
    """One value with a piece of another one, of those in which they differ."""
    if attrs.has(type(one)) and type(one) is type(other):
        unlike = [(field, piece) for field, piece in fields_of(other) if getattr(one, field) != piece]
        field, piece = rng.choice(unlike or list(fields_of(other)) or [("", None)])
        return evolve(one, **{field: crossed(rng, getattr(one, field), piece)}) if field else one
    if isinstance(one, tuple) and isinstance(other, tuple) and one and other and rng.random() < DEEPER:
        place = rng.randrange(len(one))
        return (*one[:place], crossed(rng, one[place], rng.choice(other)), *one[place + 1 :])
    if type(one) is int and rng.random() < NUDGED:
        return one + rng.choice((-1, 1))
    if type(one) is bool and rng.random() < NUDGED:
        return not one
    return other


def steps(name: str) -> Iterator[tuple[Any, Action | None, Any]]:
    """A state, what may happen in it, of each class equally often, and a cross."""
    states, rng = list(walked(name).items()), Random(name)
    for _ in range(CROSSES):
        (before, actions), (one, _), (other, _) = (rng.choice(states) for _ in range(3))
        kind = rng.choice(list(dict.fromkeys(map(type, actions))) or [Action])
        of_kind = [action for action in actions if type(action) is kind]
        yield before, rng.choice(of_kind) if of_kind else None, crossed(rng, rng.choice((before, one)), other)


def is_false(holds: Callable[..., bool], *asked: object) -> bool:
    """Whether it does not hold; of some crosses nothing can be said, and it doesn't."""
    try:
        return not holds(*asked)
    except (LookupError, TypeError, AssertionError, ValueError, AttributeError, StopIteration):
        return True


def false_of(name: str) -> int:
    """How often the properties of a machine are false, of all that they are asked."""
    machine, false = machine_of(name), 0
    of_states = (*machine.invariants.values(), *machine.converges.values(), *machine.sometimes.values())
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


def shown_of(name: str) -> int:
    """How many things the machine has to show where a property is false, in all states of its walks."""
    machine = machine_of(name)
    return sum(len(machine.explain(each, state)) for state in walked(name) for each in machine.invariants)


def test_so_much_is_shown_where_a_property_is_false() -> None:
    shown = {name: count for name in NAMES if (count := shown_of(name))}
    assert shown == SHOWN, "if a machine is new, or is meant to show otherwise, these are the numbers"
