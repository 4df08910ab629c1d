"""The aborted transactions of a segment that was read: found again by its markers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tidegauge.impl.partition.transactions import AbortedTransaction, Transactions
from tidegauge.impl.records.markers import ABORT_MARKER, marker_record
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.index_files import tell_rebuilt
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import LOG_SUFFIX


def index_transactions(earlier: Sequence[Segment], segment: Segment, *, has_markers: bool) -> None:
    """Find the aborted transactions of a segment that was scanned, with their starts in earlier ones."""
    found = _aborted(earlier, segment) if has_markers else []
    if segment.transaction_index.replace(found):
        tell_rebuilt(segment.path(LOG_SUFFIX), "its index of aborted transactions does not fit it")


def _aborted(earlier: Sequence[Segment], segment: Segment) -> list[AbortedTransaction]:
    """The transactions that markers in a segment have aborted."""
    transactions, found = Transactions(), list[AbortedTransaction]()
    for one in (*earlier, segment):
        with suppress(CorruptLogError):  # what begins behind damage is found no more
            for header in one.headers():
                if not header.is_transactional:
                    continue
                if not header.is_control:
                    transactions.begin(header.producer_id, header.base_offset)
                    continue
                marker = marker_record(one.read_batch(header))
                is_abort = marker is not None and marker.kind == ABORT_MARKER
                aborted = transactions.end(header.producer_id, header.last_offset, aborted=is_abort)
                if aborted is not None and one is segment:
                    found.append(aborted)
    return found
