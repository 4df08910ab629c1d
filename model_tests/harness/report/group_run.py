"""What coordinators decided about the group of a simulated run, decision by decision, as the specification followed it.

Each decision comes with the group as every coordinator has it then, what of it is committed, and what its members were
told last. Decisions that change nothing and refuse nobody are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup
from tidegauge.impl.server.trace import consumer_groups as consumers
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.report.diagram import broker_lane
from tidegauge.model_tests.harness.report.model import Arrow
from tidegauge.model_tests.harness.report.told_groups import Called, told, told_partitions
from tidegauge.model_tests.harness.validation.coordinated import Following, GroupAt
from tidegauge.model_tests.harness.validation.group_migration import OF_A_GROUP
from tidegauge.spec.kernel.fields import fields_of
from tidegauge.spec.kernel.machine import Action

__all__ = ["Decided", "GroupLife", "Moment", "besides", "changed", "life_of"]

MEMBERS: Final = "members"
LOG: Final = "log of groups"
REQUESTS: Final = {
    "ReceiveJoin": "JoinGroup",
    "RefuseJoin": "JoinGroup",
    "ReceiveSync": "SyncGroup",
    "ReceiveClassicHeartbeat": "Heartbeat",
    "ReceiveCommit": "OffsetCommit",
    "RefuseHeartbeat": "ConsumerGroupHeartbeat",
}
"""The requests of decisions that are called the same whatever the protocol of the group."""
NO_ERROR: Final = "none"

Values = Mapping[str, Mapping[str, str]]
"""What every lane says: lane -> name -> value."""


@attrs.frozen(eq=False)
class Moment:
    """How all stood between two decisions."""

    values: Values
    at: tuple[GroupAt, ...]
    """The group at its coordinators."""


@attrs.frozen(eq=False)
class Decided:
    """A decision, and how all stood after it."""

    event: TraceEvent
    detail: str
    arrows: tuple[Arrow, ...]
    after: Moment
    wrong: str = ""
    """Why it is no action of the specification."""

    @property
    def name(self) -> str:
        """That of the specification's action."""
        return self.event.name


@attrs.frozen(eq=False)
class GroupLife:
    """A group from the beginning of its run on."""

    begins: Moment
    decided: tuple[Decided, ...]
    called: Called
    left_out: int
    """Decisions that changed nothing, and refused nobody."""

    @property
    def moments(self) -> tuple[Moment, ...]:
        """One more than decisions."""
        return (self.begins, *(one.after for one in self.decided))

    @property
    def wrong(self) -> str:
        """Why the last decision is no action of the specification; "" if all are."""
        return self.decided[-1].wrong if self.decided else ""

    def lanes(self, first: int, last: int) -> tuple[str, ...]:
        """Those of the decisions from one number to another, from 1 on: of every broker that has the group by then."""
        between = self.moments[first - 1 : last + 1]
        known = {lane for moment in between for lane in moment.values} - {MEMBERS, LOG}
        return (MEMBERS, *sorted(known, key=lambda lane: int(lane.rpartition(" ")[2])), LOG)


def life_of(trace: Sequence[TraceEvent], group: str) -> GroupLife:
    """Follow a trace up to the first decision that is no action of the specification."""
    called = Called(dict(_clients(trace)))
    following = Following(HARNESS.followers)
    last: dict[str, str] = {}
    begins = before = _moment(following, group, called, last)
    decided: list[Decided] = []
    left_out = 0
    for event in trace:
        why = following.refusal(event)
        is_of_group = isinstance(event.decision, OF_A_GROUP) and event.decision.group == group
        at = before.at if why else tuple(following.at_coordinators(group))
        said = _said(event, {one.node: one.names for one in (*before.at, *at)}, called) if is_of_group else None
        if said is not None:
            last.update(said.told)
        after = before if why else _moment(following, group, called, last)
        if why or after.values != before.values or (said is not None and said.is_refusal):
            arrows = () if said is None else said.arrows
            passed_ms = event.time - trace[0].time
            decided.append(Decided(event, _detail(event, passed_ms, said, called), arrows, after, why))
            before = after
        else:
            left_out += is_of_group
        if why:
            break
    return GroupLife(begins, tuple(decided), called, left_out)


def besides(moment: Moment, called: Called) -> Iterator[tuple[str, str, Moment]]:
    """Time-outs and departures that the specification allows: name, whom and where it is about, how all stands then."""
    for place, at in enumerate(moment.at):
        lane = broker_lane(at.node)
        for action, group in at.possible(at.group):
            then = attrs.evolve(at, group=group)
            values = {**moment.values, lane: _told_at(then, called)}
            after = Moment(values, (*moment.at[:place], then, *moment.at[place + 1 :]))
            yield action.name, f"{_whom(action, at, called)}at {lane}", after


