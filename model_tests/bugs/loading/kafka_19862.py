"""KAFKA-19862: a load fails at a partition that another member has, as far as it has read."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey
from tidegauge.impl.records.batches import InvalidRecordError
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.group_loading import LoadingRoles


class OwnsOneByOne(ConsumerGroups):
    """Each record has to fit what was read before it."""

    def replay(self, key: ConsumerKey, value: bytes | None) -> None:
        super().replay(key, value)
        group = self.committed.get(key.group)
        members = () if group is None else group.members.values()
        held = [place for one in members for place in (*one.assigned, *one.revoking)]
        if len(held) > len(set(held)):
            raise InvalidRecordError("a partition of two members")


BUG = CoreBug("kafka_19862", LoadingRoles(groups=OwnsOneByOne))
