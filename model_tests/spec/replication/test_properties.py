"""Each property is false of a state in which what it forbids has happened, and says nothing beyond its exemptions."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extensions.retention import FollowerLogStart, LogStart, Retention
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Record, State

MACHINES = (Replication(extensions=(Retention(),)), Replication(extensions=everything((0, 1, 2))))


def initial() -> State:
    return next(iter(Replication().initial()))


def with_logs(*logs: tuple[Record, ...]) -> State:
    state = initial()
    for broker, log in enumerate(logs):
        state = state.with_replica(broker, attrs.evolve(state.replicas[broker], log=log))
    return state


def test_logs_that_agree_in_an_epoch_agree_before_it() -> None:
    holds = Replication().invariants["LogMatching"]
    assert holds(with_logs((Record(0, 0), Record(1, 1)), (Record(0, 0), Record(1, 1)), (Record(0, 0),)))
    assert holds(with_logs((Record(0, 0), Record(1, 1)), (Record(0, 0), Record(2, 2))))
    assert not holds(with_logs((Record(0, 0), Record(1, 1)), (Record(0, 2), Record(1, 1))))


def test_what_a_consumer_saw_is_what_a_leader_shows() -> None:
    holds = Replication().invariants["ConsistentRead"]
    state = with_logs((Record(0, 0),))
    shown = state.with_replica(0, attrs.evolve(state.replicas[0], high_watermark=1))
    seen = attrs.evolve(shown.history, committed=(Record(0, 0), Record(0, 1)))
    other = attrs.evolve(shown.history, committed=(Record(0, 7),))
    assert holds(shown)
    assert holds(attrs.evolve(shown, history=seen))
    assert not holds(attrs.evolve(shown, history=other))


@pytest.mark.parametrize("machine", MACHINES, ids=["retention", "composed"])
def test_a_log_start_that_goes_back_is_a_violation_unless_an_election_was_unclean(machine: Replication) -> None:
    monotone, true = machine.step_invariants["LogStartMonotone"], machine.invariants["LowWatermarkIsTrue"]
    (after,) = machine.initial()
    leader = after.replicas[0]
    before = after.with_replica(1, with_part(after.replicas[1], LogStart(2, 2)))
    assert monotone(after, Append(0), before)
    assert not monotone(before, Append(0), after)
    told = with_part(attrs.evolve(leader.remote[1], end_offset=2), FollowerLogStart(2))
    knowing = attrs.evolve(leader, remote=(leader.remote[0], told, leader.remote[2]))
    assert true(before.with_replica(0, knowing))
    assert not true(after.with_replica(0, knowing))
    unclean = attrs.evolve(after, history=attrs.evolve(after.history, superseded_epoch=1))
    assert monotone(before, Append(0), unclean)
    assert true(unclean.with_replica(0, knowing))
