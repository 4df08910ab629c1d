"""The cores beside the machine of settings that change: a leader uses those of the metadata that it last applied."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.impl.controller import controller as core
from tidegauge.impl.controller.configs import ConfigChange
from tidegauge.impl.metadata.config_resources import AlterOperation, ConfigResourceType
from tidegauge.impl.metadata.topic_configs import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores import steps
from tidegauge.model_tests.harness.cores.replication import TOPIC, Broker
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.settings import ChangeSettings, KnownSettings, TopicSettings


def with_settings(controller: spec.Controller, active: core.Controller, topic: str) -> spec.Controller:
    """With the topic's settings, for machines in which they change."""
    min_insync = active.config.min_insync_replicas(active.image, topic)
    settings = TopicSettings(min_insync, active.config.unclean_leader_election(active.image, topic))
    return with_part(controller, settings)


def with_known_setting(seen: spec.Replica, replica: PartitionReplica) -> spec.Replica:
    """With the min.insync.replicas that a replica goes by, once it has been told."""
    if replica.leader_epoch == spec.NONE:
        return seen
    return with_part(seen, KnownSettings(replica.config.min_insync_replicas))


class SettingsCores(ReplicationCores):
    """Brokers, controller and messages, and settings that reach brokers with the metadata."""

    def configure(self, number: int) -> None:
        wanted = int(self.brokers[number].image.topics[TOPIC].configs[MIN_INSYNC_REPLICAS])
        replica = self.replica(number)
        replica.config = attrs.evolve(replica.config, min_insync_replicas=wanted)

    def pull_metadata(self, number: int) -> None:
        super().pull_metadata(number)
        pulled = self.brokers[number].pulled
        assert pulled is not None
        min_insync = self.controller.config.min_insync_replicas(self.controller.image, TOPIC)
        word = with_part(pulled.word, KnownSettings(min_insync))
        self.brokers[number].pulled = attrs.evolve(pulled, word=word)

    def _abstract_controller(self, expected: spec.Controller) -> spec.Controller:
        seen = super()._abstract_controller(with_part(expected, TopicSettings()))
        return with_settings(seen, self.controller, TOPIC)

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        seen = super()._look_at_replica(number, broker)
        return seen if broker.replica is None else with_known_setting(seen, broker.replica)

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def change_settings(cores: SettingsCores, action: ChangeSettings) -> None:
    changes = [ConfigChange(name, AlterOperation.SET, value) for name, value in texts(action).items()]
    refused = cores.commit(cores.controller.configs.alter(ConfigResourceType.TOPIC, TOPIC, changes))
    assert not refused.message, refused.message


def texts(action: ChangeSettings) -> dict[str, str]:
    """The settings as they are given."""
    return {
        MIN_INSYNC_REPLICAS: str(action.min_insync),
        UNCLEAN_LEADER_ELECTION_ENABLE: str(action.elects_uncleanly).lower(),
    }


STEPS: Final = Steps[SettingsCores, [], None](on(ChangeSettings, change_settings), over=steps.STEPS)
