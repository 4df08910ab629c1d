"""Transactions of one partition: the last stable offset, what is aborted, whose markers and batches are taken.

The property holds what a log says against what is read off its batches one by one, whatever happened to the log:
appends by leader and follower, markers that come twice, cuts, new segments, clean stops, crashes.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import Appended, PartitionConfig, PartitionFetchResponse
from tidegauge.impl.partition.producer_state import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
)
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.partition.transactions import AbortedTransaction, Transactions
from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import BatchHeader, headers
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.markers import ABORT_MARKER, MarkerRecord, TransactionMarker, build_marker, marker_record
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.reading import FileRegion
from tidegauge.model_tests.partition.replicas import BROKER_EPOCHS, registration

DIRECTORY = "logs/tide-0"
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=64)
PRODUCERS = (7, 8, 9)
MUCH = 1 << 20


def data(producer: int, epoch: int = 0, sequence: int = 0, *, transactional: bool = True) -> bytes:
    who = ProducerIdentity(producer, epoch, sequence)
    return build_batch([Record(0, 0, None, b"value")], producer=who, transactional=transactional)


def marker(producer: int, epoch: int = 0, *, commit: bool, coordinator_epoch: int = 0) -> TransactionMarker:
    return TransactionMarker(producer, epoch, commit, coordinator_epoch)


# --- a replica -------------------------------------------------------------------------------------------------------


class Pair:
    """A leader and its follower, with logs on a disk; followers fetch when they are told to."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(random.Random(0))
        self.logs = [Log.open(self.disk, f"logs/{broker}", CONFIG, 0) for broker in (0, 1)]
        self.replicas = [PartitionReplica(broker, self.logs[broker], PartitionConfig()) for broker in (0, 1)]
        for replica in self.replicas:
            replica.apply_metadata(registration(isr=(0, 1), replicas=(0, 1)), 0, 0)
        self.leader, self.follower = self.replicas

    def append(self, batch: bytes) -> Appended | ErrorCode:
        """The coordinator lets in every transaction."""
        question = self.leader.verification(BatchHeader.parse(batch))
        if question is not None:
            assert self.leader.confirm(question)
        return self.leader.append(batch, -1, 0)

    def end(self, end: TransactionMarker, version: int = 1) -> Appended | ErrorCode:
        return self.leader.append_marker(end, version, 0)

    def fetch(self) -> None:
        fetch = self.follower.fetch_request(BROKER_EPOCHS[1])
        assert fetch is not None
        response = self.leader.receive_fetch(fetch, MUCH, 0)
        self.follower.receive_fetch_response(fetch, response, 0)

    def replicate(self) -> None:
        """Until both have all, and both know that it is committed."""
        for _ in range(3):
            self.fetch()


def read_by(replica: PartitionReplica, offset: int = 0) -> PartitionFetchResponse:
    return replica.read(offset, MUCH, only_leader=False, read_committed=True)


def offsets(response: PartitionFetchResponse) -> list[int]:
    return [header.base_offset for _, header in headers(in_memory(response.records))]


def test_a_reader_of_committed_records_stops_before_an_open_transaction() -> None:
    pair = Pair()
    pair.append(data(7, transactional=False))
    pair.append(data(8))
    pair.append(data(9, transactional=False))
    pair.replicate()
    for replica in pair.replicas:
        assert (replica.high_watermark, replica.last_stable_offset) == (3, 1)
        assert offsets(read_by(replica)) == [0]
        assert read_by(replica).last_stable_offset == replica.read(0, MUCH, only_leader=False).last_stable_offset == 1
        assert offsets(replica.read(0, MUCH, only_leader=False)) == [0, 1, 2], (
            "the others read up to the high watermark"
        )
        assert replica.latest_offset(only_leader=False, read_committed=True) == 1
        assert replica.latest_offset(only_leader=False) == 3


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_read_once_its_marker_is_committed_everywhere(commit: bool) -> None:
    pair = Pair()
    pair.append(data(7))
    pair.replicate()
    assert isinstance(pair.end(marker(7, commit=commit)), Appended)
    for replica in pair.replicas:
        assert replica.last_stable_offset == 0, "another leader may not have the marker"
    pair.replicate()
    for replica in pair.replicas:
        assert replica.last_stable_offset == 2
        assert offsets(read_by(replica)) == [0, 1]
        assert list(read_by(replica).aborted or ()) == ([] if commit else [AbortedTransaction(7, 0, 1, 2)])
        assert replica.read(0, MUCH, only_leader=False).aborted is None, "nobody else is told"


