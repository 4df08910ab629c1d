"""Where validation is looser than the specification it is so for a disk or a log of which a run has shown it.

Outside of that it is as strict: what a bug of the implementation would have to say is no behaviour.
"""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import attrs
import pytest
import trio
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.failing_disk import Operation
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.impl.wire.channel import NoResponseError
from tidegauge.model_tests.harness.simulation.options import Fault, draw
from tidegauge.model_tests.harness.simulation.simulation import simulate
from tidegauge.model_tests.harness.validation import observed
from tidegauge.model_tests.harness.validation.followed import Followed, Settings
from tidegauge.model_tests.harness.validation.incarnations import told_apart, with_values
from tidegauge.model_tests.harness.validation.observed import (
    ForgetFollowers,
    Observed,
    TakeInPart,
    Taken,
    observed_machine,
)
from tidegauge.model_tests.harness.validation.registrations import Registrations
from tidegauge.model_tests.harness.validation.validation import Validated, validate
from tidegauge.model_tests.simulated import simulated
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append, ReceiveFetchResponse, on_network
from tidegauge.spec.replication.composed import low_watermark_is_true
from tidegauge.spec.replication.extensions.damage import LoseEnd
from tidegauge.spec.replication.extensions.deletion import Deleted
from tidegauge.spec.replication.extensions.lost_logs import LoseLog
from tidegauge.spec.replication.extensions.retention import FollowerLogStart, ForgottenEpoch, LogStart
from tidegauge.spec.replication.faults import Crash
from tidegauge.spec.replication.state import NONE, FetchRequest, FetchResponse, Record, State

MACHINE = observed_machine(2, 1, unclean_leader_election=False)
LOSES = LoseLog(1)
FLUSHED = {"log.flush.scheduler.interval.ms": 100, "log.flush.interval.ms": 100}


def began() -> State:
    (state,) = MACHINE.initial()
    return state


def knowing(state: State) -> State:
    """Broker 0 leads and knows that the log of broker 1 starts at 2."""
    leader = state.replicas[0]
    told = with_part(attrs.evolve(leader.remote[1], end_offset=2), FollowerLogStart(2))
    return state.with_replica(0, attrs.evolve(leader, remote=(leader.remote[0], told)))


def test_a_leader_that_knows_what_is_not_so_of_an_empty_log_is_excused_for_a_disk_alone() -> None:
    holds, state = MACHINE.invariants["LowWatermarkIsTrue"], knowing(began())
    assert not holds(state)
    taken = state.with_replica(1, with_part(state.replicas[1], Taken(by_disk=True)))
    assert holds(taken)
    has_records = attrs.evolve(taken.replicas[1], log=(Record(0, 0),))
    assert not holds(taken.with_replica(1, has_records))


def test_only_a_disk_that_takes_records_leaves_the_mark_and_the_next_process_has_it() -> None:
    state = began()
    full = attrs.evolve(state.replicas[1], log=(Record(0, 0),), flushed=1)
    died = observed.step(MACHINE, state.with_replica(1, full), Crash(1, 1))
    assert not Taken.of(died.replicas[1]).by_disk
    for action in (LOSES, LoseEnd(1, 0)):
        lost = observed.step(MACHINE, died, action)
        assert Taken.of(lost.replicas[1]).by_disk
        assert Taken.of(MACHINE.survivor(lost.replicas[1], 0)).by_disk


def test_a_log_start_goes_back_of_the_disk_that_took_it_and_where_a_log_that_knows_no_epoch_starts_over() -> None:
    monotone, after = MACHINE.step_invariants["LogStartMonotone"], began()
    before = after.with_replica(1, with_part(after.replicas[1], LogStart(2, 2)))
    forgot = after.with_replica(1, with_part(before.replicas[1], ForgottenEpoch(2)))
    response = ReceiveFetchResponse(FetchResponse(FetchRequest(1, 0, 0, 2, -1, 0)))
    assert monotone(before, LOSES, after)
    assert not monotone(before, LoseLog(0), after), "another broker's disk"
    assert monotone(forgot, response, after)
    assert not monotone(forgot, Append(0), after), "nothing that starts a log over"
    assert not monotone(before, response, after), "a log that knows the epoch"
    deleted = after.with_replica(1, with_part(after.replicas[1], Deleted(is_deleted=True)))
    assert monotone(before, Append(0), deleted), "a log goes with its topic"


