"""Unclean elections are found in a trace, with what they lost and until when older leaders could still respond."""

from __future__ import annotations

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.observer import Operation
from tidegauge.impl.client.requests import Fetched, ListedOffset
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.linearizability.history import Kind, Outcome
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.harness.simulation.recorder import (
    MOST_AT_ONE_TIME,
    Recorder,
    StandstillError,
    TimedTrace,
    UncleanElection,
    declare,
    unclean_elections,
)

CONTROLLER = 3000
SECOND = 1_000_000_000


def trace_of(*decisions: tuple[int, events.Decision]) -> TimedTrace:
    """One event a second, the first at 1 s."""

    async def write() -> TimedTrace:
        trace = TimedTrace()
        for node, decision in decisions:
            await trio.sleep(1)
            trace.append(TraceEvent(0, node, decision))
        return trace

    return run_deterministically(write, seed=0)


def written(leader: int, epoch: int, isr: tuple[int, ...], elr: tuple[int, ...] = ()) -> events.ChangedPartition:
    """The partition as the controller registers it."""
    registration = PartitionRegistration((0, 1), leader, epoch, epoch, frozenset(isr), frozenset(elr))
    return events.ChangedPartition("t", 0, registration, metadata_offset=9)


def created(isr: tuple[int, ...], elr: tuple[int, ...] = ()) -> tuple[int, events.Decision]:
    """Broker 0 leads the new partition."""
    return CONTROLLER, events.CreateTopic((written(0, 0, isr, elr),), "t", "id")


def elected(isr: tuple[int, ...] = (1,)) -> tuple[int, events.Decision]:
    """Broker 0 is fenced, and broker 1 leads in epoch 1."""
    return CONTROLLER, events.ExpireSession((written(1, 1, isr),), broker=0, broker_epoch=1)


def applied(node: int, leader: int, epoch: int, end: int) -> tuple[int, events.Decision]:
    """A broker with a log of this end applies the metadata of this leader."""
    state = events.ReplicaState(leader, epoch, epoch, end, 0, 0, (0, 1), None, 0)
    return node, events.ApplyMetadata("t", 0, state, controller_epoch=0, replicas=(0, 1), elr=(), topic_id="id")


def test_the_first_leader_that_takes_over_says_what_is_kept() -> None:
    trace = trace_of(
        created((0,)),
        applied(0, 0, 0, 0),
        elected(),
        applied(1, 1, 1, 7),
        applied(0, 1, 1, 9),
    )
    assert unclean_elections(trace, {}) == [UncleanElection("t", 0, 1, 3 * SECOND, 7, 5 * SECOND)]


def test_a_log_that_parts_from_the_committed_one_keeps_less_than_its_end() -> None:
    trace = trace_of(
        created((0,)),
        elected(),
        applied(1, 1, 1, 7),
    )
    assert [election.offset for election in unclean_elections(trace, {("t", 0, 1): 4})] == [4]


def test_an_old_leader_without_the_new_metadata_may_respond_for_ever() -> None:
    trace = trace_of(
        created((0,)),
        applied(0, 0, 0, 0),
        elected(),
        applied(1, 1, 1, 7),
    )
    assert [election.deposed for election in unclean_elections(trace, {})] == [None]


def test_a_crash_deposes_as_well() -> None:
    trace = trace_of(
        created((0,)),
        applied(0, 0, 0, 0),
        (0, events.Crash({}, {}, {})),
        elected(),
        applied(1, 1, 1, 7),
    )
    assert [election.deposed for election in unclean_elections(trace, {})] == [4 * SECOND], "nobody led any more"


@pytest.mark.parametrize(("isr", "elr"), [((0, 1), ()), ((0,), (1,))])
def test_a_leader_from_isr_or_elr_is_a_clean_one(isr: tuple[int, ...], elr: tuple[int, ...]) -> None:
    trace = trace_of(
        created(isr, elr),
        elected(),
        applied(1, 1, 1, 7),
    )
    assert unclean_elections(trace, {}) == []


def test_an_election_that_nobody_followed_lost_nothing() -> None:
    trace = trace_of(
        created((0,)),
        elected(),
    )
    assert unclean_elections(trace, {}) == []


def test_outcomes_are_told_apart() -> None:
    """Done, certainly not done, nobody knows: with an error, and when the caller was cancelled."""

    async def observe() -> Recorder:
        recorder = Recorder(3)
        produce = Operation("p", "produce", "t", 0, (b"1",))
        recorder.returned(recorder.invoked(produce), 40)
        recorder.failed(recorder.invoked(produce), KafkaError(ErrorCode.not_enough_replicas, ""))
        recorder.failed(recorder.invoked(produce), KafkaError(ErrorCode.request_timed_out, "", maybe_done=True))
        recorder.failed(recorder.invoked(produce), trio.TooSlowError())
        recorder.returned(recorder.invoked(Operation("c", "fetch", "t", 0, offset=5)), Fetched((), 5, 0))
        recorder.returned(recorder.invoked(Operation("r", "list_offsets", "t", 0)), ListedOffset(6, -1, 0))
        assert recorder.invoked(Operation("r", "list_offsets", "t", 0, offset=-2)) is None, "earliest proves nothing"
        declare(recorder, [UncleanElection("t", 0, 1, 9, 7, None)])
        return recorder

    rows = run_deterministically(observe, seed=0).history.rows()
    assert [row.outcome for row in rows[:4]] == [Outcome.OK, Outcome.FAIL, Outcome.INFO, Outcome.INFO]
    assert [row.process for row in rows[:6]] == [0, 0, 0, 0, 1, 2], "each client is a process"
    assert rows[0].offset == 40
    assert (rows[4].offset, rows[4].high_watermark) == (5, 5)
    assert rows[5].offset == 6
    assert (rows[6].kind, rows[6].offset, rows[6].returned) == (Kind.ELECTION, 7, None)


def test_a_client_with_several_operations_in_flight_is_as_many_processes() -> None:
    async def record() -> Recorder:
        recorder = Recorder(1)

        def invoke(client: str, value: int) -> int | None:
            return recorder.invoked(Operation(client, "produce", "t", 0, (b"%d" % value,)))

        first = invoke("a", 1)
        invoke("a", 2)
        invoke("b", 3)
        recorder.returned(first, 0)
        invoke("a", 4)
        invoke("a", 5)
        return recorder

    recorder = run_deterministically(record, seed=0)
    processes = [row.process for row in recorder.history.rows()]
    assert processes == [0, 1, 2, 0, 3]
    assert recorder.process("a") == 0


def test_nodes_that_decide_for_ever_while_time_stands_still_end_the_run() -> None:
    async def write(at_a_time: int) -> None:
        trace = TimedTrace()
        for _ in range(2):
            for _ in range(at_a_time):
                trace.append(TraceEvent(0, 7, events.Pause()))
            await trio.sleep(1)

    run_deterministically(write, MOST_AT_ONE_TIME - 1, seed=0)
    with pytest.raises(StandstillError, match="decisions at one time, Pause of node 7 is the last"):
        run_deterministically(write, MOST_AT_ONE_TIME, seed=0)
