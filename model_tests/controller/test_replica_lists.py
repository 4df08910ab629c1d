"""Replica lists that change: reassignments in the core, and topics that grow; brokers that leave in good order."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.placement import growth_start, place
from tidegauge.impl.controller.reassignments import ongoing_reassignments
from tidegauge.impl.metadata.records import PartitionChangeRecord
from tidegauge.impl.records.slices import at_once
from tidegauge.model_tests.controller.controlled_cluster import TOPIC, ControlledCluster, successor

E = ErrorCode


def controlled(brokers: int = 4, *replicas: int, **configs: str) -> ControlledCluster:
    cluster = ControlledCluster(brokers)
    cluster.create(*(replicas or (0, 1)), configs={name.replace("_", "."): value for name, value in configs.items()})
    return cluster


def join(cluster: ControlledCluster, *isr: int) -> ErrorCode:
    return cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(*isr))).error


def places(cluster: ControlledCluster) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(replicas, adding, removing)."""
    partition = cluster.partition
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_kip_455_the_list_grows_and_completes_with_the_last_of_the_target_in_sync() -> None:
    cluster = controlled()
    assert cluster.commit(cluster.controller.reassignments.reassign(TOPIC, 0, (2, 3))).error is E.none
    assert places(cluster) == ((2, 3, 0, 1), (2, 3), (0, 1))
    assert (cluster.standing, cluster.partition.leader_epoch) == ((0, [0, 1], []), 0)
    assert join(cluster, 0, 1, 2) is E.none
    assert places(cluster) == ((2, 3, 0, 1), (2, 3), (0, 1))
    assert join(cluster, 0, 1, 2, 3) is E.new_leader_elected
    assert places(cluster) == ((2, 3), (), ())
    assert (cluster.standing, cluster.partition.leader_epoch) == ((2, [2, 3], []), 1)


def test_a_leader_that_stays_begins_a_new_epoch_when_a_replica_leaves() -> None:
    cluster = controlled()
    cluster.commit(cluster.controller.reassignments.reassign(TOPIC, 0, (0,)))
    assert places(cluster) == ((0,), (), ())
    assert (cluster.standing, cluster.partition.leader_epoch) == ((0, [0], []), 1)


def test_a_new_order_of_the_same_brokers_changes_who_is_preferred_and_nothing_else() -> None:
    cluster = controlled()
    cluster.commit(cluster.controller.reassignments.reassign(TOPIC, 0, (1, 0)))
    assert (places(cluster), cluster.standing) == (((1, 0), (), ()), (0, [0, 1], []))
    assert cluster.partition.leader_epoch == 0
    assert cluster.commit(cluster.controller.elections.elect_preferred(TOPIC, 0)) is E.none
    assert cluster.standing == (1, [0, 1], [])


def test_only_replicas_are_proposed_for_the_isr() -> None:
    cluster = controlled()
    assert join(cluster, 0, 1, 2) is E.invalid_request
    cluster.commit(cluster.controller.reassignments.reassign(TOPIC, 0, (0, 2)))
    assert join(cluster, 0, 1, 2) is E.new_leader_elected


def test_a_cancelled_reassignment_fences_what_it_takes_back() -> None:
    cluster = controlled()
    cluster.commit(cluster.controller.reassignments.reassign(TOPIC, 0, (2, 3)))
    join(cluster, 0, 1, 2)
    assert cluster.commit(cluster.controller.reassignments.cancel(TOPIC, 0)).error is E.none
    assert places(cluster) == ((0, 1), (), ())
    assert (cluster.standing, cluster.partition.leader_epoch) == ((0, [0, 1], []), 1)
    assert cluster.commit(cluster.controller.reassignments.cancel(TOPIC, 0)).error is E.no_reassignment_in_progress


@pytest.mark.parametrize(("unclean", "error"), [("false", E.invalid_replica_assignment), ("true", E.none)])
def test_a_cancellation_that_might_lose_records_needs_a_topic_that_accepts_loss(unclean: str, error: ErrorCode) -> None:
    cluster = controlled(4, 0, unclean_leader_election_enable=unclean)
    cluster.commit(cluster.controller.reassignments.reassign(TOPIC, 0, (2, 3)))
    join(cluster, 0, 2)
    cluster.commit(cluster.controller.members.fence(0))
    assert cluster.standing == (2, [2], [])
    assert cluster.commit(cluster.controller.reassignments.cancel(TOPIC, 0)).error is error


def test_the_next_controller_knows_of_a_move_that_is_under_way() -> None:
    cluster = controlled()
    cluster.commit(cluster.controller.reassignments.reassign(TOPIC, 0, (2, 3)))
    after = successor(cluster.log, now_ms=0)
    assert [(t, p) for t, p, _ in at_once(ongoing_reassignments(after.image))] == [(TOPIC, 0)]
    assert after.image.partition(TOPIC, 0) == cluster.partition


def test_a_change_says_only_what_it_changes() -> None:
    cluster = controlled()
    end = cluster.log.end_offset
    cluster.commit(cluster.controller.reassignments.reassign(TOPIC, 0, (0, 1, 2)))
    (record,) = cluster.log.read(end)
    assert record == PartitionChangeRecord(TOPIC, 0, replicas=(0, 1, 2), adding_replicas=(2,))