@simulated
async def test_a_broker_registers_as_one_that_stopped_cleanly_by_the_note_that_its_disk_has() -> None:
    async with Cluster(2, seed=1) as cluster:
        await cluster.create_topic("t", 1, 2, config={"min.insync.replicas": 2})
        await cluster.shutdown(0)
        await cluster.restart(0)
        with trio.fail_after(30):
            await cluster.wait_for_isr("t", (0, 1))
        trace = list(cluster.trace)
    assert of(trace).holds, str(of(trace))
    place = next(n for n, one in enumerate(trace) if isinstance(one.decision, events.Stop))
    stopped = attrs.evolve(trace[place], decision=with_values(trace[place].decision, noted=NONE))
    mismatch = of([*trace[:place], stopped, *trace[place + 1 :]]).mismatch
    assert mismatch is not None
    assert isinstance(mismatch.event.decision, events.Register)


@simulated
async def test_a_broker_that_registers_again_for_no_reason_or_without_having_asked_is_refused() -> None:
    async with Cluster(2, seed=1) as cluster:
        await cluster.create_topic("t", 1, 2, config={"min.insync.replicas": 2})
        await cluster.broker(1).actions.register()
        trace = list(cluster.trace)
    mismatch = of(trace).mismatch
    assert mismatch is not None
    assert mismatch.reason == "broker 1 registers again, and has learned the epoch that the controller knows"
    unasked = [one for one in trace if not isinstance(one.decision, events.SendRegistration)]
    mismatch = of(unasked).mismatch
    assert mismatch is not None
    assert mismatch.reason == "broker 1 has not asked to be registered"


@simulated
async def test_a_log_in_a_failed_directory_is_told_by_nobody_when_the_next_topic_of_its_name_has_one_too() -> None:
    async with Cluster(2, config={"log.dirs": "one,two", **FLUSHED}, seed=1) as cluster:
        await cluster.create_topic("t", 1, 2, config={"min.insync.replicas": 2})
        async with cluster.client("writer") as client:
            await client.produce("t", b"1")
            await trio.sleep(1)
            failed = cluster.broker(0).replicas.directories.where("t", 0)
            assert failed is not None
            cluster.fail_disk(0, "everything", directory=failed.path)
            with trio.fail_after(30):
                await cluster.wait_for_isr("t", (1,))
            await cluster.delete_topic("t")
            await trio.sleep(1)
        await cluster.create_topic("t", 1, 2, config={"min.insync.replicas": 2})
        await trio.sleep(1)
        await cluster.shutdown(0)
        trace = list(told_apart(cluster.trace))
    names = list(dict.fromkeys(one.decision.topic for one in trace if isinstance(one.decision, events.CreateTopic)))
    assert len(names) == 2
    place = next(n for n, one in enumerate(trace) if isinstance(one.decision, events.Stop))
    stop = trace[place].decision
    assert isinstance(stop, events.Stop)
    assert [topic for topic, _ in stop.kept] == names[1:]
    for name in names:
        found = validate(trace, name, 0, Settings(min_insync_replicas=2))
        assert found.holds, str(found)
    silent = attrs.evolve(trace[place], decision=with_values(stop, kept={}))
    mismatch = validate([*trace[:place], silent, *trace[place + 1 :]], names[0], 0, Settings(2)).mismatch
    assert mismatch is not None
    assert "has 1 to 1 records" in str(mismatch)


@simulated
async def test_a_log_that_cannot_be_deleted_is_the_next_processs_again_and_deleted_by_it() -> None:
    """Campaign seed 3626: the directory fails as the deletion is read, and its broker is let in all the same."""
    async with Cluster(2, config={"log.dirs": "one,two", **FLUSHED}, seed=1) as cluster:
        await cluster.create_topic("t", 1, 2)
        async with cluster.client("writer") as client:
            await client.produce("t", b"1")
            await trio.sleep(1)
            where = cluster.broker(0).replicas.directories.where("t", 0)
            assert where is not None
            await cluster.crash(0)
            await cluster.delete_topic("t")
            cluster.host.disk(broker_name(0)).fail(f"{where.path}/t-0", operations={Operation.RENAME})
            await cluster.restart(0)
            await cluster.broker(0).unfenced.wait()
            assert list(cluster.broker(0).replicas.directories.offline) == [where.path]
            await cluster.shutdown(0)
            cluster.heal_disk(0)
            await cluster.restart(0)
            await cluster.broker(0).unfenced.wait()
            assert cluster.broker(0).replicas.directories.where("t", 0) is None
        trace = list(told_apart(cluster.trace))
    (name,) = {one.decision.topic for one in trace if isinstance(one.decision, events.CreateTopic)}
    ends = [one.decision.state.log_end_offset for one in trace if isinstance(one.decision, events.Restart)]
    assert ends == [1, 1], "both processes have found the record"
    found = validate(trace, name, 0, Settings(1))
    assert found.holds, str(found)


