"""Joining and leaving the ISR, and what the leader makes of the controller's response (KIP-497, KIP-903)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrChanged,
    SendAlterPartition,
)
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.harness.cores.memory_log import MemoryLog
from tidegauge.model_tests.partition.replicas import EVERYTHING, Partition, registration

LAG = 1_000


def with_isr(*isr: int, records: int = 0) -> Partition:
    """Broker 0 leads with this ISR, and has this many records."""
    partition = Partition(replica_lag_time_max_ms=LAG)
    partition.tell(registration(partition_epoch=1, isr=isr))
    if records:
        partition.append(0, *range(records))
    partition[0].take_effects()
    return partition


def proposal(partition: Partition) -> AlterPartitionRequest:
    request = partition[0].alter_partition_request(100)
    assert request is not None
    return request


def response(
    partition: Partition,
    request: AlterPartitionRequest,
    error: ErrorCode = ErrorCode.none,
    controller_epoch: int = 0,
) -> PartitionRegistration:
    """The controller's response reaches the leader; the registration that it wrote, or the old one."""
    written = partition.registration
    if error is ErrorCode.none:
        written = written._replace(isr=request.members, partition_epoch=written.partition_epoch + 1)
    partition[0].receive_alter_partition_response(request, AlterPartitionResponse(error, controller_epoch, written))
    return written


# --- joining -------------------------------------------------------------------------------------------------------


def test_a_follower_that_reached_the_high_watermark_is_proposed() -> None:
    partition = with_isr(0, 1, records=2)
    partition.fetch(2)
    assert partition[0].pending_isr == frozenset({0, 1, 2})
    assert SendAlterPartition() in partition[0].take_effects()


def test_a_follower_below_the_high_watermark_is_not_proposed() -> None:
    partition = with_isr(0, records=2)
    assert partition[0].high_watermark == 2
    fetch = partition.request(2)
    partition[2].receive_fetch_response(fetch, partition[0].receive_fetch(fetch, MemoryLog.bytes_of(1), 0), 0)
    partition[0].receive_fetch(partition.request(2), MemoryLog.bytes_of(1), 0)
    assert partition[0].pending_isr is None


def test_kafka_7128_a_follower_joins_only_once_it_has_reached_the_start_of_the_epoch() -> None:
    partition = Partition()
    partition.append(0, 1)
    partition.fetch(1)
    partition.elect(1, (1,))
    partition[1].high_watermark = 0
    partition[1].receive_fetch(partition.request(2), MemoryLog.bytes_of(1), 0)
    assert partition[1].pending_isr is None
    partition.fetch(2)
    partition.fetch(2)
    assert partition[1].pending_isr == frozenset({1, 2})


def test_one_proposal_at_a_time() -> None:
    partition = with_isr(0)
    partition.fetch(1)
    partition.fetch(2)
    assert partition[0].pending_isr == frozenset({0, 1})
    assert not partition[0].shrink_isr(partition.now_ms + 10 * LAG)


def test_kip_903_a_proposal_names_the_process_that_the_leader_saw_fetching() -> None:
    partition = with_isr(0, 1)
    partition.fetch(2)
    request = proposal(partition)
    assert request == AlterPartitionRequest(0, 100, 0, 1, ((0, 100), (1, -1), (2, 102)))
    assert proposal(partition) == request, "a proposal is sent again as it was"


def test_kip_903_a_proposal_that_is_sent_again_does_not_vouch_for_a_new_process() -> None:
    partition = with_isr(0, records=3)
    for _ in range(2):
        partition.fetch(2)
    request = proposal(partition)
    partition.replicas[2].log.truncate_to(1)  # it has died, and lost its log's tail
    restarted = partition.request(2)._replace(broker_epoch=202)
    assert restarted.fetch_offset == 1
    assert partition[0].receive_fetch(restarted, EVERYTHING, partition.now_ms).records
    assert proposal(partition) == request
    response(partition, request, ErrorCode.ineligible_replica)
    assert partition[0].receive_fetch(restarted, EVERYTHING, partition.now_ms).records
    assert partition[0].pending_isr is None, "it has not caught up"
    partition[0].receive_fetch(restarted._replace(fetch_offset=3), EVERYTHING, partition.now_ms)
    assert proposal(partition).isr == ((0, 100), (2, 202))


# --- leaving -------------------------------------------------------------------------------------------------------


def test_a_follower_that_has_not_caught_up_for_too_long_is_to_leave() -> None:
    partition = with_isr(0, 1, 2, records=1)
    partition.fetch(1)
    partition.fetch(1)
    assert not partition[0].shrink_isr(partition.now_ms + LAG)
    assert partition[0].shrink_isr(partition.now_ms + LAG + 1)
    assert proposal(partition).members == {0, 1}
    assert partition[0].maximal_isr == {0, 1, 2}


def test_a_follower_that_holds_everything_stays_however_long_nothing_happens() -> None:
    partition = with_isr(0, 1, 2, records=1)
    for follower in (1, 2):
        partition.fetch(follower)
        partition.fetch(follower)
    assert not partition[0].shrink_isr(partition.now_ms + 1_000 * LAG)


