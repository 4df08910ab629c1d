"""KAFKA-17306: a load fails at a tombstone of what it never read."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.groups.loading.state import NONE, Group, Record


@attrs.frozen
class MissesWhatIsGone(GroupLoading):
    """What a tombstone takes away has to be there."""

    def takes(self, group: Group | None, record: Record) -> bool:
        if record.value is not None:
            return True
        return group is not None and (record.member == NONE or group.members[record.member] is not None)


BUG = Bug(
    name="kafka_17306",
    title="a load fails at a tombstone of what it never read",
    reference="KAFKA-17306",
    mechanism=(
        "A member has left, and the cleaner has dropped its records and left the tombstones. The next coordinator "
        "begins with those, misses the group that they are of, and gives the load up: so does every other broker."
    ),
    violates=("LoadGoesOn",),
    buggy=MissesWhatIsGone,
    model=GroupLoading(members=1, max_changes=2, max_rounds=1),
)
