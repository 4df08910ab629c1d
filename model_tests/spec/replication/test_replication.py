"""The replication machine, rule by rule, and exhaustively in small models."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.model_tests.spec.replication.walk import PLENTY, Walk
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.replication.actions import Append, HoldFetch, ReceiveFetch, SendFetch
from tidegauge.spec.replication.control import (
    ApplyMetadata,
    PreferredElection,
    PullMetadata,
    ReceiveAlterPartition,
    ReceiveAlterPartitionResponse,
    RetryAlterPartition,
    ShrinkIsr,
    UncleanElection,
)
from tidegauge.spec.replication.faults import (
    CheckpointHighWatermark,
    ControllerFailover,
    Crash,
    Disconnect,
    DisconnectController,
    ExpireSession,
    Flush,
    Pause,
    Register,
    Restart,
    Resume,
    Unfence,
)
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import NONE, Acks, Error, State, sent


@pytest.fixture
def three() -> Walk:
    return Walk(Replication(brokers=3, max_records=9, min_insync_replicas=2, bounds=PLENTY, acks=tuple(Acks)))


# --- high watermark --------------------------------------------------------------------------------------------


def test_a_record_is_committed_when_every_member_of_the_isr_has_fetched_past_it(three: Walk) -> None:
    three.do(Append(0)).fetch(1, 2).fetch(1)
    assert three.hw(0) == 0
    three.fetch(2)
    assert three.hw(0) == 1
    assert three.state.history.acknowledged == (0,)


def test_a_follower_learns_the_high_watermark_with_the_response_to_its_next_fetch(three: Walk) -> None:
    three.do(Append(0)).fetch(1, 2).fetch(1, 2)
    assert (three.hw(1), three.hw(2)) == (0, 1)
    three.fetch(1)
    assert three.hw(1) == 1


def test_a_new_leader_does_not_move_the_high_watermark_before_the_isr_has_fetched_in_its_epoch(three: Walk) -> None:
    three.do(Append(0)).fetch(1, 2).do(ExpireSession(0), ApplyMetadata(1))
    assert three.state.replicas[1].isr == (1, 2)
    assert three.hw(1) == 0
    three.do(ApplyMetadata(2)).fetch(2)
    assert three.hw(1) == 1


def test_a_leader_with_too_small_an_isr_commits_nothing_and_refuses_acks_all(three: Walk) -> None:
    three.do(Append(0, Acks.LEADER), ShrinkIsr(0, (1, 2))).decide().learn()
    assert three.state.controller.isr == (0,)
    assert three.state.controller.elr == (1, 2)
    assert three.hw(0) == 0
    assert not three.enabled(Append(0, Acks.ALL))
    assert three.enabled(Append(0, Acks.LEADER))


def test_a_long_poll_takes_note_of_the_follower_and_is_completed_later(three: Walk) -> None:
    three.do(Append(0)).fetch(1, 2).ask(1, 2)
    three.do(HoldFetch(three.asked(1)), HoldFetch(three.asked(2)))
    assert three.hw(0) == 1
    three.do(Append(0)).arrive(1)
    (response,) = three.state.network.fetch_responses
    assert [record.value for record in response.records] == [1]


# --- fencing and truncation --------------------------------------------------------------------------------------


def test_a_fetch_of_an_older_epoch_is_refused(three: Walk) -> None:
    three.ask(2).do(ExpireSession(0), ApplyMetadata(0)).arrive(2)
    assert [m.error for m in three.state.network.fetch_responses] == [Error.FENCED_LEADER_EPOCH]


def test_a_fetch_of_a_newer_epoch_is_refused(three: Walk) -> None:
    three.do(ExpireSession(0), ApplyMetadata(2)).ask(2).arrive(2)
    assert [m.error for m in three.state.network.fetch_responses] == [Error.UNKNOWN_LEADER_EPOCH]


def test_a_fetch_of_a_followers_former_process_is_refused(three: Walk) -> None:
    """Such a one is late: the network of this machine loses it with the process, that of a cluster need not."""
    late = three.ask(1).asked(1)
    three.do(Crash(1, kept=0), Restart(1), Register(1), ApplyMetadata(0), ApplyMetadata(1)).fetch(1)
    leader = three.state.replicas[0]
    assert leader.remote[1].broker_epoch > late.broker_epoch
    assert three.machine.fetch_error(leader, 0, late) is Error.NOT_LEADER_OR_FOLLOWER
    assert three.machine.fetch_error(leader, 0, attrs.evolve(late, broker_epoch=1)) is Error.OK


def test_a_follower_cuts_the_tail_that_the_leader_lacks_and_nothing_else(three: Walk) -> None:
    three.do(Append(0)).fetch(1, 2).do(Append(0), Append(0))
    three.do(ExpireSession(0), ApplyMetadata(1), ApplyMetadata(2), Append(1), ApplyMetadata(0)).fetch(0)
    assert three.values(0) == [0]
    three.fetch(0)
    assert three.values(0) == three.values(1) == [0, 3]


def test_a_response_of_an_earlier_epoch_is_dropped(three: Walk) -> None:
    three.do(Append(0)).ask(2).arrive(2).do(ExpireSession(0), ApplyMetadata(2)).receive(2)
    assert three.values(2) == []


def test_a_duplicate_of_a_fetch_is_handled_twice_with_one_response(three: Walk) -> None:
    three.do(Append(0)).ask(1)
    request = three.asked(1)
    three.do(ReceiveFetch(request, duplicate=True)).receive(1).do(ReceiveFetch(request))
    assert three.state.network.fetch_responses == ()
    assert three.values(1) == [0]


# --- ISR changes -------------------------------------------------------------------------------------------------


def shrunk(walk: Walk) -> Walk:
    """Broker 2 lags and is out of the ISR; 0 and 1 have committed a record that it lacks."""
    return walk.do(Append(0)).fetch(1).fetch(1).do(ShrinkIsr(0, (2,))).decide().learn()


def test_the_isr_has_shrunk_when_the_controller_has_written_it_and_the_leader_has_learnt_it(three: Walk) -> None:
    three.do(Append(0)).fetch(1).fetch(1).do(ShrinkIsr(0, (2,))).decide()
    assert three.state.controller.isr == (0, 1)
    assert three.hw(0) == 0
    three.learn()
    assert three.hw(0) == 1


def test_a_follower_that_has_caught_up_joins_and_is_waited_for_before_that_is_confirmed(three: Walk) -> None:
    shrunk(three).fetch(2).fetch(2)
    assert three.state.replicas[0].maximal_isr == (0, 1, 2)
    three.do(Append(0)).fetch(1).fetch(1)
    assert three.hw(0) == 1
    three.decide().learn().fetch(2).fetch(2)
    assert three.hw(0) == 2


def test_an_isr_change_is_conditional_on_the_partition_epoch(three: Walk) -> None:
    three.do(Append(0), ShrinkIsr(0, (1,)), ExpireSession(2)).decide()
    assert three.decisions() == [Error.INVALID_UPDATE_VERSION]
    assert three.state.controller.isr == (0, 1)


def test_a_deposed_leader_can_not_change_the_isr(three: Walk) -> None:
    three.do(Append(0), ShrinkIsr(0, (1,)), ExpireSession(0)).decide()
    assert three.decisions() == [Error.FENCED_LEADER_EPOCH]


def test_a_fenced_broker_is_refused_and_its_leader_gives_the_proposal_up(three: Walk) -> None:
    shrunk(three).do(ExpireSession(2)).fetch(2).fetch(2).decide()
    assert three.decisions() == [Error.INELIGIBLE_REPLICA]
    three.learn()
    assert three.state.replicas[0].pending_isr == ()


def test_a_proposal_that_was_written_is_not_written_twice(three: Walk) -> None:
    three.do(Append(0), ShrinkIsr(0, (2,))).decide().do(DisconnectController(0), RetryAlterPartition(0)).decide()
    assert three.decisions() == [Error.INVALID_UPDATE_VERSION]
    three.learn()
    assert three.state.replicas[0].pending_isr == (0, 1)
    three.do(ApplyMetadata(0))
    assert not three.state.replicas[0].pending_isr
    assert three.state.replicas[0].isr == (0, 1)


def test_a_response_of_an_older_controller_is_refused(three: Walk) -> None:
    three.do(Append(0), ShrinkIsr(0, (2,))).decide().do(ControllerFailover())
    three.do(ApplyMetadata(0), Append(0)).fetch(1).do(ShrinkIsr(0, (1,)))
    assert three.state.replicas[0].pending_isr == (0,)
    three.learn()
    assert three.state.replicas[0].pending_isr == (0,)


# --- elections and membership ------------------------------------------------------------------------------------


def test_an_eligible_replica_whose_session_expires_stays_eligible(three: Walk) -> None:
    three.do(ShrinkIsr(0, (1, 2))).decide().learn().do(ExpireSession(1))
    assert three.state.controller.elr == (1, 2)
    three.do(ExpireSession(0), ExpireSession(2), Unfence(1))
    assert (three.state.controller.leader, three.state.controller.elr) == (1, (0, 2))


def test_the_first_live_member_of_the_isr_in_replica_order_leads(three: Walk) -> None:
    three.do(ExpireSession(0))
    assert (three.state.controller.leader, three.state.controller.leader_epoch) == (1, 1)


def test_a_broker_may_act_on_what_the_controller_said_before_it_changed_its_mind() -> None:
    walk = Walk(Replication(brokers=3, delayed_metadata=True, bounds=PLENTY))
    walk.do(ExpireSession(0), PullMetadata(2), ExpireSession(1), ApplyMetadata(2))
    assert (walk.state.replicas[2].leader, walk.state.controller.leader) == (1, 2)
    walk.do(ApplyMetadata(2))
    assert walk.state.replicas[2].leader == 2


def test_preferred_election_gives_the_first_replica_its_partition_back(three: Walk) -> None:
    three.do(ExpireSession(0), ApplyMetadata(1), ApplyMetadata(0), Unfence(0)).fetch(0).decide()
    assert three.state.controller.isr == (0, 1, 2)
    three.do(PreferredElection())
    assert three.state.controller.leader == 0


def test_a_partition_without_live_members_is_offline_until_one_returns(three: Walk) -> None:
    three.do(ExpireSession(0), ExpireSession(1), ExpireSession(2))
    controller = three.state.controller
    assert (controller.leader, controller.isr, controller.elr) == (NONE, (), (1, 2))
    three.do(Unfence(0))
    assert three.state.controller.leader == NONE
    three.do(Unfence(2))
    assert (three.state.controller.leader, set(three.state.controller.isr)) == (2, {2})


def test_an_unclean_election_loses_exactly_what_the_new_leader_lacked(three: Walk) -> None:
    shrunk(three).do(ExpireSession(2), ExpireSession(1), ExpireSession(0), Unfence(2))
    assert three.state.controller.leader == NONE
    three.do(UncleanElection(), ApplyMetadata(2))
    assert three.state.controller.leader == 2
    assert three.state.history.lost == (0,)
    assert not three.state.history.committed


def test_a_crash_takes_the_unflushed_tail_and_the_broker_out_of_the_isr(three: Walk) -> None:
    three.do(Append(0)).fetch(1).do(Flush(1), Append(0)).fetch(1).do(Crash(1, 1), Restart(1))
    assert three.state.controller.isr == (0, 1, 2)
    three.do(Register(1))
    assert set(three.state.controller.isr) == {0, 2}
    assert three.state.controller.sessions[1].broker_epoch == 1
    assert not three.enabled(Unfence(1))
    assert three.enabled(ApplyMetadata(1))


def test_the_high_watermark_restarts_from_its_checkpoint_but_never_beyond_the_log(three: Walk) -> None:
    three.do(Append(0)).fetch(1, 2).fetch(1, 2).do(CheckpointHighWatermark(0), Crash(0, 0), Restart(0))
    assert three.hw(0) == 0
    three.do(CheckpointHighWatermark(2), Flush(2), Crash(2, 1), Restart(2))
    assert three.hw(2) == 1


def test_a_paused_broker_does_nothing_and_knows_nothing_of_it(three: Walk) -> None:
    three.do(Pause(0), ExpireSession(0))
    assert not three.enabled(Append(0))
    three.do(Resume(0))
    assert three.enabled(Append(0))


def test_a_broken_connection_loses_the_fetch_and_its_response(three: Walk) -> None:
    three.do(SendFetch(1), Disconnect(1, 0))
    assert three.state.network.fetches == ()
    assert three.enabled(SendFetch(1))


def test_a_guard_that_fails_says_why(three: Walk) -> None:
    with pytest.raises(NotEnabled, match="broker 1 does not think it leads"):
        three.do(Append(1))


# --- small models, exhaustively ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("acks", "controller", "crash", "unclean", "network")[: amount(2, deep=5)])
def test_every_reachable_state_satisfies_every_invariant(name: str) -> None:
    exploration = explore(MODELS[name].machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations[0]
    assert not exploration.unreached
    assert counted(exploration) == COUNTS[name]


@pytest.mark.deep
@pytest.mark.parametrize("name", MODELS)
def test_every_model_holds_and_reaches_its_goals(name: str) -> None:
    exploration = explore(MODELS[name].machine, converges=True)
    assert exploration.holds, exploration.violations[0]
    assert not exploration.unreached


def test_the_models_together_turn_every_perturbation_on() -> None:
    machines = [model.machine for model in MODELS.values()]
    turned_on = {name for machine in machines for name in machine.bounds}
    assert turned_on == {name for machine in machines for name in machine.perturbations}


def test_the_initial_leader_must_be_in_the_initial_isr() -> None:
    with pytest.raises(ValueError, match="initial_leader=2"):
        explore(attrs.evolve(Replication(), initial_leader=2, initial_isr=(0, 1)))


# --- what the protocol relies on ---------------------------------------------------------------------------------


@attrs.frozen
class ReceiveAlterPartitionTwice(ReceiveAlterPartition):
    """A proposal of which a second copy is still on its way, as no connection of TCP would have it."""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        after = super().effect(machine, state)
        alters = sent(after.network.alters, self.request)
        return attrs.evolve(after, network=attrs.evolve(after.network, alters=alters))


@attrs.frozen
class ProposalsArriveTwice(Replication):
    action_types = (*Replication.action_types, ReceiveAlterPartitionTwice)


def test_giving_up_a_refused_proposal_relies_on_each_being_delivered_once() -> None:
    """The leader forgets a member that the controller writes into the ISR after all, and would commit without it."""
    exploration = explore(ProposalsArriveTwice(brokers=2, max_records=1, bounds=Bounds(ExpireSession=1)))
    assert exploration.violations[0].invariant == "ReplicationQuorumSuperset"
    refused = [a for a in exploration.violations[0].trace.actions if isinstance(a, ReceiveAlterPartitionResponse)]
    assert [a.response.error for a in refused] == [Error.INELIGIBLE_REPLICA]


def test_an_action_that_is_printed_names_what_the_producer_waits_for() -> None:
    assert str(Append(0)) == "Append(broker=0, acks=ALL)"
