"""What is committed, and who knows it (behaviour: replication, ISR and high watermark)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import Appended, HighWatermarkAdvanced, LogEndAdvanced, PartitionConfig
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores.memory_log import MemoryLog
from tidegauge.model_tests.partition.replicas import Partition, registration
from tidegauge.spec.replication.state import Record


def test_a_record_is_committed_once_the_whole_isr_has_shown_that_it_holds_it() -> None:
    partition = Partition()
    partition.append(0, 7)
    partition.fetch(1)
    partition.fetch(2)
    assert partition.high_watermarks() == [0, 0, 0]
    partition.fetch(1)
    assert partition.high_watermarks() == [0, 0, 0]
    partition.fetch(2)
    assert partition.high_watermarks() == [1, 0, 1]


def test_a_batch_of_many_records_is_committed_as_it_was_appended() -> None:
    partition = Partition()
    appended = partition.append(0, 1, 2, 3)
    assert appended == Appended(base_offset=0, end_offset=3, leader_epoch=0)
    for _ in range(2):
        partition.fetch(1)
        partition.fetch(2)
    assert partition[0].high_watermark == 3
    assert partition.append(0, 4, 5) == Appended(3, 5, 0)


def test_a_follower_vouches_for_its_own_log_only() -> None:
    partition = Partition()
    partition.append(0, 1, 2)
    partition.tell(registration(partition_epoch=1, isr=(0,)))
    assert partition[0].high_watermark == 2
    fetch = partition.request(1)
    response = partition[0].receive_fetch(fetch, 1, partition.now_ms)
    partition[1].receive_fetch_response(fetch, response, partition.now_ms)
    assert response.high_watermark == 2
    assert partition[1].high_watermark == partition[1].log_end_offset == 1


def test_an_isr_of_one_commits_by_itself() -> None:
    partition = Partition()
    partition.tell(registration(partition_epoch=1, isr=(0,)))
    partition.append(0, 1)
    assert partition[0].high_watermark == 1


def test_a_new_leader_keeps_its_high_watermark_until_followers_have_fetched_in_its_epoch() -> None:
    partition = Partition()
    partition.append(0, 1)
    for _ in range(2):
        partition.fetch(1)
        partition.fetch(2)
    partition.elect(1, isr=(1, 2))
    assert partition[1].high_watermark == 0
    partition.append(1, 2)
    assert partition[1].high_watermark == 0
    partition.fetch(2)
    assert partition[1].high_watermark == 1


def test_nothing_is_committed_while_the_isr_is_smaller_than_min_insync_replicas() -> None:
    partition = Partition(min_insync_replicas=2)
    partition.tell(registration(partition_epoch=1, isr=(0,)))
    partition.append(0, 1, acks=1)
    assert partition[0].high_watermark == 0
    partition.tell(registration(partition_epoch=2, isr=(0, 1)))
    partition.fetch(1)
    partition.fetch(1)
    assert partition[0].high_watermark == 1


def test_min_insync_replicas_is_never_more_than_there_are_replicas() -> None:
    replica = PartitionReplica(0, MemoryLog(), PartitionConfig(min_insync_replicas=3))
    replica.apply_metadata(registration(isr=(0, 1), replicas=(0, 1)), 0, 0)
    assert replica.append_error(-1) is ErrorCode.none
    replica.apply_metadata(registration(isr=(0,), replicas=(0, 1), partition_epoch=1), 0, 0)
    assert replica.append_error(-1) is ErrorCode.not_enough_replicas


def test_kip_497_a_replica_that_may_have_joined_is_waited_for() -> None:
    partition = Partition()
    partition.tell(registration(partition_epoch=1, isr=(0, 1)))
    partition.fetch(1)
    partition.fetch(2)
    assert partition[0].pending_isr == frozenset({0, 1, 2})
    partition.append(0, 1)
    partition.fetch(1)
    partition.fetch(1)
    assert partition[0].high_watermark == 0
    partition.fetch(2)
    partition.fetch(2)
    assert partition[0].high_watermark == 1


@pytest.mark.parametrize(("checkpoint", "expected"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_at_start_the_high_watermark_is_the_checkpoint_capped_by_the_log(checkpoint: int, expected: int) -> None:
    log = MemoryLog((Record(0, 1), Record(0, 2)))
    assert PartitionReplica(0, log, PartitionConfig(), checkpoint).high_watermark == expected


def test_the_shell_is_told_when_the_log_and_the_high_watermark_move() -> None:
    partition = Partition()
    partition.tell(registration(partition_epoch=1, isr=(0,)))
    partition[0].take_effects()
    partition.append(0, 1)
    assert partition[0].take_effects() == [LogEndAdvanced(1), HighWatermarkAdvanced(1)]
    assert partition[0].take_effects() == []
