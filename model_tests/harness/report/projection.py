"""A trace as one party sees it: what changes in its lane, and the messages that leave or reach it.

A trace of three brokers is long, and most of it is about the others. Its projection on a lane of the diagram has the
steps that touch that lane, under their numbers in the whole trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from tidegauge.model_tests.harness.report.diagram import CLIENT, CONTROLLER, broker_lane, ids, lanes_of, party_of
from tidegauge.model_tests.harness.report.model import Arrow, ControllerView, Passage, Record, ReplicaView, Step
from tidegauge.spec.kernel.fields import fields_of


@attrs.frozen
class Seen:
    """A step that touches the lane."""

    number: int
    """In the whole trace; the initial state is number 0."""
    action: str
    detail: str
    messages: tuple[str, ...]
    """What leaves or reaches the lane."""
    changes: tuple[str, ...]
    """Each value of the lane that the step changes; of the initial state all values."""


def projected(steps: Sequence[Step], lane: str) -> tuple[Seen, ...]:
    """The initial state, and the steps that touch the lane. Raises ValueError, with the lanes, for another one."""
    lanes = lanes_of(tuple(steps))
    if lane not in lanes:
        raise ValueError(f"there is no lane {lane!r}: choose one of {', '.join(lanes)}")
    first = facts_of(steps[0], lane)
    seen = [Seen(0, steps[0].action, "", (), tuple(f"{name}: {value}" for name, value in first.items()))]
    before = first
    for number, step in enumerate(steps[1:], start=1):
        after = facts_of(step, lane)
        messages = tuple(_told(arrow, lane) for arrow in step.arrows if lane in (arrow.source, arrow.target))
        changes = tuple(_changes(before, after))
        if messages or changes:
            seen.append(Seen(number, step.action, step.detail, messages, changes))
        before = after
    return tuple(seen)


def narrated(steps: Sequence[Step], lane: str) -> Iterator[str]:
    """The projection as lines of text, as `narrate` tells a whole trace."""
    for seen in projected(steps, lane):
        yield f"{seen.number}. {seen.action}" + (f": {seen.detail}" if seen.detail else "")
        for line in (*seen.messages, *seen.changes):
            yield f"     {line}"


def facts_of(step: Step, lane: str) -> Mapping[str, str]:
    """What a lane holds after a step, by name."""
    if lane == CLIENT:
        return {} if step.client is None else step.client.values
    if lane == CONTROLLER:
        return {} if step.controller is None else _facts(step.controller)
    for number, replica in enumerate(step.replicas):
        if lane == broker_lane(number):
            return _facts(replica)
    party = party_of(lane, step)
    return {} if party is None else party.values


def _facts(view: ReplicaView | ControllerView) -> dict[str, str]:
    told = ((name.replace("_", " "), _text(value)) for name, value in fields_of(view) if name != "broker")
    return {name: text for name, text in told if text is not None}


def _text(value: object) -> str | None:
    """A value in words; None where there is nothing to tell."""
    if isinstance(value, tuple):
        records = [f"{one.value}@{one.epoch}" for one in value if isinstance(one, Record)]
        return f"[{' '.join(records)}]" if len(records) == len(value) else ids(value)
    return None if value is None else str(value)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys((*after, *before)):
        old, new = before.get(name, "–"), after.get(name, "–")
        if old != new:
            yield f"{name}: {old} → {new}"


def _told(arrow: Arrow, lane: str) -> str:
    """A message as the lane sees it."""
    leaves = arrow.source == lane
    other = arrow.target if leaves else arrow.source
    match arrow.passage:
        case Passage.SENT:
            told = f"sends to {other}" if leaves else f"{other} sends"
        case Passage.LOST:
            told = f"lost on the way {'to' if leaves else 'from'} {other}"
        case Passage.DELIVERED:
            told = f"reaches {other}" if leaves else f"receives from {other}"
    return f"{told}: {arrow.label}"