@simulated
async def test_a_process_that_says_nothing_of_a_partition_may_be_stopped_when_its_registration_arrives() -> None:
    async with Cluster(3, seed=1) as cluster:
        await cluster.crash(2)
        await cluster.create_topic("t", assignments=[[0, 1, 2]], config={"min.insync.replicas": 2})
        await cluster.restart(2)
        with trio.fail_after(30):
            await cluster.broker(2).unfenced.wait()
        trace = list(cluster.trace)
    assert of(trace).holds, str(of(trace))
    registrations = (n for n, one in enumerate(trace) if isinstance(one.decision, events.Register))
    *_, place = (n for n in registrations if getattr(trace[n].decision, "broker", NONE) == 2)
    pause = attrs.evolve(trace[place], node=2, decision=events.Pause())
    resume = attrs.evolve(pause, decision=events.Resume())
    assert of([*trace[:place], pause, trace[place], resume, *trace[place + 1 :]]).holds
    assert not of([*trace[:place], pause, *trace[place:]]).holds, "it goes on while it is stopped"


@simulated
async def test_a_broker_that_lost_a_response_registers_again_and_notes_the_epoch_that_it_has_learned() -> None:
    async with Cluster(2, seed=1) as cluster:
        await cluster.create_topic("t", 1, 2, config={"min.insync.replicas": 2})
        broker = cluster.broker(1)
        first, asked, register = broker.registration.broker_epoch, 0, broker.controller.register

        async def lose_the_first_response() -> int:
            nonlocal asked
            asked += 1
            epoch = await register()
            if asked == 1:
                raise NoResponseError("lost")
            return epoch

        with patch.object(broker.controller, "register", lose_the_first_response), trio.fail_after(30):
            async with cluster.client() as client:
                await client.ask_once(UnregisterBrokerRequest(broker_id=BrokerId(1)))
            while broker.registration.broker_epoch == first:  # noqa: ASYNC110 - no one event to wait for
                await trio.sleep(0.1)
            await cluster.wait_for_isr("t", (0, 1))
        await cluster.shutdown(1)
        trace = list(cluster.trace)
    assert of(trace).holds, str(of(trace))
    assert of(trace).actions["RegisterAgain"] == 1
    end = next(n for n, one in enumerate(trace) if isinstance(one.decision, events.Stop))
    outdated = attrs.evolve(trace[end], decision=with_values(trace[end].decision, noted=first))
    mismatch = of([*trace[:end], outdated, *trace[end + 1 :]]).mismatch
    assert mismatch is not None
    assert f"broker 1 notes epoch {first} as it stops, and has learned" in mismatch.reason


def of(trace: Sequence[TraceEvent]) -> Validated:
    return validate(trace, "t", 0, Settings(min_insync_replicas=2))


@pytest.mark.deep
def test_a_run_needs_it_that_a_leader_does_not_know_what_a_disk_has_taken() -> None:
    strict = property(lambda self: {"LowWatermarkIsTrue": low_watermark_is_true})
    options = draw(1037)
    faults: dict[Fault, int] = {**options.faults, Fault.SLOW_SYNC: 4}
    del faults[Fault.MET_ROT]
    options = attrs.evolve(options, faults=faults)
    assert simulate(options).holds
    with patch.object(Observed, "invariants", strict):
        (failed,) = (one for one in simulate(options).validated if not one.holds)
    assert failed.mismatch is not None
    assert failed.mismatch.reason.startswith("LowWatermarkIsTrue is violated")


def test_what_a_follower_takes_in_part_is_what_a_response_of_an_earlier_moment_says() -> None:
    request = FetchRequest(1, 0, 0, 0, -1, 0)
    response = FetchResponse(request, records=(Record(0, 0),), high_watermark=1)
    waits = attrs.evolve(began().replicas[1], outstanding=(request,))
    state = on_network(began().with_replica(1, waits), fetch_responses=(response,))
    whole = observed.step(MACHINE, state, ReceiveFetchResponse(response)).replicas[1]
    part = observed.step(MACHINE, state, TakeInPart(response)).replicas[1]
    assert (whole.log, whole.high_watermark) == ((Record(0, 0),), 1)
    assert (part.log, part.high_watermark, part.outstanding) == (whole.log, 0, ())
    with pytest.raises(NotEnabled, match="has no records"):
        observed.step(MACHINE, on_network(state, fetch_responses=(quiet(response),)), TakeInPart(quiet(response)))


def quiet(response: FetchResponse) -> FetchResponse:
    return attrs.evolve(response, records=())


