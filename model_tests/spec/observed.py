"""What is observed of every machine on its walks, a line at a time: the tests keep counts and checksums of the lines.

Mutants are asked for the same lines, up to the first that is another one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from random import Random
from typing import Any, Final
from zlib import crc32

import attrs

from tidegauge.model_tests.spec.walked import every_so_many, machine_of, new, on_walks, walked
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import changes, plain
from tidegauge.spec.kernel.codec import encode
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.fields import fields_of
from tidegauge.spec.kernel.guarded import EnumeratingMachine, GuardedMachine
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled, constants_of
from tidegauge.spec.recovery.actions import StartAnew
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.extensions.unregistering import LearnBrokerEpoch


def checksum(lines: Iterable[str]) -> str:
    """Of all lines, in eight hexadecimal digits."""
    total = 0
    for line in lines:
        total = crc32(line.encode(), total)
    return f"{total:08x}"


# --- steps -----------------------------------------------------------------------------------------------------------


def steps(name: str) -> Iterator[str]:
    """Of each state on the walks, all that may happen in it, and what that changes."""
    for state, following in on_walks(name):
        yield "; ".join(f"{plain(action)}: {', '.join(map(str, changes(state, after)))}" for action, after in following)


def shape(name: str) -> Iterator[str]:
    """Of the machine, and of each that has a constant a little different, what it lets happen, and what it claims."""
    machine = machine_of(name)
    yield _shape_of(machine)
    for constant, value in constants_of(machine).items():
        for other in _near(value):
            try:
                yield _shape_of(attrs.evolve(machine, **{constant: other}))  # type: ignore[misc]
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                yield type(error).__name__
    yield possible_classes(name)
    yield str(refuses_unknown_bounds(name))


def _shape_of(machine: Machine[Any]) -> str:
    named = (machine.invariants, machine.step_invariants, machine.sometimes, machine.converges, machine.leads_to)
    state = next(iter(machine.initial()))
    possible: tuple[type[Action], ...] = getattr(machine, "possible_types", ())
    return "; ".join(
        (
            str(machine.interchangeable),
            *(", ".join(names) for names in named),
            ", ".join(kind.__name__ for kind in possible),
            plain(state),
            *map(plain, machine.actions(state)),
        )
    )


def _near(value: object) -> Iterator[object]:
    """Values a little different from one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, Enum):
        yield from (other for other in type(value) if other is not value)
    elif isinstance(value, int):
        yield from (value - 1, value + 1)
    elif isinstance(value, Bounds):
        yield Bounds()
        for one in value:
            yield Bounds({other: count for other, count in value.items() if other != one})
            yield Bounds({one: value[one]})
    elif isinstance(value, tuple) and value:
        yield value[:-1]


def possible_classes(name: str) -> str:
    """How many classes of action a machine lets happen here, and how many with the constants of the registry."""
    every = [machine_of(name)]
    if name in REGISTRY.names:
        every.append(new(REGISTRY.machine(name)))
    return " ".join(str(len(one.possible_types)) for one in every if isinstance(one, EnumeratingMachine))


def refuses_unknown_bounds(name: str) -> bool:
    """Whether the machine, if it has bounds as a constant, takes none of a perturbation that it has not."""
    machine: Any = machine_of(name)
    if not hasattr(machine, "bounds"):
        return True
    try:
        attrs.evolve(machine, bounds=Bounds(Tide=1))
    except ValueError as error:
        return "has no perturbation Tide" in str(error)
    return False


# --- guards ----------------------------------------------------------------------------------------------------------

OF_A_KIND: Final = 12
"""Actions of each class that every state is asked for."""
MORE_ALLOWED: Final[Mapping[type[Action], str]] = {
    LearnBrokerEpoch: "the explorer has the last registration responded to only; a trace may have an earlier one",
    StartAnew: "the explorer has the log start one offset beyond its end; its leader's may start anywhere beyond",
}
"""Classes of which a guard allows what is not offered, and why."""
EACH: Final = 6
"""Of so many states of a walk, one is asked what is attempted in it."""
SAMPLE: Final = 32
"""Of so many requests that are refused, what one says counts too."""


def attempted(machine: Machine[Any], state: Any) -> list[Action]:
    if not isinstance(machine, GuardedMachine):
        return []
    return [action for kind in machine.attempted_types for action in machine.attempts(state, kind)]


