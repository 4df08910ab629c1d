"""A decision is a proposal: it changes nothing until it is applied, and then what replaying its records changes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tidegauge.impl.controller.client_quotas import QuotaChange
from tidegauge.impl.controller.configs import ConfigChange
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Decision, MetadataAppended, Proposal
from tidegauge.impl.controller.scram_credentials import Upsertion
from tidegauge.impl.metadata.access import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from tidegauge.impl.metadata.config_resources import ConfigResourceType
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import RemoveTopicRecord
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.controller.controlled_cluster import TOPIC, ControlledCluster
from tidegauge.model_tests.metadata.test_image import content

READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)
TOPICS = ConfigResourceType.TOPIC

DECISIONS: dict[str, Callable[[ControlledCluster, Controller], Proposal[object]]] = {
    "take over": lambda _, core: core.take_over(7, 50, ("host", 9093)),
    "register": lambda _, core: core.members.register(0, host="b0", port=9092, directories=("one",)),
    "heartbeat": lambda cluster, core: core.members.heartbeat(2, cluster.epochs[2], 99, 500),
    "unfence": lambda cluster, core: core.members.heartbeat(3, cluster.epochs[3], 99, 500),
    "shut down": lambda cluster, core: core.members.heartbeat(1, cluster.epochs[1], 99, 500, want_shut_down=True),
    "fence": lambda _, core: core.members.fence(0),
    "begin shutdown": lambda _, core: core.members.begin_shutdown(0),
    "unregister": lambda _, core: core.members.unregister(0),
    "alter the ISR": lambda cluster, core: core.isr_changes.alter(TOPIC, 0, cluster.proposal(0, 2)),
    "elect the preferred": lambda _, core: core.elections.elect_preferred("moved", 0),
    "reassign": lambda _, core: core.reassignments.reassign(TOPIC, 0, (2, 3)),
    "assign a directory": lambda _, core: core.directories.assign(1, TOPIC, 0, "lost"),
    "create a topic": lambda _, core: core.topics.create("a", "id-a", 3, 2, configs={"flush.ms": "3"}),
    "delete a topic": lambda _, core: core.topics.delete(TOPIC),
    "create partitions": lambda _, core: core.topics.grow(TOPIC, 3),
    "alter configs": lambda _, core: core.configs.alter(
        TOPICS, TOPIC, [ConfigChange("min.insync.replicas", 0, "2"), ConfigChange("flush.ms", 0, "9")]
    ),
    "alter quotas": lambda _, core: core.client_quotas.alter([("user", "a")], [QuotaChange("request_percentage", 1.0)]),
    "create ACLs": lambda _, core: core.acls.create([WRITE]),
    "delete ACLs": lambda _, core: core.acls.delete([AclFilter()]),
    "alter credentials": lambda _, core: core.scram_credentials.alter([], [Upsertion("a", 1, 4096, b"s", bytes(32))]),
    "allocate producer ids": lambda cluster, core: core.producer_ids.allocate(0, cluster.epochs[0]),
}


def busy_cluster() -> ControlledCluster:
    """Brokers 0 to 2 are live, 3 is registered; a topic on 0 to 2, and one whose preferred leader does not lead."""
    cluster = ControlledCluster(3)
    cluster.register(3)
    core = cluster.controller
    cluster.commit(core.topics.create_on("moved", "id-moved", ((1, 2),)))
    cluster.commit(core.reassignments.reassign("moved", 0, (2, 1)))
    cluster.create(0, 1, 2)
    cluster.commit(core.acls.create([READ]))
    return cluster


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_changes_nothing_until_it_is_applied(name: str) -> None:
    cluster = busy_cluster()
    core, image = cluster.controller, cluster.controller.image
    before, sessions = content(image), dict(core.sessions)
    proposal = DECISIONS[name](cluster, core)
    assert (content(image), core.sessions) == (before, sessions)
    effects = core.apply(proposal)
    beside = ClusterImage()
    beside.replay([*cluster.log.read(0), *proposal.records])
    assert core.image is image
    assert content(image) == content(beside)
    assert (content(image) != before) == bool(proposal.records) == (name != "heartbeat")
    assert [e for e in effects if isinstance(e, MetadataAppended)] == (
        [MetadataAppended(image.offset)] if proposal.records else []
    )


def test_a_later_rule_of_a_decision_sees_what_an_earlier_one_has_written() -> None:
    image = busy_cluster().controller.image
    decision = Decision(image)
    assert decision.image is image, "nothing is copied before the first record"
    decision.write(RemoveTopicRecord("id"))
    assert TOPIC not in decision.image.topics
    assert TOPIC in image.topics


def test_a_decision_is_void_on_another_image_than_the_one_on_which_it_was_made() -> None:
    cluster = busy_cluster()
    core = cluster.controller
    first, second = core.topics.delete(TOPIC), core.topics.delete(TOPIC)
    cluster.commit(first)
    with pytest.raises(AssertionError, match="on which it was made"):
        core.apply(second)


@pytest.mark.parametrize("seed", range(amount(8, deep=20)))
def test_a_group_of_decisions_leaves_what_they_leave_one_by_one(seed: int) -> None:
    draw = Random(seed)
    single, grouped = busy_cluster(), busy_cluster()
    for _ in range(4):
        ahead, before = grouped.controller.ahead(), content(grouped.controller.image)
        proposals = []
        for name in draw.choices(sorted(DECISIONS.keys() - {"take over", "begin shutdown"}), k=5):
            if name == "alter the ISR" and TOPIC not in ahead.image.topics:
                continue
            alone = DECISIONS[name](single, single.controller)
            proposal = DECISIONS[name](single, ahead)
            assert (proposal.records, proposal.response) == (alone.records, alone.response)
            single.commit(alone)
            ahead.expect(proposal)
            proposals.append(proposal)
        assert content(grouped.controller.image) == before, "nothing changes before it is applied"
        for proposal in proposals:
            grouped.commit(grouped.controller.rebased(proposal))
        assert content(grouped.controller.image) == content(single.controller.image)
        assert grouped.controller.sessions == single.controller.sessions


def test_only_unfenced_brokers_have_sessions() -> None:
    cluster = busy_cluster()
    core = cluster.controller
    assert set(core.sessions) == {0, 1, 2}
    cluster.commit(core.members.fence(0))
    cluster.commit(core.members.heartbeat(1, cluster.epochs[1], 99, 500, want_fence=True))
    cluster.commit(core.members.unregister(2))
    cluster.heartbeat(3)
    assert set(core.sessions) == {3}
    core.resign()
    assert core.next_deadline_ms is None
