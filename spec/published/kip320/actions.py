"""The actions of the published KIP-320 model (see `spec.published.kip320.machine`), each with its guard and its effect.

A guard returns what is missing, or "" when the action may happen. Where a KIP changed a rule, the action asks the
machine.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.published.kip320.rules import Kip320Rules
from tidegauge.spec.published.kip320.state import LeaderAndIsr, Record, Replica, State


@attrs.frozen
class Kip320Action(GuardedAction[Kip320Rules, State]):
    """An action of the model: one guard, one effect."""


# --- the controller ------------------------------------------------------------------------------------------------


@attrs.frozen
class ControllerElectLeader(Kip320Action):
    """The controller makes a member of the ISR leader, because it must or because it likes to."""

    leader: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        quorum = state.quorum
        if quorum.leader_epoch == machine.max_leader_epoch:
            return "an epoch is left"
        if quorum.leader == self.leader:
            return "the replica does not lead already"
        return "" if machine.is_electable(state, self.leader) else "the replica is in the ISR"

    def effect(self, machine: Kip320Rules, state: State) -> State:
        return state.with_controller_update(self.leader, machine.elected_isr(state, self.leader))


@attrs.frozen
class ControllerShrinkIsr(Kip320Action):
    """A replica fails: the controller takes it out of the ISR, unless it is the last, and leadership from it."""

    replica: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        quorum = state.quorum
        if quorum.leader_epoch == machine.max_leader_epoch:
            return "an epoch is left"
        return (
            "" if self.replica == quorum.leader or self.replica in quorum.isr else "the replica leads or is in the ISR"
        )

    def effect(self, machine: Kip320Rules, state: State) -> State:
        quorum = state.quorum
        without = quorum.isr - {self.replica}
        if quorum.leader == self.replica:
            return state.with_controller_update(None, without or quorum.isr)
        return state.with_controller_update(quorum.leader, without)


# --- becoming leader or follower -----------------------------------------------------------------------------------


@attrs.frozen
class BecomeLeader(Kip320Action):
    """The replica that the request of `leader_epoch` names obeys it. Its HW is often behind its predecessor's."""

    leader_epoch: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if self.leader_epoch >= len(state.requests):
            return "the request has been sent"
        leader = state.requests[self.leader_epoch].leader
        if leader is None:
            return "the request names a leader"
        return "" if state.replicas[leader].leader_epoch < self.leader_epoch else "the request is news to the leader"

    def effect(self, machine: Kip320Rules, state: State) -> State:
        request = state.requests[self.leader_epoch]
        assert request.leader is not None
        own = state.replicas[request.leader]
        return state.with_replica(request.leader, heeding(request, own))


@attrs.frozen
class BecomeFollower(Kip320Action):
    """A replica obeys the request of `leader_epoch`, which names another one, and truncates its log by the leader's."""

    replica: int
    leader_epoch: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if self.leader_epoch >= len(state.requests):
            return "the request has been sent"
        if state.replicas[self.replica].leader_epoch >= self.leader_epoch:
            return "the request is news to the replica"
        leader = state.requests[self.leader_epoch].leader
        if leader is None or leader == self.replica:
            return "the request names another replica as leader"
        if not machine.may_truncate_by(state, leader, self.leader_epoch):
            return "the leader has obeyed the same request"
        if machine.truncation_offset(state, leader, self.replica) > state.replicas[self.replica].end_offset:
            return "the log reaches up to the truncation offset"
        return ""

    def effect(self, machine: Kip320Rules, state: State) -> State:
        request, own = state.requests[self.leader_epoch], state.replicas[self.replica]
        assert request.leader is not None
        offset = machine.truncation_offset(state, request.leader, self.replica)
        return state.with_replica(self.replica, heeding(request, truncated(own, offset)))


def heeding(request: LeaderAndIsr, replica: Replica) -> Replica:
    return evolve(replica, leader=request.leader, leader_epoch=request.leader_epoch, isr=request.isr)