def test_the_transaction_that_began_first_holds_the_others_back() -> None:
    pair = Pair()
    for producer in (7, 8):
        pair.append(data(producer))
    pair.end(marker(8, commit=True))
    pair.replicate()
    assert pair.leader.last_stable_offset == 0
    pair.end(marker(7, commit=True))
    pair.replicate()
    assert pair.leader.last_stable_offset == 4


def test_a_transaction_beyond_the_high_watermark_does_not_hold_readers_back_nor_lets_them_on() -> None:
    pair = Pair()
    pair.append(data(7, transactional=False))
    pair.replicate()
    pair.append(data(7, sequence=1, transactional=False))
    pair.append(data(8))
    assert (pair.leader.high_watermark, pair.leader.log_end_offset) == (1, 3)
    assert pair.leader.last_stable_offset == 1


def test_a_transaction_whose_marker_is_read_again_has_not_ended_before() -> None:
    transactions = Transactions()
    for producer, (first, last) in enumerate([(0, 3), (1, 5)]):
        transactions.begin(producer, first)
        transactions.end(producer, last, aborted=False)
    assert [one.last_offset for one in transactions.ended_before(5).ended] == [3]


def test_the_last_stable_offset_is_never_below_the_log_start() -> None:
    pair = Pair()
    pair.append(data(7))
    pair.append(data(8, transactional=False))
    pair.replicate()
    pair.leader.delete_records(2)
    assert pair.leader.last_stable_offset == 2


# --- whose markers are taken -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "error"),
    [
        (1, 4, True, ErrorCode.invalid_producer_epoch),
        (1, 5, True, None),
        (1, 6, True, None),
        (1, 5, False, None),
        (2, 4, True, ErrorCode.invalid_producer_epoch),
        (2, 5, True, ErrorCode.invalid_producer_epoch),
        (2, 6, True, None),
        (2, 5, False, None),
        (2, 4, False, ErrorCode.invalid_producer_epoch),
    ],
)
def test_a_marker_needs_the_epoch_of_its_transaction_or_from_version_2_on_the_next(
    version: int, epoch: int, is_open: bool, error: ErrorCode | None
) -> None:
    """An equal epoch in version 2 is a marker that is sent again, unless a transaction is open (KIP-1228)."""
    pair = Pair()
    pair.append(data(7, 5))
    if not is_open:
        pair.end(marker(7, 5, commit=True))
    before = pair.leader.log_end_offset
    outcome = pair.end(marker(7, epoch, commit=True), version)
    assert (outcome if isinstance(outcome, ErrorCode) else None) == error
    assert pair.leader.log_end_offset == before + (error is None)
    assert bool(pair.leader.producers.transactions.open) == (error is not None and is_open)


@pytest.mark.parametrize("version", [1, 2])
def test_at_the_largest_epoch_whatever_is_open_can_be_ended(version: int) -> None:
    """No epoch is greater: else nothing could end it, and readers would wait for ever."""
    pair = Pair()
    pair.append(data(7, 32_767))
    assert pair.end(marker(7, 32_766, commit=True), version) is ErrorCode.invalid_producer_epoch
    assert isinstance(pair.end(marker(7, 32_767, commit=True), version), Appended)
    assert not pair.leader.producers.transactions.open


@pytest.mark.parametrize(
    ("end", "version"),
    [
        (marker(-1, commit=True), 1),
        (marker(7, -1, commit=True), 1),
        (marker(7, commit=True), -1),
        (marker(7, commit=True), 3),
    ],
    ids=["producer id", "epoch", "no version", "version"],
)
def test_a_marker_of_no_producer_or_of_an_unknown_version_is_refused(end: TransactionMarker, version: int) -> None:
    pair = Pair()
    assert pair.end(end, version) is ErrorCode.invalid_request
    assert pair.leader.log_end_offset == 0


