"""A trace of any machine as the steps of a diagram, without arrows.

Each field of the state that is an object of several values, as a group, has a lane of its own, and so has each member
of the fields that are named as the machine's parties, as `process 0`, `process 1`. A lane tells the values that are
not at their defaults. What else the state has is in a lane called `state`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs

from tidegauge.model_tests.harness.report.model import PartyView, Step
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.fields import changed_fields_of, fields_of
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.traces import Trace

LANE: Final = "state"


@attrs.frozen
class PlainSteps:
    """Draws the traces of a machine for which nothing else is written."""

    parties: tuple[tuple[str, str], ...] = ()
    """Fields that are tuples of parties, and what one of them is called: `("processes", "process")`."""

    def __call__(self, trace: Trace[Any]) -> tuple[Step, ...]:
        """The initial state, then each action with the state after it."""
        rest = (
            Step(action.name, _detail(action), (), parties=self.view(after)) for _, action, after in trace.transitions()
        )
        return (Step("initial state", "", (), parties=self.view(trace.initial)), *rest)

    def view(self, state: object) -> tuple[PartyView, ...]:
        """A state as lanes, that of the state first."""
        if not attrs.has(type(state)):
            return (PartyView(LANE, {"value": plain(state)}),)
        lanes: list[PartyView] = []
        rest: dict[str, str] = {}
        for name, value in fields_of(state):
            own = [PartyView(lane, _facts(part)) for lane, part in self._own_lanes(name, value)]
            lanes += own
            if not own:
                rest.update(_told(name, value))
        return (PartyView(LANE, rest), *lanes) if rest else tuple(lanes)

    def _own_lanes(self, name: str, value: object) -> Iterator[tuple[str, object]]:
        if attrs.has(type(value)):
            yield _named(name), value
        elif isinstance(value, tuple) and (party := dict(self.parties).get(name)) is not None:
            yield from ((f"{party} {number}", part) for number, part in enumerate(value))


def _facts(part: object) -> dict[str, str]:
    return {told: text for name, value in changed_fields_of(part) for told, text in _told(name, value)}


def _told(name: str, value: object) -> Iterator[tuple[str, str]]:
    """A field by name and in words; of a tuple of objects each by itself, so that a step marks the one it changes."""
    if isinstance(value, tuple) and value and all(attrs.has(type(one)) for one in value):
        yield from ((f"{_named(name)}[{number}]", plain(one)) for number, one in enumerate(value))
    else:
        yield _named(name), plain(value)


def _detail(action: Action) -> str:
    """The action's fields, as name and value."""
    return ", ".join(f"{_named(name)} {plain(value)}" for name, value in fields_of(action))


def _named(name: str) -> str:
    return name.replace("_", " ")
