"""What a replicated partition comes to once its faults have ended, if all that is fair happens.

A replica *lives* if its broker runs and has its log. A goal asks nothing of who does not live: a broker that stays down
is no failure of the protocol. It does ask the others to go on without it.

Fair is what the protocol does of itself: fetches and their responses, proposals, metadata, registrations, restarts. Not
fair are appends, flushes, and what an operator asks for. With `may_stay_down` restarts are not fair either, and then
the session of a broker that is down expires.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidegauge.spec.kernel.machine import Invariant, LeadsTo
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import State

LEADS: Final = "a live candidate leads"
REJOINS: Final = "a follower that has caught up is in sync"
TOLD: Final = "the high watermark is the log's end, and told"
SETTLED: Final = "a proposal is settled"

_AGAIN: Final[Mapping[str, str]] = {
    "an offline partition gets a live candidate for its leader": LEADS,
    "a follower that has caught up gets into the ISR": REJOINS,
    "the high watermark gets to the log's end, and is told": TOLD,
    "a proposal gets its response, and is settled": SETTLED,
}
"""Of what is owed the goal that comes."""


def living(machine: ReplicationRules, state: State) -> list[int]:
    """The replicas that live."""
    return [b for b in machine.replica_order(state.controller) if not machine.not_hosting(state, b)]


def acting_leader(machine: ReplicationRules, state: State) -> int | None:
    """The leader that the controller has written, if it lives and leads; else None."""
    controller = state.controller
    leader = controller.leader
    if leader not in living(machine, state):
        return None
    replica = state.replicas[leader]
    return leader if (replica.leader, replica.leader_epoch) == (leader, controller.leader_epoch) else None


def candidates(state: State) -> Iterable[int]:
    """Who may lead without a loss: the ISR, the ELR, and where both are empty the last known leader (KIP-966)."""
    controller = state.controller
    return (*controller.isr, *controller.elr) or (controller.last_known_leader,)


def converging(machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
    """The goals, by what they say."""

    def live_candidate_leads(state: State) -> bool:
        is_offline = acting_leader(machine, state) is None
        return not (is_offline and set(candidates(state)).intersection(living(machine, state)))

    def live_broker_counts(state: State) -> bool:
        sessions = state.controller.sessions
        return all(
            replica.broker_epoch == session.broker_epoch and not session.fenced
            for replica, session in zip(state.replicas, sessions, strict=True)
            if replica.running
        )

    def metadata_are_known(state: State) -> bool:
        known = (state.controller.epoch, state.controller.partition_epoch, state.controller.leader_epoch)
        return all(
            (replica.controller_epoch, replica.partition_epoch, replica.leader_epoch) == known
            for replica in state.replicas
            if replica.running
        )

    def live_follower_catches_up(state: State) -> bool:
        leader = acting_leader(machine, state)
        return leader is None or all(
            state.replicas[broker].log == state.replicas[leader].log for broker in living(machine, state)
        )

    def caught_up_follower_is_in_sync(state: State) -> bool:
        leader = acting_leader(machine, state)
        return leader is None or all(
            broker in state.controller.isr
            for broker in living(machine, state)
            if state.replicas[broker].log == state.replicas[leader].log
        )

    def high_watermark_is_the_end(state: State) -> bool:
        leader = acting_leader(machine, state)
        if leader is None or len(state.controller.isr) < machine.required_insync(state.replicas[leader]):
            return True
        return all(
            state.replicas[broker].high_watermark == state.replicas[leader].log_end_offset
            for broker in living(machine, state)
        )

    def proposal_is_settled(state: State) -> bool:
        return not any(replica.pending_isr for replica in state.replicas if replica.running)

    return {
        LEADS: live_candidate_leads,
        "a live broker is registered and not fenced": live_broker_counts,
        "a live broker has the metadata": metadata_are_known,
        "a live follower catches up": live_follower_catches_up,
        REJOINS: caught_up_follower_is_in_sync,
        TOLD: high_watermark_is_the_end,
        SETTLED: proposal_is_settled,
    }


def owed(goals: Mapping[str, Invariant[State]]) -> Mapping[str, LeadsTo[State]]:
    """What comes again and again by weak fairness alone, though clients append and operators ask for what they like."""
    return {words: LeadsTo.again(goals[goal]) for words, goal in _AGAIN.items()}
