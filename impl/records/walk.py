"""Walking over the records of a batch without making objects of them, to see whether they are what the header says.

`is_framed` looks at the lengths alone: that they lead from record to record and end where the payload ends. Where
many records in a row have the same length, as those of a busy producer do, a run of them is compared as one slice of
bytes. `walking` looks into each record, at the numbers that a broker has to hold against its rules; for more than a few
records it decodes one number of all of them at a time. Neither holds more of the records than a chunk of them, and both
can be done in slices: a batch of a few bytes may hold millions of records when it is decompressed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import NamedTuple

from tidegauge.impl.records.batches import Buffer, CorruptRecordError, InvalidRecordError
from tidegauge.impl.records.payload import decode_varint
from tidegauge.impl.records.slices import Sliced

CHUNK = 1024
"""Records that are looked at between two steps."""

NUMPY = "numpy"
_STREAK = 6
"""So many equal lengths in a row make it worth to compare a run of them at once."""
_RUN = 1024
_FEW = 48
"""Up to here one record at a time is faster."""
_LENGTHS_A_UNIT = 8
_RECORDS_A_UNIT = 2
_HEADERS_A_STEP = 256
_SMALLEST_HEADER = 2
"""Bytes of a header without a key or a value."""


class Fields(NamedTuple):
    """What a broker looks at in the records of a batch, a list each."""

    timestamp_deltas: list[int]
    offset_deltas: list[int]
    key_lengths: list[int]
    """-1: null."""


class Walked(NamedTuple):
    """What stands out among some records of a batch; `fields` lists it, for who has to look at each of them."""

    records_count: int
    oldest: int
    """The smallest timestamp delta."""
    newest: int
    """The largest."""
    is_consecutive: bool
    """Whether each offset delta is the record's number in the batch."""
    least_key_length: int
    fields: Callable[[], Fields]


def is_framed(payload: Buffer, start: int, count: int) -> bool:
    """Whether `count` records, from a position on, make up the payload to its last byte; their lengths are looked at.

    `payload` may be a batch, `start` the size of its header then.
    """
    return _after(payload, start, count, None) == len(payload)


def framing(payload: Buffer, start: int, count: int) -> Sliced[bool]:
    """`is_framed`, in slices."""
    while count and start >= 0:
        many = min(count, CHUNK)
        start, count = _after(payload, start, many, None), count - many
        yield many // _LENGTHS_A_UNIT
    return start == len(payload)


def _after(payload: Buffer, start: int, count: int, starts: list[int] | None) -> int:
    """The position after `count` records, -1 when they are not there; `starts` gets the position of each."""
    position, end, stride, streak = start, len(payload), 0, 0
    while count and position < end:
        byte = payload[position]
        if byte & 1:
            return -1
        if byte < 0x80:
            taken = 1 + (byte >> 1)
        elif position + 1 < end and payload[position + 1] < 0x80:
            taken = 2 + ((byte & 0x7F | payload[position + 1] << 7) >> 1)
        else:
            try:
                length, after = decode_varint(payload, position)
            except CorruptRecordError:
                return -1
            taken = after - position + length
        if starts is not None:
            starts.append(position)
        position += taken
        count -= 1
        if not count:
            break
        streak = streak + 1 if taken == stride else 0
        stride = taken
        if streak == _STREAK:
            run = _equal_lengths(payload, position, stride, min(count, _RUN))
            if starts is not None:
                starts.extend(range(position, position + run * stride, stride))
            position, count, streak = position + run * stride, count - run, 0
    return -1 if count or position > end else position


def _equal_lengths(payload: Buffer, position: int, stride: int, most: int) -> int:
    """How many of the next records, at most so many, have the very length of the one before."""
    before, place, found = position - stride, 0, most
    while True:
        column = bytes(payload[position + place : position + place + most * stride : stride])
        byte = payload[before + place]
        found = min(found, len(column) - len(column.lstrip(bytes((byte,)))))
        if byte < 0x80:
            return found
        place += 1


def walking(payload: bytes, count: int, take: Callable[[Walked], None]) -> Sliced[None]:
    """Look into each record of a payload; `take` gets what is in them, so many records at a time, in order.

    Raises InvalidRecordError or CorruptRecordError where the bytes do not hold `count` records, each within the length
    that it claims, and nothing else.
    """
    position, number = 0, 0
    while number < count:
        starts: list[int] = []
        many = min(count - number, CHUNK)
        end = _after(payload, position, many, starts)
        if end < 0 or (number + many == count and end != len(payload)):
            break
        piece = payload[position:end] if many < count else payload
        take((yield from (_one_by_one if many <= _FEW else _all_at_once)(piece, starts, position, number)))
        position, number = end, number + many
        yield many // _RECORDS_A_UNIT
    if number < count:
        raise InvalidRecordError(f"{len(payload)} bytes that are not {count} records one after the other")