def test_a_marker_of_a_former_coordinator_is_refused() -> None:
    pair = Pair()
    pair.append(data(7))
    pair.end(marker(7, commit=True, coordinator_epoch=3))
    pair.append(data(7, sequence=1))
    assert pair.end(marker(7, commit=False, coordinator_epoch=2)) is ErrorCode.transaction_coordinator_fenced
    assert 7 in pair.leader.producers.transactions.open
    assert isinstance(pair.end(marker(7, commit=True, coordinator_epoch=3)), Appended)


def test_only_a_leader_with_enough_in_sync_takes_markers() -> None:
    pair = Pair()
    assert pair.follower.append_marker(marker(7, commit=True), 1, 0) is ErrorCode.not_leader_or_follower
    pair.leader.config = PartitionConfig(min_insync_replicas=2)
    pair.leader.apply_metadata(registration(isr=(0,), replicas=(0, 1), partition_epoch=1), 0, 0)
    assert pair.end(marker(7, commit=True)) is ErrorCode.not_enough_replicas


def test_a_marker_fences_the_producers_older_epochs() -> None:
    pair = Pair()
    pair.append(data(7))
    pair.end(marker(7, 1, commit=False), version=2)
    with pytest.raises(InvalidProducerEpochError):
        pair.append(data(7, 0, 1))
    with pytest.raises(OutOfOrderSequenceError):
        pair.append(data(7, 1, 1))
    assert isinstance(pair.append(data(7, 1, 0)), Appended)


def test_while_its_transaction_is_open_a_producer_writes_nothing_outside_it() -> None:
    pair = Pair()
    pair.append(data(7))
    with pytest.raises(InvalidTransactionStateError):
        pair.append(data(7, sequence=1, transactional=False))
    pair.end(marker(7, commit=True))
    assert isinstance(pair.append(data(7, sequence=1, transactional=False)), Appended)


# --- any history -----------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """A batch as it is read off the log, with the record of a control batch."""

    offset: int
    producer: int
    transactional: bool
    end: MarkerRecord | None


def batches_of(log: Log) -> list[Batch]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, MUCH)
        for position, header in headers(records):
            end = marker_record(records, position) if header.is_control else None
            found.append(Batch(header.base_offset, header.producer_id, header.is_transactional, end))
            offset = header.next_offset
    return found


class Expected(NamedTuple):
    open: dict[int, int]
    ended: list[tuple[int, int]]
    aborted: list[AbortedTransaction]
    coordinators: dict[int, int]

    def undecided(self, high_watermark: int) -> int | None:
        held = [first for first, last in self.ended if last >= high_watermark]
        return min([*self.open.values(), *held], default=None)


def expected(batches: list[Batch]) -> Expected:
    found = Expected({}, [], [], {})
    for batch in batches:
        if not batch.transactional:
            continue
        if batch.end is None:
            found.open.setdefault(batch.producer, batch.offset)
            continue
        found.coordinators[batch.producer] = batch.end.coordinator_epoch
        if (first := found.open.pop(batch.producer, None)) is not None:
            found.ended.append((first, batch.offset))
            if batch.end.kind == ABORT_MARKER:
                stable = min(found.open.values(), default=batch.offset + 1)
                found.aborted.append(AbortedTransaction(batch.producer, first, batch.offset, stable))
    return found


def check(log: Log, *, since: int) -> None:
    """The log says what its batches say; transactions that ended before the high watermark `since` may be forgotten."""
    truth = expected(batches_of(log))
    states = log.producers
    assert states.transactions.open == truth.open
    opened = {entry.producer_id: entry.current_txn_first_offset for entry in states.entries.values()}
    assert {producer: offset for producer, offset in opened.items() if offset >= 0} == truth.open
    coordinators = {producer: entry.coordinator_epoch for producer, entry in states.entries.items()}
    assert {producer: epoch for producer, epoch in coordinators.items() if epoch >= 0} == truth.coordinators
    transactions = copy.deepcopy(states.transactions)  # which forgets what the high watermark has passed
    for high_watermark in range(since, log.log_end_offset + 1):
        assert transactions.first_undecided_offset(high_watermark) == truth.undecided(high_watermark)
    for offset in range(log.log_end_offset):
        records = log.fetch(offset, 150, log.log_end_offset)
        end = max(header.next_offset for _, header in headers(in_memory(records)))
        reaching = [one for one in truth.aborted if one.last_offset >= offset and one.first_offset < end]
        assert log.aborted_in(offset, records) == reaching