def test_a_broker_that_is_about_to_stop_hands_over_and_gets_nothing_new() -> None:
    cluster = controlled(3, 0, 1)
    assert cluster.commit(cluster.controller.members.begin_shutdown(0))
    assert cluster.standing == (1, [1], [])
    assert not cluster.commit(cluster.controller.members.begin_shutdown(0))
    assert cluster.commit(cluster.controller.elections.elect_preferred(TOPIC, 0)) is E.preferred_leader_not_available
    created = cluster.commit(cluster.controller.topics.create("u", "other", 4, 2))
    assert not [brokers for brokers in created.replicas if 0 in brokers]


def test_a_broker_that_asked_to_stop_is_not_unfenced_by_its_next_heartbeat() -> None:
    cluster = controlled(2)
    epoch, end = cluster.epochs[0], cluster.log.end_offset
    response = cluster.commit(cluster.controller.members.heartbeat(0, epoch, end, 0, want_shut_down=True))
    assert response.should_shut_down
    assert cluster.commit(cluster.controller.members.heartbeat(0, epoch, cluster.log.end_offset, 0)).is_fenced
    cluster.join(0)
    assert cluster.controller.image.is_active(0)


def test_the_last_in_sync_is_asked_to_wait_as_long_as_another_could_join() -> None:
    cluster = controlled(2)
    cluster.commit(cluster.controller.members.fence(1))
    cluster.heartbeat(1)
    wants = {"want_shut_down": True}
    epoch, end = cluster.epochs[0], cluster.log.end_offset
    response = cluster.commit(cluster.controller.members.heartbeat(0, epoch, end, 0, **wants))
    assert (response.should_shut_down, cluster.standing) == (False, (0, [0], []))
    assert cluster.commit(
        cluster.controller.members.heartbeat(0, epoch, end, 0, want_fence=True, **wants)
    ).should_shut_down
    assert cluster.standing == (-1, [], [0])


def test_kip_966_a_process_that_starts_from_a_clean_stop_stays_eligible() -> None:
    for note, elr in ((lambda epoch: epoch, [0]), (lambda epoch: epoch - 1, []), (lambda epoch: -1, [])):
        cluster = controlled(1, 0)
        epoch = cluster.epochs[0]
        cluster.commit(cluster.controller.members.heartbeat(0, epoch, cluster.log.end_offset, 0, want_shut_down=True))
        cluster.commit(cluster.controller.members.register(0, host="b0", port=9092, stopped_cleanly_in=note(epoch)))
        assert cluster.standing == (-1, [], elr)


def test_a_broker_that_is_unregistered_leaves_every_isr() -> None:
    cluster = controlled(3, 0, 1, 2)
    assert cluster.commit(cluster.controller.members.unregister(0)) is E.none
    assert cluster.standing == (1, [1, 2], [])
    assert cluster.commit(cluster.controller.members.unregister(0)) is E.broker_id_not_registered
    assert (
        cluster.commit(cluster.controller.members.heartbeat(0, cluster.epochs[0], 9, 0)).error
        is E.broker_id_not_registered
    )


def test_a_topic_that_grows_goes_on_as_it_began() -> None:
    """As if Kafka's placement had been asked for all of it at once, with its growth's own shift."""
    racks = dict.fromkeys(range(5))
    start = growth_start(racks, 2)
    assert start == 2
    grown = place(racks, 4, 3, start, start, first=3)
    assert grown == ((0, 3, 4), (1, 4, 0), (2, 1, 3), (3, 2, 4))


def test_growth_begins_at_the_next_broker_when_the_first_is_gone() -> None:
    assert growth_start({0: None, 3: None, 5: None}, 2) == 1
    assert growth_start({0: None, 1: None}, 2) == 0


def test_a_deleted_topic_is_gone_with_its_settings_and_its_id() -> None:
    cluster = controlled(2, 0, 1, retention_ms="5")
    assert cluster.commit(cluster.controller.topics.delete(TOPIC)) is E.none
    assert cluster.commit(cluster.controller.topics.delete(TOPIC)) is E.unknown_topic_or_partition
    image = cluster.controller.image
    assert (image.topics, image.topic_names) == ({}, {})
    cluster.create(0)
    assert image.topics[TOPIC].configs == {}


def test_reassignments_are_looked_for_in_slices_among_the_wanted_partitions_or_all() -> None:
    cluster = ControlledCluster()
    cluster.commit(cluster.controller.topics.create_on("many", "id-many", ((0, 1),) * 200))
    cluster.commit(cluster.controller.reassignments.reassign("many", 150, (1, 2)))
    image = cluster.controller.image
    for wanted, slices in ((None, 3), ([("many", 150)] * 127, 1), ([("many", 7), ("many", 999), ("none", 0)], 0)):
        assert sum(1 for _ in ongoing_reassignments(image, wanted)) == slices
        found = [(topic, index) for topic, index, _ in at_once(ongoing_reassignments(image, wanted))]
        assert found == ([("many", 150)] if slices else [])


def test_a_broker_that_is_unregistered_is_not_eligible_any_more() -> None:
    cluster = ControlledCluster()
    cluster.create(0, 1, 2, configs={"min.insync.replicas": "3"})
    cluster.commit(cluster.controller.members.fence(1))
    assert cluster.standing == (0, [0, 2], [1])
    assert cluster.commit(cluster.controller.members.unregister(1)) is E.none
    assert cluster.standing == (0, [0, 2], [])
