"""Followers' fetches: fencing, divergence, truncation (KIP-101, KIP-279, KIP-320, KIP-595)."""

from __future__ import annotations

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import EpochEndOffset, FollowerFetch, PartitionConfig, PartitionFetchResponse
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores.memory_log import MemoryLog
from tidegauge.model_tests.partition.replicas import EVERYTHING, Partition, registration
from tidegauge.spec.replication.state import Record


@pytest.mark.parametrize(
    ("leader_epoch", "replica_id", "broker_epoch", "error"),
    [
        (0, 2, 102, ErrorCode.fenced_leader_epoch),
        (2, 2, 102, ErrorCode.unknown_leader_epoch),
        (1, 2, 102, ErrorCode.none),
        (1, 7, 102, ErrorCode.not_leader_or_follower),
        (1, 2, 101, ErrorCode.not_leader_or_follower),
    ],
    ids=["older epoch", "newer epoch", "same epoch", "not a replica", "an earlier process of the broker"],
)
def test_kip_320_who_may_fetch(leader_epoch: int, replica_id: int, broker_epoch: int, error: ErrorCode) -> None:
    partition = Partition()
    partition.elect(1, (0, 1, 2))
    partition.fetch(2)
    before = attrs.evolve(partition[1].remote_replicas[2])
    fetch = FollowerFetch(replica_id, broker_epoch, leader_epoch, fetch_offset=0, last_fetched_epoch=-1)
    assert partition[1].receive_fetch(fetch, EVERYTHING, partition.now_ms).error is error
    assert partition[1].remote_replicas[2] == before


def test_a_broker_that_does_not_lead_in_this_epoch_says_so() -> None:
    partition = Partition()
    fetch = FollowerFetch(2, 102, 0, 0, -1)
    assert partition[1].receive_fetch(fetch, EVERYTHING, 0).error is ErrorCode.not_leader_or_follower


def test_nobody_fetches_from_itself_or_from_nobody() -> None:
    partition = Partition()
    assert partition[0].fetch_request(100) is None
    partition.tell(registration(-1, leader_epoch=1, partition_epoch=1))
    assert all(replica.fetch_request(100) is None for replica in partition.replicas)


@pytest.mark.parametrize(("log_start", "begins_anew"), [(-1, False), (0, True), (2, True)])
def test_a_follower_out_of_range_starts_over_where_its_leader_starts_if_that_is_told(
    log_start: int, begins_anew: bool
) -> None:
    """Offset 0 is such a start, as of a leader that has lost its log."""
    partition = Partition()
    partition.append(0, 7)
    partition.fetch(1)
    fetch = partition[1].fetch_request(101)
    assert fetch is not None
    told = PartitionFetchResponse(ErrorCode.offset_out_of_range, 0, 0, log_start_offset=log_start, log_start_epoch=0)
    assert partition[1].receive_fetch_response(fetch, told, partition.now_ms) is begins_anew
    assert partition[1].log_end_offset == (log_start if begins_anew else 1)


def logs_of(leader: list[tuple[int, int]], follower: list[tuple[int, int]], leader_epoch: int) -> Partition:
    """A partition whose replicas 0 and 1 have these logs of (epoch, value), broker 0 leading."""
    partition = Partition()
    for broker, records in enumerate((leader, follower)):
        partition.logs[broker].records = tuple(Record(epoch, value) for epoch, value in records)
    partition.tell(registration(0, leader_epoch=leader_epoch, partition_epoch=1))
    return partition


def rounds_until_equal(partition: Partition) -> int:
    for taken in range(1, 10):
        partition.fetch(1)
        if partition.values(0) == partition.values(1):
            return taken
    raise AssertionError(f"{partition.values(1)} never became {partition.values(0)}")


