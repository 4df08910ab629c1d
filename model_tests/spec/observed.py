"""What is observed of every machine on its walks, a line at a time: the tests keep counts and checksums of the lines.

Mutants are asked for the same lines, up to the first that is another one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from random import Random
from typing import Any, Final
from zlib import crc32

import attrs

from tidegauge.model_tests.harness.lockstep.drawn_lives import drawn
from tidegauge.model_tests.spec.walked import every_so_many, machine_of, new, on_walks, walk, walked
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import changes, plain
from tidegauge.spec.kernel.codec import encode
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.fields import fields_of, names_of
from tidegauge.spec.kernel.guarded import EnumeratingMachine, GuardedMachine
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled, constants_of
from tidegauge.spec.recovery.actions import Open, StartAnew
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.state import State as Log
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.extensions.unregistering import LearnBrokerEpoch


def checksum(lines: Iterable[str]) -> str:
    """Of all lines, in eight hexadecimal digits."""
    total = 0
    for line in lines:
        total = crc32(line.encode(), total)
    return f"{total:08x}"


SENSELESS: Final = (LookupError, TypeError, AssertionError, ValueError, AttributeError, StopIteration)
"""What is raised where nothing can be said of a cross."""
ASKED: Final = 12
"""Actions of other states that are asked for in a state that none of its walks has."""
REFUSING: Final = (ValueError, LookupError, TypeError, AttributeError)
"""What constants raise that no machine has."""


def _refusal(error: Exception) -> str:
    """What a machine says of such constants, if it says something."""
    return str(error) if type(error) is ValueError else type(error).__name__


# --- steps -----------------------------------------------------------------------------------------------------------


def steps(name: str) -> Iterator[str]:
    """Of each state on the walks, all that may happen in it, and what that changes.

    Then the same on short walks of machines of which several constants are different: which properties are false, too,
    and which actions of the machine may happen.
    """
    machine, known = machine_of(name), dict[Action, None]()
    for state, following in on_walks(name):
        known.update((action, None) for action, _ in following)
        yield _said(machine, state, following)
    for number in range(MIXED_WALKS):
        try:
            machine, rng = mixed(name, number), Random(f"{name}/{number}")
            for state, following in walk(machine, rng, MIXED_LENGTH):
                yield f"{_said(machine, state, following)}; {_false_in(machine, state)}"
                others = Random(str(len(following))).sample(list(known), min(ASKED, len(known)))
                yield "; ".join(_outcome(machine, state, action) for action in others)
        except REFUSING as error:
            yield _refusal(error)


def _said(machine: Machine[Any], state: Any, following: Iterable[tuple[Action, Any]]) -> str:
    """The steps from a state, and the state with its processes renamed."""
    told = [
        f"{plain(action)}{'' if machine.is_fair(state, action, after) else '?'}: {_changed(state, after)}"
        for action, after in following
    ]
    if count := machine.interchangeable:
        told.append(_changed(state, machine.permute(state, (*range(1, count), 0))))
    return "; ".join(told)


def _outcome(machine: Machine[Any], state: Any, action: Action) -> str:
    """What an action changes, if it may happen."""
    try:
        return f"{plain(action)}: {_changed(state, machine.step(state, action))}"
    except NotEnabled:
        return "-"
    except SENSELESS as error:
        return type(error).__name__


def _changed(state: Any, after: Any) -> str:
    return ", ".join(map(str, changes(state, after)))


def shape(name: str) -> Iterator[str]:
    """Of the machine, and of each that has a constant a little different, what it lets happen, and what it claims.

    Then of machines of which several constants are different.
    """
    machine = machine_of(name)
    yield _shape_of(machine)
    for constant, value in constants_of(machine).items():
        for other in _near(value):
            try:
                yield _shape_of(attrs.evolve(machine, **{constant: other}))  # type: ignore[misc]
            except REFUSING as error:
                yield _refusal(error)
    for number in range(MIXED):
        try:
            yield _shape_of(mixed(name, number))
        except REFUSING as error:
            yield _refusal(error)
    yield from _exchanged(machine)
    yield possible_classes(name)
    yield str(refuses_unknown_bounds(name))


MIXED: Final = 120
"""Machines of which several constants are a little different."""
MIXED_WALKS: Final = 30
MIXED_LENGTH: Final = 12
DIFFERENT: Final = 0.35
"""How likely a constant of theirs is."""


def mixed(name: str, number: int) -> Machine[Any]:
    """The machine with several constants a little different. Raises what the machine does if it refuses them."""
    machine, rng = machine_of(name), Random(f"{name}/{number}")
    changed: dict[str, object] = {}
    for constant, value in constants_of(machine).items():
        if isinstance(value, Bounds):
            counts = {one: rng.randint(1, 2) for one in machine.perturbations if rng.random() < DIFFERENT}
            changed[constant] = Bounds(counts)
        elif rng.random() < DIFFERENT and (near := list(_near(value))):
            changed[constant] = rng.choice(near)
    return attrs.evolve(machine, **changed)  # type: ignore[misc]


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


def _exchanged(machine: Machine[Any]) -> Iterator[str]:
    """Whether the machine is another one with each of its classes, and an unknown one, put in its own place."""
    kinds: list[type[Any]] = [*machine.kinds, Machine]
    for kind in kinds:
        for other in kinds:
            try:
                exchanged = machine.exchanged(kind, other)
                yield f"{exchanged == machine} {[one.__name__ for one in exchanged.kinds]}"
            except REFUSING as error:
                yield type(error).__name__


def _near(value: object) -> Iterator[object]:
    """Values a little different from one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, Enum):
        yield from (other for other in type(value) if other is not value)
    elif isinstance(value, int):
        yield from sorted({0, 1, 2, 3, value - 1, value + 1} - {value})
    elif isinstance(value, Bounds):
        yield Bounds()
        for one in value:
            yield Bounds({other: count for other, count in value.items() if other != one})
            yield Bounds({one: value[one]})
    elif isinstance(value, tuple):
        yield from (value[:-1], value[::-1]) if value else ((0,), (1, 0))


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

