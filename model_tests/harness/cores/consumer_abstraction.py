"""A consumer group, its log and what members say, as the specification has them; and the classes that play each part.

Names are made of the specification's numbers: member ids, instance ids and topics end in theirs. Partition p of the
specification is of topic p modulo the number of topics, and there the one with the index p divided by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer.assignors import Target
from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups
from tidegauge.impl.coordinators.groups.consumer.rules import PAUSE_MS, ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember, Held, Place, Topics
from tidegauge.impl.coordinators.groups.log_entries import LogEntry, OffsetWritten
from tidegauge.model_tests.harness.cores.assignor_targets import check_assignors
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine
from tidegauge.spec.kernel.evolving import evolve

GROUP: Final = "group"
REFRESH_MS: Final = 2_000_000_000
"""`group.consumer.regex.refresh.interval.ms`: longer than all pauses of a walk."""

INTERVAL_MS: Final = 100
"""`consumer.assignment.interval.ms`: as often as it ends in a walk, that is shorter than a pause."""


@attrs.frozen
class ConsumerRoles:
    """The classes that play each part."""

    rules: type[ConsumerRules] = ConsumerRules


CORRECT_CONSUMERS: Final = ConsumerRoles()


# --- names -----------------------------------------------------------------------------------------------------------


def member_name(member_id: int) -> str:
    return f"member-{member_id:03}"


def number_of(member_id: str) -> int:
    return int(member_id[-3:])


def instance_name(machine: Machine, process: int) -> str | None:
    instance = machine.instance_of(process)
    return None if instance == spec.NONE else f"instance-{instance}"


def topic_name(topic: int) -> str:
    return f"topic-{topic}"


def expression_of(machine: Machine, number: int) -> str:
    """The regular expression of this number."""
    return "" if number == spec.NONE else f"topic-[{''.join(map(str, machine.matches[number]))}]"


def partitions_in(machine: Machine, topic: int, partitions: int) -> int:
    """How many of these partitions are a topic's."""
    return len(range(topic, partitions, machine.topics))


@attrs.define
class Numbers:
    """Partitions of the specification, and places: a topic keeps its id when it is deleted."""

    machine: Machine
    ids: dict[int, str] = attrs.field(factory=dict)
    """Of topics, by number."""
    now_ms: int = 0
    created_at: list[int] = attrs.field(factory=list)
    """Of each topic that there has been, the version of the topics in which it came."""

    def created(self, version: int) -> int:
        """How many topics there had been in a version."""
        return sum(one <= version for one in self.created_at)

    def age(self, group: ConsumerGroup) -> spec.Age:
        """How long ago expressions were resolved."""
        if not group.resolved:
            return spec.Age.DUE
        passed_ms = self.now_ms - max(one.time_ms for one in group.resolved.values())
        return spec.Age((passed_ms > PAUSE_MS) + (passed_ms > REFRESH_MS))

    def is_target_new(self, group: ConsumerGroup) -> bool:
        """Whether the next target has to wait."""
        is_timed = self.machine.spaces_targets and group.target_ms > 0
        return is_timed and group.target_ms <= self.now_ms < group.target_ms + INTERVAL_MS

    def interval_ms(self, group: str) -> int:
        """The least time between two targets; 0 if there is none."""
        return INTERVAL_MS if self.machine.spaces_targets else 0

    def place(self, partition: int) -> Place:
        return self.ids[partition % self.machine.topics], partition // self.machine.topics

    def partition(self, place: Place) -> int:
        topic = next(number for number, topic_id in self.ids.items() if topic_id == place[0])
        return place[1] * self.machine.topics + topic

    def held(self, held: Held) -> spec.Held:
        return tuple(sorted((self.partition(place), since) for place, since in held.items()))


# --- the rules -------------------------------------------------------------------------------------------------------


