"""Creating topics: where their replicas go, and what is refused."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.placement import PlacementError, place
from tidegauge.model_tests.controller.controlled_cluster import ControlledCluster


def test_a_topic_is_placed_on_the_live_brokers() -> None:
    cluster = ControlledCluster(4)
    cluster.commit(cluster.controller.members.fence(1))
    assert cluster.commit(cluster.controller.topics.create("a", "id", 3, 2, start=1)).error is ErrorCode.none
    image = cluster.controller.image
    assert [image.topics["a"].partitions[p].replicas for p in range(3)] == [(2, 3), (3, 0), (0, 2)]
    for registration in image.topics["a"].partitions.values():
        assert registration.leader == registration.replicas[0]
        assert registration.isr == frozenset(registration.replicas)
        assert (registration.leader_epoch, registration.partition_epoch) == (0, 0)


def test_racks_are_those_of_the_live_brokers() -> None:
    cluster = ControlledCluster(4, racks={0: "a", 1: "a", 2: "b", 3: "b"})
    cluster.commit(cluster.controller.topics.create("a", "id", 4, 2))
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    for registration in cluster.controller.image.topics["a"].partitions.values():
        assert {racks[broker] for broker in registration.replicas} == {"a", "b"}


def test_a_replica_on_a_fenced_broker_starts_outside_the_isr() -> None:
    cluster = ControlledCluster()
    cluster.commit(cluster.controller.members.fence(0))
    cluster.create(0, 1, 2)
    assert cluster.standing == (1, [1, 2], [])


@pytest.mark.parametrize(
    ("name", "configs", "partitions", "factor", "error", "words"),
    [
        ("taken", {}, 1, 1, ErrorCode.topic_already_exists, "'taken' exists"),
        ("", {}, 1, 1, ErrorCode.invalid_topic_exception, "topic name ''"),
        ("..", {}, 1, 1, ErrorCode.invalid_topic_exception, "'..'"),
        ("a/b", {}, 1, 1, ErrorCode.invalid_topic_exception, "'a/b'"),
        ("x" * 250, {}, 1, 1, ErrorCode.invalid_topic_exception, "1 to 249"),
        ("a", {"min.insync": "1"}, 1, 1, ErrorCode.invalid_config, "'min.insync' is no topic setting"),
        ("a", {"min.insync.replicas": "0"}, 1, 1, ErrorCode.invalid_config, "must be at least 1"),
        ("a", {"min.insync.replicas": "many"}, 1, 1, ErrorCode.invalid_config, "min.insync.replicas='many'"),
        ("a", {"unclean.leader.election.enable": "yes"}, 1, 1, ErrorCode.invalid_config, "true or false"),
        ("__cluster_metadata", {}, 1, 1, ErrorCode.invalid_request, "is the controller's: take another name"),
        ("a", {}, 0, 1, ErrorCode.invalid_partitions, "0 partitions"),
        ("a", {}, 1, 4, ErrorCode.invalid_replication_factor, "3 live brokers"),
    ],
)
def test_bad_input_is_refused_with_the_thing_the_value_and_the_way_out(
    name: str, configs: dict[str, str], partitions: int, factor: int, error: ErrorCode, words: str
) -> None:
    cluster = ControlledCluster()
    cluster.commit(cluster.controller.topics.create("taken", "id", 1, 1))
    end = cluster.log.end_offset
    refused = cluster.commit(cluster.controller.topics.create(name, "id2", partitions, factor, configs=configs))
    assert refused.error is error
    assert words in refused.message
    assert cluster.log.end_offset == end, "nothing is half-written"


@pytest.mark.parametrize(("replicas", "wrong"), [(((0, 0),), 0), (((),), 0), (((7,),), 0), (((0, 1), (1, 7)), 1)])
def test_replicas_given_by_hand_must_be_registered_brokers(replicas: tuple[tuple[int, ...], ...], wrong: int) -> None:
    cluster = ControlledCluster()
    refused = cluster.commit(cluster.controller.topics.create_on("a", "id", replicas))
    assert refused.error is ErrorCode.invalid_replica_assignment
    assert refused.message.startswith(f"partition {wrong} on ")


def test_replicas_given_by_hand_are_as_many_for_each_partition() -> None:
    cluster = ControlledCluster()
    refused = cluster.commit(cluster.controller.topics.create_on("a", "id", ((0, 1), (2,))))
    assert (refused.error, refused.message) == (
        ErrorCode.invalid_replica_assignment,
        "partition 1 on brokers [2]: give it 2 replicas like the others",
    )


def test_replicas_given_by_hand_need_a_live_broker_and_a_partition() -> None:
    cluster = ControlledCluster()
    cluster.commit(cluster.controller.members.fence(0))
    assert (
        cluster.commit(cluster.controller.topics.create_on("a", "id", ((0,),))).error
        is ErrorCode.invalid_replica_assignment
    )
    assert cluster.commit(cluster.controller.topics.create_on("a", "id", ())).error is ErrorCode.invalid_partitions


@pytest.mark.parametrize(("known", "name"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_names_that_differ_in_dots_and_underscores_only_collide(known: str, name: str) -> None:
    cluster = ControlledCluster()
    assert not cluster.commit(cluster.controller.topics.create_on(known, "1", ((0,),))).message
    refused = cluster.commit(cluster.controller.topics.create_on(name, "2", ((0,),)))
    assert refused.error is ErrorCode.invalid_topic_exception
    assert repr(known) in refused.message


def test_new_partitions_are_given_as_many_assignments_as_there_are_or_placed_as_the_first_were() -> None:
    cluster = ControlledCluster(brokers=4)
    topics = cluster.controller.topics
    cluster.commit(topics.create_on("t", "id", ((1, 0),)))
    few = cluster.commit(topics.grow("t", 3, ((2, 3),)))
    assert few.error is ErrorCode.invalid_replica_assignment
    assert few.message == "1 assignments for 2 new partitions: give one for each"
    assert cluster.commit(topics.grow("t", 3, ((2, 3), (3, 2)))).error is ErrorCode.none
    cluster.commit(topics.grow("t", 4, None))
    replicas = [registration.replicas for _, _, registration in cluster.controller.image.partitions()]
    placed = place(dict.fromkeys(range(4)), 1, 2, 1, 1, first=3)
    assert not isinstance(placed, PlacementError)
    assert replicas == [(1, 0), (2, 3), (3, 2), *placed]
