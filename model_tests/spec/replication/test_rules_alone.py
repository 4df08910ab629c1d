"""Rules of replication asked alone, in states to which walks and small models seldom come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from tidegauge.spec.bugs import BUGS
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import (
    Append,
    HoldFetch,
    ReceiveFetch,
    ReceiveFetchResponse,
    SendFetch,
    advance_high_watermark,
)
from tidegauge.spec.replication.control import (
    ApplyMetadata,
    PreferredElection,
    PullMetadata,
    ReceiveAlterPartitionResponse,
    ShrinkIsr,
    become_leader,
    metadata_applied,
    settles_proposal,
)
from tidegauge.spec.replication.extensions.damage import Damage, Damaged, Eligible, LoseEnd
from tidegauge.spec.replication.extensions.deletion import Deletion, FetchOfFormer
from tidegauge.spec.replication.extensions.lost_logs import LostReplicas, Unassigned
from tidegauge.spec.replication.extensions.reassignment import Assignment, Reassignment
from tidegauge.spec.replication.extensions.retention import FollowerLogStart
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.faults import ControllerFailover, HeartbeatOfFormerProcess, Pause
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    AlterPartitionResponse,
    Controller,
    Error,
    FetchRequest,
    FetchResponse,
    PartitionMetadata,
    Record,
    RemoteReplica,
    Replica,
    Session,
    State,
    fields_within,
    in_order,
    received,
    responses_of,
)
from tidegauge.spec.replication.symmetry import names_of, renamed_brokers, renamed_state

MACHINE = Replication(brokers=3, max_records=3, bounds=Bounds())
FIRST, SECOND, THIRD = (Record(0, value) for value in range(3))


def initial(machine: Replication = MACHINE) -> State:
    return next(iter(machine.initial()))


def controller(*fenced: int, isr: tuple[int, ...], elr: tuple[int, ...] = (), last_known_leader: int = 0) -> Controller:
    sessions = tuple(Session(fenced=broker in fenced) for broker in range(3))
    before = initial().controller
    return attrs.evolve(before, sessions=sessions, isr=isr, elr=elr, last_known_leader=last_known_leader)


def test_a_response_has_any_number_of_records_but_no_negative_one() -> None:
    state = MACHINE.step(initial(), SendFetch(1))
    (request,) = state.network.fetches
    assert not ReceiveFetch(request, 0).guard(MACHINE, state)
    assert ReceiveFetch(request, -1).guard(MACHINE, state)


def test_a_broker_that_is_none_may_not_be_in_sync() -> None:
    assert MACHINE.is_eligible_for_isr(initial().controller, 2, NONE)
    assert not MACHINE.is_eligible_for_isr(initial().controller, 3, NONE)


def test_a_fenced_leader_is_replaced_though_nobody_else_is_in_sync() -> None:
    kept, _ = MACHINE.with_leader(controller(isr=(0,)))
    assert kept.leader == 0
    assert MACHINE.elect(controller(0, isr=(0,)), unclean=False) == (NONE, False)
    replaced, _ = MACHINE.with_leader(controller(0, isr=(0,)))
    assert replaced.leader == NONE


@pytest.mark.parametrize(
    ("isr", "elr", "leader"), [((), (), 0), ((1,), (), NONE), ((), (1,), NONE), ((), (0,), 0), ((0,), (1,), 0)]
)
def test_the_last_known_leader_is_elected_if_nobody_else_is_waited_for(
    isr: tuple[int, ...], elr: tuple[int, ...], leader: int
) -> None:
    assert MACHINE.elect(controller(1, 2, isr=isr, elr=elr), unclean=False)[0] == leader


@pytest.mark.parametrize(
    ("pending", "known", "may"), [((0, 1, 2), 1, True), ((0, 1, 2), 0, False), ((0, 1, 2), NONE, True), ((), 0, True)]
)
def test_a_new_process_of_a_proposed_replica_does_not_update_what_its_leader_knows(
    pending: tuple[int, ...], known: int, *, may: bool
) -> None:
    request = FetchRequest(follower=2, leader=0, leader_epoch=0, offset=1, last_fetched_epoch=0, broker_epoch=1)
    remote = (RemoteReplica(), RemoteReplica(), RemoteReplica(1, known))
    leader = Replica(leader=0, isr=(0, 1), pending_isr=pending, remote=remote)
    assert MACHINE.may_update_follower(leader, request) is may
    assert MACHINE.may_update_follower(attrs.evolve(leader, isr=(0, 1, 2)), request)


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [(2, 1, (0, 3)), (3, 0, None), (2, 0, None), (4, 0, (0, 3)), (0, NONE, None)],
)
def test_logs_diverge_where_the_leader_lacks_the_epoch_or_the_offset(
    offset: int, epoch: int, diverging: tuple[int, int] | None
) -> None:
    request = FetchRequest(1, 0, 2, offset, epoch, 0)
    assert MACHINE.diverging_epoch(Replica(log=(FIRST, SECOND, THIRD)), request) == diverging


@pytest.mark.parametrize(
    ("log", "committed", "lost"),
    [
        ((FIRST,), (FIRST,), (1, 2)),
        ((FIRST, Record(1, 9)), (FIRST,), (1, 2)),
        ((FIRST, SECOND, THIRD), (FIRST, SECOND, THIRD), ()),
        ((), (), (0, 1, 2)),
    ],
)
def test_a_leader_that_takes_over_uncleanly_settles_what_is_lost(
    log: tuple[Record, ...], committed: tuple[Record, ...], lost: tuple[int, ...]
) -> None:
    promised = attrs.evolve(
        initial().history, acknowledged=(0, 1), committed=(FIRST, SECOND, THIRD), superseded_epoch=2
    )
    state = attrs.evolve(initial(), history=attrs.evolve(promised, unsettled=True))
    after = become_leader(MACHINE, state, 1, Replica(leader=1, leader_epoch=2, log=log)).history
    assert (after.committed, after.lost, after.unsettled) == (committed, lost, False)
    assert become_leader(MACHINE, state, 1, Replica(leader=1, leader_epoch=1, log=log)).history == state.history
    settled = attrs.evolve(state, history=promised)
    assert become_leader(MACHINE, settled, 1, Replica(leader=1, leader_epoch=2, log=log)).history == promised


@pytest.mark.parametrize(
    ("before", "superseded_epoch", "committed"),
    [
        ((), NONE, (FIRST, SECOND)),
        ((FIRST,), NONE, (FIRST, SECOND)),
        ((THIRD,), NONE, (THIRD,)),
        ((FIRST, SECOND, THIRD), NONE, (FIRST, SECOND, THIRD)),
        ((), 1, ()),
    ],
)
def test_what_a_leader_commits_goes_on_from_what_is_committed(
    before: tuple[Record, ...], superseded_epoch: int, committed: tuple[Record, ...]
) -> None:
    state = initial()
    leader = attrs.evolve(state.replicas[0], log=(FIRST, SECOND), isr=(0,))
    promised = attrs.evolve(state.history, acks=(Acks.ALL,) * 3, committed=before, superseded_epoch=superseded_epoch)
    after = advance_high_watermark(MACHINE, attrs.evolve(state.with_replica(0, leader), history=promised), 0)
    assert after.replicas[0].high_watermark == 2
    assert after.history.committed == committed


@pytest.mark.parametrize(
    ("controller_epoch", "partition_epoch", "applies"), [(5, 5, True), (4, 5, False), (5, 4, False), (4, 6, False)]
)
def test_older_metadata_are_dropped(controller_epoch: int, partition_epoch: int, *, applies: bool) -> None:
    machine = Replication(brokers=3, delayed_metadata=True, bounds=Bounds())
    pulled = PartitionMetadata(controller_epoch, 1, 9, partition_epoch, (0, 1))
    state = initial(machine)
    old = attrs.evolve(state.replicas[2], controller_epoch=5, partition_epoch=5)
    after = ApplyMetadata(2).effect(machine, state.with_replica(2, attrs.evolve(old, pulled=pulled))).replicas[2]
    assert (after != old) is applies
    assert after.leader_epoch == (9 if applies else old.leader_epoch)


def test_a_paused_leader_holds_no_fetch() -> None:
    machine = Replication(brokers=3, long_polls=True, bounds=Bounds(Pause=1))
    state = machine.step(initial(machine), SendFetch(1))
    held = HoldFetch(state.network.fetches[0])
    assert not held.guard(machine, state)
    assert held.guard(machine, machine.step(state, Pause(0)))


def test_a_response_that_nobody_waits_for_changes_no_log() -> None:
    """Of two responses to one fetch the second one says nothing, though it begins where the log still ends."""
    asked = MACHINE.step(initial(), SendFetch(1))
    (request,) = asked.network.fetches
    response = FetchResponse(request, records=(FIRST,), high_watermark=1)
    arriving = asked.with_network(attrs.evolve(asked.network, fetch_responses=(response,)))
    received = ReceiveFetchResponse(response).effect(MACHINE, arriving)
    assert received.replicas[1].log == (FIRST,)
    gone = attrs.evolve(arriving.replicas[1], outstanding=())
    after = ReceiveFetchResponse(response).effect(MACHINE, arriving.with_replica(1, gone))
    assert (after.replicas[1], after.network.fetch_responses) == (gone, ())


def test_an_isr_shrinks_by_somebody() -> None:
    machine = Replication(brokers=3, bounds=Bounds(ShrinkIsr=1))
    state = machine.step(initial(machine), Append(0))
    assert not ShrinkIsr(0, (1, 2)).guard(machine, state)
    assert ShrinkIsr(0, ()).guard(machine, state)


OPEN = Replica(leader=0, leader_epoch=3, partition_epoch=5, controller_epoch=2, isr=(0, 1), pending_isr=(0, 1, 2))
"""A leader that waits for the outcome of its proposal."""
WRITTEN = AlterPartitionResponse(0, 3, 5, Error.OK, (0, 1, 2), partition_epoch=6, controller_epoch=2)
"""What settles it."""


@pytest.mark.parametrize(
    ("leader", "response", "settles"),
    [
        ({}, {}, True),
        ({}, {"controller_epoch": 3}, True),
        ({}, {"controller_epoch": 1}, False),
        ({}, {"leader_epoch": 2}, False),
        ({}, {"proposed_on": 4}, False),
        ({"leader": 1}, {}, False),
        ({"pending_isr": ()}, {}, False),
    ],
)
def test_a_proposal_is_settled_by_the_response_to_it_and_no_other(
    leader: dict[str, Any], response: dict[str, Any], *, settles: bool
) -> None:
    assert settles_proposal(attrs.evolve(OPEN, **leader), 0, attrs.evolve(WRITTEN, **response)) is settles


@pytest.mark.parametrize(
    ("error", "partition_epoch", "isr", "pending"),
    [
        (Error.OK, 6, (0, 1, 2), ()),
        (Error.OK, 5, (0, 1), (0, 1, 2)),
        (Error.OK, 4, (0, 1), (0, 1, 2)),
        (Error.INELIGIBLE_REPLICA, 5, (0, 1), ()),
        (Error.INVALID_UPDATE_VERSION, 6, (0, 1), (0, 1, 2)),
    ],
)
def test_what_the_controller_has_written_counts_if_it_is_newer(
    error: Error, partition_epoch: int, isr: tuple[int, ...], pending: tuple[int, ...]
) -> None:
    response = attrs.evolve(WRITTEN, error=error, partition_epoch=partition_epoch)
    leader = attrs.evolve(OPEN, remote=(RemoteReplica(),) * 3)
    state = initial().with_replica(0, leader)
    arriving = state.with_network(attrs.evolve(state.network, alter_responses=(response,)))
    after = ReceiveAlterPartitionResponse(response).effect(MACHINE, arriving)
    assert (after.replicas[0].isr, after.replicas[0].pending_isr, after.network.alter_responses) == (isr, pending, ())


def test_responses_that_are_attempted_tell_of_the_next_partition_epoch() -> None:
    state = initial().with_replica(0, OPEN)
    attempted = [one.response for one in ReceiveAlterPartitionResponse.attempts(MACHINE, state)]
    assert WRITTEN in attempted
    assert all(response.partition_epoch == 6 and response.isr == (0, 1, 2) for response in attempted)


def test_metadata_are_pulled_where_a_broker_may_act_on_them_later() -> None:
    for delayed in (True, False):
        machine = Replication(brokers=3, delayed_metadata=delayed, bounds=Bounds(ControllerFailover=1))
        state = machine.step(initial(machine), ControllerFailover())
        assert (PullMetadata(1).guard(machine, state) == "") is delayed


def test_what_a_broker_has_pulled_it_acts_on_though_there_is_nothing_new() -> None:
    machine = Replication(brokers=3, delayed_metadata=True, bounds=Bounds())
    state = initial(machine)
    assert ApplyMetadata(1).guard(machine, state)
    pulled = attrs.evolve(state.replicas[1], pulled=machine.metadata(state.controller))
    assert not ApplyMetadata(1).guard(machine, state.with_replica(1, pulled))


@pytest.mark.parametrize("isr", [(0, 0), (0, 3)])
def test_an_initial_isr_names_brokers_each_once(isr: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="each once"):
        initial(Replication(brokers=3, initial_isr=isr))


@pytest.mark.parametrize(("isr", "fenced", "may"), [((0, 1), (), True), ((1,), (), False), ((0, 1), (0,), False)])
def test_the_preferred_replica_is_elected_if_it_is_in_sync_and_not_fenced(
    isr: tuple[int, ...], fenced: tuple[int, ...], *, may: bool
) -> None:
    machine = Replication(brokers=3, bounds=Bounds(PreferredElection=1))
    elsewhere = attrs.evolve(controller(*fenced, isr=isr), leader=1)
    state = attrs.evolve(initial(machine), controller=elsewhere)
    assert (PreferredElection().guard(machine, state) == "") is may


def test_a_follower_cuts_nothing_before_its_leader_has_shown_where_the_logs_part() -> None:
    """KAFKA-1211 cut to the high watermark; a broker that knows of no leader cut nothing even so."""
    buggy = BUGS["kafka_1211"].machine()
    for machine, leader, kept in ((MACHINE, 0, 2), (buggy, 0, 0), (buggy, NONE, 2)):
        state = initial()
        replica = attrs.evolve(state.replicas[1], log=(FIRST, SECOND))
        metadata = PartitionMetadata(0, leader, 1, 1, (0,))
        after = metadata_applied(machine, state, 1, replica, metadata).replicas[1]
        assert (len(after.log), after.leader_epoch) == (kept, 1)


def test_a_machine_has_what_its_extensions_add() -> None:
    machine = Replication(
        brokers=3, extensions=(ControlledShutdown(), Damage(), Reassignment((0, 1, 2)), Deletion()), bounds=Bounds()
    )
    assert {FetchOfFormer, HeartbeatOfFormerProcess} <= {*machine.refused_types}
    assert {LoseEnd, ReceiveFetchResponse} <= {*machine.cutting_types}
    assert {Damaged, Assignment} <= {*machine.part_types}
    exchanged = machine.exchanged(Reassignment, Reassignment)
    assert exchanged == machine
    assert next(iter(exchanged.initial())) == next(iter(machine.initial()))


def test_only_what_is_of_the_partition_is_in_its_registration() -> None:
    """What the controller knows of a directory is not: it begins no partition epoch."""
    known = initial().controller
    assert with_part(known, LostReplicas((1,))).registration != known.registration
    assert with_part(known, Unassigned((1,))).registration == known.registration


def test_what_is_asked_of_messages_is_asked_of_all_their_fields() -> None:
    asked = FetchRequest(2, 0, 0, 0, 0, 0)
    later, other = FetchResponse(attrs.evolve(asked, offset=1)), FetchResponse(attrs.evolve(asked, leader=1))
    first = FetchResponse(asked)
    assert in_order((other, later, first)) == (first, later, other)
    assert responses_of((first, later, other), 0) == (first, later)
    assert received((first, later), attrs.evolve(first)) == (later,)


@pytest.mark.parametrize(
    ("offset", "kept"), [(0, (0, 0, 0)), (1, (1, 1, 1)), (2, (2, 2, 1)), (3, (3, 2, 1)), (4, (3, 2, 1))]
)
def test_of_a_log_that_is_cut_nothing_is_flushed_or_committed_beyond_its_end(
    offset: int, kept: tuple[int, int, int]
) -> None:
    replica = Replica(log=(FIRST, SECOND, THIRD), flushed=2, high_watermark=1)
    after = MACHINE.truncated(replica, offset)
    assert (after.log_end_offset, after.flushed, after.high_watermark) == kept


@pytest.mark.parametrize(("epoch", "found"), [(NONE, (NONE, 0)), (0, (0, 2)), (1, (0, 2)), (2, (2, 3)), (3, (2, 3))])
def test_an_epoch_ends_where_a_later_one_begins(epoch: int, found: tuple[int, int]) -> None:
    assert MACHINE.end_offset_for_epoch((FIRST, SECOND, Record(2, 9)), epoch) == found


@pytest.mark.parametrize(
    ("leader", "permutation", "names"),
    [(0, (1, 0), (0, 2, 1)), (1, (1, 0), (2, 1, 0)), (2, (1, 0), (1, 0, 2)), (0, (0, 1), (0, 1, 2))],
)
def test_followers_are_renamed_and_the_leader_never(
    leader: int, permutation: tuple[int, ...], names: tuple[int, ...]
) -> None:
    assert names_of(3, leader, permutation) == names
    assert renamed_brokers((NONE, 0, 1, 2), names) == (NONE, 0, 1, 2)
    assert renamed_brokers((0,), names) == (names[0],)


@attrs.frozen
class Friend(Part):
    """Of anything: a broker."""

    broker: int = NONE

    def renamed(self, names: Sequence[int]) -> Friend:
        return Friend(names[self.broker])


def test_what_a_leader_knows_of_a_follower_is_renamed() -> None:
    state = initial()
    remote = (*state.replicas[0].remote[:1], with_part(RemoteReplica(1), Friend(2)), RemoteReplica())
    renamed = renamed_state(state.with_replica(0, attrs.evolve(state.replicas[0], remote=remote)), (0, 2, 1))
    assert renamed.replicas[0].remote == (remote[0], remote[2], with_part(RemoteReplica(1), Friend(1)))


def test_messages_are_ordered_by_all_fields_and_those_of_the_request_within() -> None:
    request = ["follower", "leader", "leader_epoch", "offset", "last_fetched_epoch", "broker_epoch", "parts"]
    assert list(fields_within(FetchRequest)) == request
    own = ["error", "records", "high_watermark", "diverging_epoch", "diverging_end_offset", "parts"]
    assert list(fields_within(FetchResponse)) == [*(f"request.{name}" for name in request), *own]


def test_parts_are_renamed_with_what_they_are_of() -> None:
    """Of metadata, replicas and the controller; what names no broker stays."""
    machine = Replication(brokers=3, extensions=(ControlledShutdown(), Damage()), bounds=Bounds())
    state = initial(machine)
    pulled = with_part(machine.metadata(state.controller), Eligible((1,)))
    remote = (*state.replicas[0].remote[:1], with_part(RemoteReplica(1), FollowerLogStart(2)), RemoteReplica())
    state = state.with_replica(0, attrs.evolve(state.replicas[0], remote=remote))
    state = state.with_replica(1, with_part(attrs.evolve(state.replicas[1], pulled=pulled), Damaged(3)))
    renamed = renamed_state(state, (0, 2, 1))
    found = renamed.replicas[2].pulled
    assert found is not None
    assert (Eligible.of(found).brokers, Damaged.of(renamed.replicas[2]).start) == ((2,), 3)
    assert renamed.replicas[0].remote[2] == remote[1]
    assert renamed_state(renamed, (0, 2, 1)) == state
