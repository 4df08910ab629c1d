"""What the brokers' assignors make of a group: targets that the specification allows, whichever it makes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from tidegauge.impl.coordinators.groups.consumer.assignor_names import UNIFORM
from tidegauge.impl.coordinators.groups.consumer.assignors import ASSIGNORS, Target
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, Topics
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.properties import is_covering
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.kernel.evolving import evolve

NumberedBy: TypeAlias = Callable[[Target], Mapping[int, Iterable[int]]]
"""Puts a target into the numbers of the specification."""


def check_assignors(
    machine: ConsumerRules, group: ConsumerGroup, topics: Topics, specified: spec.Group, numbered: NumberedBy
) -> None:
    """Each assignor gives each partition once, to who wants it; `uniform` as evenly as single moves make it.

    `specified` is the group as the specification has it, `numbered` a target in its numbers. Raises AssertionError.
    """
    for name, assign in ASSIGNORS.items():
        target = {one: tuple(sorted(has)) for one, has in sorted(numbered(assign(group, topics)).items())}
        given = [partition for has in target.values() for partition in has]
        made = evolve(specified, target=tuple(target.items()))
        assert len(given) == len(set(given)), f"{name} gives a partition twice: {target}"
        assert is_covering(machine, made, set(given)), f"{name} gives {target} to {specified.members}"
        assert name != UNIFORM or is_even(machine, made), f"{name} gives some more than it has to: {target}"
        if name == UNIFORM:
            check_moves(group, topics, assign(group, topics))
        else:
            check_order(group, topics, assign(group, topics))


def check_moves(group: ConsumerGroup, topics: Topics, target: Target) -> None:
    """Where all want the same, who has to give back is given nothing, and has at most one fewer than others then."""
    if len(group.subscriptions) != 1:
        return
    there = {(one.topic_id, index) for name, one in topics.items() for index in range(one.partitions)}
    wanted = {topics[name].topic_id for topic in group.subscriptions for name in topic if name in topics}
    largest = max(map(len, target.values()), default=0)
    for member_id, has in target.items():
        had = {one for one in group.target.get(member_id, ()) if one in there and one[0] in wanted}
        if lost := had - has:
            assert not has - had, f"{member_id} loses {lost}, and is given {has - had}"
            assert len(has) >= largest - 1, f"{member_id} loses {lost}, and has fewer than others then: {target}"


def check_order(group: ConsumerGroup, topics: Topics, target: Target) -> None:
    """Of each topic members have neighbouring partitions, in the order of their instance ids or member ids."""
    members = sorted(group.members.values(), key=lambda one: (one.instance_id or one.member_id, one.member_id))
    for name, topic in topics.items():
        indexes = [sorted(n for of, n in target.get(one.member_id, ()) if of == topic.topic_id) for one in members]
        given = [index for has in indexes for index in has]
        assert given == sorted(given), f"{indexes} of {name} are given to {[one.member_id for one in members]}"


def is_even(machine: ConsumerRules, group: spec.Group) -> bool:
    """Whether nobody has a partition that another one wants who has at least two fewer."""
    size = {member_id: len(has) for member_id, has in group.target}
    return all(
        size[other.member_id] >= size[member_id] - 1
        for member_id, has in group.target
        for partition in has
        for other in group.members
        if partition % machine.topics in group.wants(other)
    )