def is_enabled(machine: Machine[Any], state: Any, action: Action) -> bool:
    try:
        machine.step(state, action)
    except NotEnabled:
        return False
    return True


def more_allowed(name: str) -> Iterator[str]:
    """Of each state on the walks, the first action that its guard allows and that is not offered; "" if there is none.

    What other states offer is asked for, a few of each class.
    """
    machine, states = machine_of(name), walked(name)
    known: dict[type[Action], dict[Action, None]] = defaultdict(dict)
    for number, (state, enabled) in enumerate(states.items()):
        for action in (*enabled, *attempted(machine, state)) if number % EACH == 0 else enabled:
            known[type(action)][action] = None
    rng = Random(name)
    of_kinds = [one for kind, one in known.items() if kind not in MORE_ALLOWED]
    asked = [one for of_kind in of_kinds for one in rng.sample(list(of_kind), min(OF_A_KIND, len(of_kind)))]
    for state, enabled in states.items():
        offered = set(enabled)
        allowed = (action for action in asked if action not in offered and is_enabled(machine, state, action))
        yield next((f"{plain(action)} in {plain(state)}" for action in allowed), "")


def refusals(name: str) -> Iterator[str]:
    """Of some states on the walks how many different requests are refused, and what a few of them say.

    Each counts once, and for each one more the code of its error.
    """
    machine, asked = machine_of(name), 0
    if not isinstance(machine, GuardedMachine):
        return
    for state in every_so_many(name, EACH):
        count, said = 0, []
        for kind in machine.attempted_types:
            for action, reason in dict(machine.refused(state, kind)).items():
                count += 1 + abs(reason.error)
                asked += 1
                if asked % SAMPLE == 0:
                    said.append(json.dumps(encode(action)))
        yield " ".join((str(count), *said))


def refused(name: str) -> str:
    """How many different requests a machine refuses on its walks, and the checksum of it."""
    lines = list(refusals(name))
    return f"{sum(int(line.split()[0]) for line in lines)} {checksum(lines)}"


# --- properties ------------------------------------------------------------------------------------------------------

CROSSES: Final = 800
DEEPER: Final = 0.7
"""How likely a piece is crossed in turn, and not taken as a whole."""
NUDGED: Final = 0.3
"""How likely a number is one more or one less, and a truth value the other one, and not that of the other state."""


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


def crosses(name: str) -> Iterator[tuple[Any, Action | None, Any]]:
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


def falsehoods(name: str) -> Iterator[str]:
    """Of each cross, which of the machine's properties and goals are false: a digit for each, 1 for a false one."""
    machine = machine_of(name)
    of_states = (
        *machine.invariants.values(),
        *machine.converges.values(),
        *machine.sometimes.values(),
        *(half for one in machine.leads_to.values() for half in (one.when, one.then)),
    )
    of_steps = tuple(machine.step_invariants.values())
    for before, action, cross in crosses(name):
        false = [is_false(holds, cross) for holds in of_states]
        if action is not None:
            false += [is_false(holds, before, action, cross) for holds in of_steps]
        yield "".join(str(int(one)) for one in false)


def false(name: str) -> str:
    """How often the properties and goals of a machine are false, of all that they are asked, and the checksum of it."""
    lines = list(falsehoods(name))
    return f"{sum(line.count('1') for line in lines)} {checksum(lines)}"


def shown(name: str) -> Iterator[str]:
    """Of each state on the walks, how much the machine has to show where a property is false."""
    machine = machine_of(name)
    for state in walked(name):
        yield " ".join(str(len(machine.explain(each, state))) for each in machine.invariants)


def much_shown(name: str) -> str:
    """How many things a machine shows in all states of its walks, and the checksum of it."""
    lines = list(shown(name))
    return f"{sum(int(count) for line in lines for count in line.split())} {checksum(lines)}"


OBSERVED: Final[Mapping[str, Callable[[str], Iterator[str]]]] = {
    "steps": steps,
    "shape": shape,
    "refusals": refusals,
    "falsehoods": falsehoods,
    "more allowed": more_allowed,
    "shown": shown,
}
"""What is observed -> its lines, of the machine of a name."""
