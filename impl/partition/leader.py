"""The leader: appends, responds to fetches, and says when an append is acknowledged.

A follower's fetch says three things at once: which records it wants, that it has everything before the fetch offset,
and, by the epoch of its last record, whether what it has is a prefix of the leader's log (KIP-320, KIP-595). The leader
therefore checks first whether the logs diverge, and counts the fetch offset only when they do not.

Records below the log start are gone (DeleteRecords, retention). To a follower that needs one of them the leader sends
its log start and the epoch of the last record before it, and the follower starts over there. By that epoch a log
without records still differs from one of another history. Each fetch also has the follower's log start, from which the
leader knows the *low watermark*: no replica has a record below it any more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.isr import InSyncReplicas
from tidegauge.impl.partition.log import Records
from tidegauge.impl.partition.messages import (
    NO_ERROR,
    UNKNOWN_BROKER_EPOCH,
    UNKNOWN_OFFSET,
    Appended,
    EpochEndOffset,
    FollowerFetch,
    FollowerLogStartMoved,
    LogEndAdvanced,
    PartitionFetchResponse,
)
from tidegauge.impl.partition.producer_state import InvalidTransactionStateError, RepeatedBatchError
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.partition.verification import Verification
from tidegauge.impl.records.batches import TRANSACTIONAL_FLAG, BatchHeader
from tidegauge.impl.records.checked import Batches
from tidegauge.impl.records.markers import TransactionMarker, build_marker
from tidegauge.impl.records.origin import CLIENT, Origin

ACKS_ALL: Final = -1
TO_HIGH_WATERMARK: Final = -1
"""In DeleteRecords: delete all that is committed."""


class Leader(InSyncReplicas):
    """What a replica does while it believes that it leads."""

    def append(self, batches: Batches, acks: int, now_ms: int, origin: Origin = Origin.CLIENT) -> Appended | ErrorCode:
        """Append batches; with acks=all ask `append_outcome` whenever effects show progress.

        A repeat of what an idempotent producer had appended before is not appended, and acknowledged as if it were.
        Raises RecordError for batches that are not in order, or not the next ones of their producer. A broker's own
        batches have no sequence, and no producer's state refuses them.
        """
        if error := self.append_error(acks):
            return error
        log = self.log
        base_offset = log.log_end_offset
        try:
            admit = self.admit if origin is CLIENT else None
            log.append_as_leader(batches, self.leader_epoch, now_ms, origin=origin, admit=admit)
        except RepeatedBatchError as known:
            return Appended(
                known.base_offset, known.end_offset, self.leader_epoch, repeated=True, timestamp=known.timestamp
            )
        return self.appended_from(base_offset)

    def append_marker(self, marker: TransactionMarker, transaction_version: int, now_ms: int) -> Appended | ErrorCode:
        """End a producer's transaction here, as its coordinator says; the coordinator waits for the commit (acks=all).

        Errors: those of `append_error` and of `ProducerStates.marker_error`.
        """
        error = self.append_error(ACKS_ALL)
        if error is ErrorCode.none:
            error = self.log.producers.marker_error(marker, transaction_version)
        if error is not ErrorCode.none:
            return error
        base_offset = self.log.log_end_offset
        self.end_verification(marker.producer_id)
        self.log.append_as_leader(build_marker(marker, now_ms), self.leader_epoch, now_ms, origin=Origin.BROKER)
        return self.appended_from(base_offset)

    # --- the coordinator's verification (KIP-890) --------------------------------------------------------------

    def verification(self, header: BatchHeader) -> Verification | None:
        """The question to ask the coordinator before this batch is appended; None if there is none to ask.

        When the coordinator says yes, hand it to `confirm`, and then append.
        """
        is_verified = not header.is_transactional or self.producers.repeated(header) is not None
        if is_verified or self.producers.is_open_for(header) or self.is_verified(header):
            return None
        return self.verifications.begin(header.producer_id, header.producer_epoch)

    def confirm(self, asked: Verification) -> bool:
        """The coordinator has said that the transaction may begin; False if that has come too late."""
        return self.verifications.confirm(asked)

    def admit(self, headers: Sequence[BatchHeader]) -> None:
        """Whether batches of clients may be appended: by their producers' memory, and as coordinators have verified.

        Raises RepeatedBatchError, OutOfOrderSequenceError, InvalidProducerEpochError or InvalidTransactionStateError.
        """
        self.producers.admit(headers)
        for header in headers:
            if header.attributes & TRANSACTIONAL_FLAG:
                self._admit_transactional(headers)
                return

    def _admit_transactional(self, headers: Sequence[BatchHeader]) -> None:
        transactional = [header for header in headers if header.is_transactional]
        for header in transactional:
            if not self.producers.is_open_for(header) and not self.is_verified(header):
                raise InvalidTransactionStateError(
                    f"producer {header.producer_id} (epoch {header.producer_epoch}) has no transaction open here, and "
                    "its coordinator has not verified that one may begin"
                )
        for header in transactional:
            self.end_verification(header.producer_id)

    def is_verified(self, header: BatchHeader) -> bool:
        """Whether the coordinator has said that the transaction is open, with no end since (KAFKA-14402)."""
        return self.verifications.is_verified(header.producer_id, header.producer_epoch)

    def coordinators_batch_error(self, producer_id: int, epoch: int) -> ErrorCode:
        """Whether a group coordinator may append to this producer's transaction: its batches have no sequence.

        Errors: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE.
        """
        entry = self.producers.entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            return ErrorCode.invalid_producer_epoch
        is_open = entry is not None and entry.epoch == epoch and producer_id in self.producers.transactions.open
        return (
            NO_ERROR if is_open or self.verifications.is_verified(producer_id, epoch) else ErrorCode.invalid_txn_state
        )

    def end_verification(self, producer_id: int) -> None:
        """A record or a marker of the producer is appended: its verification is used up, or no longer true."""
        self.verifications.end(producer_id)

    def appended_from(self, base_offset: int) -> Appended:
        """The log has been appended to: followers fetch it, and it is committed when all in sync have it.

        `append` and `append_marker` call it. Call it yourself where one has raised, as a flush had no descriptors, and
        has left in a log that goes on what it was to append: nobody appends it again.
        """
        end_offset = self.log.log_end_offset
        self._effects.append(LogEndAdvanced(end_offset))
        self.advance_high_watermark()
        return Appended(base_offset, end_offset, self.leader_epoch)

    def append_error(self, acks: int) -> ErrorCode:
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if acks == ACKS_ALL and self.is_under_min_isr:
            return ErrorCode.not_enough_replicas
        return NO_ERROR

    def append_outcome(self, appended: Appended) -> ErrorCode | None:
        """What acks=all gets now: none (committed), an error, or None while it has to wait.

        NOT_LEADER_OR_FOLLOWER means that nobody can tell: the records may be committed by a later leader, or lost.
        """
        if not self.is_leader or self.leader_epoch != appended.leader_epoch:
            return ErrorCode.not_leader_or_follower
        if self.high_watermark < appended.end_offset:
            return None
        if self.is_under_min_isr:
            return ErrorCode.not_enough_replicas_after_append
        return NO_ERROR

    def receive_fetch(
        self, fetch: FollowerFetch, max_bytes: int, now_ms: int, *, at_least_one: bool = True
    ) -> PartitionFetchResponse:
        """Respond to a follower. A held fetch (long poll) is handed in again; an empty response is a reason to hold it.

        With `at_least_one` the first batch comes however large it is (KIP-74).
        """
        if error := self.fetch_error(fetch):
            refusal = self._refusal(error)
            if error is ErrorCode.offset_out_of_range:
                start = self.log.log_start_offset
                return refusal._replace(log_start_offset=start, log_start_epoch=self.log.log_start_epoch)
            return refusal
        diverging_epoch = self.diverging_epoch(fetch)
        if diverging_epoch is not None:
            return PartitionFetchResponse(
                leader=self.leader,
                leader_epoch=self.leader_epoch,
                diverging_epoch=diverging_epoch,
                high_watermark=self.high_watermark,
                log_start_offset=self.log.log_start_offset,
                log_start_epoch=self.log.log_start_epoch,
            )
        # First what may fail: a fetch on which the log cannot be read is as one that never arrived.
        records = self._records(fetch.fetch_offset, max_bytes, self.log_end_offset, at_least_one=at_least_one)
        self.update_follower(fetch, now_ms)
        return self._response(records)

    def fetch_error(self, fetch: FollowerFetch) -> ErrorCode:
        """Only a follower of this very leader epoch may fetch (KIP-320), and only the latest of its processes."""
        if fetch.leader_epoch < self.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if fetch.leader_epoch > self.leader_epoch:
            return ErrorCode.unknown_leader_epoch
        remote = self.remote_replicas.get(fetch.replica_id)
        if not self.is_leader or remote is None or fetch.broker_epoch < remote.broker_epoch:
            return ErrorCode.not_leader_or_follower
        below_start = fetch.fetch_offset < self.log.log_start_offset
        return ErrorCode.offset_out_of_range if below_start else NO_ERROR

    def diverging_epoch(self, fetch: FollowerFetch) -> EpochEndOffset | None:
        """Where the follower's log parts from this one, decided by its last record; None when it is a prefix.

        (-1, log start offset) when everything known here is of a later epoch.
        """
        epoch, end_offset = self.log.end_offset_for(fetch.last_fetched_epoch)
        if epoch == fetch.last_fetched_epoch and end_offset >= fetch.fetch_offset:
            return None
        return EpochEndOffset(epoch, end_offset)

    def delete_records(self, offset: int) -> int | ErrorCode:
        """Forget the records below `offset`, -1 for the high watermark (DeleteRecords); returns the offset meant."""
        meant = self.offset_to_delete(offset)
        if not isinstance(meant, ErrorCode):
            self.log.delete_records_before(meant)
        return meant

    def offset_to_delete(self, offset: int) -> int | ErrorCode:
        """The offset that `delete_records` would move the log start to, or why it would not."""
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if offset == TO_HIGH_WATERMARK:
            offset = self.high_watermark
        return offset if 0 <= offset <= self.deletion_limit() else ErrorCode.offset_out_of_range

    def deletion_limit(self) -> int:
        """Only what is committed is deleted."""
        return self.high_watermark

    def low_watermark(self, live: Collection[int]) -> int:
        """The lowest log start of this replica and the `live` ones among its followers; -1 while one has told none."""
        told = [remote.log_start_offset for replica, remote in self.remote_replicas.items() if replica in live]
        return min((*told, self.log.log_start_offset))

    def may_update_follower(self, fetch: FollowerFetch) -> bool:
        """Whether a fetch counts: not from a new process of a replica that is proposed for the ISR.

        The proposal was made on what the former process had, and it may be sent again with the broker epoch of the
        follower's last fetch. With the new process's epoch it would claim for that one what only the former had. The
        controller refuses the proposal (KIP-903), and then the new process's fetches count.
        """
        known = self.remote_replicas[fetch.replica_id].broker_epoch
        proposed = fetch.replica_id in self.maximal_isr and fetch.replica_id not in self.isr
        return not proposed or known in (UNKNOWN_BROKER_EPOCH, fetch.broker_epoch)

    def update_follower(self, fetch: FollowerFetch, now_ms: int) -> None:
        """The follower holds everything before its fetch offset: the HW may move, and it may join the ISR."""
        if not self.may_update_follower(fetch):
            return
        remote = self.remote_replicas[fetch.replica_id]
        if fetch.fetch_offset >= self.log_end_offset:
            remote.last_caught_up_ms = now_ms
        elif fetch.fetch_offset >= remote.leader_end_offset_at_last_fetch:
            remote.last_caught_up_ms = max(remote.last_caught_up_ms, remote.last_fetch_ms)
        remote.last_fetch_ms = now_ms
        remote.leader_end_offset_at_last_fetch = self.log_end_offset
        remote.log_end_offset = fetch.fetch_offset
        remote.broker_epoch = fetch.broker_epoch
        if remote.log_start_offset != fetch.log_start_offset:
            remote.log_start_offset = fetch.log_start_offset
            self._effects.append(FollowerLogStartMoved(fetch.replica_id, fetch.log_start_offset))
        self.expand_isr(fetch.replica_id)
        self.advance_high_watermark()

    def is_at_rest(self, fetch: FollowerFetch) -> bool:
        """Whether the same fetch again would change nothing but times, and would get the same empty response.

        So it stays until an effect of this replica, or its log start, says otherwise.
        """
        return (
            fetch.replica_id in self.isr
            and fetch.fetch_offset == self.log_end_offset
            and fetch.log_start_offset >= self.log.log_start_offset
            and self.fetch_error(fetch) is NO_ERROR
        )

    def was_at_rest(self, fetch: FollowerFetch, at_ms: int) -> None:
        """A follower had everything until now, when its fetch stops being at rest; it last asked at `at_ms`."""
        remote = self.remote_replicas.get(fetch.replica_id)
        if remote is None or fetch.leader_epoch != self.leader_epoch or fetch.broker_epoch != remote.broker_epoch:
            return
        if fetch.fetch_offset == remote.log_end_offset:
            remote.last_caught_up_ms = max(remote.last_caught_up_ms, at_ms)
            remote.last_fetch_ms = max(remote.last_fetch_ms, at_ms)

    def read(
        self,
        offset: int,
        max_bytes: int,
        leader_epoch: int | None = None,
        *,
        at_least_one: bool = True,
        only_leader: bool = True,
        read_committed: bool = False,
    ) -> PartitionFetchResponse:
        """Committed records for a consumer; `leader_epoch` is the one that it believes in, if it says (KIP-320).

        Unless `only_leader`, a follower gives what it knows to be committed (KIP-392). With `read_committed` no record
        of an undecided transaction, and beside the records the aborted transactions among them (KIP-98).
        """
        error = self.read_error(offset, leader_epoch, only_leader=only_leader)
        if error is not NO_ERROR:
            return self._refusal(error)
        stable = self.last_stable_offset
        end_offset = stable if read_committed else self.high_watermark
        records = self._records(offset, max_bytes, end_offset, at_least_one=at_least_one)
        aborted = self.log.aborted_in(offset, records) if read_committed else None
        return self._response(records, stable, aborted)

    def read_error(self, offset: int, leader_epoch: int | None, *, only_leader: bool = True) -> ErrorCode:
        error = self.client_error(leader_epoch, only_leader=only_leader)
        if error is not NO_ERROR:
            return error
        if not self.log.log_start_offset <= offset <= self.log_end_offset:
            return ErrorCode.offset_out_of_range
        if offset >= self.high_watermark and not self.knows_high_watermark:
            return ErrorCode.offset_not_available
        return NO_ERROR

    def client_error(self, leader_epoch: int | None, *, only_leader: bool = True) -> ErrorCode:
        """Whether a client that names this leader epoch may be served here at all; by a follower too if it may."""
        if leader_epoch is not None and leader_epoch < self.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if leader_epoch is not None and leader_epoch > self.leader_epoch:
            return ErrorCode.unknown_leader_epoch
        return NO_ERROR if self.is_leader or not only_leader else ErrorCode.not_leader_or_follower

    @property
    def knows_high_watermark(self) -> bool:
        """False in a new epoch until its high watermark covers what the former leaders may have committed (KIP-207).

        Till then an end offset, or an empty response at the end, would let a client see the log grow shorter.
        """
        return self.high_watermark >= self.epoch_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Where a reader with read_committed has to stop: the high watermark, or before it an undecided transaction."""
        undecided = self.log.producers.transactions.first_undecided_offset(self.high_watermark)
        if undecided is None or undecided >= self.high_watermark:
            return self.high_watermark
        return max(undecided, self.log.log_start_offset)

    def latest_offset(
        self, leader_epoch: int | None = None, *, only_leader: bool = True, read_committed: bool = False
    ) -> int | ErrorCode:
        """The high watermark, or with `read_committed` the last stable offset, for ListOffsets."""
        error = self.client_error(leader_epoch, only_leader=only_leader)
        if error is not NO_ERROR:
            return error
        if not self.knows_high_watermark:
            return ErrorCode.offset_not_available
        return self.last_stable_offset if read_committed else self.high_watermark

    def earliest_offset(self, leader_epoch: int | None = None, *, only_leader: bool = True) -> int | ErrorCode:
        """The log start offset, for ListOffsets."""
        error = self.client_error(leader_epoch, only_leader=only_leader)
        return self.log.log_start_offset if error is NO_ERROR else error

    def end_offset_for_leader_epoch(self, epoch: int, leader_epoch: int | None = None) -> EpochEndOffset | ErrorCode:
        """Where `epoch` ends in this leader's log, for OffsetForLeaderEpoch."""
        error = self.client_error(leader_epoch)
        return EpochEndOffset(*self.log.end_offset_for(epoch)) if error is NO_ERROR else error

    def _records(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> Records:
        if offset >= end_offset or not (at_least_one or max_bytes > 0):
            return b""
        records = self.log.fetch(offset, max_bytes, end_offset)
        return records if at_least_one or len(records) <= max_bytes else b""

    def _response(
        self,
        records: Records,
        last_stable_offset: int = UNKNOWN_OFFSET,
        aborted: Sequence[AbortedTransaction] | None = None,
    ) -> PartitionFetchResponse:
        return PartitionFetchResponse(
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            high_watermark=self.high_watermark,
            log_start_offset=self.log.log_start_offset,
            records=records,
            last_stable_offset=last_stable_offset,
            aborted=aborted,
        )

    def _refusal(self, error: ErrorCode) -> PartitionFetchResponse:
        return PartitionFetchResponse(error, self.leader, self.leader_epoch)
