"""The metadata log as bytes: partition 0 of `__cluster_metadata`, record batches whose values are JSON.

One decision is one batch, so that a crash keeps all of it or nothing. A value is a JSON object whose "type" is the
record's class; `encode` and `decode` are each other's inverse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

from tidegauge.impl.metadata.records import MetadataRecord
from tidegauge.impl.records.batches import Buffer, RecordError, checked_headers
from tidegauge.impl.records.payload import Record, build_batch, decode_batches

RECORD_TYPES: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in get_args(MetadataRecord)}


class MetadataFormatError(ValueError):
    """Bytes in the metadata log that are no metadata record."""


def encode_decision(records: Sequence[MetadataRecord], base_offset: int, now_ms: int) -> bytes:
    """One decision as a batch whose first record is at `base_offset`."""
    return build_batch(
        [Record(offset, now_ms, None, encode(record)) for offset, record in enumerate(records, start=base_offset)]
    )


def decode_decisions(batches: Buffer, offset: int) -> Iterator[tuple[int, MetadataRecord]]:
    """The records of batches from `offset` on, each after its own offset. Raises MetadataFormatError."""
    for record in decode_batches(batches):
        if record.offset >= offset:
            yield record.offset, decode(record.value or b"")


def check_decisions(batches: Buffer, offset: int) -> None:
    """Look at the checksums of batches of a metadata log that were read from `offset` on, and at how they follow.

    Raises MetadataFormatError: what a disk or a network has changed may still look like metadata.
    """
    try:
        headers = checked_headers(batches)
    except RecordError as error:
        raise MetadataFormatError(f"the metadata log from offset {offset} on is not intact: {error}") from None
    for number, header in enumerate(headers):
        if not (header.base_offset <= offset < header.next_offset if not number else header.base_offset == offset):
            raise MetadataFormatError(f"a batch of the metadata log begins at {header.base_offset}, not at {offset}")
        offset = header.next_offset


def encode(record: MetadataRecord) -> bytes:
    """One line of JSON; fields in the order of the class, so that equal records are equal bytes.

    A field that may be absent is, where it is None: most of a change are.
    """
    optional = record._field_defaults
    told = {name: item for name, item in record._asdict().items() if item is not None or name not in optional}
    return json.dumps({"type": type(record).__name__, **told}, separators=(",", ":")).encode()


def decode(value: bytes) -> MetadataRecord:
    """The record that `encode` wrote. Raises MetadataFormatError, naming what is wrong."""
    try:
        fields = json.loads(value.decode())
        kind = RECORD_TYPES[fields.pop("type")]
        for name, item in fields.items():
            if type(item) is list:
                fields[name] = _frozen(item)
        record: MetadataRecord = kind(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        known = ", ".join(RECORD_TYPES)
        raise MetadataFormatError(
            f"{value!r} is no metadata record ({error}): a JSON object whose type is one of {known} is"
        ) from None
    return record


def _frozen(item: Any) -> Any:
    return tuple(map(_frozen, item)) if isinstance(item, list) else item
