"""The settings by which the controller decides, and what they come to for a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from tidegauge.impl.metadata.broker_configs import DynamicSettings
from tidegauge.impl.metadata.config_resources import ALL_BROKERS
from tidegauge.impl.metadata.group_configs import DEFAULT_GROUP_SETTINGS
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.topic_configs import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    config_value,
)

DEFAULT_CONTROLLER_ID: Final = 3000


@attrs.frozen(eq=False, repr=False)
class ControllerConfig:
    """The controller's own settings, under Kafka's names."""

    broker_session_timeout_ms: int = 9_000
    topic_defaults: Mapping[str, str] = attrs.field(factory=dict)
    """The value of each setting that a topic does not set itself, where it is not Kafka's default."""
    dynamic_settings: DynamicSettings = attrs.field(factory=DynamicSettings)
    """Brokers' settings that can be changed while they run (KIP-226)."""
    group_settings: Mapping[str, int] = DEFAULT_GROUP_SETTINGS
    """Brokers' defaults for groups, and the bounds of what groups may set."""

    def min_insync_replicas(self, image: ClusterImage, topic: str) -> int:
        """The topic's min.insync.replicas, which may be more than it has replicas."""
        configured: int = self._value(image, topic, MIN_INSYNC_REPLICAS)
        return configured

    def unclean_leader_election(self, image: ClusterImage, topic: str) -> bool:
        """The topic's unclean.leader.election.enable."""
        enabled: bool = self._value(image, topic, UNCLEAN_LEADER_ELECTION_ENABLE)
        return enabled

    def _value(self, image: ClusterImage, topic: str, name: str) -> Any:
        """Of a setting that has the same name as the brokers' setting that is its default."""
        dynamic = image.broker_configs.get(ALL_BROKERS)
        defaults = dynamic if dynamic and name in dynamic else self.topic_defaults
        return config_value(image.topics[topic].configs, name, defaults)
