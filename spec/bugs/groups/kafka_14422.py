"""KAFKA-14422: a leader that cannot be told of static members."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import NONE, Group, Member


@attrs.frozen
class CannotTellOfInstances(ClassicGroups):
    """The response to a JoinGroup of an old version cannot have the instance ids of others, and is not sent."""

    def has_response(self, group: Group, member: Member) -> bool:
        leads = group.leader == member.member_id and member.instance == NONE
        return not leads or all(one.instance == NONE for one in group.members)


BUG = Bug(
    name="kafka_14422",
    title="a leader that cannot be told of static members",
    reference="KAFKA-14422",
    mechanism=(
        "A dynamic member with an old client leads, and a static one joins. The leader is never told "
        "that the generation has begun, and the others wait for its assignment."
    ),
    violates=("every process that goes on is in one stable generation", "NobodyWaitsInVain"),
    buggy=CannotTellOfInstances,
    model=ClassicGroups(instances=(0,)),
)
