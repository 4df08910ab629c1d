"""The records of `__consumer_offsets` have Kafka's bytes, whichever version wrote them."""

from __future__ import annotations

import struct

import pytest

from tidegauge.impl.coordinators.groups.group_metadata import (
    WRITTEN_VERSION,
    GroupMember,
    GroupMetadata,
    decode_group_metadata,
    group_record,
)
from tidegauge.impl.coordinators.groups.log_entries import GroupWritten, OffsetWritten, TransactionEnded, log_entries
from tidegauge.impl.coordinators.groups.record_formats import (
    GroupKey,
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_offset_key,
    encode_offset_value,
    group_tombstone,
    offset_record,
)
from tidegauge.impl.records.batches import BatchHeader, CorruptRecordError, InvalidRecordError, RecordError
from tidegauge.impl.records.markers import MarkerRecord, TransactionMarker, build_marker, marker_record
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_records

KEY = OffsetKey("grüpp", "t", 7)
KEY_BYTES = bytes.fromhex("0001 0006 6772c3bc7070 0001 74 00000007")
VALUE = OffsetValue(258, 3, "me", 1_000)
VALUE_BYTES = bytes.fromhex("0003 0000000000000102 00000003 0002 6d65 00000000000003e8")


def test_a_key_has_kafkas_bytes() -> None:
    assert encode_offset_key(KEY) == KEY_BYTES
    assert decode_key(KEY_BYTES) == KEY
    assert decode_key(b"\0\0" + KEY_BYTES[2:]) == KEY
    assert encode_group_key("g") == bytes.fromhex("0002 0001 67")
    assert decode_key(encode_group_key("g")) == GroupKey("g")


@pytest.mark.parametrize("key", [None, b"\0\4\0\1g", b"\0\x0brest"])
def test_a_key_of_another_kind_is_none(key: bytes | None) -> None:
    assert decode_key(key) is None


def test_a_value_has_kafkas_bytes() -> None:
    assert encode_offset_value(VALUE) == VALUE_BYTES
    assert decode_offset_value(VALUE_BYTES) == VALUE


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("0000 0000000000000102 0002 6d65 00000000000003e8", VALUE._replace(leader_epoch=-1)),
        (
            "0001 0000000000000102 0002 6d65 00000000000003e8 00000000000007d0",
            VALUE._replace(leader_epoch=-1, expire_time=2_000),
        ),
        ("0002 0000000000000102 0002 6d65 00000000000003e8", VALUE._replace(leader_epoch=-1)),
        ("0004 0000000000000102 00000003 03 6d65 00000000000003e8 00", VALUE),
        ("0004 0000000000000102 00000003 03 6d65 00000000000003e8 01 00 10" + "00" * 16, VALUE),
    ],
    ids=["0", "1", "2", "4", "4 with a tag"],
)
def test_values_of_every_version_are_read(data: str, value: OffsetValue) -> None:
    assert decode_offset_value(bytes.fromhex(data)) == value


def test_an_offset_with_a_retention_of_its_own_is_of_version_1() -> None:
    value = OffsetValue(258, -1, "me", 1_000, 2_000)
    data = bytes.fromhex("0001 0000000000000102 0002 6d65 00000000000003e8 00000000000007d0")
    assert (encode_offset_value(value), decode_offset_value(data)) == (data, value)


@pytest.mark.parametrize("size", range(len(VALUE_BYTES)))
def test_a_value_that_ends_too_early_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecordError, match="a field of"):
        decode_offset_value(VALUE_BYTES[:size])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("0005", "an offset of version 5: known are 0 to 4"),
        ("ffff", "an offset of version -1"),
        ("0002 0000000000000102 ffff 00000000000003e8", "null"),
        ("0002 0000000000000102 0001 ff 00000000000003e8", "no UTF-8"),
    ],
)
def test_a_value_that_is_none_is_refused(data: str, told: str) -> None:
    with pytest.raises(InvalidRecordError, match=told):
        decode_offset_value(bytes.fromhex(data))


