"""Who belongs to the cluster, and who governs it.

The first tests bear the names of what Kafka once got from ZooKeeper: ephemeral membership, one controller, epoch
fencing, watch → notification, conditional update of the ISR.
"""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.membership import HeartbeatAnswer
from tidegauge.impl.controller.state import MetadataAppended
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.model_tests.controller.governed import CONFIG, SESSION, TOPIC, Governed


def test_ephemeral_membership() -> None:
    """A broker that is silent for too long is fenced; its id stays in the replica list; it comes back as a follower."""
    cluster = Governed()
    cluster.create(0, 1, 2)
    for broker in (1, 2):
        cluster.heartbeat(broker, now_ms=SESSION - 1)
    assert cluster.controller.expire_sessions(SESSION) == [0]
    assert cluster.partition.replicas == (0, 1, 2)
    assert cluster.standing == (1, [1, 2], [])
    cluster.heartbeat(0, now_ms=SESSION + 1)
    assert cluster.controller.image.is_unfenced(0)
    assert cluster.standing == (1, [1, 2], [])


def test_one_controller() -> None:
    """Each controller that takes over has an epoch of its own, larger than any before."""
    cluster = Governed()
    epochs = [Controller.activate(cluster.log, now_ms=0, node_id=node).controller_epoch for node in (3000, 3001, 3000)]
    assert epochs == [1, 2, 3]


def test_epoch_fencing() -> None:
    """What an earlier process of a broker sends is refused, whatever it is."""
    cluster = Governed()
    cluster.create(0, 1, 2)
    earlier = cluster.epochs[0]
    cluster.register(0)
    assert cluster.controller.heartbeat(0, earlier, 99, 0) == HeartbeatAnswer(ErrorCode.stale_broker_epoch)
    refused = cluster.controller.alter_partition(
        TOPIC, 0, cluster.proposal(1, broker_id=0, broker_epoch=earlier, leader_epoch=0)
    )
    assert refused.error is ErrorCode.stale_broker_epoch
    assert cluster.epochs[0] > earlier


def test_watch_becomes_notification() -> None:
    """A broker that has read the whole metadata log is woken when it grows, and reads only what is new."""
    cluster = Governed()
    cluster.create(0, 1, 2)
    broker = ClusterImage()
    broker.replay(cluster.controller.records_since(0))
    cluster.controller.take_effects()
    assert cluster.controller.records_since(broker.offset) == []
    cluster.controller.lapse_session(0)
    assert MetadataAppended(cluster.log.end_offset) in cluster.controller.take_effects()
    news = cluster.controller.records_since(broker.offset)
    assert len(news) == 2
    broker.replay(news)
    assert broker.partition(TOPIC, 0) == cluster.partition
    assert broker.offset == cluster.log.end_offset


def test_conditional_update_of_the_isr() -> None:
    """Of two changes that were made on the same state of the partition, the second is refused."""
    cluster = Governed()
    cluster.create(0, 1, 2)
    first, second = cluster.proposal(0, 1), cluster.proposal(0, 2)
    assert cluster.controller.alter_partition(TOPIC, 0, first).error is ErrorCode.none
    answer = cluster.controller.alter_partition(TOPIC, 0, second)
    assert answer.error is ErrorCode.invalid_update_version
    assert answer.registration == cluster.partition
    assert cluster.standing == (0, [0, 1], [])


# --- registration and fencing --------------------------------------------------------------------------------------


def test_broker_epochs_only_grow_and_are_offsets_of_the_metadata_log() -> None:
    cluster = Governed(brokers=0)
    epochs = []
    for broker in (0, 1, 0, 2, 1):
        offset = cluster.log.end_offset
        epochs.append(cluster.register(broker))
        assert epochs[-1] == offset
    assert epochs == sorted(set(epochs))


def test_a_registered_broker_is_fenced_until_it_has_the_metadata_of_its_registration() -> None:
    cluster = Governed(brokers=1)
    epoch = cluster.register(1)
    behind = cluster.controller.heartbeat(1, epoch, epoch, 0)
    assert behind == HeartbeatAnswer(ErrorCode.none, is_caught_up=False, is_fenced=True)
    caught_up = cluster.controller.heartbeat(1, epoch, epoch + 1, 0)
    assert caught_up == HeartbeatAnswer(ErrorCode.none, is_caught_up=True, is_fenced=False)


