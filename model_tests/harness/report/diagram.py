"""A counterexample as a sequence diagram.

There is one lane for the clients, the controller, each broker, and each party of another protocol; and one band for
each action. A band begins with the messages, as arrows from lane to lane (dashed where a message is sent, solid where
it arrives); below them is the state of every lane after the action. What the action changed is marked, and lanes in
which nothing changed are grey. Truncated records stay visible, crossed out, in the step that truncated them. Where a
goal is never reached, a bar marks the steps that lead round and round, with a line where they begin and where they end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

import attrs

from tidegauge.linearizability.report.markup import Html, classes, element
from tidegauge.model_tests.harness.report.model import (
    Arrow,
    ClientView,
    ControllerView,
    Counterexample,
    PartyView,
    Passage,
    Record,
    ReplicaView,
    Step,
)

CLIENT = "client"
CONTROLLER = "controller"
HUES = 8
"""Colours for leader epochs; they repeat after that many."""
SHOWN_RECORDS = 10
"""Records of a log that a lane has room for; older ones are counted."""


def broker_lane(broker: int) -> str:
    return f"broker {broker}"


def sequence_diagram(counterexample: Counterexample) -> Html:
    """The whole figure. Raises ValueError when an arrow names a lane that is not there."""
    steps = counterexample.steps
    lanes = lanes_of(steps)
    loop = Loop.of(counterexample)
    bands = [band(0, lanes, None, steps[0], loop)] if steps else []
    bands += [band(number, lanes, before, after, loop) for number, (before, after) in enumerate(pairwise(steps), 1)]
    bands += loop.end(len(steps) - 1)
    return element(
        "div",
        element("div", legend(steps), class_="legend"),
        element("div", header(lanes), bands, class_="sequence", style=f"--lanes: {len(lanes)}"),
        class_="diagram",
    )


@attrs.frozen
class Loop:
    """The steps at the end that lead round and round."""

    after: int | None = None
    """The step in whose state they begin and end; None without such steps."""
    steps: int = 0

    @classmethod
    def of(cls, counterexample: Counterexample) -> Loop:
        cycle = counterexample.cycle
        return cls() if cycle is None else cls(len(counterexample.steps) - 1 - cycle, cycle)

    def contains(self, number: int) -> bool:
        return self.after is not None and number > self.after

    def begins_after(self, number: int) -> bool:
        return number == self.after and self.steps > 0

    def end(self, last: int) -> Iterator[Html]:
        """What stands below the last step."""
        if self.after is None:
            return
        if not self.steps:
            yield element("p", "Nothing fair can happen any more.", class_="loop turn")
            return
        back = element("a", f"step {self.after}", href=f"#step-{self.after}")
        again = f"step {last}" if self.steps == 1 else f"steps {self.after + 1} to {last}"
        yield element("p", "↻ All stands as after ", back, f": {again} may follow for ever.", class_="loop turn")


def lanes_of(steps: tuple[Step, ...]) -> tuple[str, ...]:
    brokers = max((len(step.replicas) for step in steps), default=0)
    client = (CLIENT,) if any(step.client for step in steps) else ()
    controller = (CONTROLLER,) if any(step.controller for step in steps) else ()
    parties = dict.fromkeys(party.lane for step in steps for party in step.parties)
    return (*client, *controller, *(broker_lane(broker) for broker in range(brokers)), *parties)


def header(lanes: tuple[str, ...]) -> Html:
    return element("div", element("div", "step"), [element("div", lane) for lane in lanes], class_="band lane-names")


def legend(steps: tuple[Step, ...]) -> Iterator[Html]:
    epochs = sorted({record.epoch for step in steps for replica in step.replicas for record in replica.log})
    for epoch in epochs:
        yield element("span", element("i", class_=f"record {hue(epoch)}"), f"leader epoch {epoch}")
    if any(step.replicas for step in steps):
        yield element("span", element("i", class_="mark"), "high watermark: committed to its left")
        yield element("span", element("i", class_="record cut"), "cut or lost in this step")
        yield element("span", element("i", class_="record unflushed"), "not flushed")
    yield element("span", element("i", class_="line sent"), "sent")
    yield element("span", element("i", class_="line"), "delivered")
    yield element("span", element("b", "value", class_="changed"), "changed in this step")


def hue(epoch: int) -> str:
    return f"e{epoch % HUES}"


def band(number: int, lanes: tuple[str, ...], before: Step | None, after: Step, loop: Loop) -> Html:
    cards = [card(lane, before, after) for lane in lanes]
    turns = loop.begins_after(number)
    link = element("a", str(number), class_="step-number", href=f"#step-{number}")
    told = element("div", element("b", breakable(after.action)), element("p", after.detail) if after.detail else None)
    return element(
        "section",
        element("div", link, told, class_="action"),
        element("div", [arrow(lanes, each) for each in after.arrows], class_="arrows") if after.arrows else None,
        element("div", cards, class_="cards"),
        element("p", "↻ From here on the steps lead round and round.", class_="turn") if turns else None,
        class_=classes("band", loop.contains(number) and "loop"),
        id=f"step-{number}",
    )


def breakable(name: str) -> list[Html | str]:
    """CamelCase that may break between its words."""
    words = re.split(r"(?<=[a-z])(?=[A-Z])", name)
    return [words[0], *(part for word in words[1:] for part in (element("wbr"), word))]


def arrow(lanes: tuple[str, ...], message: Arrow) -> Html:
    for lane in (message.source, message.target):
        if lane not in lanes:
            raise ValueError(f"an arrow goes to or from {lane!r}, but the lanes are {', '.join(lanes)}")
    source, target = lanes.index(message.source), lanes.index(message.target)
    left, right = min(source, target), max(source, target)
    # The grid has two columns a lane, so that lines between columns fall on the lanes' middles.
    columns = (
        f"grid-column: {2 * left + 2} / {2 * right + 2}" if left != right else f"grid-column: {2 * left + 1} / span 2"
    )
    direction = "here" if source == target else "right" if source < target else "left"
    passage = "✕ lost: " if message.passage is Passage.LOST else ""
    return element(
        "div",
        element("span", passage, message.label),
        class_=classes("arrow", direction, message.passage.value),
        style=columns,
        data_message=message.message,
        data_source=message.source,
        data_target=message.target,
    )


def card(lane: str, before: Step | None, after: Step) -> Html:
    if lane == CLIENT:
        return client_card(before.client if before else None, after.client)
    if lane == CONTROLLER:
        return controller_card(before.controller if before else None, after.controller)
    for broker, replica in enumerate(after.replicas):
        if lane == broker_lane(broker):
            return replica_card(before.replicas[broker] if before else None, replica)
    party = party_of(lane, after)
    return nothing_here() if party is None else facts_card("party", party_of(lane, before or after), party)


def framed(lane: str, same: bool, *children: Html | list[Html]) -> Html:
    """A lane's state after a step; it steps back where the step left it alone."""
    return element("div", *children, class_=classes("card", lane, same and "same"))