def test_a_follower_that_always_reaches_what_the_leader_had_at_its_last_fetch_keeps_up() -> None:
    partition = with_isr(0, 1, records=1)
    for value in range(1, 20):
        partition.fetch(1)
        partition.append(0, value)
        partition.now_ms += LAG // 2
        assert not partition[0].shrink_isr(partition.now_ms), f"left behind after {value} fetches"
    partition.now_ms += 2 * LAG
    assert partition[0].shrink_isr(partition.now_ms)


def test_members_of_the_isr_get_their_full_time_in_a_new_epoch() -> None:
    partition = with_isr(0, 1, 2, records=1)
    partition.now_ms += 10 * LAG
    partition.elect(0, (0, 1, 2))
    assert not partition[0].shrink_isr(partition.now_ms + LAG)
    assert partition[0].shrink_isr(partition.now_ms + LAG + 1)


def test_a_follower_that_rests_with_all_records_has_the_whole_time_for_the_next_one() -> None:
    """It has fetched nothing for long when the record comes; what counts is when it last asked for more."""
    partition = with_isr(0, 1)
    partition.now_ms += 50 * LAG
    partition.fetch(1)
    partition.append(0, 1)
    assert not partition[0].shrink_isr(partition.now_ms + LAG)
    assert partition[0].shrink_isr(partition.now_ms + LAG + 1)


def test_only_a_leader_shrinks_its_isr() -> None:
    partition = with_isr(0, 1, 2, records=1)
    assert not partition[1].shrink_isr(partition.now_ms + 10 * LAG)
    assert partition[1].alter_partition_request(101) is None


# --- the controller's response ---------------------------------------------------------------------------------------


def test_what_the_controller_wrote_becomes_the_isr() -> None:
    partition = with_isr(0)
    partition.fetch(1)
    written = response(partition, proposal(partition))
    assert partition[0].isr == {0, 1}
    assert partition[0].pending_isr is None
    assert partition[0].partition_epoch == written.partition_epoch
    assert IsrChanged(frozenset({0, 1})) in partition[0].take_effects()


def test_a_shrink_that_is_confirmed_lets_the_high_watermark_move() -> None:
    partition = with_isr(0, 1, records=1)
    partition[0].shrink_isr(partition.now_ms + LAG + 1)
    assert partition[0].high_watermark == 0
    response(partition, proposal(partition))
    assert partition[0].high_watermark == 1


def test_an_ineligible_replica_makes_the_leader_give_the_proposal_up() -> None:
    partition = with_isr(0)
    partition.fetch(1)
    response(partition, proposal(partition), ErrorCode.ineligible_replica)
    assert partition[0].pending_isr is None
    assert partition[0].isr == {0}
    partition.fetch(1)
    assert partition[0].pending_isr == frozenset({0, 1}), "it is proposed again by a later fetch"


@pytest.mark.parametrize(
    "error", [ErrorCode.invalid_update_version, ErrorCode.fenced_leader_epoch, ErrorCode.stale_broker_epoch]
)
def test_a_refusal_as_out_of_date_leaves_the_proposal_open_until_the_metadata_tell(error: ErrorCode) -> None:
    partition = with_isr(0)
    partition.fetch(1)
    response(partition, proposal(partition), error)
    assert partition[0].maximal_isr == {0, 1}
    partition.tell(registration(partition_epoch=2, isr=(0,)))
    assert partition[0].maximal_isr == {0}


def test_an_older_controllers_response_is_ignored() -> None:
    partition = with_isr(0)
    partition.tell(partition.registration, controller_epoch=3)
    partition.fetch(1)
    response(partition, proposal(partition), controller_epoch=2)
    assert partition[0].isr == {0}
    response(partition, proposal(partition), controller_epoch=3)
    assert partition[0].isr == {0, 1}


def test_a_late_refusal_does_not_void_a_later_proposal() -> None:
    partition = with_isr(0, 2)
    partition.fetch(1)
    refused = proposal(partition)
    partition.tell(registration(partition_epoch=2, isr=(0,)))
    partition.fetch(1)
    assert partition[0].pending_isr == frozenset({0, 1})
    response(partition, refused, ErrorCode.ineligible_replica)
    assert partition[0].maximal_isr == {0, 1}


def test_a_response_to_an_earlier_epochs_proposal_is_ignored() -> None:
    partition = with_isr(0)
    partition.fetch(1)
    earlier = proposal(partition)
    partition.elect(0, (0,))
    response(partition, earlier)
    assert partition[0].isr == {0}


def test_a_new_controller_that_knows_no_more_of_the_partition_leaves_the_proposal_open() -> None:
    """The former one may have committed it: the high watermark waits for its members."""
    partition = with_isr(0)
    partition.fetch(1)
    partition[0].apply_metadata(partition.registration, 1, 0)
    assert partition[0].pending_isr == frozenset({0, 1})


def test_who_is_no_replica_any_more_proposes_nothing() -> None:
    partition = with_isr(0)
    partition.fetch(1)
    partition[0].resign()
    assert partition[0].pending_isr is None


def test_metadata_that_arrive_before_the_response_close_the_proposal() -> None:
    partition = with_isr(0)
    partition.fetch(1)
    request = proposal(partition)
    partition.tell(registration(partition_epoch=2, isr=(0, 1)))
    assert partition[0].pending_isr is None
    assert partition[0].alter_partition_request(100) is None
    response(partition, request)
    assert partition[0].isr == {0, 1}
    assert partition[0].partition_epoch == 2
