"""A topic that is deleted and created again: each of the name is validated alone, and a wrong one is found."""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from unittest.mock import patch

import attrs

from tidegauge.impl.metadata.image import ClusterImage, TopicImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.broker.hosted_partitions import HostedPartitions
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Kind, Outcome
from tidegauge.model_tests.harness.simulation.options import Fault, Options, draw
from tidegauge.model_tests.harness.simulation.recreation import LEDGER
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate
from tidegauge.model_tests.harness.validation.incarnations import name_of, succeeds_another, told_apart

OFTEN = 12
"""The weight of a deletion, where one is to be seen."""
NOBODY = events.ProducerMemory(forgot=False, producers=())
REGISTRATION = PartitionRegistration((0,), 0, 0, 0, frozenset({0}))


def recreating(seed: int) -> Options:
    options = draw(seed)
    return attrs.evolve(options, faults={**options.faults, Fault.RECREATION: OFTEN})


@cache
def ran() -> Simulated:
    return simulate(recreating(68))


def test_each_topic_of_the_name_is_a_behaviour_of_its_own_and_has_a_history_of_its_own() -> None:
    run = ran()
    assert run.holds, run.failures
    assert not check(run.operations).anomalies
    mine = {one.topic for one in run.validated if one.topic.startswith(f"{LEDGER}/")}
    assert len(mine) == 1 + run.sometimes["a topic was deleted and created again"] > 2
    written = {row.topic for row in run.operations if row.kind is Kind.PRODUCE and row.outcome is Outcome.OK}
    assert len(written & mine) > 1
    assert run.sometimes["a broker came back with the log of a topic that was deleted"]
    assert run.sometimes["a leader took records for a topic that was deleted"]


def hosts_by_name(self: HostedPartitions, partition: Partition, image: ClusterImage, changed: Set[str] | None) -> bool:
    """A replica stays where the metadata have a partition of its name, whatever the topic's id is."""
    topic = image.topics.get(partition.topic)
    registration = None if topic is None else topic.partitions.get(partition.index)
    return registration is None or self.broker_id not in registration.replicas


def opens_nothing(self: HostedPartitions, topic: TopicImage, index: int) -> Partition | None:
    """As `_host`, with the log that is there."""
    partition = self._hosted.get((topic.name, index))
    if partition is not None:
        partition.topic_id = topic.topic_id
    return AS_IT_IS(self, topic, index)


AS_IT_IS = HostedPartitions._host


def test_a_broker_that_takes_a_former_log_for_the_new_topics_is_found() -> None:
    with (
        patch.object(HostedPartitions, "_is_departed", hosts_by_name),
        patch.object(HostedPartitions, "_host", opens_nothing),
    ):
        run = simulate(recreating(67))
    assert any(f"{LEDGER}/" in failure for failure in run.failures), run.failures


# --- which topic a decision is of ----------------------------------------------------------------------------------


def created(topic_id: str, offset: int) -> TraceEvent:
    changed = events.ChangedPartition("t", 0, REGISTRATION, metadata_offset=offset)
    return TraceEvent(0, 3000, events.CreateTopic((changed,), "t", topic_id))


def state(end: int = 0) -> events.ReplicaState:
    return events.ReplicaState(0, 0, 0, end, 0, 0, (0,), None, 0)


def applied(topic_id: str) -> TraceEvent:
    return TraceEvent(0, 0, events.ApplyMetadata("t", 0, state(), 0, (0,), (), topic_id))


FLUSHED = TraceEvent(0, 0, events.Flush("t", 0, state()))
DIED = TraceEvent(0, 0, events.Crash({("t", 0): 1}, {}, {}))
TRACE = (
    created("a", 5),
    TraceEvent(0, 0, events.PullMetadata(5)),
    applied("a"),
    TraceEvent(0, 3000, events.DeleteTopic((), "t", 6)),
    created("b", 8),
    FLUSHED,
    DIED,
    TraceEvent(0, 0, events.Restart("t", 0, state(), NOBODY, (), -1, "a")),
    TraceEvent(0, 0, events.PullMetadata(8)),
    TraceEvent(0, 0, events.RemoveReplica("t", 0, 8, "a", False)),
    applied("b"),
    FLUSHED,
    DIED,
)
A, B = name_of("t", "a"), name_of("t", "b")


def test_a_log_whose_topic_id_a_crash_has_taken_is_of_the_topic_that_was_there_before() -> None:
    """Campaign seed 4040: partition.metadata was not on stable storage."""
    place = next(n for n, one in enumerate(TRACE) if isinstance(one.decision, events.Restart))
    unnamed = TraceEvent(0, 0, events.Restart("t", 0, state(), NOBODY, (), -1, ""))
    names = [getattr(one.decision, "topic", None) for one in told_apart((*TRACE[:place], unnamed, *TRACE[place + 1 :]))]
    assert names == [getattr(one.decision, "topic", None) for one in told_apart(TRACE)]


def test_a_decision_is_of_the_topic_whose_log_its_broker_has() -> None:
    apart = list(told_apart(TRACE))
    names = [getattr(event.decision, "topic", None) for event in apart]
    assert names == [A, None, A, A, B, A, None, A, None, A, B, B, None]
    first, second = (event.decision for event in apart if isinstance(event.decision, events.Crash))
    assert isinstance(first, events.Crash)
    assert isinstance(second, events.Crash)
    assert (first.kept, second.kept) == ({(A, 0): 1}, {(B, 0): 1})
    assert (succeeds_another(apart, A), succeeds_another(apart, B)) == (False, True)


def test_a_log_that_went_with_its_directory_is_not_what_the_broker_means_by_the_name_then() -> None:
    """The next topic's is made elsewhere; what a machine that dies has kept is of the last log that it had."""
    failed = TraceEvent(0, 0, events.LogDirectoryFailed("d", (events.LostReplica("t", 0, 1, 0),)))
    read = TraceEvent(0, 0, events.PullMetadata(8))
    *_, lost, _, flushed, died = told_apart((*TRACE[:5], failed, read, FLUSHED, DIED))
    assert isinstance(lost.decision, events.LogDirectoryFailed)
    assert [one.topic for one in lost.decision.lost] == [A]
    assert isinstance(flushed.decision, events.Flush)
    assert flushed.decision.topic == B
    assert isinstance(died.decision, events.Crash)
    assert died.decision.kept == {(A, 0): 1}


def test_a_log_that_went_with_its_directory_is_what_a_machine_has_kept_once_the_next_topics_is_removed() -> None:
    failed = TraceEvent(0, 0, events.LogDirectoryFailed("d", (events.LostReplica("t", 0, 1, 0),)))
    read = TraceEvent(0, 0, events.PullMetadata(8))
    removed = TraceEvent(0, 0, events.RemoveReplica("t", 0, 9, "b", False))
    *_, died = told_apart((*TRACE[:5], failed, read, applied("b"), removed, DIED))
    assert isinstance(died.decision, events.Crash)
    assert died.decision.kept == {(A, 0): 1}


def test_a_name_that_no_topic_has_lost_stays_as_it_is() -> None:
    assert list(told_apart(TRACE[:3])) == list(TRACE[:3])
