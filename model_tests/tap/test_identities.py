"""What identifies a record: the same where it is produced and where it is fetched, and another for any other record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.impl.records.batches import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    Compression,
    RecordError,
    assign,
)
from tidegauge.impl.records.markers import TransactionMarker, build_marker
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity, Record, RecordHeader, build_batch
from tidegauge.impl.tap.fetches import Sessions, read_records
from tidegauge.impl.tap.identities import IDEMPOTENT, TRANSACTIONAL, identities
from tidegauge.impl.wire.fetch_messages import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionFetched,
)

RECORDS = [
    Record(0, 5, b"key", b"value", (RecordHeader("h", b"x"),)),
    Record(1, 900, None, b"v" * 300),
    Record(2, 5, b"key", None),
]
PRODUCER = ProducerIdentity(7, 1, 40)


def values(batch: bytes) -> list[int]:
    return identities(batch, BatchHeader.parse(batch))[1]


@pytest.mark.parametrize("compression", Compression)
def test_compression_and_place_and_time_change_nothing(compression: Compression) -> None:
    sent = build_batch(RECORDS, producer=PRODUCER)
    stored = [record._replace(offset=record.offset + 70, timestamp=record.timestamp + 1) for record in RECORDS]
    kept = bytearray(build_batch(stored, producer=PRODUCER, compression=compression))
    assign(kept, 0, 70, 3)
    assert identities(kept, BatchHeader.parse(kept))[1] == values(sent)


def test_contents_sender_and_sequence_make_a_difference() -> None:
    seen = set()
    for producer in (PRODUCER, PRODUCER._replace(base_sequence=41), PRODUCER._replace(producer_epoch=2), NO_PRODUCER):
        for change in ({}, {"value": b"other"}, {"key": None}, {"headers": ()}, {"key": b"keyv", "value": b"alue"}):
            record = RECORDS[0]._replace(**change)
            batch = build_batch([record], producer=producer)
            seen.update(values(batch))
    assert len(seen) == 20


def test_the_low_bits_say_what_a_value_rests_on() -> None:
    plain = values(build_batch(RECORDS))
    idempotent = values(build_batch(RECORDS, producer=PRODUCER))
    transactional = values(build_batch(RECORDS, producer=PRODUCER, transactional=True))
    assert {value & 3 for value in plain} == {0}
    assert {value & 3 for value in idempotent} == {IDEMPOTENT}
    assert {value & 3 for value in transactional} == {IDEMPOTENT | TRANSACTIONAL}
    assert all(0 <= value < 1 << 62 for value in plain + idempotent + transactional)


def test_sequences_wrap() -> None:
    last = (1 << 31) - 1
    batch = build_batch(RECORDS, producer=PRODUCER._replace(base_sequence=last))
    alone = build_batch([RECORDS[1]._replace(offset=0)], producer=PRODUCER._replace(base_sequence=0))
    assert values(batch)[1] == values(alone)[0]


def test_a_batch_that_lies_about_its_records_is_refused() -> None:
    batch = build_batch(RECORDS)
    header = BatchHeader.parse(batch)
    for count in (4, 1 << 30, -1):
        with pytest.raises(RecordError):
            identities(batch, header._replace(records_count=count))


@given(payload=st.binary(max_size=40), count=st.integers(0, 5), producer=st.sampled_from([PRODUCER, NO_PRODUCER]))
def test_whatever_bytes_a_batch_has_it_is_read_or_refused(
    payload: bytes, count: int, producer: ProducerIdentity
) -> None:
    header = BatchHeader.parse(build_batch(RECORDS, producer=producer))
    batch = bytes(HEADER_SIZE) + payload
    header = header._replace(records_count=count, batch_length=len(batch) - LENGTH_OVERHEAD)
    try:
        deltas, found = identities(batch, header)
    except RecordError:
        return
    assert len(deltas) == len(found) == count


def test_a_few_bytes_that_stand_for_many_are_refused() -> None:
    bomb = build_batch([Record(0, 0, None, bytes(40 << 20))], compression=Compression.ZSTD)
    assert len(bomb) < 1 << 20
    with pytest.raises(RecordError, match="records of more than"):
        values(bomb)


# --- what a client keeps of a response --------------------------------------------------------------------------


def at(offset: int, batch: bytes) -> bytes:
    placed = bytearray(batch)
    assign(placed, 0, offset, 0)
    return bytes(placed)


def one(number: int, producer: ProducerIdentity = NO_PRODUCER, *, transactional: bool = False) -> bytes:
    return build_batch([Record(0, 0, None, b"%d" % number)], producer=producer, transactional=transactional)


def fetched(*batches: bytes, aborted: list[AbortedTransaction] | None = None) -> PartitionFetched:
    return PartitionFetched(0, high_watermark=100, records=b"".join(batches), aborted_transactions=aborted)


def test_records_before_the_position_and_control_batches_are_left_out() -> None:
    marker = build_marker(TransactionMarker(7, 1, True, 0), 0)
    batches = [at(10, build_batch(RECORDS)), at(13, marker), at(14, one(1))]
    read = read_records(fetched(*batches), 11, 0)
    assert read.offsets == [11, 12, 14]
    assert not read.compacted
    assert read_records(fetched(*batches, batches[-1][:-1]), None, 0).offsets == [10, 11, 12, 14], "a batch cut short"


def test_read_committed_leaves_out_what_is_aborted_and_nothing_else() -> None:
    def sent(offset: int, producer: int) -> bytes:
        return at(offset, one(offset, ProducerIdentity(producer, 0, offset), transactional=True))

    def ended(offset: int, producer: int, commit: bool) -> bytes:
        return at(offset, build_marker(TransactionMarker(producer, 0, commit, 0), 0))

    batches = [
        sent(0, 1),
        sent(1, 2),
        ended(2, 1, False),
        sent(3, 1),
        sent(4, 2),
        ended(5, 1, True),
        ended(6, 2, False),
    ]
    aborted = [AbortedTransaction(2, 1), AbortedTransaction(1, 0)]
    read = read_records(fetched(*batches, aborted=aborted), 0, 1)
    assert read.offsets == [3]
    assert read.transactional
    assert read_records(fetched(*batches, aborted=aborted), 0, 0).offsets == [0, 1, 3, 4]


def test_a_batch_that_lacks_records_says_that_its_topic_is_compacted() -> None:
    batch = build_batch([RECORDS[0], RECORDS[2]])
    header = BatchHeader.parse(batch)
    assert header.last_offset_delta == 2
    assert read_records(fetched(batch), 0, 0).compacted
    assert read_records(fetched(batch), 0, 0).offsets == [0, 2]


def test_damage_ends_what_is_read() -> None:
    broken = bytearray(at(1, one(1)))
    broken[-1] ^= 1
    read = read_records(fetched(at(0, one(0)), bytes(broken), at(2, one(2))), 0, 0)
    assert read.offsets == [0]
    assert read.note is not None
    assert "CRC" in read.note


def test_an_incremental_fetch_goes_on_from_what_the_session_knows() -> None:
    sessions = Sessions()

    def ask(session: int, epoch: int, *partitions: tuple[int, int]) -> dict[tuple[str, str, int], int]:
        topics = [FetchTopic("orders", "", [FetchPartition(index, offset, 1) for index, offset in partitions])]
        return sessions.asked(FetchRequest(topics, 1, 1, session_id=session, session_epoch=epoch))

    assert ask(0, 0, (0, 5), (1, 6)) == {("orders", "", 0): 5, ("orders", "", 1): 6}
    sessions.session_id = 77
    assert ask(77, 1, (0, 9)) == {("orders", "", 0): 9, ("orders", "", 1): 6}
    assert ask(78, 4, (1, 7)) == {("orders", "", 1): 7}, "another session: nobody knows where partition 0 is"
    assert ask(0, -1, (1, 3)) == {("orders", "", 1): 3}
