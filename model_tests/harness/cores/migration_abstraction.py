"""A classic group, its log and what members say in their JoinGroup, as `spec.groups.migration` has them."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack, unpack
from typing import Final

from tidegauge.impl.coordinators.fields import encode_string
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, ClassicState
from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata
from tidegauge.impl.coordinators.groups.migration.embedded import (
    NamedPlace,
    read_assignment,
    read_subscription,
)
from tidegauge.model_tests.harness.cores.consumer_abstraction import number_of
from tidegauge.spec.groups.consumer import classic_group as spec
from tidegauge.spec.groups.consumer.state import NONE as NO_INSTANCE
from tidegauge.spec.groups.migration.machine import GroupMigration as Machine

STANDINGS: Final = {
    ClassicState.EMPTY: spec.Standing.EMPTY,
    ClassicState.PREPARING_REBALANCE: spec.Standing.PREPARING,
    ClassicState.COMPLETING_REBALANCE: spec.Standing.COMPLETING,
    ClassicState.STABLE: spec.Standing.STABLE,
}


def subscription(topics: Iterable[str], owned: Iterable[NamedPlace], nonce: int, generation: int = -1) -> bytes:
    """What a consumer says when it joins; the nonce is its assignor's: no two say the same.

    The generation of what it owns is version 2's (KIP-792).
    """
    names = sorted(topics)
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(owned):
        by_topic.setdefault(topic, []).append(index)
    data = pack(">hi", 2, len(names)) + b"".join(map(encode_string, names)) + pack(">iq", 8, nonce)
    data += pack(">i", len(by_topic))
    for topic, indexes in by_topic.items():
        data += encode_string(topic) + pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return data + pack(">i", generation)


def generation_of(metadata: bytes) -> int:
    """The generation in a subscription: what ends it."""
    (generation,) = unpack(">i", metadata[-4:])
    return int(generation)


def partitions(places: Iterable[NamedPlace], machine: Machine) -> tuple[int, ...]:
    return tuple(sorted(index * machine.topics + int(topic[-1]) for topic, index in places))


def _member(
    known: ClassicMember | GroupMember,
    metadata: bytes,
    machine: Machine,
    *,
    joined: bool = False,
    syncing: bool = False,
) -> spec.ClassicMember:
    says = read_subscription(metadata)
    return spec.ClassicMember(
        number_of(known.member_id),
        tuple(sorted(int(topic[-1]) for topic in says.topics)),
        partitions(read_assignment(known.assignment), machine),
        joined=joined,
        syncing=syncing,
        claims=partitions(says.owned, machine),
        instance=NO_INSTANCE if known.instance_id is None else int(known.instance_id[-1]),
        said=generation_of(metadata),
    )


def _ordered(members: Iterable[spec.ClassicMember]) -> tuple[spec.ClassicMember, ...]:
    return tuple(sorted(members, key=lambda one: one.member_id))


def abstract_classic(group: ClassicGroup | None, machine: Machine) -> spec.ClassicGroup | None:
    """The group in memory."""
    if group is None:
        return None

    def member(one: ClassicMember) -> spec.ClassicMember:
        metadata = one.protocols[0].metadata
        return _member(one, metadata, machine, joined=one.joining is not None, syncing=one.syncing is not None)

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
    members = _ordered(_member(one, one.subscription, machine) for one in metadata.members)
    return spec.ClassicGroup(
        spec.Standing.STABLE if members else spec.Standing.EMPTY,
        metadata.generation,
        members,
        -1 if metadata.leader is None else number_of(metadata.leader),
    )