def _one_by_one(payload: bytes, starts: list[int], base: int, first: int) -> Sliced[Walked]:
    """`base` is where the payload begins, of which `starts` are; `first` the number of its first record."""
    fields = Fields([], [], [])
    ends = [*starts[1:], base + len(payload)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        end -= base
        _, position = decode_varint(payload, start - base)
        timestamp_delta, position = decode_varint(payload, position + 1)
        offset_delta, position = decode_varint(payload, position)
        key_length, position = decode_varint(payload, position)
        value_length, position = decode_varint(payload, position + max(0, key_length))
        headers, position = decode_varint(payload, position + max(0, value_length))
        if headers:
            position = yield from _after_headers(payload, position, end, headers)
        if min(key_length, value_length) < -1 or position != end:
            raise _ill_formed(first + number)
        fields.timestamp_deltas.append(timestamp_delta)
        fields.offset_deltas.append(offset_delta)
        fields.key_lengths.append(key_length)
    return Walked(
        len(starts),
        min(fields.timestamp_deltas),
        max(fields.timestamp_deltas),
        fields.offset_deltas == list(range(first, first + len(starts))),
        min(fields.key_lengths),
        lambda: fields,
    )


def _ill_formed(number: int) -> InvalidRecordError:
    return InvalidRecordError(f"the fields of record {number} do not take the bytes that it claims")


def _after_headers(payload: bytes, position: int, end: int, count: int) -> Sliced[int]:
    if not 0 <= count <= (end - position) // _SMALLEST_HEADER:
        raise InvalidRecordError(f"{count} headers in {end - position} bytes")
    for number in range(count):
        key_length, position = decode_varint(payload, position)
        if key_length < 0:
            raise InvalidRecordError("a header's key is null")
        value_length, position = decode_varint(payload, position + key_length)
        position += max(0, value_length)
        if value_length < -1 or position > end:
            raise InvalidRecordError(f"a header's value of {value_length} bytes")
        if number % _HEADERS_A_STEP == _HEADERS_A_STEP - 1:
            yield _HEADERS_A_STEP
    return position


def _all_at_once(payload: bytes, starts: list[int], base: int, first: int) -> Sliced[Walked]:
    """The same. A numpy call on so many numbers costs hardly more than on one, so there are few of them."""
    if NUMPY not in sys.modules:  # it takes a while to import, and most brokers never need it
        yield partial(import_module, NUMPY)
    import numpy as np

    size = len(payload)
    data = np.frombuffer(payload + b"\0", np.uint8)

    def numbers(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The varints at these positions, and the positions after them."""
        byte, at = data.take(at, mode="clip"), at + 1
        if byte.max() < 0x80:
            value = byte.astype(np.int64)
            return (value >> 1) ^ -(value & 1), at
        value, more, shift = (byte & 0x7F).astype(np.int64), byte >= 0x80, 7
        while more.any():
            if shift > 63:
                raise CorruptRecordError("a varint of more than ten bytes")
            byte = data.take(at, mode="clip") * more
            value |= (byte & 0x7F).astype(np.int64) << shift
            at += more
            more, shift = byte >= 0x80, shift + 7
        return (value >> 1) & np.int64((1 << 63) - 1) ^ -(value & 1), at

    starts.append(base + size)
    bounds = np.array(starts) - base
    ends = bounds[1:]
    _, position = numbers(bounds[:-1])
    timestamp_deltas, position = numbers(position + 1)
    offset_deltas, position = numbers(position)
    key_lengths, position = numbers(position)
    value_lengths, position = numbers(position + np.maximum(key_lengths, 0))
    headers, position = numbers(position + np.maximum(value_lengths, 0))
    for number in np.flatnonzero(headers).tolist() if headers.any() else ():
        if not position[number] <= ends[number]:
            raise _ill_formed(first + number)
        there, end, count = int(position[number]), int(ends[number]), int(headers[number])
        position[number] = yield from _after_headers(payload, there, end, count)
    wrong = (np.minimum(key_lengths, value_lengths) < -1) | (position != ends)
    if wrong.any():
        raise _ill_formed(first + int(wrong.argmax()))
    return Walked(
        len(ends),
        int(timestamp_deltas.min()),
        int(timestamp_deltas.max()),
        bool((offset_deltas == np.arange(first, first + len(ends))).all()),
        int(key_lengths.min()),
        lambda: Fields(timestamp_deltas.tolist(), offset_deltas.tolist(), key_lengths.tolist()),
    )
