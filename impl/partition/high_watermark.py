"""The high watermark: below it a record is committed, and no clean election loses it.

A leader moves it to the smallest log end offset over the *maximal* ISR: the committed members, and those that it has
asked the controller to add and that may therefore already be members (KIP-497). It never moves back within a leader
epoch. It stands still

* while a member has not fetched in this leader epoch, because its log end offset is unknown, and
* while the committed ISR is smaller than min.insync.replicas (KIP-966): the members that remain could be lost
  together, and replicas that left the ISR meanwhile are still eligible to lead only because they hold all of it.

A follower takes the smaller of the leader's high watermark and its own log end offset.
"""

from __future__ import annotations

from tidegauge.impl.partition.messages import HighWatermarkAdvanced
from tidegauge.impl.partition.state import ReplicaState


class HighWatermark(ReplicaState):
    """The rules by which a replica's high watermark moves."""

    def advance_high_watermark(self) -> None:
        """Called after everything that may let the leader's high watermark move."""
        self._set_high_watermark(self.next_high_watermark())

    def next_high_watermark(self) -> int:
        """Where the leader's high watermark belongs now."""
        if self.is_under_min_isr:
            return self.high_watermark
        end = min(map(self.known_log_end_offset, self.maximal_isr), default=self.high_watermark)
        return max(self.high_watermark, end)

    def known_log_end_offset(self, replica: int) -> int:
        """This leader's LEO, or what `replica` showed by fetching in this epoch; -1 when it has not."""
        return self.log_end_offset if replica == self.broker_id else self.remote_replicas[replica].log_end_offset

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        """A follower learns the leader's high watermark, and can vouch for its own log only.

        A new leader may not know yet what is committed; what this replica has deleted was.
        """
        self._set_high_watermark(max(self.log.log_start_offset, min(leader_high_watermark, self.log_end_offset)))

    def _set_high_watermark(self, offset: int) -> None:
        advanced = offset > self.high_watermark
        self.high_watermark = offset
        if advanced:
            self._effects.append(HighWatermarkAdvanced(offset))
