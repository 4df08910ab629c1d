"""What processes that have died had sent, by hand and exhaustively."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import late
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append, ReceiveFetch, SendFetch
from tidegauge.spec.replication.control import ReceiveAlterPartition, ShrinkIsr
from tidegauge.spec.replication.extensions.late import (
    FetchArrivesLate,
    HeartbeatArrivesLate,
    LateMessages,
    LeftBehind,
    ProposalArrivesLate,
    ResponseArrivesLate,
)
from tidegauge.spec.replication.faults import Crash, DisconnectController, Register, Restart
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Error, FetchRequest, State

FETCH = FetchRequest(1, 0, 0, 0, -1, 0)


def walk_with(**bounds: int) -> Walk:
    return Walk(Replication(brokers=3, max_records=3, bounds=Bounds(bounds), extensions=(LateMessages(),)))


@pytest.fixture
def walk() -> Walk:
    return walk_with(Crash=9, ShrinkIsr=9, ArriveLate=9)


def test_a_fetch_arrives_when_its_sender_has_died_and_is_back(walk: Walk) -> None:
    walk.do(SendFetch(1), Crash(1, 0), Restart(1), Register(1))
    assert not walk.state.network.fetches
    assert LeftBehind.of(walk.state.replicas[1]).fetches == (FETCH,)
    walk.do(FetchArrivesLate(FETCH))
    assert walk.state.network.fetches == (FETCH,)
    assert not LeftBehind.of(walk.state.replicas[1]).fetches
    walk.do(ReceiveFetch(FETCH))
    assert not walk.state.network.fetch_responses, "nobody waits for it"


def test_nothing_arrives_at_a_process_that_has_died_too(walk: Walk) -> None:
    walk.do(SendFetch(1), Crash(1, 0), Crash(0, 0), Restart(0))
    assert not walk.enabled(FetchArrivesLate(FETCH))


def test_the_proposal_of_a_former_process_is_refused_as_such(walk: Walk) -> None:
    walk.do(Append(0), ShrinkIsr(0, (1,)))
    (proposal,) = walk.state.network.alters
    walk.do(Crash(0, 0), Restart(0), Register(0), ProposalArrivesLate(proposal), ReceiveAlterPartition(proposal))
    (response,) = walk.state.network.alter_responses
    assert response.error is Error.STALE_BROKER_EPOCH


def test_a_response_reaches_the_process_that_waits_for_it_and_no_later_one(walk: Walk) -> None:
    walk.do(Append(0), SendFetch(1), ReceiveFetch(FETCH))
    (response,) = walk.state.network.fetch_responses
    walk.do(Crash(0, 1))
    late = ResponseArrivesLate(response)
    assert walk.enabled(late)
    walk.do(late)
    assert walk.state.network.fetch_responses == (response,)
    walk.do(Crash(1, 0), Restart(1))
    assert not walk.enabled(late)


def test_a_heartbeat_of_a_former_process_unfences_nobody(walk: Walk) -> None:
    assert not walk.enabled(HeartbeatArrivesLate(1, 0)), "there was none"
    walk.do(Crash(1, 0), Restart(1), Register(1), HeartbeatArrivesLate(1, 0))
    assert walk.state.controller.sessions[1].fenced


def test_nothing_is_left_behind_that_can_no_longer_arrive() -> None:
    walk = walk_with(Crash=2, ArriveLate=1)
    walk.do(SendFetch(1), SendFetch(2), Crash(1, 0), Crash(2, 0), FetchArrivesLate(FETCH))
    assert not any(replica.parts for replica in walk.state.replicas)


@attrs.frozen
class LeaveProposals(DisconnectController):
    """A leader's connection to the controller breaks, and what it had sent by that connection may arrive later."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        proposed = any(request.leader == self.broker for request in state.network.alters)
        return super().guard(machine, state) if proposed else "nothing is on its way to the controller"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        left = tuple(request for request in state.network.alters if request.leader == self.broker)
        state = super().effect(machine, state)
        return state.with_replica(self.broker, with_part(state.replicas[self.broker], LeftBehind(proposals=left)))


@attrs.frozen
class ProposalsOutliveConnections(LateMessages):
    action_types = (*LateMessages.action_types, LeaveProposals)


def test_giving_up_relies_on_a_broken_connection_delivering_nothing_after_the_next_one_has() -> None:
    """The leader asks again, is refused and gives up; then what it sent first is written, and it would commit alone."""
    bounds = Bounds(ExpireSession=1, Disconnect=1, ArriveLate=1)
    machine = Replication(brokers=2, max_records=1, bounds=bounds, extensions=(ProposalsOutliveConnections(),))
    (violation,) = explore(machine).violations
    assert violation.invariant == "ReplicationQuorumSuperset"
    *_, arrives, received = violation.trace.actions
    assert isinstance(arrives, ProposalArrivesLate)
    assert isinstance(received, ReceiveAlterPartition)


@pytest.mark.deep
@pytest.mark.parametrize("bounds", [Bounds(ArriveLate=1, Crash=1, ShrinkIsr=1), Bounds(ArriveLate=2, Crash=1)])
def test_larger_models_hold(bounds: Bounds) -> None:
    found = explore(Replication(brokers=2, max_records=1, bounds=bounds, extensions=(LateMessages(),)), converges=True)
    assert found.holds, found.convergence
    assert (found.cut, found.unreached) == (None, ())


def test_the_model_begins_as_the_machine_without_late_messages() -> None:
    """Its states are those of the machine without them, as long as nothing is left behind."""
    (state,) = MODELS["late-messages"].machine.initial()
    (without,) = MODELS["crash"].machine.initial()
    assert state == without


@pytest.mark.parametrize("bug", late.BUGS, ids=lambda bug: bug.name)
def test_a_missing_check_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations
    assert found.violations[0].invariant in bug.violates
