"""Rules of reassignment, of log starts and of consumers' reads asked alone."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append, ReceiveFetchResponse, SendFetch
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extensions.interrupted import DieStartingOver, InterruptedStarts
from tidegauge.spec.replication.extensions.reads import Consumer, Consumers, ReadAt, Reads
from tidegauge.spec.replication.extensions.reassignment import (
    Assignment,
    CancelReassignment,
    Reassignment,
    ReplicaList,
    StartReassignment,
)
from tidegauge.spec.replication.extensions.retention import (
    ForgottenEpoch,
    LogStart,
    Retention,
    WriteLogStart,
    durable,
    started_at,
)
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown, ShuttingDown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    Controller,
    Error,
    FetchResponse,
    History,
    Record,
    RemoteReplica,
    Replica,
    Session,
    State,
)

FIRST, SECOND = Record(0, 0), Record(0, 1)


def initial(machine: Replication) -> State:
    return next(iter(machine.initial()))


# --- reassignment ----------------------------------------------------------------------------------------------------

MOVES = Replication(brokers=3, extensions=(Reassignment((0, 1)),), bounds=Bounds(StartReassignment=1))
REASSIGNMENT = Reassignment.of(MOVES)


def moving(assignment: Assignment, isr: tuple[int, ...] = (0, 1), elr: tuple[int, ...] = ()) -> Controller:
    return with_part(attrs.evolve(initial(MOVES).controller, isr=isr, elr=elr), assignment)


def under(controller: Controller, *replicas: Replica) -> State:
    state = attrs.evolve(initial(MOVES), controller=controller)
    for broker, replica in enumerate(replicas):
        state = state.with_replica(broker, replica)
    return state


@pytest.mark.parametrize(
    ("target", "assignment", "may"),
    [
        ((1, 2), Assignment((0, 1)), True),
        ((0, 1), Assignment((0, 1)), False),
        ((0, 1), Assignment((0, 1), adding=(1,)), True),
        ((1, 0), Assignment((0, 1)), True),
        ((), Assignment((0, 1)), False),
        ((1, 1), Assignment((0, 1)), False),
        ((1, 3), Assignment((0, 1)), False),
    ],
)
def test_a_partition_moves_to_other_brokers_or_back(
    target: tuple[int, ...], assignment: Assignment, *, may: bool
) -> None:
    assert (StartReassignment(target).guard(MOVES, under(moving(assignment))) == "") is may


def test_reassignments_that_name_no_brokers_are_attempted() -> None:
    attempted = [one.target for one in StartReassignment.attempts(MOVES, initial(MOVES))]
    assert attempted == [(), (0, 0), (0, 3)]


@pytest.mark.parametrize("first", [(), (0, 0), (0, 3)])
def test_initial_replicas_are_brokers_each_once(first: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"initial_replicas=.* must name brokers from 0 to 2, each once"):
        initial(Replication(brokers=3, extensions=(Reassignment(first),)))


@pytest.mark.parametrize(("min_insync", "sizes"), [(0, {1, 2, 3}), (1, {1, 2, 3}), (2, {2, 3}), (3, {3})])
def test_targets_have_as_many_brokers_as_must_be_in_sync_and_as_there_are(min_insync: int, sizes: set[int]) -> None:
    machine = attrs.evolve(MOVES, min_insync_replicas=min_insync)
    targets = list(REASSIGNMENT.target_lists(machine))
    assert {len(target) for target in targets} == sizes
    assert len(targets) == len(set(targets)) == sum({1: 3, 2: 6, 3: 6}[size] for size in sizes)


def test_there_are_as_many_replicas_as_a_broker_or_the_controller_has_in_its_list() -> None:
    assert MOVES.replica_count(moving(Assignment((0, 1)))) == 2
    assert MOVES.replica_count(with_part(Replica(), ReplicaList((0,)))) == 1
    assert MOVES.replica_count(Replica()) == 3, "it has applied no metadata"


@pytest.mark.parametrize(
    ("replicas", "leader_epoch", "broker_epoch", "has_lost"),
    [((0,), 1, 0, True), ((0, 1), 1, 0, False), ((0,), 0, 0, False), ((0, 1), 0, 1, True)],
)
def test_a_replica_that_was_taken_away_has_lost_what_a_leader_counts_on_that_does_not_know(
    replicas: tuple[int, ...], leader_epoch: int, broker_epoch: int, *, has_lost: bool
) -> None:
    leader = Replica(leader_epoch=0, remote=(RemoteReplica(), RemoteReplica(1, 0), RemoteReplica()))
    replica = with_part(Replica(leader_epoch=leader_epoch, broker_epoch=broker_epoch), ReplicaList(replicas))
    assert MOVES.has_lost_since(leader, 1, replica) is has_lost


@pytest.mark.parametrize(
    ("old", "new", "leader_epoch"),
    [
        (Assignment((0, 1)), Assignment((0, 1)), 0),
        (Assignment((0, 1)), Assignment((0, 1, 2), adding=(2,)), 0),
        (Assignment((0, 1)), Assignment((0,)), 1),
        (Assignment((0, 1)), Assignment((1,)), 1),
    ],
)
def test_one_leader_epoch_begins_when_a_replica_leaves_the_list(
    old: Assignment, new: Assignment, leader_epoch: int
) -> None:
    isr = tuple(sorted(new.replicas))[:2]
    settled, unclean = MOVES.settled(moving(old), moving(new, isr=isr))
    assert (settled.leader_epoch, unclean) == (leader_epoch, False)
    assert settled.leader == (0 if 0 in isr else 1)


class ElectsTwice(ControlledShutdown):
    """Has two leader epochs begin by one change."""

    def handed_over(self, machine: object, controller: Controller) -> tuple[Controller, bool]:
        return attrs.evolve(controller, leader_epoch=controller.leader_epoch + 2), False


def test_a_leader_epoch_that_has_begun_fences_who_left_and_none_is_taken_back() -> None:
    machine = Replication(brokers=3, extensions=(ElectsTwice(), Reassignment((0, 1))), bounds=Bounds())
    settled, _ = machine.settled(moving(Assignment((0, 1))), moving(Assignment((0,)), isr=(0,)))
    assert settled.leader_epoch == 2


class Waits(ControlledShutdown):
    """Hands over uncleanly what nobody else leads."""

    unclean: bool = True

    def handed_over(self, machine: object, controller: Controller) -> tuple[Controller, bool]:
        return controller, self.unclean


@pytest.mark.parametrize(("before", "again"), [(True, False), (False, True), (False, False)])
def test_a_change_is_unclean_if_what_it_leads_to_was(*, before: bool, again: bool) -> None:
    """By what an inner extension has made of it, or by the election that follows."""

    class Hands(Waits):
        unclean = before

    machine = Replication(
        brokers=3, unclean_leader_election=True, extensions=(Hands(), Reassignment((0, 1))), bounds=Bounds()
    )
    isr = () if again else (0, 1)
    controller = moving(Assignment((0, 1)), isr=isr)
    assert machine.settled(controller, controller)[1] is (before or again)


@pytest.mark.parametrize(
    ("assignment", "isr", "replicas"),
    [
        (Assignment((0, 1)), (0, 1), (0, 1)),
        (Assignment((1, 2, 0), (2,), (0,)), (0, 1), (1, 2, 0)),
        (Assignment((1, 2, 0), (2,), (0,)), (0, 1, 2), (1, 2)),
    ],
)
def test_a_reassignment_is_over_when_all_of_its_target_is_in_sync(
    assignment: Assignment, isr: tuple[int, ...], replicas: tuple[int, ...]
) -> None:
    before = moving(assignment, isr=isr, elr=(0,))
    after = REASSIGNMENT.completed(MOVES, before)
    assert Assignment.of(after).replicas == replicas
    if not assignment.moves:
        assert after is before


@pytest.mark.parametrize(
    ("isr", "elr", "accepts_loss", "may"),
    [((0,), (), False, True), ((), (0,), False, True), ((2,), (), False, False), ((2,), (), True, True)],
)
def test_a_move_is_cancelled_if_a_replica_remains_that_has_all_or_the_topic_accepts_loss(
    isr: tuple[int, ...], elr: tuple[int, ...], *, accepts_loss: bool, may: bool
) -> None:
    machine = attrs.evolve(MOVES, unclean_leader_election=accepts_loss)
    state = under(moving(Assignment((2, 0), (2,), (0,)), isr=isr, elr=elr))
    assert (CancelReassignment().guard(machine, state) == "") is may


@pytest.mark.parametrize(
    ("assignment", "holds"),
    [
        (Assignment((0, 1, 2), (2,), (0,)), True),
        (Assignment((0, 1, 2), (2,), (2,)), False),
        (Assignment((0, 1), (2,), ()), False),
        (Assignment((0, 1), (), (2,)), False),
    ],
)
def test_who_is_added_and_who_is_removed_are_replicas_and_nobody_is_both(
    assignment: Assignment, *, holds: bool
) -> None:
    assert MOVES.invariants["AddingAndRemovingAreReplicas"](under(moving(assignment))) is holds


@pytest.mark.parametrize(
    ("old", "new", "isr", "stops", "holds"),
    [
        (Assignment((1, 0), (), (0,)), Assignment((1,)), (1,), False, True),
        (Assignment((1, 0), (), (0,)), Assignment((1,)), (), False, False),
        (Assignment((1, 0), (), (0,)), Assignment((1,)), (), True, True),
        (Assignment((0, 1), (1,), ()), Assignment((0, 1)), (0, 1), False, True),
        (Assignment((0, 1), (1,), ()), Assignment((0, 1)), (0,), False, False),
        (Assignment((0, 1)), Assignment((0, 1)), (0,), False, True),
        (Assignment((0, 1), (1,), ()), Assignment((0, 1), (1,), ()), (0,), False, True),
    ],
)
def test_a_reassignment_ends_with_its_target_in_sync_but_for_who_is_to_stop(
    old: Assignment, new: Assignment, isr: tuple[int, ...], *, stops: bool, holds: bool
) -> None:
    ends = MOVES.step_invariants["CompletesInSync"]
    after = moving(new, isr=isr)
    if stops:
        session = with_part(Session(), ShuttingDown(asked=True))
        after = attrs.evolve(after, sessions=(session,) * 3)
    assert ends(under(moving(old)), Append(0), under(after)) is holds
    assert ends(under(moving(old)), CancelReassignment(), under(after))


def test_a_record_is_committed_on_other_brokers_altogether() -> None:
    machine = attrs.evolve(MOVES, extensions=(Reassignment((0, 1), ((2,),)),))
    goal = machine.sometimes["a record is committed on other brokers altogether"]
    for high_watermark, isr, is_reached in ((1, (2,), True), (0, (2,), False), (1, (1, 2), False)):
        leader = Replica(leader=2, leader_epoch=1, isr=isr, log=(FIRST,), high_watermark=high_watermark)
        assert goal(initial(machine).with_replica(2, leader)) is is_reached


# --- log starts ------------------------------------------------------------------------------------------------------

CLOCK = Replication(brokers=3, extensions=(Retention(written_by_clock=True),), bounds=Bounds(Crash=1, DeleteRecords=1))


def starting(offset: int, checkpoint: int, flushed: int) -> Replica:
    return with_part(Replica(log=(FIRST, SECOND, Record(0, 2)), flushed=flushed), LogStart(offset, checkpoint))


@pytest.mark.parametrize(
    ("checkpoint", "flushed", "after"),
    [(0, 0, (1, 1)), (0, 3, (1, 3)), (1, 0, (1, 1)), (1, 1, (1, 1)), (1, 3, (1, 3)), (0, 1, (1, 1))],
)
def test_what_is_written_down_of_a_log_start_is_flushed_up_to_there(
    checkpoint: int, flushed: int, after: tuple[int, int]
) -> None:
    before = starting(2, checkpoint, flushed)
    found = started_at(before, 1)
    assert (LogStart.of(found), found.flushed) == (LogStart(2, after[0]), after[1])
    assert (found is before) is ((checkpoint, flushed) == after)


@pytest.mark.parametrize(
    ("checkpoint", "flushed", "after"), [(0, 0, 3), (0, 1, 3), (0, 2, 2), (2, 1, 3), (2, 2, 2), (2, 3, 3)]
)
def test_before_a_log_start_is_told_it_is_written_and_what_is_below_it_flushed(
    checkpoint: int, flushed: int, after: int
) -> None:
    before = starting(2, checkpoint, flushed)
    found = durable(before)
    assert (LogStart.of(found), found.flushed) == (LogStart(2, 2), after)
    assert (found is before) is ((checkpoint, flushed) == (2, after))


@pytest.mark.parametrize(
    ("offset", "running", "crashes", "may"),
    [
        (1, True, 1, False),
        (2, True, 1, True),
        (3, True, 1, True),
        (4, True, 1, False),
        (2, False, 1, False),
        (2, True, 0, False),
    ],
)
def test_a_log_start_is_written_down_that_was_not_where_a_crash_may_follow(
    offset: int, crashes: int, *, running: bool, may: bool
) -> None:
    machine = attrs.evolve(CLOCK, bounds=Bounds(Crash=crashes))
    replica = attrs.evolve(starting(3, 1, 3), running=running)
    state = initial(machine).with_replica(1, replica)
    assert (WriteLogStart(1, offset).guard(machine, state) == "") is may
    assert list(WriteLogStart.candidates(machine, state)) == [WriteLogStart(1, 2), WriteLogStart(1, 3)]
    assert WriteLogStart.is_possible(machine) is bool(crashes)


def test_in_a_cluster_the_clock_writes_log_starts_down() -> None:
    assert WriteLogStart in Replication(extensions=everything()).action_types
    assert WriteLogStart not in Replication(extensions=(Retention(),)).action_types


@pytest.mark.parametrize(
    ("error", "crashes", "is_there", "may"),
    [
        (Error.OFFSET_OUT_OF_RANGE, 1, True, True),
        (Error.OK, 1, True, False),
        (Error.OFFSET_OUT_OF_RANGE, 0, True, False),
        (Error.OFFSET_OUT_OF_RANGE, 1, False, False),
    ],
)
def test_a_process_may_die_while_its_log_starts_over(error: Error, crashes: int, *, is_there: bool, may: bool) -> None:
    machine = Replication(
        brokers=3, extensions=(Retention(), InterruptedStarts()), bounds=Bounds(Crash=crashes, DeleteRecords=1)
    )
    state = machine.step(initial(machine), SendFetch(1))
    response = FetchResponse(state.network.fetches[0], error)
    if is_there:
        state = state.with_network(attrs.evolve(state.network, fetch_responses=(response,)))
    die = DieStartingOver(response)
    assert (die.guard(machine, state) == "") is may
    assert DieStartingOver.is_possible(machine) is bool(crashes)
    if may:
        assert list(DieStartingOver.candidates(machine, state)) == [die]
        after = die.effect(machine, state).replicas[1]
        assert (after.running, ForgottenEpoch.of(after).start) == (False, 0)
        received = ReceiveFetchResponse(response).effect(machine, state).replicas[1]
        assert received.running


# --- consumers' reads ------------------------------------------------------------------------------------------------

READS = Replication(brokers=3, extensions=(Reads(consumers=2),), bounds=Bounds())
KNOWS = Consumer(0, (FIRST,), 1)


def test_consumers_at_the_end_that_know_nothing_are_not_in_the_state() -> None:
    assert Consumers().changed(1, KNOWS).known == (Consumer(), KNOWS)
    assert Consumers((KNOWS,)).changed(1, KNOWS).known == (KNOWS, KNOWS)
    assert Consumers((KNOWS, KNOWS)).changed(1, Consumer()).known == (KNOWS,)
    assert Consumers((Consumer(), KNOWS)).changed(1, Consumer()).known == ()
    assert Consumers().changed(0, Consumer()).known == ()
    assert Consumers((KNOWS, KNOWS)).changed(0, Consumer()).known == (Consumer(), KNOWS)


@pytest.mark.parametrize(
    ("offset", "leader_epoch", "start", "error"),
    [
        (0, 1, 0, Error.OK),
        (1, 1, 0, Error.OFFSET_NOT_AVAILABLE),
        (2, 1, 0, Error.OFFSET_NOT_AVAILABLE),
        (3, 1, 0, Error.OFFSET_OUT_OF_RANGE),
        (0, 1, 1, Error.OFFSET_OUT_OF_RANGE),
        (0, 0, 0, Error.FENCED_LEADER_EPOCH),
        (0, 2, 0, Error.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_new_leader_shows_what_it_knows_to_be_committed(
    offset: int, leader_epoch: int, start: int, error: Error
) -> None:
    leader = Replica(log=(FIRST, SECOND), high_watermark=1, leader=0, leader_epoch=1, epoch_start_offset=2)
    leader = with_part(leader, LogStart(start))
    rules = Reads.of(READS)
    assert rules.read_error(leader, 0, offset, leader_epoch) is error
    if error is Error.OFFSET_NOT_AVAILABLE:
        knowing = attrs.evolve(leader, high_watermark=2)
        assert rules.read_error(knowing, 0, offset, leader_epoch) is Error.OK


@pytest.mark.parametrize(("offset", "error"), [(0, None), (1, Error.OK), (2, Error.OK), (3, Error.OFFSET_OUT_OF_RANGE)])
def test_a_read_is_refused_where_there_is_nothing_to_show(offset: int, error: Error | None) -> None:
    leader = attrs.evolve(initial(READS).replicas[0], log=(FIRST, SECOND), high_watermark=1)
    state = initial(READS).with_replica(0, leader)
    reason = ReadAt(0, offset, 0).guard(READS, state)
    assert reason
    assert (reason.error if isinstance(reason, Refusal) else None) is error


@pytest.mark.parametrize(
    ("known", "holds"), [((KNOWS, KNOWS), True), ((KNOWS, Consumer()), False), ((Consumer(), KNOWS), False)]
)
def test_every_consumer_comes_to_be_shown_what_is_committed(known: tuple[Consumer, ...], *, holds: bool) -> None:
    state = initial(READS)
    for broker in range(3):
        caught_up = attrs.evolve(state.replicas[broker], log=(FIRST,), high_watermark=1)
        state = state.with_replica(broker, caught_up)
    state = attrs.evolve(state, history=with_part(History(committed=(FIRST,)), Consumers(known)))
    name = "a consumer is shown all that is committed, and told where it ends"
    assert READS.converges[name](state) is holds