def truncated(replica: Replica, offset: int) -> Replica:
    return evolve(replica, log=replica.log[:offset], hw=min(offset, replica.hw))


# --- what a presumed leader does -----------------------------------------------------------------------------------


@attrs.frozen
class LeaderWrite(Kip320Action):
    """A presumed leader appends a producer's record; if it is a zombie, replication will tell."""

    leader: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if not state.presumes_leadership(self.leader):
            return "the replica presumes leadership"
        if state.next_record_id == machine.max_records:
            return "a record is left"
        return "" if state.replicas[self.leader].end_offset < machine.log_size else "the log has room"

    def effect(self, machine: Kip320Rules, state: State) -> State:
        own = state.replicas[self.leader]
        record = Record(state.next_record_id, own.leader_epoch)
        state = state.with_replica(self.leader, appended(own, record, own.hw))
        return evolve(state, next_record_id=state.next_record_id + 1)


def appended(replica: Replica, record: Record, hw: int) -> Replica:
    return evolve(replica, log=(*replica.log, record), hw=hw)


@attrs.frozen
class LeaderIncHighWatermark(Kip320Action):
    """A presumed leader raises its HW by one once its ISR, as it knows it, has the record at the HW."""

    leader: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if not state.presumes_leadership(self.leader):
            return "the replica presumes leadership"
        own = state.replicas[self.leader]
        if own.hw >= own.end_offset:
            return "the log reaches beyond the HW"
        return "" if machine.is_replicated(state, self.leader) else "the ISR has the record at the HW"

    def effect(self, machine: Kip320Rules, state: State) -> State:
        own = state.replicas[self.leader]
        return state.with_replica(self.leader, evolve(own, hw=own.hw + 1))


@attrs.frozen
class LeaderShrinkIsr(Kip320Action):
    """The true leader takes a follower that lags, or is of another epoch, out of the ISR, whenever it likes to."""

    leader: int
    follower: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if not machine.may_write_isr(state, self.leader):
            return "the replica is the true leader"
        if self.follower == self.leader or self.follower not in state.replicas[self.leader].isr:
            return "the follower is in the leader's ISR"
        return "the follower lags" if machine.is_caught_up(state, self.leader, self.follower) else ""

    def effect(self, machine: Kip320Rules, state: State) -> State:
        return state.with_leader_update(self.leader, state.replicas[self.leader].isr - {self.follower})


@attrs.frozen
class LeaderExpandIsr(Kip320Action):
    """The true leader lets a follower that has what may be committed into the ISR."""

    leader: int
    follower: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if not machine.may_write_isr(state, self.leader):
            return "the replica is the true leader"
        if self.follower in state.replicas[self.leader].isr:
            return "the follower is outside the leader's ISR"
        return (
            "" if machine.may_join_isr(state, self.leader, self.follower) else "the follower has what may be committed"
        )

    def effect(self, machine: Kip320Rules, state: State) -> State:
        return state.with_leader_update(self.leader, state.replicas[self.leader].isr | {self.follower})


# --- what a follower does ------------------------------------------------------------------------------------------


@attrs.frozen
class FollowerFetch(Kip320Action):
    """A follower copies the next record and takes over the leader's HW, as far as its own log goes."""

    follower: int
    leader: int

    def guard(self, machine: Kip320Rules, state: State) -> str:
        if not machine.may_fetch(state, self.leader, self.follower):
            return "the leader and the follower agree on leader and epoch"
        behind = state.replicas[self.follower].end_offset < state.replicas[self.leader].end_offset
        return "" if behind else "the leader has the record at the follower's end offset"

    def effect(self, machine: Kip320Rules, state: State) -> State:
        leader, own = state.replicas[self.leader], state.replicas[self.follower]
        hw = min(leader.hw, own.end_offset + 1)
        return state.with_replica(self.follower, appended(own, leader.log[own.end_offset], hw))