@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 40))
def test_whatever_happens_to_a_log_its_transactions_are_those_of_its_batches(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    disk = SimulatedDisk(rng)
    log, since = Log.open(disk, DIRECTORY, CONFIG, 0), 0
    for _ in range(steps):
        producer, kind = rng.choice(PRODUCERS), rng.random()
        if kind < 0.45:
            batch = data(producer, transactional=rng.random() < 0.8)
            log.append_as_leader(batch, 0, 0, origin=Origin.BROKER)
        elif kind < 0.75:
            end = build_marker(marker(producer, commit=rng.random() < 0.5, coordinator_epoch=rng.randrange(3)), 0)
            log.append_as_leader(end, 0, 0, origin=Origin.BROKER)
        elif kind < 0.80:
            log.flush()
        elif kind < 0.85:
            log.roll(0)
        elif kind < 0.90 and log.log_end_offset:
            log.truncate_to(rng.randrange(since, log.log_end_offset + 1))
        elif kind < 0.95:
            flushed, clean = log.flushed_end_offset, rng.random() < 0.5
            if clean:
                log.close()
                flushed = log.log_end_offset
            else:
                disk.crash(tails=CrashOutcome.SEEDED, names=CrashOutcome.SEEDED)
                disk.power_on()
            since = rng.randrange(since, max(since, flushed) + 1)
            log = Log.open(
                disk, DIRECTORY, CONFIG, 0, recovery_point=flushed, clean_shutdown=clean, high_watermark=since
            )
        check(log, since=since)


def test_what_is_aborted_is_known_of_a_place_in_a_file_without_reading_it(tmp_path: Path) -> None:
    """The offset index tells where such records end, so a few later transactions may be told too."""
    disk = RealDisk()
    log = Log.open(disk, f"{tmp_path}/tide-0", LogConfig(segment_bytes=1 << 20, index_interval_bytes=4096), 0)
    for _ in range(300):
        batch = build_batch([Record(0, 0, None, bytes(2_000))], producer=ProducerIdentity(7, 0, 0), transactional=True)
        log.append_as_leader(batch, 0, 0, origin=Origin.BROKER)
        log.append_as_leader(build_marker(marker(7, commit=False), 0), 0, 0, origin=Origin.BROKER)
    for offset in (0, 101, 250, 599):
        records = log.fetch(offset, 100_000)
        end = max(header.next_offset for _, header in headers(in_memory(records)))
        told = [one.first_offset for one in log.aborted_in(offset, records)]
        assert isinstance(records, FileRegion) == (offset < 599)
        assert told == list(range(offset // 2 * 2, told[-1] + 1, 2))
        assert end - 2 <= told[-1] <= end + 6
    log.close()


def test_a_follower_knows_what_its_leader_knows() -> None:
    pair = Pair()
    rng = random.Random(5)
    for _ in range(200):
        producer = rng.choice(PRODUCERS)
        if rng.random() < 0.6:
            entry = pair.leader.producers.entries.get(producer)
            sequence = 0 if entry is None else entry.last_sequence + 1
            pair.append(data(producer, sequence=sequence))
        else:
            pair.end(marker(producer, commit=rng.random() < 0.5))
        if rng.random() < 0.3:
            pair.fetch()
    pair.replicate()
    leader, follower = pair.logs
    assert leader.aborted_transactions(0, MUCH) == follower.aborted_transactions(0, MUCH)
    assert len(leader.aborted_transactions(0, MUCH)) > 5
    assert leader.producers.entries == follower.producers.entries
    assert pair.leader.last_stable_offset == pair.follower.last_stable_offset


def test_a_control_record_of_another_kind_ends_no_transaction() -> None:
    log = Log.open(SimulatedDisk(random.Random(0)), DIRECTORY, CONFIG, 0)
    log.append_as_leader(data(7), 0, 0, origin=Origin.BROKER)
    record = Record(0, 0, b"\x00\x00\x00\x63", b"")
    other = build_batch([record], producer=ProducerIdentity(7, 0, -1), transactional=True, control=True)
    log.append_as_leader(other, 0, 0, origin=Origin.BROKER)
    assert log.producers.transactions.open == {7: 0}
