"""The published KIP-320 model with a rule replaced: the older versions of the protocol, and each fence missing.

The older versions are those of the same TLA+ repository. In each of the others one rule of `Kip320` is taken out or
exchanged; what the explorer then finds says what that rule is for.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.published.kip320.actions import Kip320Action, LeaderShrinkIsr, truncated
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip320.rules import Kip320Rules, end_of_match
from tidegauge.spec.published.kip320.state import State

# --- the versions before KIP-320 -------------------------------------------------------------------------------------


@attrs.frozen
class Kip279(Kip320):
    """Truncation as after KIP-279, and nothing fenced: a replica that names the leader is a follower, in any epoch."""

    def follows(self, state: State, leader: int, follower: int) -> bool:
        return state.presumes_leadership(leader) and state.replicas[follower].leader == leader

    def may_truncate_by(self, state: State, leader: int, leader_epoch: int) -> bool:
        return True

    def has_reached_current_epoch(self, state: State, leader: int) -> bool:
        return True


@attrs.frozen
class Kip101(Kip279):
    """A new follower looks up the epoch of its last record in the leader's log, and truncates where that epoch ends."""

    def truncation_offset(self, state: State, leader: int, follower: int) -> int:
        return end_of_last_epoch(state, leader, follower)


@attrs.frozen
class TruncateToHighWatermark(Kip279):
    """Before KIP-101: a new follower truncates to its own HW, which may be behind what was committed."""

    def truncation_offset(self, state: State, leader: int, follower: int) -> int:
        return state.replicas[follower].hw


def end_of_last_epoch(state: State, leader: int, follower: int) -> int:
    """Where the leader's log leaves the epoch of the follower's last record; the follower's HW if it can't say."""
    log, own = state.replicas[leader].log, state.replicas[follower]
    if not own.log:
        return 0
    epoch = own.log[-1].epoch
    if log and log[-1].epoch == epoch:
        return len(log)
    return next((offset for offset, record in enumerate(log) if record.epoch > epoch), own.hw)


@attrs.frozen
class FollowerTruncate(Kip320Action):
    """A follower that finds, by fetching, that its log has left the leader's, truncates to where they part."""

    follower: int
    leader: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if not machine.follows(state, self.leader, self.follower):
            return "the leader and the follower agree on the leader"
        leader, own = state.replicas[self.leader].log, state.replicas[self.follower].log
        diverged = len(own) > len(leader) or (own and own[-1].epoch != leader[len(own) - 1].epoch)
        return "" if diverged else "the follower's last record is not the leader's"

    def effect(self, machine: Kip320Rules, state: State) -> State:
        own = state.replicas[self.follower]
        return state.with_replica(self.follower, truncated(own, end_of_match(state.replicas[self.leader].log, own.log)))


@attrs.frozen
class Kip320FirstTry(Kip320):
    """The first attempt: followers truncate when a fetch shows divergence, and no fetch carries the leader's epoch."""

    action_types = (*Kip320.action_types, FollowerTruncate)

    def candidates(self, state: State) -> list[Kip320Action]:
        found = super().candidates(state)
        for follower, own in enumerate(state.replicas):
            if own.leader is not None and own.leader != follower:
                found.append(FollowerTruncate(follower, own.leader))
        return found

    def follows(self, state: State, leader: int, follower: int) -> bool:
        return state.presumes_leadership(leader) and state.replicas[follower].leader == leader

    def agrees_up_to(self, state: State, leader: int, follower: int, offset: int) -> bool:
        """The follower follows, reaches up to `offset`, and its last record before that is of the leader's epoch."""
        log, other = state.replicas[leader].log, state.replicas[follower].log
        if not self.follows(state, leader, follower):
            return False
        return offset == 0 or (offset <= min(len(log), len(other)) and log[offset - 1].epoch == other[offset - 1].epoch)

    def may_fetch(self, state: State, leader: int, follower: int) -> bool:
        return self.agrees_up_to(state, leader, follower, state.replicas[follower].end_offset)

    def is_replicated(self, state: State, leader: int) -> bool:
        own = state.replicas[leader]
        return all(self.agrees_up_to(state, leader, member, own.hw + 1) for member in own.isr)

    def is_caught_up(self, state: State, leader: int, follower: int) -> bool:
        return self.agrees_up_to(state, leader, follower, state.replicas[leader].end_offset)

    def may_join_isr(self, state: State, leader: int, follower: int) -> bool:
        reached = self.agrees_up_to(state, leader, follower, state.replicas[leader].hw)
        return reached and self.has_reached_current_epoch(state, leader)

    def may_truncate_by(self, state: State, leader: int, leader_epoch: int) -> bool:
        return True

    def truncation_offset(self, state: State, leader: int, follower: int) -> int:
        """Becoming a follower truncates nothing."""
        return state.replicas[follower].end_offset


# --- KIP-320 with one rule taken out or exchanged --------------------------------------------------------------------


@attrs.frozen
class WithoutTruncationFence(Kip320):
    """A new follower truncates by a leader of whatever epoch."""

    def may_truncate_by(self, state: State, leader: int, leader_epoch: int) -> bool:
        return True


