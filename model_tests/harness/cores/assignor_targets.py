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
