"""A group of the specification in words, with the names that its members, topics and partitions have in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from tidegauge.impl.coordinators.groups.migration.embedded import read_assignment, read_subscription
from tidegauge.impl.records.batches import RecordError
from tidegauge.model_tests.harness.validation.consumer_names import MOST_TOPICS, ConsumerNames
from tidegauge.model_tests.harness.validation.groups import Names
from tidegauge.spec.groups.classic import state as classic
from tidegauge.spec.groups.consumer import state as consumer

__all__ = ["Called", "told", "told_partitions"]


@attrs.frozen
class Called:
    """What members are called on a page."""

    clients: Mapping[str, str]
    """Member id -> the id of its client, as far as a request has told it."""

    def member(self, member_id: str) -> str:
        """The client with the end of the member id, since a client may have several."""
        client = self.clients.get(member_id)
        return member_id if client is None else f"{client} ({member_id[-4:]})"


def told(group: Any, names: Any, called: Called) -> dict[str, str]:
    """The values of a group, or of a group's record, that are not as those of a group that nobody has joined."""
    match group:
        case classic.Group() | classic.GroupRecord():
            return _classic(group, names, called)
        case consumer.Group():
            return _consumer(group, names, called)
    raise TypeError(f"{type(group).__name__} is no group that a coordinator has")


def told_partitions(partitions: Iterable[int], names: ConsumerNames) -> str:
    """Partitions of a consumer group, such as `orders-0`; `nothing` for none."""
    return _partitions(partitions, _named(names.topics))


# --- classic groups ----------------------------------------------------------------------------------------------


def _classic(group: classic.Group | classic.GroupRecord, names: Names, called: Called) -> dict[str, str]:
    members, protocols = _named(names.members), _named(names.protocols)
    values = {"generation": str(group.generation)}
    if isinstance(group, classic.Group):
        values = {"state": group.status.name.title().replace("_", ""), **values}
    if group.protocol != classic.NONE:
        values["protocol"] = str(protocols[group.protocol])
    if group.leader != classic.NONE:
        values["leader"] = called.member(members[group.leader])
    for member in group.members:
        values[f"member {called.member(members[member.member_id])}"] = _classic_member(member, names)
    if isinstance(group, classic.Group):
        if group.pending:
            values["ids given"] = ", ".join(called.member(members[one]) for one in group.pending)
        if group.initial:
            values["waits"] = "for its first members"
    return values


def _classic_member(member: classic.Member, names: Names) -> str:
    assignments = _named(names.assignments)
    has = [_places(assignments[one]) for one in member.partitions]
    words = [f"has {', '.join(has) or 'nothing'}"]
    if member.instance != classic.NONE:
        words.append(f"static as {_named(names.instances)[member.instance]}")
    if member.subscription.topics:
        words.append(f"wants {_topics(_named(names.metadata)[member.subscription.topics[0]])}")
    if member.waiting is not classic.Waiting.NOTHING:
        words.append(f"its {member.waiting.name.title()}Group waits")
    words += ["is new"] * member.is_new + ["has to send SyncGroup"] * member.unsynced
    words += [] if member.watched else ["its session has ended, its request waits"]
    return ", ".join(words)


def _places(assignment: bytes) -> str:
    """The partitions of an assignment, which a group's leader makes: it may be anything."""
    return _read(assignment, lambda data: (f"{topic}-{index}" for topic, index in sorted(read_assignment(data))))


def _topics(metadata: bytes) -> str:
    return _read(metadata, lambda data: sorted(read_subscription(data).topics))


def _read(data: bytes, reader: Callable[[bytes], Iterable[str]]) -> str:
    try:
        return ", ".join(reader(data)) or "nothing"
    except RecordError:
        return repr(data)[1:]


# --- groups of KIP-848 -------------------------------------------------------------------------------------------


def _consumer(group: consumer.Group, names: ConsumerNames, called: Called) -> dict[str, str]:
    members, topics, expressions = map(_named, (names.members, names.topics, names.expressions))
    target = dict(group.target)
    values = {"epoch": str(group.epoch), "target of epoch": str(group.target_epoch)}
    for member in group.members:
        to_have = _partitions(target.get(member.member_id, ()), topics)
        words = [_epoch_of(member), f"has {_held(member.assigned, topics)}", f"is to have {to_have}"]
        if member.revoking:
            words.append(f"gives back {_held(member.revoking, topics)}")
        wants = [*(topics[one] for one in member.topics)]
        if member.expression != consumer.NONE:
            wants.append(f"what {expressions[member.expression]} matches")
        words.append(f"wants {', '.join(wants) or 'nothing'}")
        if member.instance != consumer.NONE:
            words.append(f"static as {_named(names.instances)[member.instance]}")
        words += ["speaks the classic protocol"] * member.classic
        values[f"member {called.member(members[member.member_id])}"] = ", ".join(words)
    for expression, matched in group.resolved:
        values[f"{expressions[expression]} matches"] = ", ".join(topics[one] for one in matched) or "nothing"
    return values


def _epoch_of(member: consumer.Member) -> str:
    if member.epoch == consumer.STATIC_LEAVING_EPOCH:
        return "is away, to come back"
    before = f" (before {member.previous_epoch})" if member.previous_epoch != member.epoch else ""
    return f"epoch {member.epoch}{before}"


def _held(held: consumer.Held, topics: Mapping[int, str]) -> str:
    return ", ".join(f"{_partition(one, topics)} since {since}" for one, since in held) or "nothing"


def _partitions(partitions: Iterable[int], topics: Mapping[int, str]) -> str:
    return ", ".join(_partition(one, topics) for one in partitions) or "nothing"


def _partition(number: int, topics: Mapping[int, str]) -> str:
    return f"{topics.get(number % MOST_TOPICS, 'a topic that is gone')}-{number // MOST_TOPICS}"


def _named(numbers: Mapping[Any, int]) -> dict[int, Any]:
    return {number: name for name, number in numbers.items()}