def test_a_string_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="a string of 32768 bytes"):
        encode_offset_key(OffsetKey("g" * (1 << 15), "t", 0))


# --- groups ----------------------------------------------------------------------------------------------------------


def text(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else struct.pack(">h", len(value)) + value.encode()


def compact(value: str | None) -> bytes:
    return b"\0" if value is None else bytes((len(value) + 1,)) + value.encode()


def length(size: int, *, flexible: bool) -> bytes:
    return bytes((size + 1,)) if flexible else struct.pack(">i", size)


def group_value(version: int) -> bytes:
    """A group with one member, field by field as Kafka's schema has it."""
    flexible = version == 4
    say = compact if flexible else text
    head = struct.pack(">h", version) + say("consumer") + struct.pack(">i", 5) + say("range") + say("m-1")
    state_time = struct.pack(">q", 77) if version >= 2 else b""
    member = say("m-1") + (say("i") if version >= 3 else b"") + say("client") + say("/host")
    member += (struct.pack(">i", 300) if version >= 1 else b"") + struct.pack(">i", 45)
    member += length(3, flexible=flexible) + b"sub" + length(0, flexible=flexible) + (b"\1\0\1x" if flexible else b"")
    return head + state_time + length(1, flexible=flexible) + member + (b"\0" if flexible else b"")


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version: int) -> None:
    instance, rebalance = "i" if version >= 3 else None, 300 if version >= 1 else 45
    member = GroupMember("m-1", instance, "client", "/host", rebalance, 45, b"sub", b"")
    expected = GroupMetadata("consumer", 5, "range", "m-1", 77 if version >= 2 else -1, (member,))
    assert decode_group_metadata(group_value(version)) == expected
    if version == WRITTEN_VERSION:
        assert group_record("g", expected) == (encode_group_key("g"), group_value(version))
    for size in range(2, len(group_value(version)) - 1):
        with pytest.raises(CorruptRecordError):
            decode_group_metadata(group_value(version)[:size])


def test_a_group_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="a group of version 9"):
        decode_group_metadata(b"\0\x09")


# --- batches ---------------------------------------------------------------------------------------------------------


def entries(batch: bytes) -> list[object]:
    header = BatchHeader.parse(batch)
    marker = marker_record(batch) if header.is_control else None
    return list(log_entries(header, () if header.is_control else decode_records(batch), marker))


def test_a_batch_is_read_entry_by_entry_and_what_is_not_known_is_left_out() -> None:
    pairs = [offset_record(KEY, VALUE), (b"\0\4\0\1g", b"?"), offset_record(KEY, None), group_tombstone("g")]
    pairs += [(encode_group_key("h"), group_value(3))]
    records = [Record(nth, 0, key, value) for nth, (key, value) in enumerate(pairs)]
    assert entries(build_batch(records)) == [
        OffsetWritten(0, -1, KEY, VALUE),
        OffsetWritten(2, -1, KEY, None),
        GroupWritten(3, "g", None),
        GroupWritten(4, "h", decode_group_metadata(group_value(3))),
    ]
    transactional = build_batch(records[:1], producer=ProducerIdentity(9, 1), transactional=True)
    assert entries(transactional) == [OffsetWritten(0, 9, KEY, VALUE)]
    idempotent = build_batch(records[:1], producer=ProducerIdentity(9, 1, 0))
    assert entries(idempotent) == [OffsetWritten(0, -1, KEY, VALUE)]


def test_markers_end_transactions_and_other_control_records_do_not() -> None:
    for is_commit in (True, False):
        assert entries(build_marker(TransactionMarker(9, 1, is_commit, 0), 5)) == [TransactionEnded(0, 9, is_commit)]
    header = BatchHeader.parse(build_marker(TransactionMarker(9, 1, True, 0), 5))
    assert not list(log_entries(header, (), MarkerRecord(4, -1)))
    assert not list(log_entries(header, (), None))


def test_a_record_that_no_coordinator_has_written_is_refused() -> None:
    with pytest.raises(RecordError):
        entries(build_batch([Record(0, 0, KEY_BYTES, b"\0")]))
