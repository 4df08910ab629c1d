"""KAFKA-17306: a load fails at a tombstone of what it never read."""

from __future__ import annotations

from typing import Final

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups
from tidegauge.impl.coordinators.groups.consumer.records import CURRENT, MEMBER, MEMBER_TARGET
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey
from tidegauge.impl.records.batches import InvalidRecordError
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.group_loading import LoadingRoles

OF_MEMBERS: Final = (MEMBER, MEMBER_TARGET, CURRENT)
"""The kinds of records that are of one member."""


class MissesWhatIsGone(ConsumerGroups):
    """What a tombstone takes away has to be there."""

    def replay(self, key: ConsumerKey, value: bytes | None) -> None:
        group = self.committed.get(key.group)
        is_missed = group is None or (key.kind in OF_MEMBERS and key.member_id not in group.members)
        if value is None and is_missed:
            raise InvalidRecordError(f"a tombstone of {key.member_id or key.group}, which is not there")
        super().replay(key, value)


BUG = CoreBug("kafka_17306", LoadingRoles(groups=MissesWhatIsGone))
