"""Leader election: clean, by ELR (KIP-966), preferred, unclean."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.decision import LeaderElected
from tidegauge.impl.controller.elections import Elected, ElectionRules
from tidegauge.impl.controller.requested_elections import misplaced_leaders
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import PartitionRecord, TopicRecord
from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.model_tests.controller.controlled_cluster import TOPIC, ControlledCluster


def controlled(*replicas: int, **configs: str) -> ControlledCluster:
    cluster = ControlledCluster()
    cluster.create(*replicas, configs={name.replace("_", "."): value for name, value in configs.items()})
    cluster.log.take_effects()
    return cluster


def elections(cluster: ControlledCluster) -> list[tuple[int, int, bool]]:
    """(leader, leader epoch, unclean) of the elections since the last look."""
    effects = cluster.log.take_effects()
    return [(e.leader, e.leader_epoch, e.unclean) for e in effects if isinstance(e, LeaderElected)]


def test_the_first_live_member_of_the_isr_in_replica_order_leads() -> None:
    cluster = controlled(2, 0, 1)
    assert cluster.standing == (2, [0, 1, 2], [])
    cluster.commit(cluster.controller.members.fence(2))
    assert cluster.standing == (0, [0, 1], [])
    assert elections(cluster) == [(0, 1, False)]


def test_a_leader_that_can_stay_stays() -> None:
    cluster = controlled(2, 0, 1)
    cluster.commit(cluster.controller.members.fence(2))
    cluster.commit(cluster.controller.members.fence(1))
    assert cluster.standing == (0, [0], [])
    cluster.heartbeat(2)
    assert cluster.standing == (0, [0], [])
    assert cluster.partition.leader_epoch == 1


def test_a_member_outside_the_isr_is_passed_over() -> None:
    cluster = controlled(0, 1, 2)
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 2)))
    cluster.commit(cluster.controller.members.fence(0))
    assert cluster.standing == (2, [2], [])


def test_without_a_live_member_the_partition_has_no_leader_until_one_returns() -> None:
    cluster = controlled(0, 1, 2)
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0)))
    cluster.commit(cluster.controller.members.fence(0))
    assert cluster.standing == (-1, [], [0])
    assert (cluster.partition.leader_epoch, cluster.partition.last_known_leader) == (1, 0)
    cluster.heartbeat(0)
    assert cluster.standing == (0, [0], [])
    assert elections(cluster) == [(-1, 1, False), (0, 2, False)]


def test_kip_966_an_eligible_replica_leads_when_the_isr_is_gone() -> None:
    cluster = controlled(0, 1, 2, min_insync_replicas="2")
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 1)))
    cluster.commit(cluster.controller.members.fence(1))
    cluster.commit(cluster.controller.members.fence(0))
    assert cluster.standing == (-1, [], [0, 1])
    cluster.heartbeat(1)
    assert cluster.standing == (1, [1], [0])
    assert elections(cluster)[-1] == (1, 2, False)


def test_kip_966_an_eligible_replica_that_is_fenced_stays_eligible() -> None:
    """It has all that was committed; without it the last known leader would lead, whatever that one has lost."""
    cluster = controlled(0, 1, min_insync_replicas="2")
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0)))
    assert cluster.standing == (0, [0], [1])
    cluster.commit(cluster.controller.members.fence(1))
    assert cluster.standing == (0, [0], [1])
    cluster.join(0)
    cluster.heartbeat(0)
    assert cluster.standing == (-1, [], [1])
    cluster.heartbeat(1)
    assert cluster.standing == (1, [1], [])


def test_kip_966_the_last_replica_standing_is_not_trusted_after_a_crash() -> None:
    cluster = controlled(0, 1, 2, min_insync_replicas="2")
    cluster.commit(cluster.controller.members.fence(2))
    cluster.commit(cluster.controller.members.fence(1))
    assert cluster.standing == (0, [0], [1])
    cluster.join(0)
    assert cluster.standing == (-1, [], [1])
    cluster.heartbeat(1)
    assert cluster.standing == (1, [1], [])


def test_kip_966_when_nobody_is_trusted_the_last_known_leader_leads_and_loss_is_declared() -> None:
    cluster = controlled(0, 1, 2)
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0)))
    cluster.register(0)
    assert cluster.standing == (-1, [], [])
    cluster.heartbeat(1)
    assert cluster.standing == (-1, [], [])
    cluster.heartbeat(0)
    assert cluster.standing == (0, [0], [])
    assert elections(cluster)[-1] == (0, 2, True)


def test_unclean_leader_election_enable_prefers_a_leader_to_none() -> None:
    cluster = controlled(0, 1, 2, unclean_leader_election_enable="true")
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0)))
    cluster.commit(cluster.controller.members.fence(0))
    assert cluster.standing == (1, [1], [])
    assert elections(cluster) == [(1, 1, True)]


def test_an_election_from_the_isr_is_clean_though_unclean_ones_are_allowed() -> None:
    cluster = controlled(0, 1, 2, unclean_leader_election_enable="true")
    cluster.commit(cluster.controller.members.fence(0))
    assert elections(cluster) == [(1, 1, False)]


# --- on request ----------------------------------------------------------------------------------------------------


def test_a_member_that_is_about_to_stop_leads_where_no_other_one_lives() -> None:
    cluster = controlled(0, 1)
    for broker in (0, 1):
        cluster.commit(cluster.controller.members.begin_shutdown(broker))
    image, rules = cluster.controller.image, ElectionRules(ControllerConfig())
    last = cluster.partition._replace(leader=NO_LEADER, isr=frozenset({1}), elr=frozenset())
    assert rules.elect(image, last, unclean=False) == Elected(1, unclean=False)
    cluster.commit(cluster.controller.members.fence(1))
    assert rules.elect(image, last, unclean=False).leader == NO_LEADER


def test_preferred_election_gives_the_leadership_back() -> None:
    cluster = controlled(0, 1, 2)
    cluster.commit(cluster.controller.members.fence(0))
    cluster.heartbeat(0)
    assert (
        cluster.commit(cluster.controller.elections.elect_preferred(TOPIC, 0))
        is ErrorCode.preferred_leader_not_available
    )
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 1, 2)))
    assert cluster.commit(cluster.controller.elections.elect_preferred(TOPIC, 0)) is ErrorCode.none
    assert cluster.standing == (0, [0, 1, 2], [])
    assert cluster.partition.leader_epoch == 2
    assert cluster.commit(cluster.controller.elections.elect_preferred(TOPIC, 0)) is ErrorCode.election_not_needed


def test_an_operator_may_accept_loss() -> None:
    cluster = controlled(0, 1, 2)
    assert cluster.commit(cluster.controller.elections.elect_uncleanly(TOPIC, 0)) is ErrorCode.election_not_needed
    cluster.commit(cluster.controller.isr_changes.alter(TOPIC, 0, cluster.proposal(0)))
    cluster.commit(cluster.controller.members.fence(0))
    assert cluster.commit(cluster.controller.elections.elect_uncleanly(TOPIC, 0)) is ErrorCode.none
    assert cluster.standing == (1, [1], [])
    assert elections(cluster)[-1] == (1, 2, True)


def test_with_no_live_replica_there_is_nobody_to_elect() -> None:
    cluster = controlled(0, 1, 2)
    for broker in (0, 1, 2):
        cluster.commit(cluster.controller.members.fence(broker))
    assert (
        cluster.commit(cluster.controller.elections.elect_uncleanly(TOPIC, 0))
        is ErrorCode.eligible_leaders_not_available
    )


@pytest.mark.parametrize(("topic", "partition"), [(TOPIC, 1), ("nowhere", 0)])
def test_an_election_for_an_unknown_partition(topic: str, partition: int) -> None:
    cluster = controlled(0, 1, 2)
    controller = cluster.controller
    assert (
        cluster.commit(controller.elections.elect_preferred(topic, partition)) is ErrorCode.unknown_topic_or_partition
    )
    assert (
        cluster.commit(controller.elections.elect_uncleanly(topic, partition)) is ErrorCode.unknown_topic_or_partition
    )


def test_a_member_of_the_isr_leads_before_one_of_the_elr_whatever_their_order() -> None:
    cluster = controlled(0, 1, 2)
    image, rules = cluster.controller.image, ElectionRules(ControllerConfig())
    leaderless = cluster.partition._replace(replicas=(0, 1, 2), leader=NO_LEADER)
    for isr, elr in ((1, 0), (0, 1)):
        registration = leaderless._replace(isr=frozenset({isr}), elr=frozenset({elr}))
        assert rules.elect(image, registration, unclean=False) == Elected(isr, unclean=False)


def test_a_broker_that_is_about_to_stop_leads_where_no_other_member_of_the_isr_is_left() -> None:
    cluster = controlled(0, 1, 2)
    cluster.commit(cluster.controller.members.begin_shutdown(1))
    image, rules = cluster.controller.image, ElectionRules(ControllerConfig())
    last = cluster.partition._replace(isr=frozenset({1}), elr=frozenset(), leader=NO_LEADER)
    assert rules.elect(image, last, unclean=False) == Elected(1, unclean=False)
    assert rules.elect(image, last._replace(elr=frozenset({2})), unclean=False) == Elected(2, unclean=False)
    cluster.commit(cluster.controller.members.fence(1))
    assert rules.elect(cluster.controller.image, last, unclean=False) == Elected(NO_LEADER, unclean=False)


def test_leaders_are_misplaced_where_a_broker_leads_less_than_its_share_and_not_where_it_is_at_the_bound() -> None:
    image = ClusterImage()
    leaders = (1, 0, 0, 0)
    partitions = (PartitionRecord(TOPIC, number, (0, 1), (0, 1), leader) for number, leader in enumerate(leaders))
    image.replay([TopicRecord(TOPIC, "id"), *partitions])
    assert misplaced_leaders(image, 25) == []
    assert misplaced_leaders(image, 24) == [(TOPIC, 0)]