CROSSES: Final = 1_600
PIECES: Final = (1, 1, 2, 3)
"""Of other states, in one cross: one of these."""
TURNED: Final = 0.1
"""How likely a row begins elsewhere, lacks one item, or has one twice."""
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
        if rng.random() < TURNED:
            return rng.choice(((*one[place:], *one[:place]), (*one[:place], *one[place + 1 :]), (*one, one[place])))
        return (*one[:place], crossed(rng, one[place], rng.choice(other)), *one[place + 1 :])
    if type(one) is int and rng.random() < NUDGED:
        return one + rng.choice((-1, 1))
    if type(one) is bool and rng.random() < NUDGED:
        return not one
    return other


def nudged(rng: Random, value: Any) -> Any:
    """A value with one of its numbers, truth values or members of an enumeration another one, each as likely."""
    found: list[tuple[str | int, ...]] = []
    _find_leaves(value, (), found)
    return _with_leaf(rng, value, rng.choice(found or [()]))


def _find_leaves(value: Any, path: tuple[str | int, ...], found: list[tuple[str | int, ...]]) -> None:
    """Where in a value its numbers and the like are."""
    if isinstance(value, (int, Enum)):
        found.append(path)
    elif isinstance(value, tuple):
        for place, inner in enumerate(value):
            _find_leaves(inner, (*path, place), found)
    else:
        kind: Any = type(value)
        for name in names_of(kind):
            _find_leaves(getattr(value, name), (*path, name), found)


def _with_leaf(rng: Random, value: Any, path: tuple[str | int, ...]) -> Any:
    if path:
        first, rest = path[0], path[1:]
        if isinstance(first, int):
            return (*value[:first], _with_leaf(rng, value[first], rest), *value[first + 1 :])
        return evolve(value, **{first: _with_leaf(rng, getattr(value, first), rest)})
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        return rng.choice(list(type(value)))
    return value + rng.choice((-1, 1)) if isinstance(value, int) else value


def crosses(name: str) -> Iterator[tuple[Any, Action | None, Any]]:
    """A state, what may happen in it, of each class equally often, and a cross; every other one has nudges only."""
    states, rng = list(walked(name).items()), Random(name)
    for number in range(CROSSES):
        (before, actions), (one, _), (other, _) = (rng.choice(states) for _ in range(3))
        kind = rng.choice(list(dict.fromkeys(map(type, actions))) or [Action])
        of_kind = [action for action in actions if type(action) is kind]
        cross = rng.choice((before, one))
        for piece in (other, *(rng.choice(states)[0] for _ in range(rng.choice(PIECES) - 1))):
            cross = nudged(rng, cross) if number % 2 else crossed(rng, cross, piece)
        yield before, rng.choice(of_kind) if of_kind else None, cross


CROSSED: Final = 140
"""Crosses in which it is asked what may happen."""
REFUSED_EACH: Final = 3
"""Of so many of them, it counts in one what is refused."""


def crossed_steps(name: str) -> Iterator[str]:
    """Of crosses, which of the candidates may happen in them, what that changes, and which actions of other states may.

    Some are states that only larger constants reach, or longer walks; some are of no behaviour.
    """
    machine, rng = machine_of(name), Random(name)
    known = list(dict.fromkeys(action for enabled in walked(name).values() for action in enabled))
    for number, (_, _, cross) in enumerate(islice(crosses(name), CROSSED)):
        others = rng.sample(known, min(ASKED, len(known)))
        try:
            offered = list(machine.candidates(cross) if isinstance(machine, GuardedMachine) else machine.actions(cross))
        except SENSELESS as error:
            offered = []
            yield type(error).__name__
        yield "; ".join(_outcome(machine, cross, action) for action in (*offered, *others))
        if isinstance(machine, GuardedMachine) and number % REFUSED_EACH == 0:
            yield _refused_in(machine, cross)