@pytest.mark.parametrize(
    ("leader", "follower", "rounds"),
    [
        ([(0, 1), (0, 2)], [], 1),
        ([(0, 1), (0, 2)], [(0, 1)], 1),
        ([(0, 1)], [(0, 1), (0, 9)], 1),
        ([(0, 1), (2, 3)], [(0, 1), (1, 9)], 2),
        ([(1, 1)], [(0, 9)], 2),
        ([], [(0, 8), (0, 9)], 1),
        ([(0, 1), (2, 2), (4, 3)], [(0, 1), (1, 7), (3, 8), (3, 9)], 3),
        ([(0, 1), (0, 2), (3, 3)], [(0, 1), (1, 8), (2, 9)], 2),
    ],
    ids=[
        "empty follower",
        "behind",
        "ahead in the same epoch",
        "one epoch that the leader lacks",
        "nothing in common",
        "empty leader",
        "KIP-279: epochs that alternate",
        "KIP-279: two epochs that the leader lacks",
    ],
)
def test_kip_279_a_follower_ends_with_the_leaders_log(
    leader: list[tuple[int, int]], follower: list[tuple[int, int]], rounds: int
) -> None:
    partition = logs_of(leader, follower, leader_epoch=5)
    assert rounds_until_equal(partition) == rounds


def test_a_fetch_that_diverges_teaches_the_leader_nothing() -> None:
    partition = logs_of([(0, 1), (2, 3)], [(0, 1), (1, 9)], leader_epoch=2)
    response = partition[0].receive_fetch(partition.request(1), EVERYTHING, partition.now_ms)
    assert response.diverging_epoch == EpochEndOffset(0, 1)
    assert response.records == b""
    assert partition[0].remote_replicas[1].log_end_offset == -1


def test_kip_101_a_follower_keeps_what_lies_above_its_high_watermark() -> None:
    partition = Partition()
    partition.append(0, 1)
    partition.fetch(1)
    assert partition[1].high_watermark == 0
    partition.elect(2, (1, 2), 1)
    assert partition.values(1) == [1]


def test_truncation_takes_the_high_watermark_along() -> None:
    partition = logs_of([(0, 1)], [(0, 1), (0, 2)], leader_epoch=1)
    partition[1].high_watermark = 2
    partition.fetch(1)
    assert partition[1].high_watermark == partition[1].log_end_offset == 1


def test_kafka_18991_a_response_of_an_earlier_epoch_is_not_applied() -> None:
    partition = Partition()
    partition.append(0, 1)
    fetch = partition.request(1)
    response = partition[0].receive_fetch(fetch, EVERYTHING, partition.now_ms)
    partition.elect(2, (1, 2), 1, 2)
    assert not partition[1].receive_fetch_response(fetch, response, partition.now_ms)
    assert partition.values(1) == []


def test_a_response_to_an_earlier_offset_is_not_applied() -> None:
    partition = Partition()
    partition.append(0, 1)
    fetch = partition.request(1)
    response = partition[0].receive_fetch(fetch, EVERYTHING, partition.now_ms)
    assert partition[1].receive_fetch_response(fetch, response, partition.now_ms)
    assert not partition[1].receive_fetch_response(fetch, response, partition.now_ms)
    assert partition.values(1) == [1]


def test_a_response_with_an_error_is_not_applied() -> None:
    partition = Partition()
    partition.elect(1, (1, 2), 1, 2)
    fetch = partition.request(2)
    response = partition[0].receive_fetch(fetch, EVERYTHING, partition.now_ms)
    assert response.error is ErrorCode.unknown_leader_epoch
    assert response.has_news
    assert not partition[2].receive_fetch_response(fetch, response, partition.now_ms)


def test_only_an_offset_out_of_range_makes_a_follower_start_over() -> None:
    """Another error may tell a log start as well, and loses nothing."""
    partition = Partition()
    partition.append(0, 7)
    partition.fetch(1)
    told = PartitionFetchResponse(ErrorCode.fenced_leader_epoch, 0, 0, log_start_offset=5, log_start_epoch=0)
    assert not partition[1].receive_fetch_response(partition.request(1), told, partition.now_ms)
    assert (partition.values(1), partition[1].log.log_start_offset) == ([7], 0)


def test_an_empty_response_is_a_reason_to_hold_the_fetch() -> None:
    partition = Partition()
    assert not partition[0].receive_fetch(partition.request(1), EVERYTHING, partition.now_ms).has_news
    partition.append(0, 1)
    assert partition[0].receive_fetch(partition.request(1), EVERYTHING, partition.now_ms).has_news


