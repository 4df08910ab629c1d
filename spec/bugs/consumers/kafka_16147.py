"""KAFKA-16147: a partition that has yet to be given back is another member's."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.state import Group, partitions_of


@attrs.frozen
class GivesWhatIsNotGivenBack(ConsumerGroups):
    """What a member has yet to give back is nobody's."""

    def is_free(self, group: Group, partition: int, member_id: int) -> bool:
        others = (one for one in group.members if one.member_id != member_id)
        return not any(partition in partitions_of(one.assigned) for one in others)


BUG = Bug(
    name="kafka_16147",
    title="a partition that has yet to be given back is another member's",
    reference="KAFKA-16147",
    mechanism=(
        "When the target gives a member back what it had to give back, the coordinator forgets who has the "
        "partition: another member is assigned it too."
    ),
    violates=("OneMemberHasIt",),
    buggy=GivesWhatIsNotGivenBack,
    model=ConsumerGroups(),
)
