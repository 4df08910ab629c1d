"""Topics: creation, growth and deletion, their settings, and where their replicas are placed.

A request gives numbers (of partitions, and of replicas of each), and placement spreads the replicas over the active
brokers; or it names the brokers of each partition. A request with `validate_only` is checked like any other and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.controller.placement import PlacementError, growth_start, place
from tidegauge.impl.controller.reassignments import AGREED, Refusal, assignment_error
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import ConfigRecord, RemoveTopicRecord, TopicRecord
from tidegauge.impl.metadata.topic_configs import config_error
from tidegauge.impl.metadata.topic_names import METADATA_TOPIC, is_topic_name


class CreatedTopic(NamedTuple):
    """The outcome of a request for a topic; `message` says what is wrong with it."""

    error: ErrorCode
    message: str = ""
    replicas: tuple[tuple[int, ...], ...] = ()
    """Of each partition, when nothing is wrong."""


class Topics:
    """Decides which topics there are."""

    def __init__(self, image: ClusterImage, rules: ElectionRules) -> None:
        self._image = image
        self._rules = rules

    def create(
        self,
        name: str,
        topic_id: str,
        partitions: int,
        replication_factor: int,
        *,
        configs: Mapping[str, str] | None = None,
        start: int = 0,
        shift: int = 0,
        validate_only: bool = False,
    ) -> Proposal[CreatedTopic]:
        """Create a topic on the active brokers; `start` and `shift` are the random numbers that placement uses.

        Errors: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, INVALID_PARTITIONS,
        INVALID_REPLICATION_FACTOR, INVALID_REQUEST (racks on some brokers only).
        """
        decision = Decision(self._image)
        configs = configs or {}
        refusal = self._topic_error(name, configs)
        if refusal is not None:
            return decision.propose(refusal)
        placed = place(self._racks(), partitions, replication_factor, start, shift)
        if isinstance(placed, PlacementError):
            return decision.propose(CreatedTopic(placed.error, placed.message))
        if not validate_only:
            self._write_topic(decision, name, topic_id, configs, placed)
        return decision.propose(CreatedTopic(ErrorCode.none, replicas=placed))

    def create_on(
        self,
        name: str,
        topic_id: str,
        replicas: Sequence[Sequence[int]],
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> Proposal[CreatedTopic]:
        """Create a topic with the replicas of each partition as the request names them, the preferred leader first.

        Errors: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, INVALID_PARTITIONS,
        INVALID_REPLICA_ASSIGNMENT.
        """
        decision = Decision(self._image)
        configs = configs or {}
        refusal = self._topic_error(name, configs)
        if refusal is not None:
            return decision.propose(refusal)
        if not replicas:
            refusal = CreatedTopic(ErrorCode.invalid_partitions, f"topic {name!r} has no partitions: give at least 1")
            return decision.propose(refusal)
        placed = tuple(tuple(brokers) for brokers in replicas)
        wrong = self._assignments_error(0, placed, len(placed[0]))
        if wrong is not AGREED:
            return decision.propose(CreatedTopic(wrong.error, wrong.message))
        if not validate_only:
            self._write_topic(decision, name, topic_id, configs, placed)
        return decision.propose(CreatedTopic(ErrorCode.none, replicas=placed))

    def delete(self, name: str) -> Proposal[ErrorCode]:
        """Delete a topic: its brokers remove their replicas when they apply that. UNKNOWN_TOPIC_OR_PARTITION."""
        decision = Decision(self._image)
        topic = self._image.topics.get(name)
        if topic is None:
            return decision.propose(ErrorCode.unknown_topic_or_partition)
        decision.write(RemoveTopicRecord(topic.topic_id))
        return decision.propose(ErrorCode.none)

    def grow(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> Proposal[Refusal]:
        """Let a topic grow to `count` partitions, with as many replicas each as its first; records stay where they are.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT,
        INVALID_REPLICATION_FACTOR.
        """
        decision = Decision(self._image)
        topic = self._image.topics.get(name)
        if topic is None:
            return decision.propose(Refusal(ErrorCode.unknown_topic_or_partition, f"there is no topic {name!r}"))
        if any(registration.is_reassigned for registration in topic.partitions.values()):
            refusal = Refusal(
                ErrorCode.reassignment_in_progress, f"partitions of topic {name!r} are being reassigned: wait for that"
            )
            return decision.propose(refusal)
        present = len(topic.partitions)
        if count <= present:
            refusal = Refusal(
                ErrorCode.invalid_partitions,
                f"topic {name!r} has {present} partitions, and {count} would not be more: a topic only grows",
            )
            return decision.propose(refusal)
        placed = self._grown(name, present, count - present, assignments)
        if isinstance(placed, Refusal):
            return decision.propose(placed)
        if not validate_only:
            self._write_partitions(decision, name, present, placed)
        return decision.propose(AGREED)

    def _grown(
        self, name: str, present: int, more: int, assignments: Sequence[Sequence[int]] | None
    ) -> tuple[tuple[int, ...], ...] | Refusal:
        """The replicas of the new partitions: those given, else placed as the topic's first ones were."""
        first_replicas = self._image.topics[name].partitions[0].replicas
        if assignments is not None:
            if len(assignments) != more:
                return Refusal(
                    ErrorCode.invalid_replica_assignment,
                    f"{len(assignments)} assignments for {more} new partitions: give one for each",
                )
            given = tuple(tuple(brokers) for brokers in assignments)
            wrong = self._assignments_error(present, given, len(first_replicas))
            return given if wrong is AGREED else wrong
        racks = self._racks()
        start = growth_start(racks, first_replicas[0])
        placed = place(racks, more, len(first_replicas), start, start, first=present)
        return Refusal(placed.error, placed.message) if isinstance(placed, PlacementError) else placed

    def _racks(self) -> dict[int, str | None]:
        return {broker.broker_id: broker.rack for broker in self._image.active_brokers()}

    def _assignments_error(self, first: int, placed: tuple[tuple[int, ...], ...], factor: int) -> Refusal:
        """What is wrong with replicas that a request names for partitions from number `first` on."""
        for partition, brokers in enumerate(placed, start=first):
            refusal = assignment_error(self._image, partition, brokers)
            if refusal is not AGREED:
                return refusal
            if len(brokers) != factor:
                return Refusal(
                    ErrorCode.invalid_replica_assignment,
                    f"partition {partition} on brokers {list(brokers)}: give it {factor} replicas like the others",
                )
            if not any(map(self._image.is_active, brokers)):
                return Refusal(
                    ErrorCode.invalid_replica_assignment,
                    f"partition {partition} on brokers {list(brokers)}: all are fenced, name a live one",
                )
        return AGREED

    def _topic_error(self, name: str, configs: Mapping[str, str]) -> CreatedTopic | None:
        if name in self._image.topics:
            return CreatedTopic(ErrorCode.topic_already_exists, f"topic {name!r} exists")
        if not is_topic_name(name):
            return CreatedTopic(
                ErrorCode.invalid_topic_exception,
                f"topic name {name!r}: use 1 to 249 letters, digits, '.', '_' and '-', and neither '.' nor '..'",
            )
        if name == METADATA_TOPIC:
            return CreatedTopic(ErrorCode.invalid_request, f"topic {name!r} is the controller's: take another name")
        collides = self._colliding(name)
        if collides is not None:
            return CreatedTopic(
                ErrorCode.invalid_topic_exception,
                f"topic name {name!r} collides with topic {collides!r}: '.' and '_' count as the same",
            )
        wrong = config_error(configs)
        return CreatedTopic(ErrorCode.invalid_config, wrong) if wrong else None

    def _colliding(self, name: str) -> str | None:
        """The topic whose name is the same but for '.' and '_', which names of metrics do not tell apart."""
        if "." not in name and "_" not in name:
            return None
        flat = name.replace(".", "_")
        return next((other for other in self._image.topics if other.replace(".", "_") == flat), None)

    def _write_topic(
        self,
        decision: Decision,
        name: str,
        topic_id: str,
        configs: Mapping[str, str],
        placed: tuple[tuple[int, ...], ...],
    ) -> None:
        decision.write(TopicRecord(name, topic_id))
        for key, value in sorted(configs.items()):
            decision.write(ConfigRecord(name, key, value))
        self._write_partitions(decision, name, 0, placed)

    def _write_partitions(self, decision: Decision, name: str, first: int, placed: tuple[tuple[int, ...], ...]) -> None:
        for partition, replicas in enumerate(placed, start=first):
            decision.write(self._rules.new_partition(decision.image, name, partition, replicas))
