"""Rules of replication asked alone, in states to which walks and small models seldom come."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.actions import ReceiveFetch, SendFetch, advance_high_watermark
from tidegauge.spec.replication.control import ApplyMetadata, become_leader
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    Controller,
    FetchRequest,
    PartitionMetadata,
    Record,
    RemoteReplica,
    Replica,
    Session,
    State,
)

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