def with_target_of(machine: Machine, kind: type[ConsumerRules], numbers: Numbers) -> ConsumerRules:
    """The rules, with the machine's assignor: which of two fair targets is made is no matter of the protocol.

    What the brokers' own assignors would make is held against the specification.
    """

    def numbered(target: Target) -> Mapping[int, Iterable[int]]:
        return {number_of(one): map(numbers.partition, has) for one, has in target.items()}

    class Rules(kind):  # type: ignore[misc, valid-type]
        def target(self, group: ConsumerGroup, topics: Topics, known: Any) -> Mapping[str, frozenset[Place]]:
            members = tuple(
                spec.Member(number_of(name), topics=tuple(sorted(int(topic[-1]) for topic in group.wants(one))))
                for name, one in sorted(group.members.items(), key=lambda member: number_of(member[0]))
            )
            had = tuple((number_of(one), tuple(map(numbers.partition, has))) for one, has in group.target.items())
            wanted = {topic_name(topic) for one in members for topic in one.topics} & topics.keys()
            places = [(topics[name].topic_id, n) for name in wanted for n in range(topics[name].partitions)]
            known = sorted(map(numbers.partition, places))
            specified = spec.Group(members=members, target=had, known=tuple(known))
            check_assignors(machine, group, topics, specified, numbered)
            target = machine.target(specified, known)
            names = {number_of(name): name for name in group.members}
            return {names[one]: frozenset(map(numbers.place, has)) for one, has in target.items()}

    return Rules()


# --- as the specification has it -------------------------------------------------------------------------------------


def abstract_group(group: ConsumerGroup | None, numbers: Numbers, expected: spec.Group) -> spec.Group:
    """What the coordinator knows; of the topics of its epoch it knows a hash only."""
    if group is None:
        return evolve(spec.Group(), known=expected.known, racks=expected.racks)
    machine = numbers.machine
    expressions = {expression_of(machine, number): number for number in range(len(machine.matches))}
    members = (abstract_member(one, numbers, expressions) for one in group.members.values())
    target = ((number_of(one), tuple(sorted(map(numbers.partition, has)))) for one, has in group.target.items())
    resolved = (
        (expressions[one], tuple(sorted(int(topic[-1]) for topic in found.topics)))
        for one, found in group.resolved.items()
    )
    return spec.Group(
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        target=tuple(sorted(target)),
        target_is_new=numbers.is_target_new(group),
        members=tuple(sorted(members, key=lambda one: one.member_id)),
        known=expected.known,
        racks=expected.racks,
        resolved=tuple(sorted(resolved)),
        resolved_of=numbers.created(max((one.version for one in group.resolved.values()), default=-1)),
        resolved_age=numbers.age(group),
    )


def abstract_resolving(machine: Machine, core: ConsumerGroups) -> tuple[int, ...] | None:
    """The expressions that are being resolved."""
    if (resolution := core.resolving.get(GROUP)) is None:
        return None
    numbers = {expression_of(machine, number): number for number in range(len(machine.matches))}
    return tuple(sorted(numbers[one] for one in resolution.expressions))


def abstract_member(member: ConsumerMember, numbers: Numbers, expressions: Mapping[str, int]) -> spec.Member:
    return spec.Member(
        number_of(member.member_id),
        instance=spec.NONE if member.instance_id is None else int(member.instance_id.rsplit("-", 1)[1]),
        topics=tuple(sorted(int(topic[-1]) for topic in member.topics)),
        expression=expressions.get(member.expression, spec.NONE),
        epoch=member.epoch,
        previous_epoch=member.previous_epoch,
        assigned=numbers.held(member.assigned),
        revoking=numbers.held(member.revoking),
        classic=member.classic is not None,
        waits=numbers.machine.spaces_targets and member.is_waiting,
    )


def abstract_offsets(
    entries: Iterable[LogEntry], machine: Machine, before: tuple[spec.Offset, ...]
) -> tuple[spec.Offset, ...]:
    """The offsets after these entries of the log; the metadata of each is the number of who has committed it."""
    offsets = [*before]
    for entry in entries:
        if isinstance(entry, OffsetWritten) and entry.value is not None:
            partition = entry.key.partition * machine.topics + int(entry.key.topic[-1])
            offsets[partition] = spec.Offset(entry.value.offset, int(entry.value.metadata))
    return tuple(offsets)


def error_as_specified(error: ErrorCode) -> ErrorCode:
    """A group that is not there has no members: the specification does not tell the two apart."""
    return ErrorCode.unknown_member_id if error is ErrorCode.group_id_not_found else error


def check_error(found: ErrorCode, expected: spec.Error) -> None:
    found = error_as_specified(found)
    assert found.value == expected.value, f"{expected.name} is told, and not {found.name}"


def check_told(numbers: Numbers, epoch: int, places: Iterable[Place] | None, expected: spec.Response) -> None:
    """What a member is told is what the specification says."""
    assigned = None if places is None else tuple(sorted(map(numbers.partition, places)))
    assert (epoch, assigned) == (expected.epoch, expected.assignment), f"{expected} is told, not {epoch}, {assigned}"