def test_a_proposal_outlives_a_registration_of_its_process_and_not_the_process() -> None:
    registrations = Registrations()
    for epoch in (5, 9):
        registrations.follow(TraceEvent(0, 2, events.LearnBrokerEpoch(epoch)))
    assert [registrations.has_learned(2, epoch) for epoch in (4, 5, 9)] == [False, True, True]
    assert not registrations.has_learned(1, 5), "another broker's"
    registrations.follow(TraceEvent(0, 2, events.Crash({}, {}, {})))
    registrations.follow(TraceEvent(0, 2, events.LearnBrokerEpoch(12)))
    assert [registrations.has_learned(2, epoch) for epoch in (5, 9, 12)] == [False, False, True]


def test_a_run_needs_it_that_a_process_has_registered_twice() -> None:
    with patch.object(Registrations, "has_learned", lambda self, broker, epoch: self.learned(broker) == epoch):
        assert not simulate(draw(1222)).holds


def test_a_run_needs_it_that_a_disk_took_a_tail_that_was_not_flushed_and_only_of_a_disk_that_was_damaged_then() -> None:
    assert simulate(draw(1228)).holds
    with patch.object(Followed, "is_damaged_after_end", lambda self, node: False):
        assert not simulate(draw(1228)).holds


def test_a_leader_that_has_waited_for_room_begins_as_a_new_one_in_the_same_epoch() -> None:
    leader = attrs.evolve(knowing(began()).replicas[0], pending_isr=(0,))
    forgot = observed.step(MACHINE, knowing(began()).with_replica(0, leader), ForgetFollowers(0)).replicas[0]
    assert (leader.remote[1].end_offset, forgot.remote[1].end_offset) == (2, began().replicas[0].remote[1].end_offset)
    assert forgot.pending_isr == (), "its proposal is not its own any more"
    assert (forgot.leader_epoch, forgot.log) == (leader.leader_epoch, leader.log)
    with pytest.raises(NotEnabled, match="broker 1 does not lead"):
        observed.step(MACHINE, began(), ForgetFollowers(1))


@pytest.mark.deep
def test_a_run_needs_it_that_a_leader_forgets_its_followers() -> None:
    with patch.object(ForgetFollowers, "effect", lambda self, machine, state: state):
        assert not simulate(draw(1151)).holds


@simulated
async def test_a_directory_that_failed_behind_a_cut_may_have_the_log_as_it_was_before() -> None:
    """Campaign seed 3286: the broker died with the directory, and its next process found the log of before the cut.

    By this seed of the cluster the disk brings the cut bytes back.
    """
    async with Cluster(2, config=FLUSHED, seed=4) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]], config={"min.insync.replicas": 1})
        async with cluster.client("writer") as client:
            await client.produce("t", b"0")
            await client.produce("t", b"1")
            await trio.sleep(1)
            cluster.block(1, 0)
            await client.produce("t", b"only the old leader has it", acks=1)
            await trio.sleep(1)
            await cluster.crash(0)
            cluster.heal()
            await cluster.wait_for_leader("t", other_than=0)
            await client.produce("t", b"2", acks=1)
            cluster.block(0, 1)
            await cluster.restart(0)
            await cluster.broker(0).unfenced.wait()
            cluster.host.disk(broker_name(0)).fail("data/t-0", operations={Operation.SYNC})
            cluster.heal()
            await trio.sleep(3)
            cluster.heal_disk(0)
            await cluster.restart(0)
        trace = list(cluster.trace)
    of_0 = [(place, one.decision) for place, one in enumerate(trace) if one.node == 0]
    (failed,) = (decision for _, decision in of_0 if isinstance(decision, events.LogDirectoryFailed))
    assert [(one.topic, one.log_end_offset) for one in failed.lost] == [("t", 2)], "it has cut the log"
    *_, (died, crash) = ((place, decision) for place, decision in of_0 if isinstance(decision, events.Crash))
    *_, (found, restart) = ((place, decision) for place, decision in of_0 if isinstance(decision, events.Restart))
    assert crash.kept == {("t", 0): 3}
    settings = Settings(1)
    assert validate(trace, "t", 0, settings).holds
    for kept, may_be in ((1, False), (2, True), (3, True), (4, False)):
        keeps = attrs.evolve(trace[died], decision=with_values(crash, kept={("t", 0): kept}))
        state = attrs.evolve(restart.state, log_end_offset=kept)
        batches = tuple(batch for batch in restart.batches if batch.end_offset <= kept)
        finds = attrs.evolve(trace[found], decision=with_values(restart, state=state, batches=batches))
        mismatch = validate((*trace[:died], keeps, *trace[died + 1 : found], finds), "t", 0, settings).mismatch
        assert (mismatch is None) == may_be, f"{kept}: {mismatch}"
        assert mismatch is None or mismatch.position == died
