"""A classic group, its log and what members say in their JoinGroup, as `spec.groups.migration` has them."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack
from typing import Final

from tidegauge.impl.coordinators.fields import encode_string
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, ClassicState
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.migration.embedded import (
    NamedPlace,
    read_assignment,
    read_subscription,
)
from tidegauge.model_tests.harness.cores.consumer_abstraction import number_of
from tidegauge.spec.groups.consumer import classic_group as spec
from tidegauge.spec.groups.migration.machine import GroupMigration as Machine

STANDINGS: Final = {
    ClassicState.EMPTY: spec.Standing.EMPTY,
    ClassicState.PREPARING_REBALANCE: spec.Standing.PREPARING,
    ClassicState.COMPLETING_REBALANCE: spec.Standing.COMPLETING,
    ClassicState.STABLE: spec.Standing.STABLE,
}


def subscription(topics: Iterable[str], owned: Iterable[NamedPlace], nonce: int) -> bytes:
    """What a consumer says when it joins; the nonce is its assignor's: no two say the same."""
    names = sorted(topics)
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(owned):
        by_topic.setdefault(topic, []).append(index)
    data = pack(">hi", 1, len(names)) + b"".join(map(encode_string, names)) + pack(">iq", 8, nonce)
    data += pack(">i", len(by_topic))
    for topic, indexes in by_topic.items():
        data += encode_string(topic) + pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return data


def partitions(places: Iterable[NamedPlace], machine: Machine) -> tuple[int, ...]:
    return tuple(sorted(index * machine.topics + int(topic[-1]) for topic, index in places))


def _member(
    name: str, metadata: bytes, assignment: bytes, machine: Machine, *, has_joined: bool, joined: bool, syncing: bool
) -> spec.ClassicMember:
    says = read_subscription(metadata)
    return spec.ClassicMember(
        number_of(name),
        tuple(sorted(int(topic[-1]) for topic in says.topics)),
        partitions(read_assignment(assignment), machine),
        joined=joined,
        syncing=syncing,
        claims=partitions(says.owned, machine) if has_joined else (),
    )


def _ordered(members: Iterable[spec.ClassicMember]) -> tuple[spec.ClassicMember, ...]:
    return tuple(sorted(members, key=lambda one: one.member_id))


def abstract_classic(group: ClassicGroup | None, machine: Machine) -> spec.ClassicGroup | None:
    """The group in memory."""
    if group is None:
        return None

    def member(one: ClassicMember) -> spec.ClassicMember:
        return _member(
            one.member_id,
            one.protocols[0].metadata,
            one.assignment,
            machine,
            has_joined=one.has_joined,
            joined=one.joining is not None,
            syncing=one.syncing is not None,
        )

    return spec.ClassicGroup(
        STANDINGS[group.state],
        group.generation,
        _ordered(map(member, group.members.values())),
        -1 if group.leader is None else number_of(group.leader),
        is_first=group.initial is not None,
        is_storing=group.is_storing,
    )


def abstract_metadata(metadata: GroupMetadata | None, machine: Machine) -> spec.ClassicGroup | None:
    """The group in the log."""
    if metadata is None:
        return None
    is_led = metadata.leader is not None
    members = _ordered(
        _member(
            one.member_id, one.subscription, one.assignment, machine, has_joined=is_led, joined=False, syncing=False
        )
        for one in metadata.members
    )
    return spec.ClassicGroup(
        spec.Standing.STABLE if members else spec.Standing.EMPTY,
        metadata.generation,
        members,
        -1 if metadata.leader is None else number_of(metadata.leader),
    )
