"""Whether a Produce or Fetch response may say where leaders are (KIP-951), without decoding it.

Where they are is a tagged field, the last of the response, and nearly no response has it. To find where the tagged
fields begin each field before them is passed over: a tenth of what decoding takes. Most responses are of one partition
and have nothing to pass over but numbers, the name and the records: that is seen in a third of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidegauge.impl.tap.skipping import after_compact, after_tagged, uvarint
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.frames import LENGTH

_HEADER: Final = LENGTH.size + 4
"""The length and the correlation id; the header's tagged fields follow."""
_TOPIC_ID: Final = 16
_THROTTLE_TIME: Final = 4
_PRODUCED_NUMBERS: Final = 4 + 2 + 8 + 8 + 8
"""Index, error, base offset, append time, log start."""
_BATCH_INDEX: Final = 4
_FETCH_HEAD: Final = _THROTTLE_TIME + 2 + 4
"""Throttle time, error and session."""
_FETCHED_NUMBERS: Final = 4 + 2 + 8 + 8 + 8
"""Index, error, high watermark, last stable offset, log start."""
_ABORTED: Final = 8 + 8
_PREFERRED_REPLICA: Final = 4
_PRODUCE_TOPIC_IDS_FROM: Final = 13
_ONE: Final = 2
"""The length of an array of one; of none it is 1, and null 0."""
_ONE_BYTE: Final = 0x7F
"""A length up to here has no other byte."""
_PRODUCED_TOPICS: Final = _HEADER + 1
_PRODUCED_TOPIC: Final = _PRODUCED_TOPICS + 1
_NO_ERRORS_MESSAGE_OR_TAGS: Final = b"\1\0\0\0"
"""Behind the numbers of the only partition, up to the throttle time."""
_FETCHED_TOPICS: Final = _HEADER + 1 + _FETCH_HEAD
_FETCHED_PARTITIONS: Final = _FETCHED_TOPICS + 1 + _TOPIC_ID
_FETCHED_ABORTED: Final = _FETCHED_PARTITIONS + 1 + _FETCHED_NUMBERS
_FETCHED_RECORDS: Final = _FETCHED_ABORTED + 1 + _PREFERRED_REPLICA
_NO_TAGS: Final = b"\0\0\0"
"""Of the only partition, of its topic and of the response."""


def may_name_endpoints(frame: bytes, api_key: int, version: int) -> bool:
    """Whether a response, with its length, has tagged fields of its own. What cannot be passed over may have some.

    Of Produce from version 10 on and Fetch from version 16 on; any other response may.
    """
    if api_key not in _LAYOUTS:
        return True
    is_plain, skip = _LAYOUTS[api_key]
    try:
        if is_plain(frame, version):
            return False
        position = skip(frame, after_tagged(frame, _HEADER), version)
        return frame[position] != 0 or position + 1 != len(frame)
    except IndexError:
        return True


def _after_produced(frame: bytes, position: int, version: int) -> int:
    """Behind all fields of a Produce response but the tagged ones."""
    topics, position = uvarint(frame, position)
    for _ in range(topics - 1):
        position = position + _TOPIC_ID if version >= _PRODUCE_TOPIC_IDS_FROM else after_compact(frame, position)
        partitions, position = uvarint(frame, position)
        for _ in range(partitions - 1):
            errors, position = uvarint(frame, position + _PRODUCED_NUMBERS)
            for _ in range(errors - 1):
                position = after_tagged(frame, after_compact(frame, position + _BATCH_INDEX))
            position = after_tagged(frame, after_compact(frame, position))
        position = after_tagged(frame, position)
    return position + _THROTTLE_TIME


def _after_fetched(frame: bytes, position: int, _version: int) -> int:
    """Behind all fields of a Fetch response but the tagged ones."""
    topics, position = uvarint(frame, position + _FETCH_HEAD)
    for _ in range(topics - 1):
        partitions, position = uvarint(frame, position + _TOPIC_ID)
        for _ in range(partitions - 1):
            aborted, position = uvarint(frame, position + _FETCHED_NUMBERS)
            for _ in range(aborted - 1):
                position = after_tagged(frame, position + _ABORTED)
            position = after_tagged(frame, after_compact(frame, position + _PREFERRED_REPLICA))
        position = after_tagged(frame, position)
    return position


def _is_plain_produced(frame: bytes, version: int) -> bool:
    """Whether it is of one partition, without errors of records, a message and room for tagged fields."""
    if frame[_HEADER] or frame[_PRODUCED_TOPICS] != _ONE:
        return False
    if version >= _PRODUCE_TOPIC_IDS_FROM:
        partitions = _PRODUCED_TOPIC + _TOPIC_ID
    elif (partitions := _PRODUCED_TOPIC + frame[_PRODUCED_TOPIC]) > _PRODUCED_TOPIC + _ONE_BYTE:
        return False
    end = partitions + 1 + _PRODUCED_NUMBERS
    return (
        frame[partitions] == _ONE
        and frame.startswith(_NO_ERRORS_MESSAGE_OR_TAGS, end)
        and len(frame) == end + len(_NO_ERRORS_MESSAGE_OR_TAGS) + _THROTTLE_TIME + 1
    )


def _is_plain_fetched(frame: bytes, _version: int) -> bool:
    """Whether it is of one partition, without aborted transactions and tagged fields."""
    return (
        not frame[_HEADER]
        and frame[_FETCHED_TOPICS] == _ONE
        and frame[_FETCHED_PARTITIONS] == _ONE
        and frame[_FETCHED_ABORTED] < _ONE
        and after_compact(frame, _FETCHED_RECORDS) + len(_NO_TAGS) == len(frame)
        and frame.endswith(_NO_TAGS)
    )


_LAYOUTS: Final[Mapping[int, tuple[Callable[[bytes, int], bool], Callable[[bytes, int, int], int]]]] = {
    ApiKey.PRODUCE: (_is_plain_produced, _after_produced),
    ApiKey.FETCH: (_is_plain_fetched, _after_fetched),
}
