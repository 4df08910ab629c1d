"""What a controller knows of topics, brokers and settings, as the machine of administration has it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final

from tidegauge.impl.controller.producer_ids import LAST_PRODUCER_ID
from tidegauge.impl.controller.reassignments import AT_ONCE, ongoing_reassignments
from tidegauge.impl.metadata.config_resources import ALL_BROKERS
from tidegauge.impl.metadata.image import ClusterImage, TopicImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.harness.lockstep.field_by_field import FieldByField
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.settings import Kind, Resource
from tidegauge.spec.administration.state import NONE, Partition, Settings, State, Topic
from tidegauge.spec.kernel.changes import Change

BLOCK: Final = 1_000
GROUP: Final = "group"

Key = tuple[str, int]
"""A partition: its topic and its number."""


class MetadataOfController(FieldByField[State]):
    """A binding whose state is that of a controller's image. Topic n of the machine is called `topic-n`."""

    not_compared = frozenset({"spent"})
    machine: Administration
    created: int
    """How many topics there have been."""

    @property
    @abstractmethod
    def image(self) -> ClusterImage:
        """The controller's committed metadata."""

    @abstractmethod
    def number_of(self, topic_id: str) -> int:
        """How many topics there had been when the one with this id came, and itself."""

    @property
    def topics(self) -> tuple[Topic | None, ...]:
        images = map(self.image.topics.get, map(name_of, range(self.machine.names)))
        return tuple(None if one is None else seen(one, self.number_of(one.topic_id)) for one in images)

    @property
    def is_registered(self) -> tuple[bool, ...]:
        return tuple(broker in self.image.brokers for broker in range(self.machine.brokers))

    @property
    def is_live(self) -> tuple[bool, ...]:
        return tuple(map(self.image.is_active, range(self.machine.brokers)))

    @property
    def of_all_brokers(self) -> Settings:
        return in_order(self.image.broker_configs.get(ALL_BROKERS, {}))

    @property
    def of_a_broker(self) -> Settings:
        return in_order(self.image.broker_configs.get("0", {}))

    @property
    def of_a_group(self) -> Settings:
        return in_order(self.image.group_configs.get(GROUP, {}))

    @property
    def blocks(self) -> int:
        left, rest = divmod(LAST_PRODUCER_ID - self.image.next_producer_id, BLOCK)
        assert not rest, "a block is a thousand ids"
        return left

    def differences(self, state: State) -> Iterator[Change]:
        """Which reassignments are told of that are not under way, or the other way round: of all, and of some names.

        Nobody is asked for more partitions at once than `AT_ONCE` before others have their turn.
        """
        wanted = {
            (name_of(name), index)
            for name, topic in enumerate(state.topics)
            for index, partition in enumerate(() if topic is None else topic.partitions)
            if partition.is_reassigned
        }
        _, told = in_slices(ongoing_reassignments(self.image))
        if sorted(told) != sorted(wanted):
            yield Change("reassignments", wanted, told)
        some = [(name_of(name), index) for name in range(1, self.machine.names + 1) for index in range(3)]
        asked = (some * AT_ONCE)[: 2 * AT_ONCE - 1]
        turns, told = in_slices(ongoing_reassignments(self.image, asked))
        if (turns, sorted(told)) != (1, sorted(wanted.intersection(asked))):
            yield Change("reassignments of some", wanted.intersection(asked), told)


def in_slices(listing: Generator[int, Any, list[tuple[str, int, PartitionRegistration]]]) -> tuple[int, Sequence[Key]]:
    """How often others had their turn before a listing ended, and what it told of."""
    turns = 0
    while True:
        try:
            next(listing)
        except StopIteration as end:
            return turns, [(topic, index) for topic, index, _ in end.value]
        turns += 1


def name_of(topic: int) -> str:
    return f"topic-{topic}"


def in_order(configs: Mapping[str, str]) -> Settings:
    return tuple(sorted(configs.items()))


def seen(topic: TopicImage, number: int) -> Topic:
    """A topic as the specification has it, which calls its id by a number."""
    assert list(topic.partitions) == list(range(len(topic.partitions))), "partitions are numbered from 0"
    return Topic(number, tuple(map(partition_seen, topic.partitions.values())), in_order(topic.configs))


def partition_seen(known: PartitionRegistration) -> Partition:
    return Partition(
        known.replicas,
        known.leader,
        known.isr,
        known.elr,
        known.leader_epoch,
        known.partition_epoch,
        known.last_known_leader,
        known.adding_replicas,
        known.removing_replicas,
    )


def resource_of(resource: Resource) -> tuple[int, str]:
    """Kafka's kind of resource, and its name."""
    if resource.kind is Kind.TOPIC:
        return resource.kind, name_of(resource.number)
    if resource.kind is Kind.GROUP:
        return resource.kind, GROUP
    return resource.kind, ALL_BROKERS if resource.number == NONE else str(resource.number)
