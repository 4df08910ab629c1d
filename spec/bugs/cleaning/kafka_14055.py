"""KAFKA-14055: a record takes along the marker that has the same key."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.compaction.transactional import Entry, Map, State, TransactionalCompaction


@attrs.frozen
class MarkersGoByTheirKey(TransactionalCompaction):
    """A marker stays only where no record with its key comes after it."""

    def keeps_marker(self, state: State, map_: Map, entry: Entry, *, needed: bool) -> bool:
        return super().keeps_marker(state, map_, entry, needed=needed) and not map_.has_later(entry)


BUG = Bug(
    name="kafka_14055",
    title="a record takes along the marker that has the same key",
    reference="KAFKA-14055",
    mechanism=(
        "The key of a marker is four bytes, its version and its kind, and users may have such keys. A cleaner that "
        "looks markers up among the newest offsets of users' keys drops one for a record that comes after it, while "
        "the log has records of its transaction: that is open again, and nobody will end it."
    ),
    violates=("NothingOpensAgain",),
    buggy=MarkersGoByTheirKey,
    model=TransactionalCompaction(max_records=2, max_time=0, tombstones=False, copies=False),
)
