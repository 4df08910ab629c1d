"""What the one offset of `spec.offsets` does not show, asked beside it: what a coordinator makes of several.

What the specification says of an offset holds for each of a group's, whatever becomes of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tidegauge.impl.coordinators.fields import INT16
from tidegauge.impl.coordinators.groups.classic.messages import Moment
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.log_entries import GroupWritten, LogEntry, OffsetWritten, log_entries
from tidegauge.impl.coordinators.groups.offsets import GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.impl.records.batches import NO_PRODUCER_ID, BatchHeader
from tidegauge.impl.records.markers import COMMIT_MARKER, MarkerRecord, TransactionMarker, build_marker
from tidegauge.impl.records.payload import Record, build_batch, decode_records
from tidegauge.model_tests.harness.cores.offset_abstraction import KEY, abstract_store
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import NONE, Kind, Membership, State

ANOTHER: Final = KEY._replace(partition=KEY.partition + 1)
"""Of the same group: all that is committed for the one is for this one too, but nobody deletes it."""
MANY: Final = tuple(OffsetKey(group, KEY.topic, index) for group in ("a", "b", "c") for index in range(2))
"""Offsets of several groups, each of which is as the machine's is."""
ENDED: Final = ("ab", "d", "e", "f", "g")
"""Groups without members and offsets."""
BLANK: Final = ("bc", "h")
"""Groups that nobody has been in: their records, which only Kafka writes, say no more than their names."""


def with_another(
    machine: Offsets, state: State, new: Callable[[], GroupOffsets], entries: Iterable[LogEntry]
) -> Iterator[Change]:
    """What a store that reads the log knows where each commit is one of two offsets, of which one is never deleted."""
    offsets = new()
    for entry in entries:
        offsets.replay([entry])
        if isinstance(entry, OffsetWritten) and entry.value is not None:
            offsets.replay([entry._replace(key=ANOTHER)])
    log = [entry for entry in state.log if entry.place < state.high_watermark]
    for key, kept in ((KEY, log), (ANOTHER, [entry for entry in log if entry.kind is not Kind.TOMBSTONE])):
        known, found = machine.loaded(kept), abstract_store(offsets, key)
        if found != known:
            yield Change(f"loaded of {key}", known, found)
        is_unstable, is_there = offsets.is_unstable(key), key in offsets.keys_of(key.group)
        if (is_unstable, is_there) != (bool(known.pending), bool(known.pending) or known.committed is not None):
            yield Change(f"{key} is unstable, is there", known, (is_unstable, is_there))


def expire_in_parts(machine: Offsets, state: State, coordinator: GroupCoordinator) -> Iterator[Change]:
    """Of many offsets and groups so many expire at once as are to, until none is left."""
    committed = coordinator.offsets.get(KEY)
    if committed is None:
        return
    as_if = evolve(
        state, membership=Membership.NONE, empty_since=NONE, store=evolve(state.store, pending=()), history=()
    )
    is_over = machine.expires(as_if)
    groups = len(ENDED) + len(BLANK)
    most = 1 + (state.end + state.now) % (len(MANY) + groups)
    core = type(coordinator)(coordinator.limits)
    core.offsets.replay(OffsetWritten(committed.log_offset, NO_PRODUCER_ID, key, committed.value) for key in MANY)
    core.classic.groups |= {group: ClassicGroup(group, generation=1) for group in ENDED}
    for group in BLANK:
        core.offsets.replay([GroupWritten(0, group, GroupMetadata("", 0, None, None, 0, ()))])
        core.take_over(group, Moment(0, 0))
    if unknown := [group for group in BLANK if not core.is_known(group)]:
        yield Change("groups that nobody has been in are known", BLANK, unknown)
    left = len(MANY) * is_over + groups
    while left:
        ruling = core.expire(state.now, most)
        found = len(ruling.keys) + len(ruling.ended)
        if found != min(most, left):
            yield Change(f"how much of {left} expires where {most} may", min(most, left), found)
            return
        left -= found
        core.appended(ruling)
        core.committed(ruling, 0)
    if (gone := [key for key in MANY if core.offsets.get(key) is None]) != list(MANY) * is_over:
        yield Change("what has expired", is_over, gone)
    if more := core.expire(state.now, most).records:
        yield Change("what expires when all has", (), more)
    if core.groups != {key.group for key in MANY if not is_over}:
        yield Change("groups that are known when all have expired", is_over, core.groups)


def leaves_out_what_is_not_known() -> None:
    """Of control batches that are no markers, or lack theirs, and of records of other kinds, the log says nothing."""
    header = BatchHeader.parse(build_marker(TransactionMarker(1, 0, True, 0), 0))
    for marker in (None, *(MarkerRecord(kind, 0) for kind in range(COMMIT_MARKER + 1, COMMIT_MARKER + 4))):
        found = list(log_entries(header, [], marker))
        assert not found, f"{found} is read of the control record {marker}"
    for key in (None, *(INT16.pack(kind) for kind in (4, 9, 15, 17, -1))):
        batch = build_batch([Record(0, 0, key, b"")])
        found = list(log_entries(BatchHeader.parse(batch), decode_records(batch), None))
        assert not found, f"{found} is read of the key {key!r}"
