"""KAFKA-8715: a static member whose next process has the same id."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import State


@attrs.frozen
class IdOfTheTime(ClassicGroups):
    """A member id is made of the instance id and of the time of the group's state, which stands still."""

    def new_member_id(self, state: State, instance: int) -> int:
        known = state.loaded.of_instance(instance)
        return super().new_member_id(state, instance) if known is None else known.member_id


BUG = Bug(
    name="kafka_8715",
    title="a static member whose next process has the same id",
    reference="KAFKA-8715",
    mechanism=(
        "The next process of a static member is given the id that the former one has. Nothing tells the "
        "two apart: neither is fenced."
    ),
    violates=("MemberIdsAreUnique",),
    buggy=IdOfTheTime,
    model=ClassicGroups(instances=(0, 0), partitions=1),
)
