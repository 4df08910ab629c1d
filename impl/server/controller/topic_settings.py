"""A topic's settings as CreateTopics responds with them: each with its value and its source (KIP-525)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from tidegauge.impl.metadata.config_types import ConfigType
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.topic_configs import TOPIC_CONFIGS
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.settings.sources import Sources, in_own_unit

NO_BROKER = -1
"""The controller has no settings of a single broker."""


@attrs.frozen
class TopicSetting:
    """One setting; `source` is Kafka's code of the place that gives the value."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool


def settings_of(image: ClusterImage, config: ServerConfig, configs: Mapping[str, str]) -> Iterator[TopicSetting]:
    """Every setting of a topic that sets `configs` itself, in order of names."""
    sources = Sources(image, config, NO_BROKER)
    for _, setting in sorted(TOPIC_CONFIGS.items()):
        nearest = next(sources.of_configs(configs, setting))
        secret = setting.kind is ConfigType.PASSWORD
        yield TopicSetting(setting.name, None if secret else in_own_unit(setting, nearest), nearest.source, secret)
