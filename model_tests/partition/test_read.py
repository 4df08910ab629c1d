"""What consumers are shown: committed records, end offsets that do not go back (KIP-207, KIP-320)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import EpochEndOffset
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.lazy import in_memory
from tidegauge.model_tests.harness.cores.memory_log import MemoryLog
from tidegauge.model_tests.partition.replicas import EVERYTHING, Partition, registration


def committed(count: int, more: int = 0) -> Partition:
    """Broker 0 leads with `count` committed records and `more` that are not; the others have all."""
    partition = Partition()
    partition.append(0, *range(count))
    for _ in range(2):
        partition.fetch(1)
        partition.fetch(2)
    if more:
        partition.append(0, *range(count, count + more))
    assert partition[0].high_watermark == count
    return partition


def test_a_consumer_sees_committed_records_only() -> None:
    response = committed(2, more=3)[0].read(0, EVERYTHING)
    assert [record.value for record in MemoryLog.decode(in_memory(response.records))] == [0, 1]
    assert response.high_watermark == 2
    assert response.log_start_offset == 0


@pytest.mark.parametrize("offset", [2, 3, 5])
def test_between_high_watermark_and_log_end_there_is_nothing_yet(offset: int) -> None:
    response = committed(2, more=3)[0].read(offset, EVERYTHING)
    assert response.error is ErrorCode.none
    assert response.records == b""


def test_where_no_byte_is_left_of_a_fetch_the_log_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another partition has filled the response: a damaged place here is not its reader's concern yet."""
    leader = committed(2)[0]

    def fail(offset: int, max_bytes: int, end_offset: int) -> bytes:
        raise AssertionError("the log is read")

    monkeypatch.setattr(leader.log, "fetch", fail)
    assert leader.read(0, 0, at_least_one=False).records == b""
    with pytest.raises(AssertionError, match="the log is read"):
        leader.read(0, 0, at_least_one=True)


@pytest.mark.parametrize("offset", [-1, 6])
def test_an_offset_outside_the_log_is_out_of_range(offset: int) -> None:
    assert committed(2, more=3)[0].read(offset, EVERYTHING).error is ErrorCode.offset_out_of_range


Asked = Callable[[PartitionReplica, int | None], object]
QUESTIONS: dict[str, Asked] = {
    "read": lambda replica, epoch: replica.read(0, EVERYTHING, epoch).error,
    "latest_offset": lambda replica, epoch: replica.latest_offset(epoch),
    "earliest_offset": lambda replica, epoch: replica.earliest_offset(epoch),
    "end_offset_for_leader_epoch": lambda replica, epoch: replica.end_offset_for_leader_epoch(0, epoch),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_only_the_leader_serves_clients_and_only_in_its_epoch(ask: Asked) -> None:
    partition = committed(1)
    partition.elect(0, (0, 1, 2))
    assert ask(partition[1], None) is ErrorCode.not_leader_or_follower
    assert ask(partition[0], 0) is ErrorCode.fenced_leader_epoch
    assert ask(partition[0], 2) is ErrorCode.unknown_leader_epoch
    assert ask(partition[0], None) not in (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


def test_kip_207_a_new_leader_tells_no_end_offset_before_it_knows_what_was_committed() -> None:
    partition = Partition()
    partition.append(0, 1, 2)
    partition.fetch(1)
    partition.elect(1, (1, 2))
    leader = partition[1]
    assert leader.latest_offset() is ErrorCode.offset_not_available
    assert leader.read(0, EVERYTHING).error is ErrorCode.offset_not_available
    partition.fetch(2)
    partition.fetch(2)
    assert leader.latest_offset() == 2
    assert leader.read(2, EVERYTHING).error is ErrorCode.none


def test_kip_207_what_is_known_to_be_committed_is_shown_meanwhile() -> None:
    partition = committed(1)
    partition.append(0, 1)
    partition.fetch(1)
    partition.elect(1, (1, 2))
    assert [record.value for record in MemoryLog.decode(in_memory(partition[1].read(0, EVERYTHING).records))] == [0]


def test_latest_and_earliest_offset() -> None:
    leader = committed(2, more=1)[0]
    assert (leader.earliest_offset(), leader.latest_offset()) == (0, 2)


def test_the_end_of_an_epoch_is_told_as_the_log_has_it() -> None:
    partition = committed(2)
    partition.tell(registration(0, leader_epoch=3, partition_epoch=1))
    partition.append(0, 9)
    assert partition[0].end_offset_for_leader_epoch(0) == EpochEndOffset(0, 2)
    assert partition[0].end_offset_for_leader_epoch(2) == EpochEndOffset(0, 2)
    assert partition[0].end_offset_for_leader_epoch(3) == EpochEndOffset(3, 3)
