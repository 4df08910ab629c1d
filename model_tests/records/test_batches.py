"""Record batches: the header's bytes, the checksum, walking, and what is refused."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.batches import (
    HEADER_SIZE,
    BatchHeader,
    Compression,
    CorruptRecordError,
    InvalidRecordError,
    RecordError,
    UnsupportedCompressionError,
    UnsupportedMagicError,
    assign,
    check_produced,
    checked_header,
    checked_headers,
    extents,
    headers,
    leader_prefix,
)
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_records

BATCH = build_batch(
    [Record(7, 1000, b"k", b"v"), Record(8, 1003, None, b"w")],
    leader_epoch=5,
    producer=ProducerIdentity(producer_id=9, producer_epoch=2, base_sequence=41),
    transactional=True,
)


def with_header(batch: bytes, **fields: int) -> bytes:
    """The batch with other header fields and the checksum that they need."""
    changed = BatchHeader.parse(batch)._replace(**fields).pack() + batch[HEADER_SIZE:]
    return changed[:17] + struct.pack(">I", crc32c(changed[21:])) + changed[21:]


def test_the_header_lies_byte_for_byte_as_kip_98_says() -> None:
    payload = bytes.fromhex("10 00 00 00 02 6b 02 76 00  0e 00 06 02 01 02 77 00".replace(" ", ""))
    after_checksum = struct.pack(">hiqqqhii", 0x10, 1, 1000, 1003, 9, 2, 41, 2) + payload
    expected = struct.pack(">qiibI", 7, 9 + len(after_checksum), 5, 2, crc32c(after_checksum)) + after_checksum
    assert expected == BATCH


def test_a_header_is_what_was_packed() -> None:
    header = BatchHeader.parse(b"xyz" + BATCH, 3)
    assert header.pack() == BATCH[:HEADER_SIZE]
    assert (header.size, header.last_offset, header.next_offset) == (len(BATCH), 8, 9)
    assert (header.compression, header.is_transactional, header.is_control) == (Compression.NONE, True, False)


@pytest.mark.parametrize("position", range(21, len(BATCH)))
def test_a_flipped_bit_after_the_checksum_is_found(position: int) -> None:
    rotten = bytearray(BATCH)
    rotten[position] ^= 0x04
    with pytest.raises(CorruptRecordError, match="CRC-32C"):
        checked_header(rotten)


@pytest.mark.parametrize("size", range(len(BATCH)))
def test_a_batch_cut_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecordError):
        checked_header(BATCH[:size])


def test_base_offset_and_leader_epoch_are_assigned_outside_the_checksum() -> None:
    batch = bytearray(b"--" + BATCH)
    assign(batch, 2, 123, 45)
    header = checked_header(batch, 2)
    assert (header.base_offset, header.partition_leader_epoch) == (123, 45)
    assert bytes(batch[2:18]) == leader_prefix(123, header.batch_length, 45)
    assert [record.offset for record in decode_records(batch, 2)] == [123, 124]


def test_walking_meets_every_whole_batch_and_stops_before_a_partial_one() -> None:
    buffer = BATCH * 3 + BATCH[:-1]
    assert [extent.position for extent in extents(buffer)] == [0, len(BATCH), 2 * len(BATCH)]
    assert [(position, header.base_offset) for position, header in headers(buffer, len(BATCH))] == [
        (len(BATCH), 7),
        (2 * len(BATCH), 7),
    ]
    assert {extent.next_offset for extent in extents(buffer)} == {9}


def test_walking_does_not_stand_still_at_an_impossible_length() -> None:
    with pytest.raises(CorruptRecordError, match="length 48 at position 0"):
        list(extents(with_header(BATCH, batch_length=48)))


def test_bytes_left_over_after_the_last_batch_are_corrupt() -> None:
    assert len(checked_headers(BATCH * 2)) == 2
    with pytest.raises(CorruptRecordError, match="at position"):
        checked_headers(BATCH + b"\0")


@pytest.mark.parametrize(
    ("batch", "error", "code"),
    [
        (with_header(BATCH, magic=1), UnsupportedMagicError, ErrorCode.unsupported_for_message_format),
        (with_header(BATCH, magic=3), CorruptRecordError, ErrorCode.corrupt_message),
        (with_header(BATCH, last_offset_delta=-1), InvalidRecordError, ErrorCode.invalid_record),
        (with_header(BATCH, batch_length=-12), CorruptRecordError, ErrorCode.corrupt_message),
    ],
)
def test_a_header_that_cannot_be_is_refused(batch: bytes, error: type[RecordError], code: ErrorCode) -> None:
    with pytest.raises(error) as caught:
        checked_header(batch)
    assert caught.value.error_code is code


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"records_count": 0, "last_offset_delta": 0}, InvalidRecordError),
        ({"records_count": 3}, InvalidRecordError),
        ({"attributes": 0x20}, InvalidRecordError),
        ({"producer_epoch": -1}, InvalidRecordError),
        ({"base_sequence": -1}, InvalidRecordError),
        ({"attributes": 5}, UnsupportedCompressionError),
    ],
)
def test_a_producer_keeps_the_rules(fields: dict[str, int], error: type[RecordError]) -> None:
    check_produced(checked_header(BATCH))
    with pytest.raises(error):
        check_produced(checked_header(with_header(BATCH, **fields)))
