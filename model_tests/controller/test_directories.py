"""Log directories at the controller: who loses what when one fails, and what comes back (KIP-858)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.directories import DAMAGED, LOST, UNASSIGNED
from tidegauge.impl.metadata.codec import decode, encode
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.model_tests.controller.controlled_cluster import TOPIC, ControlledCluster

ONE, TWO = "directory-one", "directory-two"


def two_partitions() -> ControlledCluster:
    """t-0 and t-1 on brokers 0, 1, 2, led by 0, which has t-0 in directory one and t-1 in two."""
    cluster = ControlledCluster(3)
    for broker in range(3):
        join(cluster, broker, ONE, TWO)
    cluster.commit(cluster.controller.topics.create_on("t", "id", ((0, 1, 2), (0, 1, 2))))
    for partition, directory in enumerate((ONE, TWO)):
        assert cluster.commit(cluster.controller.directories.assign(0, "t", partition, directory)) is ErrorCode.none
    return cluster


def join(cluster: ControlledCluster, broker: int, *directories: str) -> None:
    """A new process of a broker that has these directories, up to date."""
    controller = cluster.controller
    epoch = cluster.commit(controller.members.register(broker, host=f"b{broker}", port=9092, directories=directories))
    cluster.epochs[broker] = epoch
    cluster.commit(controller.members.heartbeat(broker, epoch, cluster.log.end_offset, 0))
    assert controller.image.is_unfenced(broker)


def test_replicas_in_a_failed_directory_leave_the_isr_and_lead_no_more() -> None:
    cluster = two_partitions()
    assert cluster.commit(cluster.controller.directories.mark_offline(0, {ONE}))
    lost, kept = (cluster.controller.image.partition("t", partition) for partition in range(2))
    assert lost is not None
    assert kept is not None
    assert (lost.leader, lost.isr, lost.offline_replicas, lost.leader_epoch) == (
        1,
        frozenset({1, 2}),
        frozenset({0}),
        1,
    )
    assert (kept.leader, kept.isr, kept.offline_replicas, kept.leader_epoch) == (
        0,
        frozenset({0, 1, 2}),
        frozenset(),
        0,
    )
    assert cluster.controller.image.brokers[0].directories == (TWO,)
    assert cluster.controller.image.is_unfenced(0)


def test_what_was_told_before_is_no_news() -> None:
    cluster = two_partitions()
    assert cluster.commit(cluster.controller.directories.mark_offline(0, {ONE}))
    end = cluster.log.end_offset
    assert not cluster.commit(cluster.controller.directories.mark_offline(0, {ONE}))
    assert not cluster.commit(cluster.controller.directories.mark_offline(0, {"unknown"}))
    assert cluster.log.end_offset == end


def test_an_offline_replica_is_elected_neither_cleanly_nor_uncleanly_nor_taken_into_the_isr() -> None:
    cluster = two_partitions()
    cluster.commit(cluster.controller.directories.mark_offline(0, {ONE}))
    cluster.commit(cluster.controller.members.fence(2))
    cluster.commit(cluster.controller.members.fence(1))
    registration = cluster.controller.image.partition("t", 0)
    assert registration is not None
    assert registration.leader == -1
    assert (
        cluster.commit(cluster.controller.elections.elect_uncleanly("t", 0)) is ErrorCode.eligible_leaders_not_available
    )
    join(cluster, 1, ONE, TWO)
    registration = cluster.controller.image.partition("t", 0)
    assert registration is not None
    if registration.leader == -1:
        cluster.commit(cluster.controller.elections.elect_uncleanly("t", 0))
        registration = cluster.controller.image.partition("t", 0)
        assert registration is not None
    assert registration.leader == 1
    members = tuple((broker, cluster.epochs[broker]) for broker in (0, 1))
    proposal = AlterPartitionRequest(
        1, cluster.epochs[1], registration.leader_epoch, registration.partition_epoch, members
    )
    assert cluster.commit(cluster.controller.isr_changes.alter("t", 0, proposal)).error is ErrorCode.ineligible_replica


def test_a_replica_that_was_lost_before_its_directory_was_known_is_offline() -> None:
    cluster = two_partitions()
    assert cluster.commit(cluster.controller.directories.assign(1, "t", 0, LOST)) is ErrorCode.none
    registration = cluster.controller.image.partition("t", 0)
    assert registration is not None
    assert (registration.isr, registration.offline_replicas) == (frozenset({0, 2}), frozenset({1}))


def test_a_new_process_brings_its_directories_back() -> None:
    cluster = two_partitions()
    cluster.commit(cluster.controller.directories.mark_offline(0, {ONE}))
    join(cluster, 0, TWO)
    registration = cluster.controller.image.partition("t", 0)
    assert registration is not None
    assert registration.offline_replicas == {0}, "the directory is still missing"
    join(cluster, 0, ONE, TWO)
    registration = cluster.controller.image.partition("t", 0)
    assert registration is not None
    assert registration.offline_replicas == frozenset()


def test_a_replica_that_was_made_anew_elsewhere_is_online_again() -> None:
    cluster = two_partitions()
    cluster.commit(cluster.controller.directories.mark_offline(0, {ONE}))
    join(cluster, 0, TWO)
    assert cluster.commit(cluster.controller.directories.assign(0, "t", 0, TWO)) is ErrorCode.none
    registration = cluster.controller.image.partition("t", 0)
    assert registration is not None
    assert registration.offline_replicas == frozenset()


def test_assignments_that_cannot_be_are_refused() -> None:
    cluster = two_partitions()
    assert cluster.commit(cluster.controller.directories.assign(0, "t", 7, ONE)) is ErrorCode.unknown_topic_or_partition
    cluster.commit(cluster.controller.topics.create_on("u", "id-2", ((1,),)))
    assert cluster.commit(cluster.controller.directories.assign(0, "u", 0, ONE)) is ErrorCode.not_leader_or_follower


def test_the_next_controller_knows_it_all() -> None:
    cluster = two_partitions()
    cluster.commit(cluster.controller.directories.mark_offline(0, {ONE}))
    log = cluster.log.read(0)
    assert [decode(encode(record)) for record in log] == list(log)
    image = type(cluster.controller.image)()
    image.replay(log)
    assert image.topics == cluster.controller.image.topics
    assert image.brokers == cluster.controller.image.brokers


def test_a_replica_whose_log_is_gone_is_neither_in_sync_nor_eligible_until_it_is_found() -> None:
    cluster = ControlledCluster(3)
    for broker in range(3):
        join(cluster, broker, ONE)
    cluster.create(0, 1, 2, configs={"min.insync.replicas": "3"})
    assign = cluster.controller.directories.assign
    assert cluster.commit(assign(1, TOPIC, 0, UNASSIGNED)) is ErrorCode.none
    assert (cluster.standing, cluster.partition.lost_replicas) == ((0, [0, 2], []), frozenset({1}))
    assert (
        cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 1, 2))).error
        is ErrorCode.none
    )
    assert cluster.partition.lost_replicas == frozenset(), "who is in sync counts, whatever its broker has reported"
    assert cluster.commit(assign(1, TOPIC, 0, UNASSIGNED)) is ErrorCode.none
    assert cluster.standing == (0, [0, 1, 2], []), "a late report of what is known takes nobody out"
    assert cluster.commit(assign(1, TOPIC, 0, ONE)) is ErrorCode.none
    assert (cluster.standing, cluster.partition.lost_replicas) == ((0, [0, 1, 2], []), frozenset())


def test_a_leader_epoch_begins_where_a_live_broker_reports_that_a_log_is_gone_or_damaged_once() -> None:
    """What the replica fetched before must not count; the same report again begins no other epoch."""
    for report in (UNASSIGNED, DAMAGED):
        cluster = two_partitions()
        assign = cluster.controller.directories.assign
        assert cluster.commit(assign(1, "t", 0, report)) is ErrorCode.none
        end = cluster.log.end_offset
        assert cluster.commit(assign(1, "t", 0, report)) is ErrorCode.none
        known = cluster.controller.image.partition("t", 0)
        assert known is not None
        assert (known.leader, known.leader_epoch, known.isr) == (0, 1, frozenset({0, 2}))
        assert cluster.log.end_offset == end


def test_a_lost_replica_whose_directory_fails_is_lost_still_when_the_directory_is_back() -> None:
    cluster = two_partitions()
    directories = cluster.controller.directories
    seen = []
    for directory in (UNASSIGNED, LOST, UNASSIGNED, ONE):
        assert cluster.commit(directories.assign(0, "t", 0, directory)) is ErrorCode.none
        known = cluster.controller.image.partition("t", 0)
        assert known is not None
        seen.append((0 in known.lost_replicas, 0 in known.offline_replicas))
    assert seen == [(True, False), (True, True), (True, False), (False, False)]


def test_a_fenced_broker_that_reports_damage_stays_eligible_while_nobody_is_in_sync() -> None:
    cluster = ControlledCluster(2)
    for broker in range(2):
        join(cluster, broker, ONE)
    cluster.create(1, 0, configs={"min.insync.replicas": "2"})
    for broker in range(2):
        cluster.commit(cluster.controller.members.fence(broker))
    join(cluster, 1, ONE)
    assert (cluster.standing, cluster.partition.last_known_leader) == ((-1, [], [0]), 1), "1 may have lost its tail"
    told = cluster.commit(cluster.controller.directories.assign(0, TOPIC, 0, DAMAGED))
    assert (told, cluster.standing) == (ErrorCode.eligible_leaders_not_available, (-1, [], [0]))
    cluster.heartbeat(0)
    assert cluster.standing == (0, [0], []), "it leads on with what it can read"
