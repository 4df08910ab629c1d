"""The coordinator of groups in lockstep: its core beside the machine of `spec.offsets`.

The harness is the shell: it keeps the log, of record batches as they lie on a disk, and replays what is committed. What
the cleaner leaves of the log is copied from the specification, which has a lockstep of its own for that
(`spec.compaction`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.log_entries import LogEntry, OffsetWritten, TransactionEnded, log_entries
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset, GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset, Ruling
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.markers import TransactionMarker, build_marker, marker_record
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity, Record, build_batch, decode_records
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.offsets import actions
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import NONE, Committed, Entry, Kind, State, Store

KEY: Final = OffsetKey("group", "topic", 3)
KINDS: Final = {True: Kind.COMMIT, False: Kind.ABORT}


@attrs.frozen
class OffsetRoles:
    """The classes that play each part."""

    coordinator: type[GroupCoordinator] = GroupCoordinator
    offsets: type[GroupOffsets] = GroupOffsets


CORRECT_OFFSETS: Final = OffsetRoles()


def large_offsets(rng: Random) -> Offsets:
    """A machine for a walk."""
    return Offsets(
        producers=rng.choice((1, 2, 3)),
        max_entries=rng.choice((6, 16)),
        retention=rng.choice((1, 2)),
        max_time=6,
        max_failures=5,
    )


class OffsetCores:
    """One partition of `__consumer_offsets` with its coordinator, in the machine's initial state."""

    def __init__(self, machine: Offsets, roles: OffsetRoles = CORRECT_OFFSETS) -> None:
        self.machine = machine
        self.roles = roles
        self.now_ms = 0
        self.log: dict[int, bytes] = {}
        """Batches of one record by their place."""
        self.end = 0
        self.high_watermark = 0
        self.failures = 0
        self.rulings: list[Ruling] = []
        """Those whose records are in flight: of one record each here."""
        self.coordinator = self.started()

    def close(self) -> None:
        """There is nothing to stop."""

    def started(self) -> GroupCoordinator:
        """A coordinator that has loaded what is committed."""
        coordinator = self.roles.coordinator(Limits(retention_ms=self.machine.retention))
        coordinator.offsets = self.roles.offsets()
        coordinator.offsets.replay(self.entries(range(self.high_watermark)))
        return coordinator

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        STEPS.perform(self, action, before)

    # --- the log -----------------------------------------------------------------------------------------------------

    def append(self, ruling: Ruling, producer: ProducerIdentity = NO_PRODUCER) -> None:
        """Append what a ruling wants to have in the log."""
        assert ruling.error is ErrorCode.none, ruling.error
        self.coordinator.appended(ruling)
        self.rulings.append(ruling)
        for key, value in ruling.records:
            record = Record(self.end, self.now_ms, key, value)
            batch = build_batch([record], producer=producer, transactional=producer is not NO_PRODUCER)
            self.log[self.end] = batch
            self.end += 1

    def entries(self, places: Iterable[int]) -> Iterator[LogEntry]:
        """What the log has at these places."""
        for place in places:
            if (batch := self.log.get(place)) is not None:
                header = BatchHeader.parse(batch)
                records = () if header.is_control else decode_records(batch)
                for entry in log_entries(header, records, marker_record(batch) if header.is_control else None):
                    yield entry._replace(log_offset=place)

    def replicate(self, action: actions.Replicate, before: State) -> None:
        """Commit the log to its end."""
        for entry in self.entries(range(self.high_watermark, self.end)):
            if isinstance(entry, OffsetWritten):
                self.coordinator.committed(self.rulings.pop(0), entry.log_offset, entry.producer_id)
            else:
                self.coordinator.offsets.replay([entry])
        self.high_watermark = self.end

    def fail_over(self, action: actions.FailOver, before: State) -> None:
        """A coordinator that knows nothing but the log."""
        self.log = {place: batch for place, batch in self.log.items() if place < action.end}
        self.end = self.high_watermark = action.end
        self.failures += 1
        self.rulings.clear()
        self.coordinator = self.started()

    def clean(self, action: actions.Clean, before: State) -> None:
        """The log as the specification's cleaner leaves it."""
        kept = {entry.place for entry in self.machine.cleaned(before, action.end)}
        self.log = {place: batch for place, batch in self.log.items() if place in kept}

    def write_marker(self, action: actions.WriteMarker, before: State) -> None:
        """What the transaction's coordinator sends."""
        self.log[self.end] = build_marker(TransactionMarker(action.producer, 0, action.commits, 0), self.now_ms)
        self.end += 1

    def tick(self, action: actions.Tick, before: State) -> None:
        self.now_ms += 1

    # --- requests ----------------------------------------------------------------------------------------------------

    def commit(self, action: actions.Commit | actions.CommitInTransaction, before: State) -> None:
        producer = NO_PRODUCER
        if isinstance(action, actions.CommitInTransaction):
            producer = ProducerIdentity(action.producer, 0)
        self.append(self._ruling(action), producer)

    def _ruling(self, action: actions.Commit | actions.CommitInTransaction) -> Ruling:
        is_transactional = isinstance(action, actions.CommitInTransaction)
        new = NewOffset(KEY.topic, KEY.partition, self.end)
        commit = Commit(
            KEY.group,
            (new,),
            generation=action.generation,
            is_transactional=is_transactional,
            version=8,
        )
        return self.coordinator.commit(commit, self.now_ms)

    def delete(self, action: actions.Delete, before: State) -> None:
        self.append(self._deletion())

    def _deletion(self) -> Ruling:
        return self.coordinator.delete_offsets(KEY.group, [(KEY.topic, KEY.partition)])

    def expire(self, action: actions.Expire, before: State) -> None:
        self.append(self.coordinator.expire(self.now_ms, 1))

    def can_send(self, kind: type[Action]) -> bool:
        return kind in (actions.Commit, actions.CommitInTransaction, actions.Delete, actions.FetchStable)

    def refuse(self, action: Action, before: State) -> ErrorCode | None:
        """Send what is refused; returns the error."""
        match action:
            case actions.Commit() | actions.CommitInTransaction():
                return self._ruling(action).error
            case actions.Delete():
                return self._deletion().error
            case actions.FetchStable():
                found = self.coordinator.fetch(KEY, require_stable=True)
                return found if isinstance(found, ErrorCode) else ErrorCode.none
        return None

    # --- what is compared --------------------------------------------------------------------------------------------

    def differences(self, state: State) -> Iterable[Change]:
        """Whether the coordinator would let the offset expire, and what it tells who asks."""
        expires = bool(self.coordinator.expire(self.now_ms, 1).records)
        if expires != self.machine.expires(state):
            yield Change("expires", self.machine.expires(state), expires)
        told = self.coordinator.fetch(KEY, require_stable=False)
        value = told.value.offset if isinstance(told, CommittedOffset) else NONE
        expected = NONE if state.store.committed is None else state.store.committed.value
        if value != expected:
            yield Change("told", expected, value)

    def abstraction(self, state: State) -> State:
        offsets = self.coordinator.offsets
        found = offsets.get(KEY)
        pending = (
            (producer, committed) for producer, waiting in offsets.pending.items() for committed in waiting.values()
        )
        store = Store(
            None if found is None else _committed(found),
            tuple((producer, _committed(committed)) for producer, committed in sorted(pending)),
        )
        expiries = {entry.place for entry in state.history if entry.is_expiry}
        log = tuple(_entry(batch, entry, expiries) for batch, entry in self._decoded())
        return State(log, self.end, self.high_watermark, store, self.now_ms, self.failures, state.history)

    def _decoded(self) -> Iterator[tuple[bytes, LogEntry]]:
        for place in sorted(self.log):
            (entry,) = self.entries([place])
            yield self.log[place], entry


