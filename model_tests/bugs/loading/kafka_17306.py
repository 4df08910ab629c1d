"""KAFKA-17306: a load fails at a tombstone of what it never read."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey
from tidegauge.impl.records.batches import InvalidRecordError
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.group_loading import LoadingRoles


class MissesWhatIsGone(ConsumerGroups):
    """What a tombstone takes away has to be there."""

    def replay(self, key: ConsumerKey, value: bytes | None) -> None:
        group = self.committed.get(key.group)
        if value is None and (group is None or (key.member_id and key.member_id not in group.members)):
            raise InvalidRecordError(f"a tombstone of {key.member_id or key.group}, which is not there")
        super().replay(key, value)


BUG = CoreBug("kafka_17306", LoadingRoles(groups=MissesWhatIsGone))
