"""A trace of any machine as the steps of a diagram: one lane with the fields of the state.

Register this for a machine without a drawing of its own.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from tidegauge.model_tests.harness.report.model import PartyView, Step
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.traces import Trace

LANE: Final = "state"


def plain_steps(trace: Trace[Any]) -> tuple[Step, ...]:
    """The initial state, then each action with the state after it."""
    rest = (Step(action.name, fields_of(action), (), parties=view(after)) for _, action, after in trace.transitions())
    return (Step("initial state", "", (), parties=view(trace.initial)), *rest)


def fields_of(action: Action) -> str:
    """The action's fields, as name and value."""
    return ", ".join(f"{name.replace('_', ' ')} {plain(value)}" for name, value in _fields(action).items())


def view(state: object) -> tuple[PartyView]:
    """The fields of a state in one lane."""
    return (PartyView(LANE, {name.replace("_", " "): plain(value) for name, value in _fields(state).items()}),)


def _fields(value: object) -> dict[str, object]:
    kind: type[object] = type(value)
    if not attrs.has(kind):
        return {"value": value}
    return {field.name: getattr(value, field.name) for field in attrs.fields(kind)}
