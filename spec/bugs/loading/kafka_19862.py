"""KAFKA-19862: a load fails at a partition that another member has, as far as it has read."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.groups.loading.state import Group, Holding, Kind, Record


@attrs.frozen
class OwnsOneByOne(GroupLoading):
    """Each record has to fit what was read before it."""

    def takes(self, group: Group | None, record: Record) -> bool:
        if record.kind is not Kind.CURRENT or record.value is None or record.value.holding is Holding.NOTHING:
            return True
        return group is None or self.is_free(group, record.member)


BUG = Bug(
    name="kafka_19862",
    title="a load fails at a partition that another member has, as far as it has read",
    reference="KAFKA-19862",
    mechanism=(
        "A load has read that a member has a partition. Now the cleaner drops the record by which it gave that back, "
        "for a later one replaces it. Next the load reads that the partition is another member's, takes the log for "
        "broken, and gives up, though the record that puts it right is still to come."
    ),
    violates=("LoadGoesOn",),
    buggy=OwnsOneByOne,
    model=GroupLoading(max_rounds=1),
)