def changed(before: Values, after: Values) -> Iterator[str]:
    """What is another value, lane by lane."""
    for lane in dict.fromkeys((*before, *after)):
        old, new = before.get(lane, {}), after.get(lane, {})
        for name in dict.fromkeys((*old, *new)):
            if old.get(name) != new.get(name):
                yield f"{lane}, {name}: {old.get(name, '–')} → {new.get(name, '–')}"


# --- how all stands ----------------------------------------------------------------------------------------------


def _moment(following: Following, group: str, called: Called, last: Mapping[str, str]) -> Moment:
    at = tuple(following.at_coordinators(group))
    values: dict[str, Mapping[str, str]] = {MEMBERS: dict(last)}
    values.update((broker_lane(one.node), _told_at(one, called)) for one in at)
    committed = following.committed(group)
    values[LOG] = {} if committed is None else told(committed.group, committed.names, called)
    return Moment(values, at)


def _told_at(at: GroupAt, called: Called) -> dict[str, str]:
    return {"leader epoch": str(at.leader_epoch), **told(at.group, at.names, called)}


def _whom(action: Action, at: GroupAt, called: Called) -> str:
    """The member that an action is about."""
    fields = dict(fields_of(action))
    number = fields.get("member_id", getattr(fields.get("request"), "member_id", None))
    names = {known: name for name, known in at.names.members.items()}
    return f"{called.member(names[number])}, " if number in names else ""


# --- what is asked and told --------------------------------------------------------------------------------------


def _clients(trace: Sequence[TraceEvent]) -> Iterator[tuple[str, str]]:
    """(member id, id of its client), as requests say it; a coordinator of classic groups makes the one of the other."""
    for event in trace:
        request: Any = getattr(event.decision, "request", None)
        client = getattr(request, "client_id", "")
        if isinstance(request, JoinGroup) and client:
            yield f"{client}-{request.unique}", client
        if client and getattr(request, "member_id", ""):
            yield request.member_id, client


@attrs.frozen
class _Said:
    """What a member has asked, or is told."""

    member: str
    told: Mapping[str, str]
    """What it is told last, by what that is about."""
    is_refusal: bool
    arrows: tuple[Arrow, ...]
    """None where no broker has the group."""


def _said(event: TraceEvent, names: Mapping[int, Any], called: Called) -> _Said | None:
    """`names`: of the group, by the broker that coordinates it."""
    decision, broker = event.decision, broker_lane(event.node)
    if isinstance(decision, consumers.RespondToHeartbeat):
        member = called.member(decision.member_id)
        told_last = {f"{member} is in epoch": str(decision.epoch)}
        if decision.assignment is not None and event.node in names:
            places = names[event.node].partitions(decision.assignment)
            told_last[f"{member} is to own"] = told_partitions(places, names[event.node])
        words = ", ".join(f"{name.removeprefix(member)} {value}".strip() for name, value in told_last.items())
        arrows = [Arrow(broker, MEMBERS, f"{member} {words}")]
        return _Said(member, told_last, False, tuple(arrows) if event.node in names else ())
    request: Any = getattr(decision, "request", None)
    if request is None:
        return None
    member = _sender(request, called)
    arrows = [Arrow(MEMBERS, broker, f"{member}: {_request_name(event)}")]
    error: Any = getattr(decision, "error", None)
    is_refusal = error is not None and error.name != NO_ERROR
    if is_refusal:
        arrows.append(Arrow(broker, MEMBERS, f"{member}: {error.name.upper()}"))
    return _Said(member, {}, is_refusal, tuple(arrows) if event.node in names else ())


def _sender(request: Any, called: Called) -> str:
    """A member, or the client of one that has no member id yet."""
    leaving = getattr(request, "members", ())
    ids = [one.member_id or f"static {one.instance_id}" for one in leaving]
    member_id = getattr(request, "member_id", "") or ", ".join(map(called.member, ids))
    return called.member(member_id) if member_id else getattr(request, "client_id", "") or "a client"


def _request_name(event: TraceEvent) -> str:
    is_consumer = isinstance(event.decision, consumers.OfConsumerGroup)
    of_protocol = {
        "ReceiveHeartbeat": "ConsumerGroupHeartbeat" if is_consumer else "Heartbeat",
        "ReceiveLeave": "ConsumerGroupHeartbeat" if is_consumer else "LeaveGroup",
    }
    return REQUESTS.get(event.name) or of_protocol.get(event.name, event.name)


def _detail(event: TraceEvent, passed_ms: int, said: _Said | None, called: Called) -> str:
    """When and where it was decided, whom it is about, and what the request says of its epoch."""
    request = getattr(event.decision, "request", None)
    words = [f"{passed_ms / 1_000:.3f} s, at node {event.node}"]
    if said is not None:
        words.append(said.member)
    elif member_id := getattr(event.decision, "member_id", ""):
        words.append(called.member(member_id))
    for name in ("epoch", "generation"):
        if (value := getattr(request, name, None)) is not None:
            words.append(f"{name} {value}")
    return ", ".join(words)