def test_followers_are_not_limited_by_the_high_watermark() -> None:
    partition = Partition()
    partition.append(0, 1, 2)
    partition.fetch(1)
    assert partition.values(1) == [1, 2]
    assert partition[0].high_watermark == 0


def test_older_metadata_is_ignored() -> None:
    replica = PartitionReplica(0, MemoryLog(), PartitionConfig())
    assert replica.apply_metadata(registration(leader_epoch=3, partition_epoch=5), 1, 0)
    assert not replica.apply_metadata(registration(1, leader_epoch=2, partition_epoch=4), 1, 0)
    assert not replica.apply_metadata(registration(leader_epoch=3, partition_epoch=5), 1, 0)
    assert not replica.apply_metadata(registration(1, leader_epoch=4, partition_epoch=6), 0, 0)
    assert (replica.leader, replica.leader_epoch, replica.partition_epoch) == (0, 3, 5)
    assert replica.apply_metadata(registration(leader_epoch=3, partition_epoch=5), 2, 0)
    assert replica.controller_epoch == 2


def test_a_follower_that_knows_none_of_the_leaders_epoch_starts_over_at_offset_0_too() -> None:
    partition = Partition()
    follower = partition[1]
    partition.logs[1].truncate_fully_and_start_at(3, epoch=2)
    diverging = PartitionFetchResponse(
        leader=0, diverging_epoch=EpochEndOffset(1, 2), high_watermark=0, log_start_offset=0
    )
    assert follower.receive_fetch_response(partition.request(1), diverging, partition.now_ms)
    assert (follower.log.log_start_offset, follower.log_end_offset) == (0, 0)


def test_a_follower_that_is_told_no_log_start_cuts_its_log_where_the_epochs_part() -> None:
    """A leader of another make may tell none: to start over at -1 would be no place."""
    partition = Partition()
    partition.logs[1].records = (Record(2, 8), Record(2, 9))
    diverging = PartitionFetchResponse(leader=0, diverging_epoch=EpochEndOffset(-1, 0), log_start_offset=-1)
    assert partition[1].receive_fetch_response(partition.request(1), diverging, partition.now_ms)
    assert (partition[1].log.log_start_offset, partition[1].log_end_offset) == (0, 0)


def test_an_epoch_that_the_leader_lacks_diverges_at_offset_0_too() -> None:
    partition = Partition()
    partition.append(0, 7)
    fetch = partition.request(1)._replace(last_fetched_epoch=3)
    response = partition[0].receive_fetch(fetch._replace(leader_epoch=0), EVERYTHING, partition.now_ms)
    assert response.diverging_epoch == EpochEndOffset(0, 1)


def test_the_low_watermark_is_the_lowest_log_start() -> None:
    partition = Partition()
    leader = partition[0]
    for follower, start in ((1, 4), (2, 7)):
        leader.remote_replicas[follower].log_start_offset = start
    leader.log.delete_records_before(0)
    assert leader.low_watermark({1, 2}) == 0
    partition.logs[0].truncate_fully_and_start_at(5, epoch=0)
    assert leader.low_watermark({1, 2}) == 4
    assert leader.low_watermark({2}) == 5


def test_a_fetch_on_which_the_log_cannot_be_read_is_as_one_that_never_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Partition()
    partition.elect(0, (0, 1, 2))
    partition.append(0, 1)
    for follower in (1, 2):
        partition.fetch(follower)
    partition.append(0, 2)
    before = {broker: attrs.evolve(remote) for broker, remote in partition[0].remote_replicas.items()}

    def damaged(*arguments: object, **options: object) -> bytes:
        raise OSError("the disk has damaged it")

    monkeypatch.setattr(partition[0].log, "fetch", damaged)
    for follower in (1, 2):
        with pytest.raises(OSError, match="damaged"):
            partition.fetch(follower)
    assert (partition[0].remote_replicas, partition[0].high_watermark) == (before, 0), "they fetched from 1, at first"