@attrs.frozen
class WithoutFetchFence(Kip320):
    """Records pass between a leader and a follower of different epochs."""

    def may_fetch(self, state: State, leader: int, follower: int) -> bool:
        return state.presumes_leadership(leader) and state.replicas[follower].leader == leader


@attrs.frozen
class WithoutEpochInHighWatermark(Kip320):
    """The leader counts a member of its ISR that follows it in another epoch."""

    def is_replicated(self, state: State, leader: int) -> bool:
        own = state.replicas[leader]
        members = (state.replicas[member] for member in own.isr)
        return all(member.leader == leader and own.hw < member.end_offset for member in members)


@attrs.frozen
class HighWatermarkByMajority(Kip320):
    """The leader raises its HW when more than half of its ISR has the record."""

    def is_replicated(self, state: State, leader: int) -> bool:
        own = state.replicas[leader]
        have = [m for m in own.isr if self.follows(state, leader, m) and own.hw < state.replicas[m].end_offset]
        return 2 * len(have) > len(own.isr)


@attrs.frozen
class ExpandWithoutHighWatermark(Kip320):
    """A follower may join the ISR before it has reached the HW."""

    def has_reached_high_watermark(self, state: State, leader: int, follower: int) -> bool:
        return True


@attrs.frozen
class ExpandWithoutEpochStart(Kip320):
    """A follower may join the ISR before the leader's HW has reached the leader's own epoch (KAFKA-7128)."""

    def has_reached_current_epoch(self, state: State, leader: int) -> bool:
        return True


@attrs.frozen
class ExpandWithoutEpoch(Kip320):
    """A follower of another epoch may join the ISR."""

    def may_join_isr(self, state: State, leader: int, follower: int) -> bool:
        return (
            state.replicas[follower].leader == leader
            and self.has_reached_high_watermark(state, leader, follower)
            and self.has_reached_current_epoch(state, leader)
        )


@attrs.frozen
class IsrWriteWithoutEpoch(Kip320):
    """The quorum takes an ISR from any presumed leader."""

    def may_write_isr(self, state: State, leader: int) -> bool:
        return state.presumes_leadership(leader)


@attrs.frozen
class WithoutTruncation(Kip320):
    """A new follower keeps its whole log."""

    def truncation_offset(self, state: State, leader: int, follower: int) -> int:
        return state.replicas[follower].end_offset


@attrs.frozen
class FencedTruncateToHighWatermark(Kip320):
    """All of KIP-320's fences, but a new follower truncates to its own HW."""

    def truncation_offset(self, state: State, leader: int, follower: int) -> int:
        return state.replicas[follower].hw


@attrs.frozen
class FencedKip101(Kip320):
    """All of KIP-320's fences, but a new follower truncates as after KIP-101."""

    def truncation_offset(self, state: State, leader: int, follower: int) -> int:
        return end_of_last_epoch(state, leader, follower)


@attrs.frozen
class UncleanElection(Kip320):
    """While nobody leads, the controller may elect a replica from outside the ISR, which then is the ISR alone."""

    def is_electable(self, state: State, replica: int) -> bool:
        return state.quorum.leader is None or replica in state.quorum.isr

    def elected_isr(self, state: State, leader: int) -> frozenset[int]:
        return state.quorum.isr if leader in state.quorum.isr else frozenset({leader})


# --- for comparison with TLC -----------------------------------------------------------------------------------------


@attrs.frozen
class LeaderShrinkIsrForLag(Kip320Action):
    """LeaderShrinkIsr once more, where the follower lags and is of another epoch: a step of its own to TLC."""

    leader: int
    follower: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if not_due := LeaderShrinkIsr(self.leader, self.follower).guard(machine, state):
            return not_due
        lags = state.replicas[self.follower].end_offset < state.replicas[self.leader].end_offset
        is_doubly_due = lags and not machine.follows(state, self.leader, self.follower)
        return "" if is_doubly_due else "the follower lags, and is of another epoch"

    def effect(self, machine: Kip320Rules, state: State) -> State:
        return LeaderShrinkIsr(self.leader, self.follower).effect(machine, state)


@attrs.frozen
class CountedAsByTlc(Kip320):
    """Kip320 with a step for each reason: TLC counts LeaderShrinkIsr twice where both of its reasons hold."""

    action_types = (*Kip320.action_types, LeaderShrinkIsrForLag)

    def candidates(self, state: State) -> list[Kip320Action]:
        due = super().candidates(state)
        shrinks = (action for action in due if isinstance(action, LeaderShrinkIsr))
        return [*due, *(LeaderShrinkIsrForLag(action.leader, action.follower) for action in shrinks)]


OLDER: tuple[type[Kip320], ...] = (TruncateToHighWatermark, Kip101, Kip279, Kip320FirstTry)
"""What came before KIP-320, and its first attempt."""

ONE_RULE_CHANGED: tuple[type[Kip320], ...] = (
    WithoutTruncationFence,
    WithoutFetchFence,
    WithoutEpochInHighWatermark,
    HighWatermarkByMajority,
    ExpandWithoutHighWatermark,
    ExpandWithoutEpochStart,
    ExpandWithoutEpoch,
    IsrWriteWithoutEpoch,
    WithoutTruncation,
    FencedTruncateToHighWatermark,
    FencedKip101,
    UncleanElection,
)
"""KIP-320 less one rule, or with another in its place."""
