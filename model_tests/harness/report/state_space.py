"""A part of a machine's state space, as a page shows it: states, and from each of them all that may happen.

The part grows breadth first around the initial states and the traces that it is given, until it has its fill of states.
So a reader who leaves a counterexample finds what is near it. A step out of the part is there too, without its target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from tidegauge.model_tests.harness.report.model import Step
from tidegauge.spec.kernel.changes import changes, plain
from tidegauge.spec.kernel.explaining import explained
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.meaning import meaning
from tidegauge.spec.kernel.traces import Step as TraceStep
from tidegauge.spec.kernel.traces import Trace

STATES: Final = 1_000
"""Of a part, unless its caller says otherwise."""
LONGEST_VALUE: Final = 300
"""Characters of one value of a change; what is longer is cut, and says so."""


@attrs.frozen
class Broken:
    """A property that is false of a state or of a step."""

    name: str
    meaning: str
    """What it says, in words; may be empty."""
    values: Mapping[str, str]
    """What makes it false."""


@attrs.frozen
class Choice:
    """Something that may happen in a state."""

    before: Step
    """How all stood, as a diagram has it."""
    after: Step
    """The action, the messages that moved, and how all stands then."""
    changes: tuple[str, ...]
    """What it changes, value by value."""
    target: int | None
    """The state that it leads to; None where that is not in the part."""
    broken: tuple[Broken, ...]
    """Step invariants that are false of it.

    Where the state after it is not in the part, the invariants that are false there too.
    """


@attrs.frozen
class Place:
    """A state of the part."""

    step: Step
    """How all stands, as a diagram has it."""
    choices: tuple[Choice, ...]
    broken: tuple[Broken, ...]
    """Invariants that are false here."""


@attrs.frozen
class Path:
    """A trace as a way through the part."""

    name: str
    initial: int
    """Of `StateSpace.initial`, by place."""
    choices: tuple[int, ...]
    cycle: int
    """How many of the last choices lead round and round."""


@attrs.frozen
class StateSpace:
    """States by number, and ways through them."""

    machine: str
    constants: Mapping[str, str]
    places: tuple[Place, ...]
    initial: tuple[int, ...]
    paths: tuple[Path, ...]
    is_whole: bool
    """Whether every reachable state is in it."""
    ending: str = "Nothing can happen any more."
    """What a state without choices says."""


@attrs.frozen
class Way:
    """A trace to be shown, under its name."""

    name: str
    trace: Trace[Any]
    cycle: int = 0
    """How many of its last steps lead round and round."""


def state_space(
    machine: Machine[Any],
    ways: Sequence[Way],
    *,
    draw: Callable[[Trace[Any]], tuple[Step, ...]],
    constants: Mapping[str, str],
    states: int = STATES,
    initial_too: bool = True,
) -> StateSpace:
    """The part of `machine` around `ways`, of so many states, or of as many as the ways have if those are more.

    `draw` makes the steps of a diagram from a trace. Without `initial_too` the machine's initial states are left out:
    the ways begin elsewhere. Raises ValueError for fewer than one state.
    """
    if states < 1:
        raise ValueError(f"states={states} leaves nothing to walk through: give at least 1")
    numbers: dict[Any, int] = {}
    begun = tuple(machine.initial()) if initial_too else ()
    for state in (*begun, *(state for way in ways for state in way.trace.states)):
        numbers.setdefault(state, len(numbers))
    successors = _grown(machine, numbers, states, _steps_of(ways))
    drawn = [_drawn(machine, draw, numbers, state, steps) for state, steps in successors.items()]
    starts = (*begun, *(way.trace.initial for way in ways))
    initial = tuple(dict.fromkeys(numbers[state] for state in starts))
    paths = tuple(_path(way, initial, numbers, successors) for way in ways)
    is_whole = all(choice.target is not None for place in drawn for choice in place.choices)
    return StateSpace(machine.name, constants, tuple(drawn), initial, paths, is_whole)


Steps = dict[Any, list[tuple[Action, Any]]]


def _steps_of(ways: Sequence[Way]) -> Steps:
    """The steps of the traces, by the state before: a trace may have a step that the machine does not list."""
    found: Steps = {}
    for way in ways:
        for before, action, after in way.trace.transitions():
            found.setdefault(before, []).append((action, after))
    return found


def _grown(machine: Machine[Any], numbers: dict[Any, int], most: int, told: Steps) -> Steps:
    """The steps of every state in `numbers`, to which the nearest ones are added until there are `most`."""
    found: Steps = {}
    queue = list(numbers)
    for state in queue:
        steps = _merged(told.get(state, ()), machine.successors(state))
        found[state] = steps
        for _, after in steps:
            if after not in numbers and len(numbers) < most:
                numbers[after] = len(numbers)
                queue.append(after)
    return found


def _merged(told: Sequence[tuple[Action, Any]], possible: Iterable[tuple[Action, Any]]) -> list[tuple[Action, Any]]:
    """All that may happen in a state, after what the traces did there: where an action is in both, theirs counts."""
    taken = {action for action, _ in told}
    return list(dict.fromkeys((*told, *(step for step in possible if step[0] not in taken))))


def _drawn(
    machine: Machine[Any],
    draw: Callable[[Trace[Any]], tuple[Step, ...]],
    numbers: Mapping[Any, int],
    state: Any,
    steps: Sequence[tuple[Action, Any]],
) -> Place:
    (here,) = draw(Trace(state))
    choices = []
    for action, after in steps:
        _, then = draw(Trace(state, (TraceStep(action, after),)))
        target = numbers.get(after)
        broken = [
            Broken(name, meaning(holds), _told(machine, name, state, action, after))
            for name, holds in machine.step_invariants.items()
            if not holds(state, action, after)
        ]
        beyond = _broken(machine, after) if target is None else ()
        told = tuple(
            f"{one.path}: {_cut(plain(one.before))} → {_cut(plain(one.after))}" for one in changes(state, after)
        )
        choices.append(Choice(here, then, told, target, (*broken, *beyond)))
    return Place(here, tuple(choices), _broken(machine, state))


def _broken(machine: Machine[Any], state: Any) -> tuple[Broken, ...]:
    return tuple(
        Broken(name, meaning(holds), _told(machine, name, state))
        for name, holds in machine.invariants.items()
        if not holds(state)
    )


def _told(machine: Machine[Any], name: str, *given: Any) -> dict[str, str]:
    return {key: _cut(plain(value)) for key, value in explained(machine, name, *given).items()}


def _cut(text: str) -> str:
    left_out = len(text) - LONGEST_VALUE
    return text if left_out <= 0 else f"{text[:LONGEST_VALUE]}… ({left_out} characters more)"


def _path(way: Way, initial: tuple[int, ...], numbers: Mapping[Any, int], successors: Steps) -> Path:
    choices = [successors[before].index((action, after)) for before, action, after in way.trace.transitions()]
    return Path(way.name, initial.index(numbers[way.trace.initial]), tuple(choices), way.cycle)
