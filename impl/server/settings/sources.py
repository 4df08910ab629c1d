"""Where the value of a setting comes from (KIP-226).

The nearest of several places gives the value: the topic itself; then, under the broker's name of the setting, this
broker's dynamic setting, that of all brokers, and the file that the broker was started with; then Kafka's default.
Kafka calls the place that gives the value its source, and all places together synonyms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property

import attrs

from tidegauge.impl.metadata.broker_configs import name_without_listener
from tidegauge.impl.metadata.config_resources import ALL_BROKERS
from tidegauge.impl.metadata.config_types import Setting, as_text
from tidegauge.impl.metadata.group_configs import GroupSetting, group_default
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.topic_configs import BROKER_SYNONYMS
from tidegauge.impl.server.settings.server_config import BROKER_CONFIGS, ServerConfig, group_settings


class ConfigSource(IntEnum):
    """The places, with Kafka's codes; a topic's and a broker's begin with the nearest."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    GROUP = 8
    """The group itself."""


@attrs.frozen
class Place:
    """One place with a value for a setting."""

    name: str
    value: str | None
    source: ConfigSource


class Sources:
    """The values that all places have for the settings of one broker and its topics."""

    def __init__(
        self, image: ClusterImage, config: ServerConfig, broker_id: int, listening: Mapping[str, str] | None = None
    ) -> None:
        """`listening` has the settings that say where the broker listens; those in its file win."""
        self._image = image
        self._properties = config.properties
        self._layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = (
            (ConfigSource.BROKER, image.broker_configs.get(str(broker_id), {})),
            (ConfigSource.ALL_BROKERS, image.broker_configs.get(ALL_BROKERS, {})),
            (ConfigSource.STATIC, {**(listening or {}), **config.properties}),
        )

    def of_broker(self, setting: Setting) -> Iterator[Place]:
        """A broker's setting, from the nearest place on; the last one is Kafka's default."""
        plain = name_without_listener(setting.name)
        for name in dict.fromkeys((setting.name, plain)):
            for source, values in self._layers:
                if name in values:
                    yield Place(name, values[name], source)
        yield Place(plain, setting.default_text, ConfigSource.DEFAULT)

    def of_listeners(self) -> list[Setting]:
        """What is set for one listener each, by name."""
        names = sorted({name for _, values in self._layers for name in values if name_without_listener(name) != name})
        return [
            BROKER_CONFIGS[plain]._replace(name=name)
            for name in names
            if (plain := name_without_listener(name)) in BROKER_CONFIGS
        ]

    def of_topic(self, topic: str, setting: Setting) -> Iterator[Place]:
        """A topic's setting: its own value, then those that brokers have for it."""
        return self.of_configs(self._image.topics[topic].configs, setting)

    @cached_property
    def _group_settings(self) -> Mapping[str, int]:
        return group_settings(self._properties)

    def of_group(self, group: str, one: GroupSetting) -> Iterator[Place]:
        """A group's setting: its own value, else what brokers have for all groups, which Kafka calls the default."""
        setting, configs = one.setting, self._image.group_configs.get(group, {})
        if setting.name in configs:
            yield Place(setting.name, as_text(setting.parse(configs[setting.name])), ConfigSource.GROUP)
        else:
            default = as_text(group_default(setting.name, self._group_settings))
            yield Place(setting.name, default, ConfigSource.DEFAULT)

    def of_configs(self, configs: Mapping[str, str], setting: Setting) -> Iterator[Place]:
        """The setting of a topic that sets `configs` itself."""
        if setting.name in configs:
            yield Place(setting.name, as_text(setting.parse(configs[setting.name])), ConfigSource.TOPIC)
        for source, values in self._layers:
            for synonym, _ in setting.synonyms:
                if synonym in values:
                    yield Place(synonym, values[synonym], source)
            if source is ConfigSource.STATIC and setting.name in values and setting.name not in BROKER_SYNONYMS:
                yield Place(setting.name, values[setting.name], source)
        name = setting.synonyms[0][0] if setting.synonyms else setting.name
        yield Place(name, setting.default_text, ConfigSource.DEFAULT)


def in_own_unit(setting: Setting, place: Place) -> str | None:
    """A place's value without blanks, and in the setting's unit (brokers may count hours)."""
    if place.value is None or place.source is ConfigSource.DEFAULT:
        return place.value
    scale = dict(setting.synonyms).get(place.name, 1)
    if scale == 1:
        return as_text(setting.parse(place.value))
    number = int(place.value)
    return str(number * scale if number >= 0 else -1)
