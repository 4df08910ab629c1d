"""KAFKA-14055: the cleaner looks a marker's key up in the map of users' keys."""

from __future__ import annotations

from tidegauge.impl.storage.cleaner_batches import KeyedRecord
from tidegauge.impl.storage.cleaner_filter import RetentionRules
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.log_cleaning import CleaningRoles


class MarkersGoByTheirKey(RetentionRules):
    """A marker stays only where no record with its key comes after it."""

    def keeps_marker(self, record: KeyedRecord) -> bool:
        return self.is_kept(record, due=False)


BUG = CoreBug("kafka_14055", CleaningRoles(rules=MarkersGoByTheirKey))
