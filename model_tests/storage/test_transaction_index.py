"""The index of aborted transactions: its file byte for byte, look-ups, cuts, and that it is found again in the log."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

import pytest

from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import CHECKSUM_START, HEADER_SIZE, LENGTH_OVERHEAD
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.records.markers import TransactionMarker, build_marker
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.storage.appends import AppendedBatch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import CLEANED_SUFFIX
from tidegauge.impl.storage.transaction_index import TransactionIndex, decode_entries, encode_entries
from tidegauge.model_tests.storage.compacted_batches import compacted_batch

DIRECTORY = "logs/tide-0"
PATH = f"{DIRECTORY}/{0:020d}.txnindex"
CONFIG = LogConfig(segment_bytes=250)
FIRST = AbortedTransaction(producer_id=7, first_offset=0, last_offset=4, last_stable_offset=2)
SECOND = AbortedTransaction(producer_id=8, first_offset=2, last_offset=9, last_stable_offset=10)


def index(disk: SimulatedDisk) -> TransactionIndex:
    disk.make_directory(DIRECTORY)
    return TransactionIndex(disk, lambda _: PATH)


def sync(written: TransactionIndex) -> None:
    for pending in written.begin_sync():
        pending.run()


def test_an_entry_is_34_bytes_as_kafka_writes_it() -> None:
    disk = SimulatedDisk(random.Random(0))
    written = index(disk)
    assert not disk.exists(PATH), "a segment without aborted transactions has no file"
    written.append(FIRST)
    written.append(SECOND)
    assert not disk.exists(PATH), "an append is written with the next sync"
    sync(written)
    assert disk.files()[PATH] == struct.pack(">hqqqq", 0, 7, 0, 4, 2) + struct.pack(">hqqqq", 0, 8, 2, 9, 10)
    assert index(disk).entries == [FIRST, SECOND]


def test_markers_come_in_order() -> None:
    written = index(SimulatedDisk(random.Random(0)))
    written.append(SECOND)
    with pytest.raises(AssertionError, match="4 is not beyond the last one at 9"):
        written.append(FIRST)


def test_a_reader_gets_the_transactions_that_overlap_what_it_reads() -> None:
    written = index(SimulatedDisk(random.Random(0)))
    written.append(FIRST)
    written.append(SECOND)
    assert written.collect(0, 2) == ([FIRST], True), "the last stable offset of the first was 2"
    assert written.collect(0, 3) == ([FIRST, SECOND], True)
    assert written.collect(5, 10) == ([SECOND], True)
    assert written.collect(10, 20) == ([], False)


def test_a_cut_forgets_the_markers_beyond_it() -> None:
    disk = SimulatedDisk(random.Random(0))
    written = index(disk)
    written.append(FIRST)
    written.append(SECOND)
    written.truncate(9)
    assert written.entries == index(disk).entries == [FIRST]


@pytest.mark.parametrize("damage", ["torn", "version", "order"])
def test_what_follows_a_damaged_entry_is_not_believed(damage: str) -> None:
    data = encode_entries([FIRST, SECOND])
    if damage == "torn":
        data = data[:-1]
    elif damage == "version":
        data = data[:34] + b"\x00\x01" + data[36:]
    else:
        data = encode_entries([FIRST, FIRST])
    assert list(decode_entries(data)) == [FIRST]


def test_an_append_after_damage_cuts_it_off() -> None:
    disk = SimulatedDisk(random.Random(0))
    written = index(disk)
    written.append(FIRST)
    sync(written)
    disk.open(PATH).append(b"torn")
    again = index(disk)
    again.append(SECOND)
    sync(again)
    assert index(disk).entries == [FIRST, SECOND]
    assert disk.size(PATH) == 68


# --- in a log --------------------------------------------------------------------------------------------------------


def records(producer: int, sequence: int) -> bytes:
    return build_batch([Record(0, 0, None, b"v")], producer=ProducerIdentity(producer, 0, sequence), transactional=True)


def marker(producer: int, *, commit: bool) -> bytes:
    return build_marker(TransactionMarker(producer, 0, commit, 0), 0)


HISTORY = [
    records(7, 0),  # 0
    records(8, 0),  # 1
    marker(7, commit=False),  # 2: aborts from 0; from 1 on nothing is stable
    records(7, 1),  # 3
    marker(8, commit=True),  # 4
    records(8, 1),  # 5
    marker(7, commit=False),  # 6: aborts from 3; 5 is open
    marker(8, commit=False),  # 7: aborts from 5
    marker(9, commit=False),  # 8: nothing was open
]
ABORTED = [AbortedTransaction(7, 0, 2, 1), AbortedTransaction(7, 3, 6, 5), AbortedTransaction(8, 5, 7, 8)]


def with_transactions(disk: SimulatedDisk) -> Log:
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    for batch in HISTORY:
        log.append_as_leader(batch, 0, 0, origin=Origin.BROKER)
    assert len(log.segment_base_offsets) > 1
    return log


def test_a_log_finds_aborted_transactions_across_segments() -> None:
    log = with_transactions(SimulatedDisk(random.Random(0)))
    assert log.aborted_transactions(0, 9) == ABORTED
    assert log.aborted_transactions(0, 1) == ABORTED[:1]
    assert log.aborted_transactions(3, 5) == ABORTED[1:2]
    assert log.aborted_transactions(8, 9) == []


@pytest.mark.parametrize("tails", [CrashOutcome.LOST, CrashOutcome.KEPT, CrashOutcome.SEEDED])
def test_after_a_crash_the_index_is_that_of_what_is_in_the_log(tails: CrashOutcome) -> None:
    for seed in range(25):
        disk = SimulatedDisk(random.Random(seed))
        log = with_transactions(disk)
        if seed % 2:
            log.flush()
        disk.crash(tails=tails, names=tails)
        disk.power_on()
        log = Log.open(disk, DIRECTORY, CONFIG, 0)
        expected = [entry for entry in ABORTED if entry.last_offset < log.log_end_offset]
        assert log.aborted_transactions(0, 100) == expected


def test_a_lost_index_is_rebuilt_with_transactions_that_begin_in_earlier_segments() -> None:
    disk = SimulatedDisk(random.Random(0))
    with_transactions(disk).flush()
    for name in [name for name in disk.list_directory(DIRECTORY) if name.endswith(".txnindex")]:
        disk.remove(f"{DIRECTORY}/{name}")
    assert Log.open(disk, DIRECTORY, CONFIG, 0).aborted_transactions(0, 100) == ABORTED


def closed_with(change: Callable[[SimulatedDisk, str], object], name: str) -> tuple[SimulatedDisk, int]:
    """A log that was closed, and whose index of this name was changed then; and where the log ends."""
    disk = SimulatedDisk(random.Random(0))
    log = with_transactions(disk)
    end = log.log_end_offset
    log.close()
    change(disk, f"{DIRECTORY}/{name}")
    return disk, end


def cut_to(size: int) -> Callable[[SimulatedDisk, str], object]:
    def cut(disk: SimulatedDisk, path: str) -> None:
        file = disk.open(path)
        file.truncate(size)
        file.close()

    return cut


def flipped_at(position: int) -> Callable[[SimulatedDisk, str], object]:
    return lambda disk, path: disk.flip_bit(path, position, position % 8)


def damages(size: int) -> Iterator[Callable[[SimulatedDisk, str], object]]:
    """A flipped bit of every byte, every length, zeroes, missing."""
    for position in range(size):
        yield flipped_at(position)
        yield cut_to(position)
    yield lambda disk, path: disk.zero(path, 0, size)
    yield lambda disk, path: disk.remove(path)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean stop", "kill -9"])
def test_a_damaged_index_is_found_and_made_anew_where_the_log_is_read(
    is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    intact, _ = closed_with(lambda disk, path: None, "")
    for name in [name for name in intact.list_directory(DIRECTORY) if name.endswith(".txnindex")]:
        for change in damages(intact.size(f"{DIRECTORY}/{name}")):
            disk, end = closed_with(change, name)
            caplog.clear()
            log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=end, clean_shutdown=is_clean, reads_all=True)
            assert log.aborted_transactions(0, 100) == ABORTED
            assert [line.split(":")[0] for line in caplog.messages] == ["indexes rebuilt"]


@pytest.mark.parametrize("cut", range(10))
def test_truncating_a_log_forgets_what_is_cut(cut: int) -> None:
    log = with_transactions(SimulatedDisk(random.Random(0)))
    log.truncate_to(cut)
    assert log.aborted_transactions(0, 100) == [entry for entry in ABORTED if entry.last_offset < cut]


def test_the_index_goes_and_comes_with_its_segment() -> None:
    disk = SimulatedDisk(random.Random(0))
    log = with_transactions(disk)
    first, *others = log.closed_segments
    cleaned = Segment(disk, DIRECTORY, first.base_offset, 100, 0, suffix=CLEANED_SUFFIX)
    kept = compacted_batch(first.base_offset, others[-1].next_offset, 0, {})
    cleaned.append((kept,), (AppendedBatch(others[-1].next_offset - 1, len(kept), -1),))
    cleaned.transaction_index.append(ABORTED[1])
    log.replace_segments([first, *others], cleaned, 0)
    assert ABORTED[1] in log.aborted_transactions(0, 100)
    assert ABORTED[0] not in log.aborted_transactions(0, 100)
    names = disk.list_directory(DIRECTORY)
    assert f"{0:020d}.txnindex" in names
    assert f"{0:020d}.txnindex.deleted" in names


def test_a_marker_whose_record_a_cleaner_has_taken_aborts_nothing_when_its_log_is_read() -> None:
    """Its batch is left, without a record that says how the transaction ended."""
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    for batch in (records(7, 0), without_records(marker(7, commit=False)), records(8, 0), marker(8, commit=False)):
        log.append_as_leader(batch, 0, 0, origin=Origin.BROKER)
    log.close()
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=4, clean_shutdown=True, reads_all=True)
    assert [(one.producer_id, one.last_offset) for one in log.aborted_transactions(0, 100)] == [(8, 3)]


def without_records(batch: bytes) -> bytes:
    """What a cleaner leaves of a batch that it keeps for its producer."""
    header = bytearray(batch[:HEADER_SIZE])
    struct.pack_into(">i", header, 8, HEADER_SIZE - LENGTH_OVERHEAD)
    struct.pack_into(">i", header, HEADER_SIZE - 4, 0)
    struct.pack_into(">I", header, CHECKSUM_START - 4, crc32c(bytes(header[CHECKSUM_START:])))
    return bytes(header)
