"""Appends and their acknowledgements under acks 0, 1 and all (behaviour: produce and fetch at the broker)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import Appended
from tidegauge.model_tests.partition.replicas import Partition, registration


def appended(partition: Partition, *values: int) -> Appended:
    result = partition.append(0, *values)
    assert isinstance(result, Appended)
    return result


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_only_the_leader_appends(acks: int) -> None:
    partition = Partition()
    assert partition.append(1, 7, acks=acks) is ErrorCode.not_leader_or_follower
    assert partition.values(1) == []


def test_acks_all_is_refused_before_the_append_when_too_few_are_in_sync() -> None:
    partition = Partition(min_insync_replicas=2)
    partition.tell(registration(partition_epoch=1, isr=(0,)))
    assert partition.append(0, 7) is ErrorCode.not_enough_replicas
    assert partition.values(0) == []


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_do_not_ask_how_many_are_in_sync(acks: int) -> None:
    partition = Partition(min_insync_replicas=2)
    partition.tell(registration(partition_epoch=1, isr=(0,)))
    assert isinstance(partition.append(0, 7, acks=acks), Appended)


def test_acks_all_waits_for_the_last_offset_of_the_batch() -> None:
    partition = Partition()
    waiting = appended(partition, 1, 2)
    assert partition[0].append_outcome(waiting) is None
    for _ in range(2):
        partition.fetch(1)
        partition.fetch(2)
    assert partition[0].append_outcome(waiting) is ErrorCode.none


def test_an_isr_that_shrank_after_the_append_is_an_error_though_the_record_is_committed() -> None:
    partition = Partition(min_insync_replicas=2)
    waiting = appended(partition, 1)
    for _ in range(2):
        partition.fetch(1)
        partition.fetch(2)
    partition.tell(registration(partition_epoch=1, isr=(0,)))
    assert partition[0].append_outcome(waiting) is ErrorCode.not_enough_replicas_after_append


def test_a_leader_that_lost_its_epoch_cannot_tell_what_became_of_a_record() -> None:
    partition = Partition()
    waiting = appended(partition, 1)
    partition.elect(1, (1, 2), 0)
    assert partition[0].append_outcome(waiting) is ErrorCode.not_leader_or_follower
    partition.elect(0, (0, 1, 2), 0)
    assert partition[0].append_outcome(waiting) is ErrorCode.not_leader_or_follower


def test_a_deposed_leader_that_does_not_know_it_still_appends() -> None:
    partition = Partition()
    partition.elect(1, (1, 2), 1, 2)
    assert isinstance(partition.append(0, 9, acks=1), Appended)
    assert partition.values(0) == [9]


def test_a_replica_that_is_none_any_more_leads_nobody_and_what_waits_for_it_gets_an_error() -> None:
    partition = Partition()
    appended = partition.append(0, 1)
    assert isinstance(appended, Appended)
    assert partition[0].append_outcome(appended) is None
    partition[0].resign()
    assert not partition[0].is_leader
    assert partition[0].append_outcome(appended) is ErrorCode.not_leader_or_follower