def _committed(found: CommittedOffset) -> Committed:
    return Committed(found.log_offset, found.value.offset, found.value.commit_time)


def _entry(batch: bytes, entry: LogEntry, expiries: set[int]) -> Entry:
    """An entry as the specification has it."""
    place = entry.log_offset
    if isinstance(entry, TransactionEnded):
        return Entry(place, KINDS[entry.is_commit], producer=entry.producer_id)
    assert isinstance(entry, OffsetWritten), "no group has members here"
    if entry.value is None:
        time = BatchHeader.parse(batch).max_timestamp
        return Entry(place, Kind.TOMBSTONE, time=time, is_expiry=place in expiries)
    return Entry(place, Kind.OFFSET, entry.producer_id, entry.value.offset, entry.value.commit_time)


STEPS: Final = Steps(
    on(actions.Commit, OffsetCores.commit),
    on(actions.CommitInTransaction, OffsetCores.commit),
    on(actions.WriteMarker, OffsetCores.write_marker),
    on(actions.Replicate, OffsetCores.replicate),
    on(actions.FailOver, OffsetCores.fail_over),
    on(actions.Delete, OffsetCores.delete),
    on(actions.Expire, OffsetCores.expire),
    on(actions.Clean, OffsetCores.clean),
    on(actions.Tick, OffsetCores.tick),
)
