"""The offsets of groups, as the log of their partition of `__consumer_offsets` has them.

Theory of operation
-------------------
The store is a function of the log: it is told of each entry, in the order of the log, and changes in no other way. So
one that is loaded anew is the one that was kept.

    an offset                  is the group's from now on
    an offset in a transaction is *pending*: the producer's commit marker makes it count, an abort marker drops it
    a tombstone                takes the offset away, and with it what is pending for it

Of two offsets for one key that both count, the one that was written later counts, whenever its marker came. For that is
what compaction keeps: the order of the markers is in no record. Until an open transaction ends, an offset is
*unstable*: who asks for stable ones waits (KIP-447).

A group that no member has joined (Kafka calls it simple) is there as long as it has an offset, committed or pending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.log_entries import GroupWritten, LogEntry, OffsetWritten, TransactionEnded
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey, OffsetValue
from tidegauge.impl.records.batches import NO_PRODUCER_ID


class CommittedOffset(NamedTuple):
    """An offset, and where in the log it was written."""

    log_offset: int
    value: OffsetValue


_NOTHING: Final[Mapping[tuple[str, int], CommittedOffset]] = {}


class GroupOffsets:
    """What a part of a log says of groups and their offsets."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        """By producer id."""
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        """The producers with something pending, by group, topic and partition."""
        self.metadata: dict[str, GroupMetadata] = {}
        """Of the groups that have had members."""

    # --- what it says ------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> set[str]:
        """Every group that is there."""
        return {*self._committed, *self._open, *self.metadata}

    def __contains__(self, group: str) -> bool:
        return group in self._committed or group in self._open or group in self.metadata

    def get(self, key: OffsetKey) -> CommittedOffset | None:
        """The committed offset, if there is one."""
        return self._committed.get(key.group, _NOTHING).get((key.topic, key.partition))

    def of_group(self, group: str) -> Mapping[tuple[str, int], CommittedOffset]:
        """The group's committed offsets, by topic and partition."""
        return self._committed.get(group, _NOTHING)

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether an open transaction may yet change the offset."""
        return (key.topic, key.partition) in self._open.get(key.group, ())

    def unstable_of(self, group: str) -> Collection[tuple[str, int]]:
        """What open transactions may yet change of the group's, by topic and partition."""
        return self._open.get(group, ())

    def keys_of(self, group: str) -> list[OffsetKey]:
        """What the group has an offset for, committed or pending."""
        places = dict.fromkeys((*self._committed.get(group, ()), *self._open.get(group, ())))
        return [OffsetKey(group, topic, partition) for topic, partition in places]

    def every_key(self) -> Iterator[OffsetKey]:
        """What there is an offset for, committed or pending."""
        for group in {**self._committed, **self._open}:
            yield from self.keys_of(group)

    def last_written(self, key: OffsetKey) -> int:
        """Where in the log the newest of its offsets is, committed or pending. Raises ValueError if there is none."""
        producers = self._open.get(key.group, {}).get((key.topic, key.partition), ())
        known = (self.get(key), *(self._pending[producer][key] for producer in producers))
        return max(one.log_offset for one in known if one is not None)

    @property
    def pending(self) -> Mapping[int, Mapping[OffsetKey, CommittedOffset]]:
        """What waits for a marker, by producer id."""
        return self._pending

    # --- what it is told ---------------------------------------------------------------------------------------------

    def replay(self, entries: Iterable[LogEntry]) -> None:
        """Take in the next entries of the log."""
        for entry in entries:
            match entry:
                case OffsetWritten(log_offset, producer_id, key, value):
                    self._replay_offset(log_offset, producer_id, key, value)
                case GroupWritten(_, group, metadata):
                    if metadata is None:
                        self.metadata.pop(group, None)
                    else:
                        self.metadata[group] = metadata
                case TransactionEnded(_, producer_id, is_commit):
                    self._end_transaction(producer_id, is_commit=is_commit)

    def _replay_offset(self, log_offset: int, producer_id: int, key: OffsetKey, value: OffsetValue | None) -> None:
        if value is None:
            self._remove(key)
        elif producer_id == NO_PRODUCER_ID:
            self._keep(key, CommittedOffset(log_offset, value))
        else:
            self._pending.setdefault(producer_id, {})[key] = CommittedOffset(log_offset, value)
            producers = self._open.setdefault(key.group, {}).setdefault((key.topic, key.partition), set())
            producers.add(producer_id)

    def _keep(self, key: OffsetKey, offset: CommittedOffset) -> None:
        self._committed.setdefault(key.group, {})[key.topic, key.partition] = offset

    def _remove(self, key: OffsetKey) -> None:
        """A tombstone: what is pending was written before it, and may not come back."""
        offsets = self._committed.get(key.group)
        if offsets is not None and offsets.pop((key.topic, key.partition), None) is not None and not offsets:
            del self._committed[key.group]
        for producer_id in list(self._open.get(key.group, {}).get((key.topic, key.partition), ())):
            pending = self._pending[producer_id]
            del pending[key]
            if not pending:
                del self._pending[producer_id]
            self._close(key, producer_id)

    def _close(self, key: OffsetKey, producer_id: int) -> None:
        places = self._open[key.group]
        producers = places[key.topic, key.partition]
        producers.discard(producer_id)
        if not producers:
            del places[key.topic, key.partition]
        if not places:
            del self._open[key.group]

    def _end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        for key, offset in self._pending.pop(producer_id, {}).items():
            self._close(key, producer_id)
            known = self.get(key)
            if is_commit and (known is None or known.log_offset < offset.log_offset):
                self._keep(key, offset)
