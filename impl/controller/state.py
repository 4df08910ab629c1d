"""What the active controller knows, and the one place where it decides anything for good.

A decision is a list of records. `_write` applies each to the image at once, so that the rest of the decision sees it;
`_commit` appends them all to the metadata log as one. Nothing else touches either. A log that can't take a decision
ends the controller: the error goes through, and the image, which is ahead of the log by then, goes with it. What is not
in the log (who has a session, until when) is lost with the controller, on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from tidegauge.impl.metadata.config_types import Setting
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.log import MetadataLog
from tidegauge.impl.metadata.records import MetadataRecord, PartitionChangeRecord
from tidegauge.impl.metadata.topic_configs import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    config_value,
    defaults_with,
)
from tidegauge.impl.partition.registration import PartitionRegistration

DEFAULT_CONTROLLER_ID: Final = 3000


@attrs.frozen
class ControllerConfig:
    """The settings that the controller acts on, under Kafka's names."""

    broker_session_timeout_ms: int = 9_000
    topic_defaults: Mapping[str, str] = attrs.field(factory=dict)
    """What a topic gets that doesn't set it itself."""
    dynamic_settings: Mapping[str, Setting] = attrs.field(factory=dict)
    """Brokers' settings that can be changed while they run."""


@attrs.frozen
class MetadataAppended:
    """The metadata log grew to `end_offset`: brokers that wait for it are to be woken."""

    end_offset: int


@attrs.frozen
class LeaderElected:
    """A partition has another leader (-1: none). An unclean election may have lost committed records."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    unclean: bool


ControllerEffect: TypeAlias = MetadataAppended | LeaderElected


class ControllerState:
    """The image, the log behind it, the sessions, and the effects that wait to be carried out."""

    def __init__(self, node_id: int, log: MetadataLog, config: ControllerConfig) -> None:
        self.node_id = node_id
        self.log = log
        self.config = config
        self.image = ClusterImage()
        self.sessions: dict[int, int] = {}
        """Broker id -> time in ms at which its session lapses; unfenced brokers only."""
        self._effects: list[ControllerEffect] = []
        self._decision: list[MetadataRecord] = []

    @property
    def controller_epoch(self) -> int:
        return self.image.controller_epoch

    def take_effects(self) -> list[ControllerEffect]:
        """What is to be done now, in order; each effect is handed out once."""
        effects, self._effects = self._effects, []
        return effects

    def records_since(self, offset: int) -> Sequence[MetadataRecord]:
        """The records from `offset` on; a broker that has them all waits for `MetadataAppended`."""
        return self.log.read(offset)

    def min_insync_replicas(self, topic: str, registration: PartitionRegistration) -> int:
        """The topic's min.insync.replicas, but never more than there are replicas."""
        return min(self.configured_min_insync_replicas(topic), len(registration.replicas))

    def configured_min_insync_replicas(self, topic: str) -> int:
        """The topic's min.insync.replicas."""
        wanted: int = config_value(self.image.topics[topic].configs, MIN_INSYNC_REPLICAS, self._topic_defaults())
        return wanted

    def unclean_leader_election(self, topic: str) -> bool:
        """The topic's unclean.leader.election.enable."""
        enabled: bool = config_value(
            self.image.topics[topic].configs, UNCLEAN_LEADER_ELECTION_ENABLE, self._topic_defaults()
        )
        return enabled

    def _topic_defaults(self) -> Mapping[str, str]:
        dynamic = self.image.broker_configs.get("")
        return defaults_with(self.config.topic_defaults, dynamic) if dynamic else self.config.topic_defaults

    def _write(self, record: MetadataRecord) -> None:
        self.image.apply(record)
        self._decision.append(record)

    def _commit(self) -> None:
        if not self._decision:
            return
        decision, self._decision = self._decision, []
        self.log.append(decision)
        self._effects.append(MetadataAppended(self.log.end_offset))


def change_record(
    topic: str, partition: int, old: PartitionRegistration, new: PartitionRegistration
) -> PartitionChangeRecord | None:
    """The record that turns `old` into `new`; None when they are the same to everybody else."""
    if decided(old) == decided(new):
        return None
    return PartitionChangeRecord(
        topic,
        partition,
        leader=None if new.leader == old.leader and not fences_departed(old, new) else new.leader,
        isr=None if new.isr == old.isr else tuple(sorted(new.isr)),
        elr=None if new.elr == old.elr else tuple(sorted(new.elr)),
        last_known_leader=None if new.last_known_leader == old.last_known_leader else new.last_known_leader,
        replicas=None if new.replicas == old.replicas else new.replicas,
        adding_replicas=None if new.adding_replicas == old.adding_replicas else new.adding_replicas,
        removing_replicas=None if new.removing_replicas == old.removing_replicas else new.removing_replicas,
        offline_replicas=(
            None if new.offline_replicas == old.offline_replicas else tuple(sorted(new.offline_replicas))
        ),
    )


def decided(registration: PartitionRegistration) -> tuple[object, ...]:
    """What a change of the partition changes, besides its epochs."""
    r = registration
    return r.leader, r.isr, r.elr, r.replicas, r.adding_replicas, r.removing_replicas, r.offline_replicas


def fences_departed(old: PartitionRegistration, new: PartitionRegistration) -> bool:
    """Whether a replica has left the list: what it sent before must not count when it is back, empty."""
    return not set(old.replicas) <= set(new.replicas)
