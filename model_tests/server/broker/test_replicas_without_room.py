"""A replica that is opened again when there is room has what its process knew of it, and nothing of another topic."""

from __future__ import annotations

from random import Random

from tidegauge.impl.partition.messages import PartitionConfig
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker.replicas_without_room import ReplicasWithoutRoom
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log

KEY = ("t", 0)


def opened(records: int) -> Log:
    log = Log.open(SimulatedDisk(Random(1)), "data/t-0", LogConfig(), 0)
    for offset in range(records):
        log.append_as_leader(build_batch([Record(0, offset, None, b"v")]), 0, 0)
    return log


def waiting(high_watermark: int, log_start: int) -> ReplicasWithoutRoom:
    """A replica of five records waits."""
    log = opened(5)
    partition = Partition("t", 0, "its id", log, PartitionReplica(0, log, PartitionConfig(), high_watermark))
    log.delete_records_before(log_start)
    replicas = ReplicasWithoutRoom(Tracer(None, 0, SimulatedClock(started=0.0)))
    replicas.wait(KEY, partition)
    return replicas


def test_the_high_watermark_and_the_log_start_do_not_go_back() -> None:
    log, replicas = opened(5), waiting(4, 3)
    assert replicas.waiting == {KEY}
    assert replicas.recall(KEY, "its id", log, written=1) == 4
    assert log.log_start_offset == 3
    assert replicas.recall(KEY, "its id", log, written=1) == 1, "once"


def test_what_is_written_down_counts_if_it_is_more() -> None:
    assert waiting(2, 0).recall(KEY, "its id", opened(5), written=3) == 3


def test_a_log_that_has_lost_its_end_is_not_asked_for_more_than_it_has() -> None:
    log = opened(2)
    assert waiting(4, 3).recall(KEY, "its id", log, written=1) == 2
    assert log.log_start_offset == 2


def test_another_topic_of_the_name_has_nothing_of_it() -> None:
    log = opened(5)
    assert waiting(4, 3).recall(KEY, "another", log, written=0) == 0
    assert log.log_start_offset == 0


def test_a_replica_that_was_taken_away_is_forgotten() -> None:
    replicas = waiting(4, 3)
    replicas.forget([KEY])
    assert replicas.recall(KEY, "its id", opened(5), written=0) == 0
