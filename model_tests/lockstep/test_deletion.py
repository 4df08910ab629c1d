"""Topics that are deleted and created again: cores and clusters do what the machine says, and wrong ones don't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.controller.topics import Topics
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.server.apis import fetch
from tidegauge.impl.server.broker.hosted_partitions import HostedPartitions
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.controller import alter_partition
from tidegauge.impl.server.requests.reads import PartitionRead
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cluster.binding import TOPIC
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep
from tidegauge.model_tests.harness.lockstep.lockstep import Difference
from tidegauge.model_tests.harness.lockstep.replication_walks import large_machine
from tidegauge.model_tests.harness.lockstep.walks import Walk
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.spec.bugs import deletion as wrong
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata, UncleanElection
from tidegauge.spec.replication.extensions.deletion import DeleteTopic, Deletion, FetchOfFormer, ProposalOfFormer
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.state import AlterPartitionRequest, FetchRequest

SEED: Final = 1
WALKS: Final = 60
FIRST: Final = {"StillMoves": 40}
"""The walk that shows it, where it is not one of the first: the search begins there."""
ON_CLUSTER: Final = 3
OF_FORMER: Final = {("FetchOfFormer", "UNKNOWN_TOPIC_ID"), ("ProposalOfFormer", "UNKNOWN_TOPIC_ID")}
OF_DELETED: Final = {
    ("DeleteTopic", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("StartReassignment", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("CancelReassignment", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("PreferredElection", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("UncleanElection", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("ReceiveAlterPartition", "UNKNOWN_TOPIC_ID"),
}


def often(*more: type[Action]) -> Registration:
    """Walks in which something forbidden is sent before every third action, and none leaves these actions out."""
    registration = HARNESS["deletion"]
    plan = registration.walk_plan()
    return attrs.evolve(
        registration,
        plan=attrs.evolve(plan, perturbations=plan.perturbations.difference(more), forbidden_share=0.3),
    )


def drive(walks: Sequence[Walk[Any]]) -> tuple[set[type[Action]], Counter[tuple[str, str]]]:
    """What was taken and refused in walks that find no difference."""
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in walks:
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    return taken, refused


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken, refused = drive(list(often().walks(SEED, amount(30, deep=WALKS))))
    assert taken >= set(REGISTRY.registration("deletion").machine.action_types) - {UncleanElection}
    assert set(refused) >= OF_DELETED


@pytest.mark.parametrize("count", [ON_CLUSTER, pytest.param(300, marks=pytest.mark.deep)])
def test_a_cluster_deletes_the_topic_and_takes_nothing_of_a_former_one(count: int) -> None:
    taken, refused = drive(list(often(DeleteTopic).walks(SEED, count, side=Side.CLUSTER)))
    assert DeleteTopic in taken
    assert set(refused) >= OF_DELETED | {("ProposalOfFormer", "UNKNOWN_TOPIC_ID")}


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    taken, _ = drive(list(often().walks(100, 4_000, length=200)))
    assert taken == set(REGISTRY.registration("deletion").machine.action_types)


class DeletesNothing(Topics):
    """The request has its response, and nothing is written."""

    def delete(self, name: str) -> Proposal[ErrorCode]:
        return Decision(self._image).propose(super().delete(name).response)


class StaysLed(Controller):
    def __init__(self, node_id: int, config: ControllerConfig, image: ClusterImage | None = None) -> None:
        super().__init__(node_id, config, image)
        self.topics = DeletesNothing(self.image, self.topics._rules)


def test_a_controller_that_deletes_nothing_is_found() -> None:
    found = often(DeleteTopic).first_failure(SEED, WALKS, roles=Roles(controller=StaysLed))
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE


async def proposal_by_name(decisions: Any, request: Any, topic_id: str, data: Any) -> Any:
    """A proposal is for the topic that has the name now."""
    now = decisions._controller.image.topics.get(TOPIC)
    return await ALTER(decisions, request, topic_id if now is None else now.topic_id, data)


ALTER: Final = alter_partition._alter


def fetch_by_name(read: PartitionRead, context: Any, metadata: MetadataCache) -> tuple[str, ErrorCode | None]:
    """A fetch is for the topic that has the name now."""
    now = metadata.image.topics.get(TOPIC)
    read.topic_id = read.topic_id if now is None else now.topic_id
    return NAME(read, context, metadata)


NAME: Final = fetch._topic


def log_by_name(self: HostedPartitions, partition: Partition, image: ClusterImage, changed: Any) -> bool:
    """A log is that of the topic that has the name now."""
    topic = image.topics.get(partition.topic)
    if topic is None or self.broker_id not in topic.partitions[partition.index].replicas:
        return True
    partition.topic_id = topic.topic_id
    return False


def keeps_its_log(self: HostedPartitions, departed: Sequence[Partition], *_: object) -> None:
    """What is taken away resigns, and is hosted still."""
    for partition in departed:
        partition.replica.resign()


BEHIND: Final = large_machine(extensions=(Reassignment(), Deletion(former=(1,))))
"""Broker 1 has the log of a former topic, and broker 0 leads the new one."""
EVERYBODY: Final = ((0, 0), (1, 0), (2, 0))
SCENARIOS: Final[Mapping[str, tuple[Action, ...]]] = {
    "fetch": (FetchOfFormer(FetchRequest(1, 0, 0, 1, 0, 0)),),
    "proposal": (ProposalOfFormer(AlterPartitionRequest(1, 0, 0, 0, EVERYBODY)),),
    "log": (ApplyMetadata(1),),
    "deletion": (Append(0), DeleteTopic(), ApplyMetadata(0)),
}


def performed(*actions: Action) -> Counter[tuple[str, str]]:
    """What a cluster has refused of these actions."""
    pair = CheckedLockstep(BEHIND, HARNESS["deletion"].bind(Side.CLUSTER)(BEHIND))
    try:
        for action in actions:
            pair.perform(action)
        return pair.refused
    finally:
        pair.close()


def test_a_cluster_refuses_what_comes_from_the_former_topic() -> None:
    assert set(performed(*chain.from_iterable(SCENARIOS.values()))) == OF_FORMER


@pytest.mark.parametrize(
    ("where", "name", "instead", "what"),
    [
        (alter_partition, "_alter", proposal_by_name, "proposal"),
        (fetch, "_topic", fetch_by_name, "fetch"),
        (HostedPartitions, "_is_departed", log_by_name, "log"),
        (HostedPartitions, "remove", keeps_its_log, "deletion"),
    ],
    ids=["proposal by name", "fetch by name", "log by name", "keeps its log"],
)
def test_a_cluster_that_goes_by_names_or_keeps_logs_is_found(
    where: Any, name: str, instead: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, instead)
    with pytest.raises(Difference) as found:
        performed(*SCENARIOS[what])
    assert found.value.path != "error", found.value


@pytest.mark.parametrize("machine", [bug.buggy for bug in wrong.BUGS])
def test_a_wrong_machine_is_not_what_the_cores_do(machine: type[Deletion]) -> None:
    first = FIRST.get(machine.__name__, 0)
    assert often().first_failure(SEED, WALKS, first=first, wrong=machine) is not None
