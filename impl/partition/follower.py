"""The follower: fetches, appends, and truncates what its leader does not have.

A follower truncates nothing when it becomes one. It fetches from its log end offset with the epoch of its last record.
If the logs diverge, the leader responds with the largest epoch that it has and that is not larger, and where that
epoch ends. The follower truncates its log there, or at the end of the largest epoch that *it* has and that is not
larger than the one in the response, whichever comes first, and fetches again. Each round takes it one epoch nearer to
where the logs agree (KIP-101, KIP-279, KIP-595). It never truncates to the high watermark.

Truncation does not help a follower that needs records below the leader's log start, or whose epochs are all older than
the leader's oldest one: it starts over at the leader's log start. A follower moves its own log start to the leader's
when a response says it.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.high_watermark import HighWatermark
from tidegauge.impl.partition.messages import NO_EPOCH, EpochEndOffset, FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.records.lazy import in_memory


class Follower(HighWatermark):
    """What a replica does while another one leads."""

    def fetch_request(self, broker_epoch: int) -> FollowerFetch | None:
        """The next fetch from `leader`; None when there is nobody to fetch from."""
        if self.leader in (NO_LEADER, self.broker_id):
            return None
        return FollowerFetch(
            replica_id=self.broker_id,
            broker_epoch=broker_epoch,
            leader_epoch=self.leader_epoch,
            fetch_offset=self.log_end_offset,
            last_fetched_epoch=self.log.latest_epoch,
            log_start_offset=self.log.log_start_offset,
        )

    def receive_fetch_response(self, fetch: FollowerFetch, response: PartitionFetchResponse, now_ms: int) -> bool:
        """Take the leader's response to `fetch`; False when it is an error or out of date."""
        if not self.accepts_fetch_response(fetch):
            return False
        if response.error:
            if response.error is not ErrorCode.offset_out_of_range or response.log_start_offset < 0:
                return False
            self.start_over(response.log_start_offset, response.log_start_epoch)
            return True
        if response.diverging_epoch is not None:
            self.reconcile(response.diverging_epoch, response)
            return True
        if response.records:  # no producer is asked for: what the leader has appended is right (KAFKA-6003)
            self.log.append_as_follower(in_memory(response.records))
        self.follow_high_watermark(response.high_watermark)
        self.follow_log_start(response.log_start_offset)
        return True

    def accepts_fetch_response(self, fetch: FollowerFetch) -> bool:
        """Whether the replica is still as it was when it sent `fetch` (KAFKA-18991)."""
        return fetch.leader_epoch == self.leader_epoch and fetch.fetch_offset == self.log_end_offset

    def reconcile(self, diverging: EpochEndOffset, response: PartitionFetchResponse) -> None:
        """Give up what the leader does not have: all of it, where the logs parted before all that one of them knows."""
        own_epoch, _ = self.log.end_offset_for(diverging.epoch)
        if NO_EPOCH in (diverging.epoch, own_epoch) and response.log_start_offset >= 0:
            self.start_over(response.log_start_offset, response.log_start_epoch)
        else:
            self.truncate(self.truncation_offset(diverging), epoch=diverging.epoch)

    def start_over(self, log_start_offset: int, log_start_epoch: int) -> None:
        """No records, from the leader's log start on: what is below is gone there, and counts as committed here."""
        try:
            self.log.truncate_fully_and_start_at(log_start_offset, epoch=log_start_epoch)
        finally:  # the disk may fail when all is gone
            if self.log.log_start_offset == self.log_end_offset == log_start_offset:
                self._set_high_watermark(log_start_offset)

    def follow_log_start(self, leader_log_start_offset: int) -> None:
        """Forget what the leader has forgotten, as far as it is known to be committed."""
        log_start_offset = min(leader_log_start_offset, self.high_watermark)
        if log_start_offset > self.log.log_start_offset:
            self.log.delete_records_before(log_start_offset)

    def truncation_offset(self, diverging: EpochEndOffset) -> int:
        """The end of what both logs may have in common."""
        epoch, own_end_offset = self.log.end_offset_for(diverging.epoch)
        if epoch == diverging.epoch:
            return min(own_end_offset, diverging.end_offset)
        return own_end_offset

    def truncate(self, offset: int, *, epoch: int = NO_EPOCH) -> None:
        """Cut the log at `offset`; a high watermark above it can no longer be vouched for.

        Where that is below the log start, `epoch` is what the last record before it has in both logs.
        """
        try:
            if offset < self.log_end_offset:
                self.log.truncate_to(offset, epoch=epoch)
        finally:  # the disk may fail when the log is cut
            self.high_watermark = min(self.high_watermark, self.log_end_offset)
