"""Walking over records: it sees what decoding sees, one record at a time and all at once, and no bytes break it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.impl.records import walk as records_walk
from tidegauge.impl.records.batches import HEADER_SIZE, RecordError
from tidegauge.impl.records.payload import Record, RecordHeader, build_batch
from tidegauge.impl.records.slices import at_once
from tidegauge.impl.records.walk import CHUNK, Fields, Walked, framing, is_framed, walking
from tidegauge.model_tests.amounts import amount

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 1 << 40),
        st.none() | st.binary(max_size=80),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=60,
)


def built(records: list[Record]) -> bytes:
    return build_batch(records)[HEADER_SIZE:]


def walk(payload: bytes, count: int) -> Fields:
    """All records of a payload, without a pause; what stands out is what the lists say."""
    chunks: list[Walked] = []
    at_once(walking(payload, count, chunks.append))
    found = Fields([], [], [])
    for chunk in chunks:
        fields, first = chunk.fields(), len(found.offset_deltas)
        assert chunk.records_count == len(fields.offset_deltas) <= CHUNK
        assert (chunk.oldest, chunk.newest) == (min(fields.timestamp_deltas), max(fields.timestamp_deltas))
        assert chunk.is_consecutive == (fields.offset_deltas == list(range(first, first + chunk.records_count)))
        assert chunk.least_key_length == min(fields.key_lengths)
        for column, more in zip(found, fields, strict=True):
            column += more
    return found


def uniform(count: int, size: int = 100) -> bytes:
    return built([Record(n, 1000 + n // 10, None, bytes(size)) for n in range(count)])


@settings(max_examples=amount(50, deep=150))
@given(RECORDS, st.booleans(), st.integers(1, 80))
def test_walking_sees_timestamps_offsets_and_keys(
    fields: list[tuple[int, Any, Any, Any]], at_once: bool, gap: int
) -> None:
    records = [
        Record(n + (n >= gap), timestamp, key, value, tuple(RecordHeader(*header) for header in headers))
        for n, (timestamp, key, value, headers) in enumerate(fields)
    ]
    payload, few = built(records), records_walk._FEW
    records_walk._FEW = 0 if at_once else 1000
    try:
        walked = walk(payload, len(records))
    finally:
        records_walk._FEW = few
    assert walked == Fields(
        [record.timestamp - records[0].timestamp for record in records],
        [record.offset for record in records],
        [-1 if record.key is None else len(record.key) for record in records],
    )
    assert is_framed(payload, 0, len(records))


@settings(max_examples=amount(100, deep=300))
@given(st.data())
def test_damage_is_seen_by_both_ways_of_walking_or_by_neither(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 1 << 20))
    rng = random.Random(seed)
    records = [Record(n, n, rng.choice((None, b"k")), bytes(rng.randrange(90))) for n in range(rng.randrange(1, 30))]
    payload = bytearray(built(records))
    for _ in range(rng.randrange(1, 3)):
        payload[rng.randrange(len(payload))] = rng.randrange(256)
    few = records_walk._FEW
    outcomes: list[Fields | None] = []
    for limit in (0, 1000):
        records_walk._FEW = limit
        try:
            outcomes.append(walk(bytes(payload), len(records)))
        except RecordError:
            outcomes.append(None)
        finally:
            records_walk._FEW = few
    assert outcomes[0] == outcomes[1]


@settings(max_examples=amount(100, deep=300))
@given(st.binary(max_size=120), st.integers(0, 60))
def test_no_bytes_break_it(data: bytes, count: int) -> None:
    framed = is_framed(data, 0, count)
    assert framed == at_once(framing(data, 0, count))
    if not count:
        return
    try:
        walk(data, count)
    except RecordError:
        return
    assert framed


@pytest.mark.parametrize("count", [1, 15, 16, 17, 18, 64, 65, 1100, 3000])
@pytest.mark.parametrize("size", [3, 100, 9000])
def test_runs_of_equal_lengths_are_followed_to_the_byte(count: int, size: int) -> None:
    if count * size > 3_000_000:
        size = 1000
    payload = uniform(count, size)
    assert is_framed(payload, 0, count)
    assert not is_framed(payload, 0, count - 1)
    assert not is_framed(payload, 0, count + 1)
    assert not is_framed(payload[:-1], 0, count)
    assert not is_framed(payload + b"\0", 0, count)


@pytest.mark.parametrize("odd", [0, 6, 7, 8, 9, 16, 17, 18, 40, 99])
def test_one_record_of_another_length_in_a_run(odd: int) -> None:
    records = [Record(n, 0, None, bytes(11 if n == odd else 10)) for n in range(100)]
    payload = built(records)
    assert is_framed(payload, 0, 100)
    broken = bytearray(payload)
    starts: list[int] = []
    assert records_walk._after(payload, 0, 100, starts) == len(payload)
    broken[starts[odd]] += 2
    assert not is_framed(broken, 0, 100)


@pytest.mark.parametrize("count", [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_records_are_walked_a_chunk_at_a_time_to_the_byte(count: int) -> None:
    payload = built([Record(n, n % 7, b"k" if n % 3 else None, bytes(n % 5)) for n in range(count)])
    walked = walk(payload, count)
    assert walked.offset_deltas == list(range(count))
    assert walked.key_lengths == [1 if n % 3 else -1 for n in range(count)]
    assert at_once(framing(payload, 0, count))
    for wrong in (payload[:-1], payload + b"\0"):
        assert not at_once(framing(wrong, 0, count))
        with pytest.raises(RecordError, match=f"{count} records one after the other|fields of record {count - 1} "):
            walk(wrong, count)


def test_a_record_of_many_headers_is_walked_in_steps() -> None:
    headers = tuple(RecordHeader("", None) for _ in range(100_000))
    payload = built([Record(0, 0, None, None, headers)])
    steps = list(walking(payload, 1, lambda _: None))
    assert sum(step for step in steps if isinstance(step, int)) >= 99_000
    assert max(step for step in steps if isinstance(step, int)) <= 500
