"""Batches as a cleaner leaves them: some or all of their records are gone, the offsets that they stand for are not."""

from __future__ import annotations

from collections.abc import Mapping

from crc32c import crc32c

from tidegauge.impl.records.batches import (
    CHECKSUM_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    empty_batch,
)
from tidegauge.impl.records.payload import Record, encode_record

BASE_TIMESTAMP = 1000


def compacted_batch(base_offset: int, next_offset: int, leader_epoch: int, values: Mapping[int, bytes]) -> bytes:
    """The batch of the offsets [base, next) with these of its records (offset -> value) left; timestamps by offset."""
    if not values:
        return empty_batch(base_offset, next_offset, leader_epoch)
    records = [Record(offset, BASE_TIMESTAMP + offset, None, value) for offset, value in sorted(values.items())]
    payload = b"".join(encode_record(record, base_offset, BASE_TIMESTAMP) for record in records)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LENGTH_OVERHEAD + len(payload),
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=next_offset - 1 - base_offset,
        base_timestamp=BASE_TIMESTAMP,
        max_timestamp=records[-1].timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=len(records),
    ).pack()
    checksum = crc32c(payload, crc32c(header[CHECKSUM_START:]))
    return b"".join((header[:17], checksum.to_bytes(4, "big"), header[CHECKSUM_START:], payload))
