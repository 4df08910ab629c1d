"""Batches that no client would build, with the right checksum: the tests of what brokers refuse are made of them."""

from __future__ import annotations

from crc32c import crc32c

from tidegauge.impl.records.batches import CHECKSUM_START, HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader


def with_payload(batch: bytes, payload: bytes, **changes: int) -> bytes:
    """The batch with other bytes for its records, other values in its header, and a checksum that fits."""
    header = BatchHeader.parse(batch)._replace(batch_length=HEADER_SIZE - LENGTH_OVERHEAD + len(payload), **changes)
    packed = header.pack()
    checksum = crc32c(payload, crc32c(packed[CHECKSUM_START:]))
    return header._replace(crc=checksum).pack() + payload


def with_header(batch: bytes, **changes: int) -> bytes:
    """The batch with other values in its header, and a checksum that fits."""
    return with_payload(batch, batch[HEADER_SIZE:], **changes)