def test_an_unknown_broker_is_told_to_register() -> None:
    assert Governed().controller.heartbeat(9, 0, 0, 0).error is ErrorCode.broker_id_not_registered


def test_heartbeats_put_the_deadline_off() -> None:
    cluster = Governed(brokers=2)
    cluster.heartbeat(0, now_ms=SESSION // 2)
    assert cluster.controller.next_deadline_ms == SESSION
    assert cluster.controller.expire_sessions(SESSION - 1) == []
    assert cluster.controller.expire_sessions(SESSION) == [1]
    assert cluster.controller.next_deadline_ms == SESSION // 2 + SESSION
    assert cluster.controller.expire_sessions(10 * SESSION) == [0]
    assert cluster.controller.next_deadline_ms is None


def test_a_registration_ends_the_session_of_the_process_before_it() -> None:
    cluster = Governed()
    cluster.register(1)
    assert cluster.controller.expire_sessions(10 * SESSION) == [0, 2]


def test_fencing_a_fenced_broker_changes_nothing() -> None:
    cluster = Governed()
    assert cluster.controller.lapse_session(1)
    end = cluster.log.end_offset
    assert not cluster.controller.lapse_session(1)
    assert not cluster.controller.lapse_session(9)
    assert cluster.log.end_offset == end


def test_a_new_process_leaves_every_isr_until_it_has_caught_up() -> None:
    cluster = Governed()
    cluster.create(0, 1, 2)
    cluster.controller.create_topic_on("u", "id2", ((1, 2, 0), (2, 0, 1)))
    cluster.register(0)
    assert all(0 not in registration.isr for _, _, registration in cluster.controller.image.partitions())
    assert [r.leader for _, _, r in cluster.controller.image.partitions()] == [1, 1, 2]
    cluster.heartbeat(0)
    assert all(0 not in registration.isr for _, _, registration in cluster.controller.image.partitions())


def test_a_decision_is_one_entry_however_many_partitions_it_touches() -> None:
    cluster = Governed()
    cluster.create(0, 1, 2)
    cluster.controller.create_topic_on("u", "id2", ((0, 1), (0, 2)))
    cluster.controller.take_effects()
    cluster.controller.lapse_session(0)
    appended = [e for e in cluster.controller.take_effects() if isinstance(e, MetadataAppended)]
    assert len(appended) == 1


# --- failover ------------------------------------------------------------------------------------------------------


def test_failover_rebuilds_everything_that_was_decided() -> None:
    cluster = Governed()
    cluster.create(0, 1, 2, configs={"min.insync.replicas": "2"})
    cluster.controller.lapse_session(0)
    cluster.controller.alter_partition(TOPIC, 0, cluster.proposal(1))
    cluster.register(2)
    successor = Controller.activate(cluster.log, now_ms=5, node_id=3001, config=CONFIG)
    old, new = cluster.controller.image, successor.image
    assert (new.brokers, new.topics) == (old.brokers, old.topics)
    assert (new.controller_id, new.controller_epoch) == (3001, old.controller_epoch + 1)


def test_failover_gives_unfenced_brokers_a_full_session() -> None:
    cluster = Governed()
    cluster.controller.lapse_session(2)
    successor = Controller.activate(cluster.log, now_ms=50_000, config=CONFIG)
    assert successor.sessions == {0: 50_000 + SESSION, 1: 50_000 + SESSION}


class FullDisk:
    """A metadata log that takes nothing more."""

    end_offset = 0

    def read(self, offset: int) -> list[object]:
        return []

    def append(self, records: object) -> None:
        raise OSError("no space left on device")


def test_a_log_that_takes_no_decision_ends_the_controller() -> None:
    with pytest.raises(OSError, match="no space"):
        Controller.activate(FullDisk(), now_ms=0)  # type: ignore[arg-type]
