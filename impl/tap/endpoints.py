"""Whether a Produce or Fetch response may say where leaders are (KIP-951), without decoding it.

Where they are is a tagged field, the last of the response, and nearly no response has it. To find where the tagged
fields begin each field before them is passed over: a tenth of what decoding takes.
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


def may_name_endpoints(frame: bytes, api_key: int, version: int) -> bool:
    """Whether a response, with its length, has tagged fields of its own. What cannot be passed over may have some.

    Of Produce from version 10 on and Fetch from version 16 on; any other response may.
    """
    skip = _SKIPS.get(api_key)
    if skip is None:
        return True
    try:
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


_SKIPS: Final[Mapping[int, Callable[[bytes, int, int], int]]] = {
    ApiKey.PRODUCE: _after_produced,
    ApiKey.FETCH: _after_fetched,
}
