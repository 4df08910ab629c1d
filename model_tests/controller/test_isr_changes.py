"""AlterPartition at the controller (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.model_tests.controller.controlled_cluster import TOPIC, ControlledCluster


def controlled(**configs: str) -> ControlledCluster:
    cluster = ControlledCluster()
    cluster.create(0, 1, 2, configs={name.replace("_", "."): value for name, value in configs.items()})
    return cluster


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, ErrorCode.none),
        ({"broker_epoch": 77}, ErrorCode.stale_broker_epoch),
        ({"broker_id": 9}, ErrorCode.stale_broker_epoch),
        ({"leader_epoch": -1}, ErrorCode.fenced_leader_epoch),
        ({"leader_epoch": 1}, ErrorCode.invalid_request),
        ({"partition_epoch": -1}, ErrorCode.invalid_update_version),
        ({"partition_epoch": 1}, ErrorCode.invalid_update_version),
    ],
    ids=["as it should be", "stale broker", "unknown broker", "old leader", "future leader", "old", "future"],
)
def test_a_proposal_is_written_only_if_it_was_made_on_what_still_holds(
    changes: dict[str, int], error: ErrorCode
) -> None:
    cluster = controlled()
    before = cluster.partition
    assert (
        cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 1, **changes))).error is error
    )
    assert (cluster.partition == before) == (error is not ErrorCode.none)


def test_only_the_leader_proposes() -> None:
    cluster = controlled()
    request = cluster.proposal(0, 1, broker_id=1, broker_epoch=cluster.epochs[1])
    assert cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, request)).error is ErrorCode.invalid_request


@pytest.mark.parametrize("isr", [(), (0, 7)], ids=["nobody", "not a replica"])
def test_a_proposal_must_name_replicas(isr: tuple[int, ...]) -> None:
    cluster = controlled()
    assert (
        cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(*isr))).error
        is ErrorCode.invalid_request
    )


def test_an_unknown_partition_is_said_to_be_unknown() -> None:
    cluster = controlled()
    for topic, partition in ((TOPIC, 1), ("nowhere", 0)):
        response = cluster.commit(cluster.controller.isr_changes.alter(topic, partition, cluster.proposal(0)))
        assert response.error is ErrorCode.unknown_topic_or_partition
        assert response.registration is None


def test_kip_841_a_fenced_broker_does_not_join() -> None:
    cluster = controlled()
    cluster.commit(cluster.controller.members.fence(2))
    response = cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 1, 2)))
    assert response.error is ErrorCode.ineligible_replica
    assert response.registration == cluster.partition
    assert cluster.standing == (0, [0, 1], [])


def test_kip_903_another_process_than_the_leader_saw_does_not_join() -> None:
    cluster = controlled()
    seen = cluster.epochs[2]
    cluster.join(2)
    request = cluster.proposal(0, 1, 2)
    stale = request._replace(isr=(*request.isr[:2], (2, seen)))
    assert cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, stale)).error is ErrorCode.ineligible_replica
    assert cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, request)).error is ErrorCode.none


def test_a_change_raises_the_partition_epoch_and_not_the_leader_epoch() -> None:
    cluster = controlled()
    before = cluster.partition
    response = cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 1)))
    assert response.registration == cluster.partition
    assert response.controller_epoch == cluster.controller.controller_epoch
    assert cluster.partition.partition_epoch == before.partition_epoch + 1
    assert cluster.partition.leader_epoch == before.leader_epoch


def test_kip_966_who_leaves_an_isr_that_becomes_too_small_stays_eligible() -> None:
    cluster = controlled(min_insync_replicas="2")
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 1)))
    assert cluster.standing == (0, [0, 1], [])
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0)))
    assert cluster.standing == (0, [0], [1])
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 2)))
    assert cluster.standing == (0, [0, 2], [])