def nothing_here() -> Html:
    return element("div", class_="card empty")


def fact(name: str, before: str | None, after: str | None) -> Html:
    """A named value, marked where the step changed it; the old value is in its tooltip."""
    if after is None:
        return Html("")
    changed = before != after
    shown = element("b", after, class_="changed" if changed else None, title=f"was {before}" if changed else None)
    return element("span", f"{name} ", shown, class_="fact")


def ids(brokers: tuple[int, ...] | None) -> str | None:
    return None if brokers is None else "{" + ", ".join(map(str, brokers)) + "}"


def replica_card(previous: ReplicaView | None, after: ReplicaView) -> Html:
    before = previous or after
    role = element(
        "b", after.role, class_=classes("role", after.role.split()[0], before.role != after.role and "changed")
    )
    isr, pending = ids(after.isr), ids(after.pending_isr)
    facts = [
        fact("LEO", str(before.log_end_offset), str(after.log_end_offset)),
        fact("HW", str(before.high_watermark), str(after.high_watermark)),
        fact("ISR", ids(before.isr), isr),
        fact("proposed", ids(before.pending_isr), pending),
    ]
    epoch = fact("epoch", epoch_number(before.leader_epoch), epoch_number(after.leader_epoch))
    return framed(
        "replica",
        previous == after,
        element("div", role, epoch, class_="row"),
        log_strip(before, after),
        element("div", facts, class_="row facts"),
    )


