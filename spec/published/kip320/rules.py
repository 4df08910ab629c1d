"""The rules of the published KIP-320 model, and its constants; a variant overrides one rule."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.published.kip320.state import Log, State


@attrs.frozen
class Kip320Rules(GuardedMachine[State]):
    """What the protocol after KIP-320 decides; its fields are the constants of the TLA+ model."""

    replicas: int = 3
    log_size: int = 2
    max_records: int = 2
    max_leader_epoch: int = 1
    """The last epoch; the first is 0."""

    # --- the rules ---------------------------------------------------------------------------------------------------

    def follows(self, state: State, leader: int, follower: int) -> bool:
        """The leader presumes leadership, and the follower follows it in the same epoch."""
        own, other = state.replicas[leader], state.replicas[follower]
        return own.leader == leader == other.leader and own.leader_epoch == other.leader_epoch

    def may_fetch(self, state: State, leader: int, follower: int) -> bool:
        """The fetch fence: no record passes between epochs."""
        return self.follows(state, leader, follower)

    def is_replicated(self, state: State, leader: int) -> bool:
        """Every member of the leader's own ISR follows it and has the record at its HW."""
        own = state.replicas[leader]
        return all(
            self.follows(state, leader, member) and own.hw < state.replicas[member].end_offset for member in own.isr
        )

    def is_caught_up(self, state: State, leader: int, follower: int) -> bool:
        """A member of the ISR that the leader has no reason to take out."""
        reached = state.replicas[follower].end_offset >= state.replicas[leader].end_offset
        return reached and self.follows(state, leader, follower)

    def may_join_isr(self, state: State, leader: int, follower: int) -> bool:
        """A follower of the same epoch has reached the HW, and the HW has reached that epoch."""
        return (
            self.follows(state, leader, follower)
            and self.has_reached_high_watermark(state, leader, follower)
            and self.has_reached_current_epoch(state, leader)
        )

    def has_reached_high_watermark(self, state: State, leader: int, follower: int) -> bool:
        return state.replicas[follower].end_offset >= state.replicas[leader].hw

    def has_reached_current_epoch(self, state: State, leader: int) -> bool:
        """Up to the start of its epoch a leader can't tell what its predecessor had committed, so nobody may join."""
        own = state.replicas[leader]
        return own.hw == own.end_offset or (own.hw < own.end_offset and own.log[own.hw].epoch == own.leader_epoch)

    def may_write_isr(self, state: State, leader: int) -> bool:
        """The fence on ISR writes: the quorum takes them from the true leader in the current epoch only."""
        return state.is_true_leader(leader)

    def may_truncate_by(self, state: State, leader: int, leader_epoch: int) -> bool:
        """The truncation fence: a leader of another epoch might yet truncate its own log."""
        return state.presumes_leadership(leader) and state.replicas[leader].leader_epoch == leader_epoch

    def truncation_offset(self, state: State, leader: int, follower: int) -> int:
        """Where a new follower truncates: behind the last record that both logs have (KIP-279)."""
        return end_of_match(state.replicas[leader].log, state.replicas[follower].log)

    def is_electable(self, state: State, replica: int) -> bool:
        """Elections are clean: the new leader is a member of the ISR."""
        return replica in state.quorum.isr

    def elected_isr(self, state: State, leader: int) -> frozenset[int]:
        """The ISR with which a new leader starts."""
        return state.quorum.isr


def end_of_match(leader: Log, follower: Log) -> int:
    """The offset behind the last record that both logs have at the same place; 0 if there is none."""
    for offset in range(min(len(leader), len(follower)), 0, -1):
        if leader[offset - 1] == follower[offset - 1]:
            return offset
    return 0
