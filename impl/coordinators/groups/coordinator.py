"""The coordinator of groups, for one partition of `__consumer_offsets`: pure rulings on what it is asked.

A ruling says which records have to be in the log first. The state follows from the log alone (`offsets`): its entries
are replayed when they are committed. What is in the log and not committed yet is *in flight*. Nobody is told of it, but
the coordinator takes account of it in what it decides by itself: an offset does not expire while another one for it is
in flight, or pending in a transaction. Else the tombstone would take the newer one along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.groups.membership import commit_error, is_empty
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset, GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME, OffsetKey, OffsetValue
from tidegauge.impl.coordinators.groups.requests import NO_RETENTION, Commit, NewOffset, Ruling
from tidegauge.impl.records.batches import NO_PRODUCER_ID

METADATA_MAX_BYTES: Final = 4096
"""Kafka's default of `offset.metadata.max.bytes`. Like Kafka it counts Java's characters, whatever the name says."""
RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
"""Kafka's default of `offsets.retention.minutes`."""


@attrs.frozen
class Limits:
    """What the settings say."""

    metadata_max_bytes: int = METADATA_MAX_BYTES
    retention_ms: int = RETENTION_MS


class GroupCoordinator:
    """Decides about the groups of one partition, and knows what its log says of them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.offsets = GroupOffsets()
        self.in_flight: Counter[OffsetKey] = Counter()
        """What is in the log and not replayed yet, by how many records."""

    # --- the log -----------------------------------------------------------------------------------------------------

    def appended(self, ruling: Ruling) -> None:
        """What a ruling writes is in the log, or about to be."""
        self.in_flight.update(ruling.keys)

    def committed(self, ruling: Ruling, base_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """What was appended is committed, from this offset on."""
        self.failed(ruling)
        self.offsets.replay(ruling.entries(base_offset, producer_id))

    def failed(self, ruling: Ruling) -> None:
        """What was about to be in the log never will be."""
        for key in ruling.keys:
            self.in_flight[key] -= 1
            if self.in_flight[key] <= 0:
                del self.in_flight[key]

    # --- OffsetCommit and TxnOffsetCommit ----------------------------------------------------------------------------

    def commit(self, commit: Commit, now_ms: int) -> Ruling:
        """Commit offsets, in a transaction or not.

        Errors: `membership.commit_error`, INVALID_GROUP_ID, and OFFSET_METADATA_TOO_LARGE for a partition.
        """
        group = commit.group
        if len(group.encode()) > LONGEST_STRING:
            return Ruling(ErrorCode.invalid_group_id)
        error = commit_error(commit, self.offsets.metadata.get(group), is_known=group in self.offsets)
        if error is not ErrorCode.none:
            return Ruling(error)
        refused: dict[tuple[str, int], ErrorCode] = {}
        taken: dict[OffsetKey, OffsetValue] = {}
        for new in commit.offsets:
            if self._is_too_large(new.metadata):
                refused[new.topic, new.partition] = ErrorCode.offset_metadata_too_large
            else:
                taken[OffsetKey(group, new.topic, new.partition)] = self._value(new, commit, now_ms)
        return Ruling(offsets=tuple(taken.items()), refused=refused)

    def _is_too_large(self, metadata: str) -> bool:
        units = len(metadata.encode("utf-16-be", "surrogatepass")) // 2
        return units > self.limits.metadata_max_bytes or len(metadata.encode()) > LONGEST_STRING

    def _value(self, new: NewOffset, commit: Commit, now_ms: int) -> OffsetValue:
        asks = commit.retention_ms != NO_RETENTION and not commit.is_transactional
        expire_time = now_ms + commit.retention_ms if asks else NO_TIME
        return OffsetValue(new.offset, new.leader_epoch, new.metadata, now_ms, expire_time)

    # --- OffsetFetch -------------------------------------------------------------------------------------------------

    def fetch(self, key: OffsetKey, *, require_stable: bool) -> CommittedOffset | ErrorCode | None:
        """The committed offset, None if there is none; UNSTABLE_OFFSET_COMMIT while a transaction may yet change it."""
        if require_stable and self.offsets.is_unstable(key):
            return ErrorCode.unstable_offset_commit
        return self.offsets.get(key)

    def fetch_all(self, group: str, *, require_stable: bool) -> Mapping[tuple[str, int], CommittedOffset | ErrorCode]:
        """The same for all that the group has committed."""
        found: dict[tuple[str, int], CommittedOffset | ErrorCode] = {}
        for (topic, partition), offset in self.offsets.of_group(group).items():
            is_unstable = require_stable and self.offsets.is_unstable(OffsetKey(group, topic, partition))
            found[topic, partition] = ErrorCode.unstable_offset_commit if is_unstable else offset
        return found

    # --- deletions ---------------------------------------------------------------------------------------------------

    def delete_offsets(self, group: str, places: Iterable[tuple[str, int]]) -> Ruling:
        """OffsetDelete. Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        if (error := self._deletion_error(group)) is not ErrorCode.none:
            return Ruling(error)
        keys = dict.fromkeys(OffsetKey(group, topic, partition) for topic, partition in places)
        return self._tombstones(key for key in keys if self._is_there(key))

    def delete_group(self, group: str) -> Ruling:
        """DeleteGroups: the group and all its offsets. Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        if (error := self._deletion_error(group)) is not ErrorCode.none:
            return Ruling(error)
        return attrs.evolve(self._tombstones(self.offsets.keys_of(group)), ended=(group,))

    def _deletion_error(self, group: str) -> ErrorCode:
        if group not in self.offsets:
            return ErrorCode.group_id_not_found
        return ErrorCode.none if is_empty(self.offsets.metadata.get(group)) else ErrorCode.non_empty_group

    def topic_deleted(self, topic: str, end: int, most: int) -> Ruling:
        """The tombstones of the offsets in a topic that was deleted when the log ended here; at most so many.

        What was written since is for a topic that has the name again.
        """
        keys = (key for key in self.offsets.every_key() if key.topic == topic and not self.in_flight[key])
        return self._tombstones(islice((key for key in keys if self.offsets.last_written(key) < end), most))

    def _is_there(self, key: OffsetKey) -> bool:
        return self.offsets.get(key) is not None or self.offsets.is_unstable(key)

    # --- expiry ------------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, most: int) -> Ruling:
        """The tombstones of offsets whose time is over, and of groups that have none left; of so many or a few more."""
        expired: list[OffsetKey] = []
        ended: list[str] = []
        for group in sorted(self.offsets.groups):
            keys = self.offsets.keys_of(group)
            gone = [key for key in keys if self.is_expired(key, now_ms)]
            expired += gone[: max(0, most - len(expired))]
            metadata = self.offsets.metadata.get(group)
            if metadata is not None and is_empty(metadata) and not keys:
                ended.append(group)
            if len(expired) + len(ended) >= most:
                break
        return attrs.evolve(self._tombstones(expired), ended=tuple(ended))

    def is_expired(self, key: OffsetKey, now_ms: int) -> bool:
        """Whether an offset may go: its time is over, and nothing newer is on its way."""
        known = self.offsets.get(key)
        if known is None or self.offsets.is_unstable(key) or self.in_flight[key]:
            return False
        metadata = self.offsets.metadata.get(key.group)
        if not is_empty(metadata):
            return False
        if known.value.expire_time != NO_TIME:
            return now_ms >= known.value.expire_time
        idle_since = max(known.value.commit_time, NO_TIME if metadata is None else metadata.state_time)
        return now_ms - idle_since >= self.limits.retention_ms

    def _tombstones(self, keys: Iterable[OffsetKey]) -> Ruling:
        return Ruling(offsets=tuple((key, None) for key in keys))
