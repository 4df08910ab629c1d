"""A cluster's metadata: topics and their partitions, settings, live brokers, and blocks of producer ids."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import attrs

from tidegauge.spec.kernel.bounds import Spent, spend
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.piecemeal import IN_PARTS, PIECEMEAL

NONE = -1

Settings: TypeAlias = tuple[tuple[str, str], ...]
"""(name, value as text) of what is set, by name."""


class Error(IntEnum):
    """Errors of responses, by Kafka's numbers."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    REASSIGNMENT_IN_PROGRESS = 60
    STALE_BROKER_EPOCH = 77
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    BROKER_ID_NOT_REGISTERED = 102


@attrs.frozen
class Partition:
    """A partition as the controller has it."""

    replicas: tuple[int, ...]
    """In order of preference."""
    leader: int
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()
    """Replicas that left the ISR while it was too small to commit without them (KIP-966)."""
    leader_epoch: int = 0
    partition_epoch: int = 0
    last_known_leader: int = NONE
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once the reassignment is complete."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@attrs.frozen
class Topic:
    """A topic: the number in which order it was created stands for its id."""

    number: int
    partitions: tuple[Partition, ...] = attrs.field(metadata=IN_PARTS)
    settings: Settings = ()

    def with_partition(self, index: int, partition: Partition) -> Topic:
        return evolve(self, partitions=(*self.partitions[:index], partition, *self.partitions[index + 1 :]))


@attrs.frozen
class State:
    """What the metadata log comes to."""

    topics: tuple[Topic | None, ...] = attrs.field(metadata=IN_PARTS)
    """By name."""
    is_registered: tuple[bool, ...]
    """Of each broker: whether the controller knows it."""
    is_live: tuple[bool, ...]
    """Of each broker: whether it is unfenced."""
    of_all_brokers: Settings
    of_a_broker: Settings = ()
    """Of the first broker alone."""
    of_a_group: Settings = ()
    created: int = 0
    """How many topics there have been."""
    blocks: int = 0
    """How many blocks of producer ids are left."""
    spent: Spent = attrs.field(default=(), metadata=PIECEMEAL)
    """How often each perturbation has happened."""

    def topic(self, name: int) -> Topic | None:
        return self.topics[name] if 0 <= name < len(self.topics) else None

    def is_known(self, broker: int) -> bool:
        """Whether there is such a broker."""
        return 0 <= broker < len(self.is_registered) and self.is_registered[broker]

    def partition(self, name: int, index: int) -> Partition | None:
        topic = self.topic(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def with_topic(self, name: int, topic: Topic | None) -> State:
        return evolve(self, topics=(*self.topics[:name], topic, *self.topics[name + 1 :]))

    def with_partition(self, name: int, index: int, partition: Partition) -> State:
        topic = self.topics[name]
        assert topic is not None
        return self.with_topic(name, topic.with_partition(index, partition))

    def after(self, perturbation: str) -> State:
        """The same, having spent one perturbation."""
        return evolve(self, spent=spend(self.spent, perturbation))