def epoch_number(epoch: int) -> str:
    return "–" if epoch < 0 else str(epoch)


def log_strip(before: ReplicaView, after: ReplicaView) -> Html:
    """The log as boxes: colour by leader epoch, a bar at the high watermark, truncated records crossed out."""
    kept = common_prefix(before.log, after.log)
    first = max(0, len(after.log) - SHOWN_RECORDS)
    boxes: list[Html] = [element("span", f"{first} more …", class_="older")] if first else []
    if not before.log and not after.log:
        boxes.append(element("span", "empty log", class_="older"))
    for offset in range(first, len(after.log) + 1):
        if offset == after.high_watermark and (before.log or after.log):
            moved = before.high_watermark != after.high_watermark
            boxes.append(element("i", class_=classes("mark", moved and "moved"), title=f"HW {offset}"))
        if offset < len(after.log):
            unflushed = after.flushed is not None and offset >= after.flushed
            boxes.append(box(offset, after.log[offset], new=offset >= kept, unflushed=unflushed))
    boxes += [box(kept + i, record, cut=True) for i, record in enumerate(before.log[kept:][:SHOWN_RECORDS])]
    return element("div", boxes, class_="log")


def common_prefix(before: tuple[Record, ...], after: tuple[Record, ...]) -> int:
    same = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        same += 1
    return same


def box(offset: int, record: Record, *, new: bool = False, unflushed: bool = False, cut: bool = False) -> Html:
    names = classes("record", hue(record.epoch), new and "new", unflushed and "unflushed", cut and "cut")
    return element("span", record.value, class_=names, title=f"offset {offset}, leader epoch {record.epoch}")


def controller_card(previous: ControllerView | None, after: ControllerView | None) -> Html:
    if after is None:
        return nothing_here()
    before = previous or after
    facts = [
        fact("leader", leader(before), leader(after)),
        fact("epoch", str(before.leader_epoch), str(after.leader_epoch)),
        fact("ISR", ids(before.isr), ids(after.isr)),
        fact("ELR", ids(before.elr), ids(after.elr) if after.elr or before.elr else None),
        fact("partition epoch", str(before.partition_epoch), str(after.partition_epoch)),
        fact("fenced", ids(before.fenced), ids(after.fenced) if after.fenced or before.fenced else None),
    ]
    if after.controller_epoch != before.controller_epoch:
        facts.append(fact("controller epoch", str(before.controller_epoch), str(after.controller_epoch)))
    return framed("controller", previous == after, element("div", facts, class_="row facts"))


def leader(controller: ControllerView) -> str:
    return "none" if controller.leader is None else str(controller.leader)


def client_card(before: ClientView | None, after: ClientView | None) -> Html:
    return nothing_here() if after is None or not after.values else facts_card("client", before, after)


def facts_card(lane: str, before: ClientView | PartyView | None, after: ClientView | PartyView) -> Html:
    """Named values, each marked where the step changed it; a dash for one that the step took away."""
    old: Mapping[str, str] = before.values if before else after.values
    facts = [fact(name, old.get(name), after.values.get(name, "–")) for name in {**after.values, **old}]
    return framed(lane, before == after, element("div", facts, class_="row facts"))


def party_of(lane: str, step: Step) -> PartyView | None:
    return next((party for party in step.parties if party.lane == lane), None)
