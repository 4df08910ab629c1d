"""A replica of one partition: the deterministic core.

Theory of operation
-------------------
The core is a state machine without a clock, without sockets and without tasks. The broker's shell hands events in
(metadata, produce, fetch, responses, the tick of the lag timer) as method calls with the time as a number, carries out
what comes back (results, and the effects of `take_effects`), and owns everything that waits.

A replica is told what it is by the metadata log, and only by it: `apply_metadata` begins a leader epoch, as leader, as
follower or without a leader. Within an epoch

    leader      append            -> the log grows, the high watermark may move
                receive_fetch     -> a follower's log end is known: the high watermark may move, the ISR may grow
                shrink_isr        -> followers that lag are proposed to leave
                receive_alter_partition_response -> the ISR is what the controller says
    follower    fetch_request, receive_fetch_response -> the log grows or is cut, the high watermark follows

and nothing else changes a replica. Each of the parts has a file: `high_watermark`, `isr`, `leader`, `follower`; their
state is in `state`, what goes in and out is in `messages`. The rules (`may_join_isr`, `next_high_watermark`,
`truncation_offset`, ...) are methods of their own, under the specification's name where the core has the rule as one
method.
"""

from __future__ import annotations

from tidegauge.impl.partition.follower import Follower
from tidegauge.impl.partition.leader import Leader
from tidegauge.impl.partition.messages import UNKNOWN_OFFSET, IsrChanged, LeadershipChanged
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.partition.state import RemoteReplica
from tidegauge.impl.partition.verification import Verifications


class PartitionReplica(Leader, Follower):
    """One broker's replica of one partition."""

    def apply_metadata(self, registration: PartitionRegistration, controller_epoch: int, now_ms: int) -> bool:
        """Learn what the controller committed; False when the replica already knew as much or more."""
        if registration.partition_epoch < self.partition_epoch or controller_epoch < self.controller_epoch:
            return False
        if (registration.partition_epoch, controller_epoch) == (self.partition_epoch, self.controller_epoch):
            return False
        begins_epoch = registration.leader_epoch > self.leader_epoch
        isr_changes = registration.isr != self.isr
        self.controller_epoch = controller_epoch
        self.replicas = registration.replicas
        self.leader = registration.leader
        self.leader_epoch = registration.leader_epoch
        if registration.partition_epoch > self.partition_epoch:
            self.pending_isr = None
        self.partition_epoch = registration.partition_epoch
        self.isr = registration.isr
        if begins_epoch:
            self._begin_epoch(now_ms)
            self._effects.append(LeadershipChanged(self.leader, self.leader_epoch))
        elif self.is_leader:
            self._follow_replica_list()
        if isr_changes and not begins_epoch:
            self._effects.append(IsrChanged(self.isr))
        if self.is_leader:
            self.advance_high_watermark()
        return True

    def resign(self) -> None:
        """Stop: this broker is no replica any more. It leads and follows nobody; what waits for it gets an error."""
        self.leader = NO_LEADER
        self.isr = frozenset()
        self.pending_isr = None
        self.become_follower()

    def _follow_replica_list(self) -> None:
        """Replicas that a reassignment adds are followers of this epoch as well; those that go begin another."""
        for replica in self.replicas:
            if replica != self.broker_id:
                self.remote_replicas.setdefault(replica, RemoteReplica())

    def _begin_epoch(self, now_ms: int) -> None:
        self.verifications = Verifications()
        if self.is_leader:
            self.become_leader(now_ms)
        else:
            self.become_follower()

    def become_leader(self, now_ms: int) -> None:
        """Forget how far the followers were: they have to show it in this epoch. The high watermark is kept."""
        self.epoch_start_offset = self.log_end_offset
        self.remote_replicas = {
            replica: RemoteReplica(last_caught_up_ms=now_ms if replica in self.isr else 0)
            for replica in self.replicas
            if replica != self.broker_id
        }

    def become_follower(self) -> None:
        """Nothing is truncated now: where the logs part is found by fetching."""
        self.epoch_start_offset = UNKNOWN_OFFSET
        self.remote_replicas = {}
