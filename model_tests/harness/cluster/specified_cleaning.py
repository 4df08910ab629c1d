"""Cleaning of a replica's log in a cluster, where the specification says what stays.

A round of production reads and writes the segments. Which records stay is the specification's: the cleaner's own rules
have a lockstep of their own (`spec.compaction.transactional`), and go by time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from tidegauge.impl.records.batches import BatchHeader, headers
from tidegauge.impl.records.payload import decode_records
from tidegauge.impl.server.broker.log_cleaner import last_records
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.storage.cleaner import Round
from tidegauge.impl.storage.cleaner_batches import KeyedRecord
from tidegauge.impl.storage.cleaner_filter import RetentionRules
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import OffsetMap

MAP_BYTES: Final = 1 << 16
MUCH: Final = 1 << 20


def clean(broker: Broker, partition: Partition, stays: Callable[[int], bool]) -> None:
    """Take from the log all that does not stay, by its offset; up to the log's end, which is to be in a closed segment.

    Raises OSError from the disk, CorruptLogError when a batch is not intact.
    """

    @attrs.define(eq=False)
    class AsSpecified(RetentionRules):
        """The rules of the round."""

        def _removable(self, header: BatchHeader, payload: bytes) -> bool:
            super()._removable(header, payload)
            return False

        def keeps_marker(self, record: KeyedRecord) -> bool:
            return stays(record.offset)

        def is_kept(self, record: KeyedRecord, *, due: bool) -> bool:
            return stays(record.offset)

    log, now_ms = partition.log, broker.clock.now_ms()
    if not log.closed_segments or log.closed_segments[-1].next_offset < log.log_end_offset:
        log.roll(now_ms)
    begin, end, disk = log.log_start_offset, log.log_end_offset, broker.cleaner._disk
    slices = Round(
        log, disk, OffsetMap(MAP_BYTES), begin, end, now_ms, last_records(partition), rules_class=AsSpecified
    ).run()
    for _ in slices:
        pass
    assert all(stays(one) for one in left(log)), "nobody else changes the log meanwhile"


def left(log: Log) -> list[int]:
    """The offsets of the records that a log has."""
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset and (batches := log.read(offset, MUCH)):
        for position, header in headers(batches):
            found += [record.offset for record in decode_records(batches, position)] if header.records_count else []
            offset = header.next_offset
    return found
