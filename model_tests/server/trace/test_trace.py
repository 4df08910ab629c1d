"""A trace has typed events that print alike in every process, and costs a node nothing that keeps none."""

from __future__ import annotations

import subprocess
import sys
from inspect import isclass
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import EpochEndOffset, FollowerFetch
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import Trace, TraceEvent
from tidegauge.model_tests.harness.validation.observed_events import actions_of

UNTRACED = """
import sys
import trio
from tidegauge import Cluster

async def produce():
    async with Cluster(brokers=3, seed=1, trace=False) as cluster:
        await cluster.create_topic("t", partitions=2, replication_factor=3)
        async with cluster.client() as client:
            await client.produce("t", b"a", acks=-1)
            await client.fetch("t", 0)
        await cluster.crash(1)
        await cluster.restart(1)

trio.run(produce)
sys.exit("tidegauge.impl.server.trace.events" in sys.modules)
"""


def test_a_node_that_keeps_no_trace_does_not_import_the_events() -> None:
    """Their import takes time, which a process would spend before it serves."""
    done = subprocess.run([sys.executable, "-c", UNTRACED], capture_output=True, text=True, check=False)
    told = done.stderr.splitlines()  # broker 1 has crashed, which is told when it starts again
    assert (done.returncode, [line.partition(":")[0] for line in told]) == (0, ["directory was not closed"])


def test_the_package_has_no_other_attribute() -> None:
    from tidegauge.impl.server import trace

    with pytest.raises(AttributeError, match="has no attribute 'event'"):
        trace.event  # noqa: B018


STATE = events.ReplicaState(0, 1, 2, 3, 3, 0, (0, 1), None, 3)
FETCH = FollowerFetch(1, 7, 1, 3, 0)


def test_an_event_prints_its_fields_with_sets_in_order() -> None:
    registration = PartitionRegistration((2, 0, 1), 0, 1, 2, frozenset({2, 0}))
    changed = events.ChangedPartition("t", 0, registration, 9)
    told = str(TraceEvent(5, 3000, events.UncleanElection((changed,), "t", 0)))
    assert told.startswith("5 3000 UncleanElection changed=((topic=t, partition=0, registration=(replicas=(2, 0, 1), ")
    assert "isr=(0, 2)" in told
    assert told.endswith("topic=t partition=0")


def test_equal_traces_have_equal_digests_and_others_do_not() -> None:
    outcome = events.FetchOutcome(ErrorCode.none, EpochEndOffset(0, 2), 0, 3, 0, ())
    event = TraceEvent(5, 0, events.ReceiveFetch("t", 0, STATE, FETCH, outcome))
    other = attrs.evolve(event, decision=events.HoldFetch("t", 0, STATE, FETCH, outcome))
    assert Trace([event]).digest() == Trace([attrs.evolve(event)]).digest()
    assert Trace([event]).digest() != Trace([other]).digest()


def test_a_decision_takes_each_field_once_and_does_not_change() -> None:
    decision = events.PullMetadata(metadata_offset=3)
    assert decision == events.PullMetadata(3)
    assert hash(decision) == hash(events.PullMetadata(3))
    assert decision != events.PullMetadata(4)
    assert events.Pause() != events.Resume()
    assert events.SendFetch.fields == ("topic", "partition", "state", "source", "fetch")
    make: type[Any] = events.PullMetadata
    for args, kwargs in [((), {}), ((3, 4), {}), ((3,), {"metadata_offset": 3}), ((), {"offset": 3})]:
        with pytest.raises(TypeError, match="PullMetadata takes the fields metadata_offset"):
            make(*args, **kwargs)
    with pytest.raises(AttributeError, match="a decision does not change"):
        decision.__setattr__("metadata_offset", 4)


KINDS = {kind for kind in vars(events).values() if isclass(kind) and issubclass(kind, events.Decision)}
BASES = {base for kind in KINDS for base in kind.__mro__[1:]}


def test_validation_understands_every_decision() -> None:
    assert set(actions_of.registry) >= KINDS - BASES
