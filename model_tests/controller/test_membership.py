"""Which brokers belong to the cluster, and which node decides for it.

The first tests bear the names of what Kafka once got from ZooKeeper: ephemeral membership, one controller, epoch
fencing, watch → notification, conditional update of the ISR.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import MetadataAppended
from tidegauge.impl.controller.membership import GOES_ON, HeartbeatResponse
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.model_tests.controller.controlled_cluster import SESSION, TOPIC, ControlledCluster, successor


def test_ephemeral_membership() -> None:
    """A broker that is silent for too long is fenced; its id stays in the replica list; it comes back as a follower."""
    cluster = ControlledCluster()
    cluster.create(0, 1, 2)
    for broker in (1, 2):
        cluster.heartbeat(broker, now_ms=SESSION - 1)
    assert cluster.expire_sessions(SESSION) == [0]
    assert cluster.partition.replicas == (0, 1, 2)
    assert cluster.standing == (1, [1, 2], [])
    cluster.heartbeat(0, now_ms=SESSION + 1)
    assert cluster.controller.image.is_unfenced(0)
    assert cluster.standing == (1, [1, 2], [])


def test_a_heartbeat_that_only_renews_a_session_is_known_without_deciding() -> None:
    cluster = ControlledCluster()
    cluster.create(0, 1, 2)
    members, epoch, end = cluster.controller.members, cluster.epochs[0], cluster.controller.image.offset
    renewal = members.renewal(0, epoch, end, 7)
    assert renewal == members.heartbeat(0, epoch, end, 7)
    assert (renewal is not None and renewal.response, renewal and dict(renewal.sessions)) == (GOES_ON, {0: 7 + SESSION})
    assert [members.renewal(*other, end, 7) for other in ((9, epoch), (0, epoch + 1))] == [None, None]
    assert members.renewal(0, epoch, epoch, 7) is None, "it has not seen its own registration"
    cluster.commit(members.fence(0))
    assert cluster.controller.members.renewal(0, epoch, end, 7) is None


def test_one_controller() -> None:
    """Each controller that takes over has an epoch of its own, larger than any before."""
    cluster = ControlledCluster()
    epochs = [successor(cluster.log, now_ms=0, node_id=node).controller_epoch for node in (3000, 3001, 3000)]
    assert epochs == [1, 2, 3]


def test_epoch_fencing() -> None:
    """What an earlier process of a broker sends is refused, whatever it is."""
    cluster = ControlledCluster()
    cluster.create(0, 1, 2)
    earlier = cluster.epochs[0]
    cluster.register(0)
    assert cluster.commit(cluster.controller.members.heartbeat(0, earlier, 99, 0)) == HeartbeatResponse(
        ErrorCode.stale_broker_epoch
    )
    refused = cluster.commit(
        cluster.controller.isr_changes.alter(
            TOPIC, 0, cluster.proposal(1, broker_id=0, broker_epoch=earlier, leader_epoch=0)
        )
    )
    assert refused.error is ErrorCode.stale_broker_epoch
    assert cluster.epochs[0] > earlier


def test_watch_becomes_notification() -> None:
    """A broker that has read the whole metadata log is woken when it grows, and reads only what is new."""
    cluster = ControlledCluster()
    cluster.create(0, 1, 2)
    broker = ClusterImage()
    broker.replay(cluster.log.read(0))
    cluster.log.take_effects()
    assert cluster.log.read(broker.offset) == []
    cluster.commit(cluster.controller.members.fence(0))
    assert MetadataAppended(cluster.log.end_offset) in cluster.log.take_effects()
    news = cluster.log.read(broker.offset)
    assert len(news) == 2
    broker.replay(news)
    assert broker.partition(TOPIC, 0) == cluster.partition
    assert broker.offset == cluster.log.end_offset


def test_conditional_update_of_the_isr() -> None:
    """Of two changes that were made on the same state of the partition, the second is refused."""
    cluster = ControlledCluster()
    cluster.create(0, 1, 2)
    first, second = cluster.proposal(0, 1), cluster.proposal(0, 2)
    assert cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, first)).error is ErrorCode.none
    response = cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, second))
    assert response.error is ErrorCode.invalid_update_version
    assert response.registration == cluster.partition
    assert cluster.standing == (0, [0, 1], [])


# --- registration and fencing --------------------------------------------------------------------------------------


def test_broker_epochs_only_grow_and_are_offsets_of_the_metadata_log() -> None:
    cluster = ControlledCluster(brokers=0)
    epochs = []
    for broker in (0, 1, 0, 2, 1):
        offset = cluster.log.end_offset
        epochs.append(cluster.register(broker))
        assert epochs[-1] == offset
    assert epochs == sorted(set(epochs))


def test_a_registered_broker_is_fenced_until_it_has_the_metadata_of_its_registration() -> None:
    cluster = ControlledCluster(brokers=1)
    epoch = cluster.register(1)
    behind = cluster.commit(cluster.controller.members.heartbeat(1, epoch, epoch, 0))
    assert behind == HeartbeatResponse(ErrorCode.none, is_caught_up=False, is_fenced=True)
    caught_up = cluster.commit(cluster.controller.members.heartbeat(1, epoch, epoch + 1, 0))
    assert caught_up == HeartbeatResponse(ErrorCode.none, is_caught_up=True, is_fenced=False)


def test_an_unknown_broker_is_told_to_register() -> None:
    cluster = ControlledCluster()
    response = cluster.commit(cluster.controller.members.heartbeat(9, 0, 0, 0))
    assert response.error is ErrorCode.broker_id_not_registered


def test_heartbeats_put_the_deadline_off() -> None:
    cluster = ControlledCluster(brokers=2)
    cluster.heartbeat(0, now_ms=SESSION // 2)
    assert cluster.controller.next_deadline_ms == SESSION
    assert cluster.expire_sessions(SESSION - 1) == []
    assert cluster.expire_sessions(SESSION) == [1]
    assert cluster.controller.next_deadline_ms == SESSION // 2 + SESSION
    assert cluster.expire_sessions(10 * SESSION) == [0]
    assert cluster.controller.next_deadline_ms is None


def test_a_registration_ends_the_session_of_the_process_before_it() -> None:
    cluster = ControlledCluster()
    cluster.register(1)
    assert cluster.expire_sessions(10 * SESSION) == [0, 2]


def test_fencing_a_fenced_broker_changes_nothing() -> None:
    cluster = ControlledCluster()
    assert cluster.commit(cluster.controller.members.fence(1))
    end = cluster.log.end_offset
    assert not cluster.commit(cluster.controller.members.fence(1))
    assert not cluster.commit(cluster.controller.members.fence(9))
    assert cluster.log.end_offset == end


def test_a_new_process_leaves_every_isr_until_it_has_caught_up() -> None:
    cluster = ControlledCluster()
    cluster.create(0, 1, 2)
    cluster.commit(cluster.controller.topics.create_on("u", "id2", ((1, 2, 0), (2, 0, 1))))
    cluster.register(0)
    assert all(0 not in registration.isr for _, _, registration in cluster.controller.image.partitions())
    assert [r.leader for _, _, r in cluster.controller.image.partitions()] == [1, 1, 2]
    cluster.heartbeat(0)
    assert all(0 not in registration.isr for _, _, registration in cluster.controller.image.partitions())


def test_a_decision_is_one_entry_however_many_partitions_it_touches() -> None:
    cluster = ControlledCluster()
    cluster.create(0, 1, 2)
    cluster.commit(cluster.controller.topics.create_on("u", "id2", ((0, 1), (0, 2))))
    cluster.log.take_effects()
    cluster.commit(cluster.controller.members.fence(0))
    appended = [e for e in cluster.log.take_effects() if isinstance(e, MetadataAppended)]
    assert len(appended) == 1


# --- failover ------------------------------------------------------------------------------------------------------


def test_failover_rebuilds_everything_that_was_decided() -> None:
    cluster = ControlledCluster()
    cluster.create(0, 1, 2, configs={"min.insync.replicas": "2"})
    cluster.commit(cluster.controller.members.fence(0))
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(1)))
    cluster.register(2)
    after = successor(cluster.log, now_ms=5, node_id=3001)
    old, new = cluster.controller.image, after.image
    assert (new.brokers, new.topics) == (old.brokers, old.topics)
    assert (new.controller_id, new.controller_epoch) == (3001, old.controller_epoch + 1)


def test_failover_gives_unfenced_brokers_a_full_session() -> None:
    cluster = ControlledCluster()
    cluster.commit(cluster.controller.members.fence(2))
    after = successor(cluster.log, now_ms=50_000)
    assert after.sessions == {0: 50_000 + SESSION, 1: 50_000 + SESSION}


def registered(cluster: ControlledCluster, incarnation_id: str, *, earlier_is_gone: bool = False) -> int:
    members = cluster.controller.members
    return cluster.commit(
        members.register(0, host="b", port=1, incarnation_id=incarnation_id, earlier_is_gone=earlier_is_gone)
    )


def test_a_second_process_with_the_id_of_a_live_broker_is_refused_and_nothing_is_written() -> None:
    cluster = ControlledCluster(brokers=0)
    cluster.epochs[0] = registered(cluster, "first")
    cluster.heartbeat(0)
    end = cluster.log.end_offset
    assert registered(cluster, "second") == -1
    assert cluster.log.end_offset == end
    assert cluster.controller.image.brokers[0].incarnation_id == "first"
    assert registered(cluster, "first") > cluster.epochs[0], "the same process may register again"


def test_a_second_process_is_let_in_when_the_first_is_fenced_stopping_or_gone() -> None:
    for end_first in ("expire", "stop", "gone"):
        cluster = ControlledCluster(brokers=0)
        cluster.epochs[0] = registered(cluster, "first")
        cluster.heartbeat(0)
        if end_first == "expire":
            assert cluster.expire_sessions(SESSION) == [0]
        elif end_first == "stop":
            cluster.commit(cluster.controller.members.begin_shutdown(0))
        assert registered(cluster, "second", earlier_is_gone=end_first == "gone") > cluster.epochs[0]
        assert cluster.controller.image.brokers[0].incarnation_id == "second"


def test_a_broker_waits_with_its_stop_while_it_leads_any_partition_that_another_can_take_over() -> None:
    cluster = ControlledCluster(brokers=2)
    cluster.commit(cluster.controller.topics.create_on(TOPIC, "id", ((1, 0), (0, 1))))
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(1)))
    asked = cluster.controller.members.heartbeat(1, cluster.epochs[1], cluster.log.end_offset, 0, want_shut_down=True)
    response = cluster.commit(asked)
    assert [one.leader for _, _, one in cluster.controller.image.partitions()] == [1, 0]
    assert (response.should_shut_down, response.is_fenced) == (False, False)


def test_a_controller_ahead_of_its_decisions_knows_when_sessions_end() -> None:
    cluster = ControlledCluster(brokers=2)
    ahead = cluster.controller.ahead()
    assert ahead.next_deadline_ms == cluster.controller.next_deadline_ms == SESSION
    assert ahead.expired_sessions(SESSION) == [0, 1]
