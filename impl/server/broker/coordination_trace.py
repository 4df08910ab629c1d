"""What a transaction coordinator decides, as events of the trace; without a trace it records nothing."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.log_format import version_of
from tidegauge.impl.coordinators.transactions.messages import (
    AddPartitions,
    Append,
    EndTxn,
    InitProducerId,
    Marker,
    ProducerGiven,
    Respond,
    VerifyPartitions,
)
from tidegauge.impl.server import trace

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
    from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata
    from tidegauge.impl.server.trace.tracer import Tracer

Request = InitProducerId | AddPartitions | EndTxn


class CoordinationTrace:
    """Records the decisions of one core."""

    def __init__(self, core: TransactionCoordinator, tracer: Tracer) -> None:
        self._core = core
        self._tracer = tracer

    def elected(self, partition: int, leader_epoch: int) -> None:
        """A leader epoch has begun here, and nothing is loaded yet."""
        if self._tracer.trace is not None:
            self._tracer.record(trace.coordination.FailOver, partition, leader_epoch)

    def loaded(self, partition: int) -> None:
        """The log of a partition is in memory."""
        found = self._core.partitions.get(partition)
        if self._tracer.trace is not None and found is not None and not found.loading:
            ids = tuple((name, one.cached) for name, one in sorted(found.ids.items()) if one.cached is not None)
            self._tracer.record(trace.coordination.LoadIds, partition, found.leader_epoch, ids)

    def resigned(self, partition: int, leader_epoch: int) -> None:
        """A leader epoch has ended here."""
        if self._tracer.trace is not None:
            self._tracer.record(trace.coordination.Resign, partition, leader_epoch)

    def ruled(self, request: Request, outcome: Respond[object] | Append[object]) -> None:
        """The core has ruled on a request; what it does not coordinate is no decision of it."""
        if self._tracer.trace is None:
            return
        number = self._core.partition_of(request.transactional_id)
        found = self._core.partitions.get(number)
        response = outcome.response
        error = response.error if isinstance(response, ProducerGiven) else response
        if found is None or error in _NO_RULING:
            return
        kinds = trace.coordination
        kind = {InitProducerId: kinds.ReceiveInit, AddPartitions: kinds.ReceiveAdd, EndTxn: kinds.ReceiveEnd}
        written = self._pending(outcome) if isinstance(outcome, Append) else None
        of_id = number, found.leader_epoch, request.transactional_id
        self._tracer.record(kind[type(request)], *of_id, error, written, request)

    def verified(self, request: VerifyPartitions, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """A leader was told whether partitions are in a transaction."""
        number = self._core.partition_of(request.transactional_id)
        found = self._core.partitions.get(number)
        if self._tracer.trace is not None and found is not None:
            of_id = number, found.leader_epoch, request.transactional_id
            self._tracer.record(trace.coordination.Verify, *of_id, request, tuple(sorted(errors.items())))

    def swept(self, append: Append[None]) -> None:
        """A transaction's time is over, or that of an id that nobody uses."""
        if self._tracer.trace is not None:
            written = self._pending(append)
            kinds = trace.coordination
            if written is None:
                self._tracer.record(kinds.ExpireId, *_of_id(append))
            else:
                self._tracer.record(kinds.ExpireTransaction, *_of_id(append), written)

    def completes(self, append: Append[None]) -> None:
        """Every marker is acknowledged."""
        if self._tracer.trace is not None and (written := self._pending(append)) is not None:
            self._tracer.record(trace.coordination.Complete, *_of_id(append), written)

    def appends(self, append: Append[object], offset: int) -> None:
        """The record is about to be appended."""
        if self._tracer.trace is not None:
            version = version_of(append.value)
            self._tracer.record(trace.coordination.AppendRecord, *_of_id(append), offset, version)

    def committed(self, append: Append[object], offset: int) -> None:
        """The record is committed."""
        if self._tracer.trace is not None:
            self._tracer.record(trace.coordination.CommitRecord, *_of_id(append), offset)

    def failed(self, append: Append[object]) -> None:
        """The record will never be in the log."""
        if self._tracer.trace is not None:
            self._tracer.record(trace.coordination.FailRecord, *_of_id(append))

    def acknowledged(self, marker: Marker, before: Set[TopicPartition], partitions: Set[TopicPartition]) -> None:
        """Partitions have a marker, of those that it was waited for `before`."""
        if self._tracer.trace is not None and before & partitions:
            self._tracer.record(
                trace.coordination.AcknowledgeMarker,
                marker.log_partition,
                marker.coordinator_epoch,
                marker.transactional_id,
                marker.producer_id,
                marker.epoch,
                marker.is_commit,
                tuple(sorted(before & partitions)),
                tuple(sorted(before - partitions)),
            )

    def _pending(self, append: Append[object]) -> TransactionMetadata | None:
        pending = self._core.partitions[append.partition].ids[append.transactional_id].pending
        assert pending is not None, "it was ruled just now"
        return pending.metadata


def _of_id(append: Append[object]) -> tuple[int, int, str]:
    return append.partition, append.leader_epoch, append.transactional_id


_NO_RULING = (
    ErrorCode.invalid_request,
    ErrorCode.invalid_transaction_timeout,
    ErrorCode.transactional_id_authorization_failed,
)
"""Errors of what the request says by itself."""
