"""A log of `impl.storage` with its cleaner beside the machine of compaction with transactions.

A user's key has the very bytes of a marker's key. A replica is another log, which appends what it reads as a follower.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import attrs

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import NO_PRODUCER_ID, BatchHeader, headers
from tidegauge.impl.records.markers import TransactionMarker, build_marker, marker_kind
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity, Record, build_batch, decode_records
from tidegauge.impl.storage.cleaner import Round
from tidegauge.impl.storage.cleaner_batches import delete_horizon
from tidegauge.impl.storage.cleaner_filter import RetentionRules
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import SLOT_SIZE, OffsetMap
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.compaction import transactional as spec
from tidegauge.spec.compaction.machine import DELETED, NEVER
from tidegauge.spec.compaction.transactional import Aborted, Entry, Kind, Replica, State, TransactionalCompaction
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action

DIRECTORY: Final = "logs/tide-0"


@attrs.frozen
class CleaningRoles:
    """The classes that play each part."""

    rules: type[RetentionRules] = RetentionRules


CORRECT_CLEANING: Final = CleaningRoles()


def large_logs(rng: Random) -> TransactionalCompaction:
    """A machine for a walk."""
    return TransactionalCompaction(
        max_records=rng.choice((4, 8, 20)),
        keys=rng.choice((1, 2, 3)),
        producers=rng.choice((1, 2)),
        retention=rng.choice((1, 2)),
        max_time=8,
    )


def key_bytes(key: int) -> bytes:
    """A key as a marker has it, which begins with a version."""
    return (0).to_bytes(2, "big") + key.to_bytes(2, "big")


class CleaningCores:
    """Satisfies `harness.lockstep.lockstep.Binding`: one log, its cleaner, and the log of a replica."""

    def __init__(self, machine: TransactionalCompaction, roles: CleaningRoles = CORRECT_CLEANING) -> None:
        self.roles = roles
        self.now = self.clean_end = self.began = self.replicas = 0
        self._disk = SimulatedDisk(Random(0))
        self._config = LogConfig(delete_retention_ms=machine.retention)
        self.log = Log.open(self._disk, DIRECTORY, self._config, 0)
        self.copy_of_log = self._new_replica()

    def perform(self, action: Action, before: State) -> None:
        STEPS.perform(self, action, before)

    def close(self) -> None:
        self.log.abandon()
        self.copy_of_log.abandon()

    def _new_replica(self) -> Log:
        self.replicas += 1
        return Log.open(self._disk, f"copies-{self.replicas}/tide-0", self._config, self.now)

    # --- actions ---------------------------------------------------------------------------------------------------

    def append(self, action: spec.Append, before: State) -> None:
        is_transactional = action.producer != spec.NO_PRODUCER
        producer = ProducerIdentity(action.producer, 0, before.end) if is_transactional else NO_PRODUCER
        value = sum(one.key == action.key and not one.is_marker for one in before.history) + 1
        record = Record(0, 1_000, key_bytes(action.key), None if action.tombstone else b"%d" % value)
        self.log.append_as_leader(build_batch([record], producer=producer, transactional=is_transactional), 0, self.now)

    def end_transaction(self, action: spec.EndTransaction, before: State) -> None:
        marker = build_marker(TransactionMarker(action.producer, 0, action.commits, 0), self.now)
        self.log.append_as_leader(marker, 0, self.now, origin=Origin.BROKER)

    def roll(self, action: spec.Roll, before: State) -> None:
        self.log.roll(self.now)

    def clean(self, action: spec.Clean, before: State) -> None:
        """A round with a map of so many slots, and up to the last stable offset, as a broker's cleaner is told."""
        end = self.log.log_end_offset
        undecided = self.log.producers.transactions.first_undecided_offset(end)
        stable = end if undecided is None else undecided
        offsets = OffsetMap((action.keys + 1) * SLOT_SIZE, load_factor=1.0)
        slices = Round(
            self.log, self._disk, offsets, self.clean_end, stable, self.now, rules_class=self.roles.rules
        ).run()
        while True:
            try:
                next(slices)
            except StopIteration as done:
                self.clean_end = done.value.end_offset
                return

    def tick(self, action: spec.Tick, before: State) -> None:
        self.now += 1

    def start_copying(self, action: spec.StartCopying, before: State) -> None:
        self.copy_of_log.abandon()
        self.copy_of_log, self.began = self._new_replica(), self.now

    def copy(self, action: spec.Copy, before: State) -> None:
        self.copy_of_log.append_as_follower(self.log.read(self.copy_of_log.log_end_offset, 1), self.now)

    # --- what is compared ------------------------------------------------------------------------------------------

    def abstraction(self, state: State) -> State:
        found = self.log.aborted_transactions(0, self.log.log_end_offset)
        return State(
            log=tuple(_entries(self.log)),
            segments=tuple(self.log.segment_base_offsets),
            aborted=tuple(Aborted(one.producer_id, one.first_offset, one.last_offset) for one in found),
            clean=self.clean_end,
            history=state.history,
            now=self.now,
            replica=Replica(tuple(_entries(self.copy_of_log)), self.began),
        )

    def differences(self, state: State) -> Iterator[Change]:
        """What is open: for the log's owner by all that was appended, for a replica by what it has copied."""
        for name, log, entries in (
            ("open", self.log, state.history),
            ("replica.open", self.copy_of_log, state.replica.log),
        ):
            expected, actual = spec.open_in(entries), log.producers.transactions.open
            if expected != actual:
                yield Change(name, expected, dict(actual))


def _entries(log: Log) -> Iterator[Entry]:
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20)
        for position, header in headers(data):
            yield _entry(data, position, header)
            offset = header.next_offset


def _entry(data: bytes, position: int, header: BatchHeader) -> Entry:
    producer = spec.NO_PRODUCER if header.producer_id == NO_PRODUCER_ID else header.producer_id
    assert header.is_transactional is (producer != spec.NO_PRODUCER)
    kind = Kind.ABORT if header.is_control else Kind.RECORD
    if not header.records_count:
        return Entry(header.base_offset, 0, DELETED, kind=kind, producer=producer).emptied
    (record,) = decode_records(data, position)
    assert record.key is not None
    marked = marker_kind(record.key) if header.is_control else None
    value = DELETED if record.value is None else int(record.value) if marked is None else 1
    horizon = delete_horizon(header)
    return Entry(
        record.offset,
        int.from_bytes(record.key, "big"),
        value,
        NEVER if horizon is None else horizon,
        kind if marked is None else Kind(marked),
        producer,
    )


STEPS: Final = Steps(
    on(spec.Append, CleaningCores.append),
    on(spec.EndTransaction, CleaningCores.end_transaction),
    on(spec.Roll, CleaningCores.roll),
    on(spec.Clean, CleaningCores.clean),
    on(spec.Tick, CleaningCores.tick),
    on(spec.StartCopying, CleaningCores.start_copying),
    on(spec.Copy, CleaningCores.copy),
)
