"""Records inside batches: every record comes back, other implementations read ours and we read theirs."""

from __future__ import annotations

from typing import Any

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from tidegauge.impl.records.batches import (
    HEADER_SIZE,
    BatchHeader,
    Compression,
    CorruptRecordError,
    RecordError,
    checked_header,
)
from tidegauge.impl.records.compression import compress, decompress
from tidegauge.impl.records.payload import (
    ProducerIdentity,
    Record,
    RecordHeader,
    build_batch,
    decode_batches,
    decode_records,
    decode_varint,
    encode_varint,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NULLABLE = st.none() | st.binary(max_size=200)
RECORD_HEADERS = st.lists(st.builds(RecordHeader, st.text(max_size=5), NULLABLE), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset, timestamp = draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 42))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        records.append(Record(offset, timestamp, draw(NULLABLE), draw(NULLABLE), draw(RECORD_HEADERS)))
        offset += draw(st.integers(1, 3))
        timestamp += draw(st.integers(-5, 1000))
    return records


@given(record_lists(), st.sampled_from(Compression))
def test_records_come_back_as_they_went_in(records: list[Record], compression: Compression) -> None:
    batch = build_batch(records, compression=compression)
    header = checked_header(batch)
    assert decode_records(batch) == records
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)


@given(INT64)
def test_varints_come_back(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varint(encoded, 0) == (value, len(encoded))
    assert len(encoded) <= 10


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (-65, "8101")]
)
def test_varints_are_zigzag(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff" * 10 + b"\x01"])
def test_a_varint_without_end_is_corrupt(encoded: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="varint"):
        decode_varint(encoded, 0)


def independently_read(buffer: bytes) -> list[Record]:
    """The records as kafka-python reads them, checksums validated."""
    found = []
    batches = MemoryRecords(buffer)
    while batches.has_next():
        batch: Any = batches.next_batch()
        assert batch.validate_crc()
        for record in batch:
            fields = tuple(RecordHeader(key, value) for key, value in record.headers)
            found.append(Record(record.offset, record.timestamp, record.key, record.value, fields))
    return found


@given(record_lists(), st.sampled_from([Compression.NONE, Compression.GZIP]))
def test_kafka_python_reads_our_batches(records: list[Record], compression: Compression) -> None:
    buffer = build_batch(records, compression=compression, leader_epoch=3) * 2
    assert independently_read(buffer) == records * 2


@given(record_lists(), st.sampled_from([Compression.NONE, Compression.GZIP]), st.booleans())
def test_we_read_kafka_pythons_batches(records: list[Record], compression: Compression, transactional: bool) -> None:
    builder = MemoryRecordsBuilder(
        2, int(compression), 1 << 20, 0, transactional, producer_id=11, producer_epoch=3, base_sequence=7
    )
    for record in records:
        builder.append(record.timestamp, record.key, record.value, [tuple(header) for header in record.headers])
    builder.close()
    batch = bytes(builder.buffer())
    header = checked_header(batch)
    assert list(decode_batches(batch)) == [record._replace(offset=n) for n, record in enumerate(records)]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 3, 7)
    assert header.is_transactional is transactional


def test_we_build_the_same_bytes_as_kafka_python() -> None:
    records = [Record(n, 1000 + n, b"key", b"value" * n, (RecordHeader("h", None),)) for n in range(5)]
    builder = MemoryRecordsBuilder(2, 0, 1 << 20, 0, True, producer_id=11, producer_epoch=3, base_sequence=7)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, [("h", None)])
    builder.close()
    theirs = bytes(builder.buffer())
    ours = build_batch(
        records,
        leader_epoch=BatchHeader.parse(theirs).partition_leader_epoch,
        producer=ProducerIdentity(11, 3, 7),
        transactional=True,
    )
    assert ours == theirs


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_arrow_reads_what_we_compress_and_we_what_it_does(compression: Compression) -> None:
    data = b"tide " * 10_000
    codec = compression.name.lower()
    with pa.input_stream(pa.BufferReader(compress(compression, data)), compression=codec) as stream:
        assert stream.read() == data
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as output:
        output.write(data)
    assert decompress(compression, sink.getvalue().to_pybytes()) == data


def test_snappy_is_read_framed_by_xerial_and_bare() -> None:
    data = bytes(range(256)) * 400
    framed = compress(Compression.SNAPPY, data)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert decompress(Compression.SNAPPY, framed) == data
    bare = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Compression.SNAPPY, bare) == data
    assert pa.decompress(bare, len(data), codec="snappy").to_pybytes() == data


@pytest.mark.parametrize("compression", [c for c in Compression if c is not Compression.NONE])
def test_damaged_compressed_bytes_are_corrupt(compression: Compression) -> None:
    data = compress(compression, b"tide " * 1000)
    with pytest.raises(CorruptRecordError):
        decompress(compression, data[: len(data) // 2])


@given(st.data())
def test_no_damage_inside_a_batch_escapes_as_another_error(data: st.DataObject) -> None:
    batch = bytearray(build_batch([Record(0, 5, b"k", b"v", (RecordHeader("h", b"x"),)), Record(1, 6, None, None)]))
    position = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    try:
        records = decode_records(batch)
    except RecordError:
        return
    assert len(records) == 2