def _refused_in(machine: GuardedMachine[Any], cross: Any) -> str:
    """How much is refused of each class."""
    told = []
    for kind in machine.attempted_types:
        try:
            told.append(str(sum(1 + abs(reason.error) for _, reason in machine.refused(cross, kind))))
        except SENSELESS as error:
            told.append(type(error).__name__)
    return " ".join(told)


def is_false(holds: Callable[..., bool], *asked: object) -> bool:
    """Whether it does not hold; of some crosses nothing can be said, and it doesn't."""
    try:
        return not holds(*asked)
    except SENSELESS:
        return True


def falsehoods(name: str) -> Iterator[str]:
    """Of each cross, which of the machine's properties and goals are false: a digit for each, 1 for a false one."""
    machine = machine_of(name)
    of_steps = tuple(machine.step_invariants.values())
    for before, action, cross in crosses(name):
        false = _false_in(machine, cross)
        if action is not None:
            false += "".join(str(int(is_false(holds, before, action, cross))) for holds in of_steps)
        yield false


def _false_in(machine: Machine[Any], state: Any) -> str:
    of_states = (
        *machine.invariants.values(),
        *machine.converges.values(),
        *machine.sometimes.values(),
        *(half for one in machine.leads_to.values() for half in (one.when, one.then)),
    )
    return "".join(str(int(is_false(holds, state))) for holds in of_states)


def false(name: str) -> str:
    """How often the properties and goals of a machine are false, of all that they are asked, and the checksum of it."""
    lines = list(falsehoods(name))
    return f"{sum(line.count('1') for line in lines)} {checksum(lines)}"


SHOWN: Final = 100
"""Crosses of which it counts what is shown."""


def shown(name: str) -> Iterator[str]:
    """Of each state on the walks, and of some crosses, what the machine has to show where a property is false."""
    machine = machine_of(name)
    asked = [*machine.invariants, *machine.converges, *machine.leads_to]
    for state in (*walked(name), *(cross for _, _, cross in islice(crosses(name), SHOWN))):
        try:
            told = {
                f"{each}: {plain(what)}": None for one in asked for each, what in machine.explain(one, state).items()
            }
            yield "; ".join(told)
        except SENSELESS as error:
            yield type(error).__name__


MODEL_WALKS: Final = 2
MODEL_LENGTH: Final = 25


def in_models(name: str) -> Iterator[str]:
    """On walks of each model that is registered for the machine: all that may happen, and which properties are false.

    The same of a cross beside each state: the constants of a model are chosen for what its words say.
    """
    for model in (model for registration in REGISTRY if registration.name == name for model in registration.models):
        machine = new(model.machine)
        for number in range(MODEL_WALKS):
            rng, before = Random(f"{model.name}/{number}"), None
            for state, following in walk(machine, Random(f"{number}/{model.name}"), MODEL_LENGTH):
                yield f"{_said(machine, state, following)}; {_false_in(machine, state)}"
                for cross in (nudged(rng, state), crossed(rng, state, before or state)):
                    told = [_outcome(machine, cross, action) for action, _ in following[:ASKED]]
                    yield "; ".join((_false_in(machine, cross), *told))
                before = state


# --- short lives of logs ----------------------------------------------------------------------------------------------

LIVES: Final = 240
LIFE: Final[Mapping[str, Any]] = {"max_appends": 24, "max_crashes": 9, "max_damages": 60}


@attrs.define
class _Log:
    """A log in one of its lives."""

    machine: Recovery
    state: Log


def lives(name: str) -> Iterator[str]:
    """Of a machine of recovery, in short lives: what each step changes or why it may not be, and what is false then.

    And all that may happen to a closed log before it is opened. A walk's log grows, so that what is damaged seldom has
    to do with each other.
    """
    machine: Any = machine_of(name)
    if not isinstance(machine, Recovery):
        return
    machine = attrs.evolve(machine, **LIFE)
    for number in range(LIVES):
        (state,) = machine.initial()
        log = _Log(machine, state)
        for action in drawn(log, Random(f"{name}/{number}")):
            yield _lived(log, action)


def _lived(log: _Log, action: Action) -> str:
    """What an action changes in a life, if it may happen."""
    machine, before = log.machine, log.state
    may = "; ".join(map(plain, machine.actions(before))) if isinstance(action, Open) else ""
    if reason := machine.guard(before, action):
        return f"{reason}; {may}"
    after = log.state = machine.step(before, action)
    of_steps = machine.step_invariants.values()
    false = _false_in(machine, after) + "".join(str(int(is_false(one, before, action, after))) for one in of_steps)
    return f"{plain(action)}: {_changed(before, after)}; {false}; {may}"


OBSERVED: Final[Mapping[str, Callable[[str], Iterator[str]]]] = {
    "steps": steps,
    "shape": shape,
    "refusals": refusals,
    "falsehoods": falsehoods,
    "crossed steps": crossed_steps,
    "models": in_models,
    "more allowed": more_allowed,
    "shown": shown,
    "lives": lives,
}
"""What is observed -> its lines, of the machine of a name."""
