"""Dynamic configurations: what the metadata log says of topics and brokers (KIP-133, KIP-226, KIP-339).

A topic's settings, one broker's and those of all brokers (the resource "") are maps of names to texts. A request
changes one map as a whole: by operations on single settings, or by a new map in the place of the old one. It is
decided by the settings that come out, all or nothing.

Two settings reach into what the controller itself decides, so that a change of them is one decision with what follows:

- `min.insync.replicas` says which replicas stay eligible to lead. When it falls, a leader may commit without replicas
  that were eligible, so they are looked at anew. When it rises, a leader that does not know yet may go on committing by
  the old one; every partition's epoch is raised with it, so that no ISR is changed by a leader that has not seen it
  (spec/replication/extensions/min_insync.py).
- With `unclean.leader.election.enable` a partition that waits for a leader gets one at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.elections import Elections
from tidegauge.impl.metadata.config_resources import ALL_BROKERS, AlterOperation, ConfigResourceType
from tidegauge.impl.metadata.config_types import Setting, as_text
from tidegauge.impl.metadata.records import BrokerConfigRecord, ConfigRecord, MetadataRecord, PartitionChangeRecord
from tidegauge.impl.metadata.topic_configs import (
    MIN_INSYNC_REPLICAS,
    TOPIC_CONFIGS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    config_error,
)
from tidegauge.impl.metadata.topic_names import is_topic_name
from tidegauge.impl.partition.registration import NO_LEADER

LONGEST_VALUE: Final = (1 << 15) - 1
"""Characters of a value that a record of Kafka's metadata log can hold; appending makes lists longer."""

OF_ALL_ALONE: Final = frozenset({MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE})
"""What the controller decides by: a leader that had its own idea of it would break what the controller relies on."""


@attrs.frozen
class ConfigChange:
    """One operation of a request; `operation` may be none of `AlterOperation`."""

    name: str
    operation: int
    value: str | None


@attrs.frozen
class Altered:
    """What became of a request; `message` says in words what is wrong with it."""

    error: ErrorCode = ErrorCode.none
    message: str = ""


class Configs(Elections):
    """The controller's part in configurations."""

    def alter_configs(
        self, kind: int, resource: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> Altered:
        """Change some settings of a resource.

        Errors: INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION,
        BROKER_ID_NOT_REGISTERED.
        """
        refusal = self._name_error(kind, resource)
        if refusal is not None:
            return refusal
        if len({change.name for change in changes}) < len(changes):
            return Altered(ErrorCode.invalid_request, "a setting is named twice: name each once")
        configs = dict(self._configs(kind, resource))
        for change in changes:
            refusal = self._apply(kind, configs, change)
            if refusal is not None:
                return refusal
        return self._replace(kind, resource, configs, validate_only)

    def replace_configs(
        self, kind: int, resource: str, values: Mapping[str, str | None], *, validate_only: bool = False
    ) -> Altered:
        """Give a resource these settings and no others; errors as of `alter_configs`."""
        refusal = self._name_error(kind, resource)
        if refusal is not None:
            return refusal
        empty = [name for name, value in values.items() if value is None]
        if empty:
            return Altered(ErrorCode.invalid_request, f"{empty[0]} has no value: leave it out to unset it")
        given = {name: value for name, value in values.items() if value is not None}
        return self._replace(kind, resource, given, validate_only)

    def _name_error(self, kind: int, resource: str) -> Altered | None:
        if kind == ConfigResourceType.TOPIC:
            if not resource:
                return Altered(ErrorCode.invalid_request, "a topic's name is empty: name the topic")
            if not is_topic_name(resource):
                return Altered(ErrorCode.invalid_topic_exception, f"{resource!r} is no topic name")
            return None
        if kind != ConfigResourceType.BROKER:
            return Altered(ErrorCode.invalid_request, f"resources of type {kind} have no configurations here")
        if resource != ALL_BROKERS and not (resource.isascii() and resource.isdigit()):
            return Altered(ErrorCode.invalid_request, f"broker {resource!r}: give a broker's id, or '' for all brokers")
        return None

    def _absence(self, kind: int, resource: str) -> Altered | None:
        """Looked for last, as at Kafka: settings that are wrong are wrong of every topic."""
        if kind == ConfigResourceType.TOPIC:
            if resource not in self.image.topics:
                return Altered(ErrorCode.unknown_topic_or_partition, f"there is no topic {resource!r}")
        elif resource != ALL_BROKERS and int(resource) not in self.image.brokers:
            return Altered(ErrorCode.broker_id_not_registered, f"there is no broker {resource}")
        return None

    def _settings(self, kind: int) -> Mapping[str, Setting]:
        return TOPIC_CONFIGS if kind == ConfigResourceType.TOPIC else self.config.dynamic_settings

    def _configs(self, kind: int, resource: str) -> Mapping[str, str]:
        if kind == ConfigResourceType.TOPIC:
            topic = self.image.topics.get(resource)
            return {} if topic is None else topic.configs
        return self.image.broker_configs.get(resource, {})

    def _apply(self, kind: int, configs: dict[str, str], change: ConfigChange) -> Altered | None:
        """Do one operation to the settings; what is wrong with it otherwise."""
        name, value = change.name, change.value
        if change.operation == AlterOperation.DELETE:
            configs.pop(name, None)
            return None
        if value is None:
            return Altered(ErrorCode.invalid_request, f"{name} has no value: delete the setting to unset it")
        if change.operation == AlterOperation.SET:
            configs[name] = value
            return None
        if change.operation not in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            return Altered(ErrorCode.invalid_request, f"operation {change.operation} is none: use 0, 1, 2 or 3")
        setting = self._settings(kind).get(name)
        if setting is None or not setting.is_list:
            return Altered(
                ErrorCode.invalid_config, f"{name} is not a list: only to lists can be appended, and from them taken"
            )
        now = setting.parse(configs[name]) if name in configs else setting.default
        items = setting.parse(value)
        if change.operation == AlterOperation.APPEND:
            new = (*now, *(item for item in items if item not in now))
        else:
            new = tuple(item for item in now if item not in items)
        configs[name] = as_text(new) or ""
        return None

    def _replace(self, kind: int, resource: str, configs: dict[str, str], validate_only: bool) -> Altered:
        too_long = [name for name, text in configs.items() if len(text) > LONGEST_VALUE]
        if too_long:
            wrong: Altered | None = Altered(
                ErrorCode.invalid_config, f"{too_long[0]} has more than {LONGEST_VALUE} characters: make it shorter"
            )
        elif kind == ConfigResourceType.TOPIC:
            wrong = Altered(ErrorCode.invalid_config, problem) if (problem := config_error(configs)) else None
        else:
            wrong = self._broker_error(resource, configs)
        wrong = wrong or self._absence(kind, resource)
        if wrong is not None:
            return wrong
        if not validate_only:
            self._write_configs(kind, resource, configs)
        return Altered()

    def _broker_error(self, resource: str, configs: Mapping[str, str]) -> Altered | None:
        for name, text in configs.items():
            if resource != ALL_BROKERS and name in OF_ALL_ALONE:
                return Altered(ErrorCode.invalid_config, f"{name} is the same for all brokers: set it for ''")
            setting = self.config.dynamic_settings.get(name)
            if setting is None:
                known = ", ".join(sorted(self.config.dynamic_settings))
                return Altered(
                    ErrorCode.invalid_request, f"{name} cannot be changed while brokers run; what can is {known}"
                )
            try:
                setting.parse(text)
            except ValueError as error:
                return Altered(ErrorCode.invalid_request, f"{name}={text!r}: {error}")
        return None

    def _write_configs(self, kind: int, resource: str, configs: Mapping[str, str]) -> None:
        """Write what changes, with what follows from it, as one decision."""
        before = {topic: self._rules(topic) for topic in self.image.topics}
        old = dict(self._configs(kind, resource))
        for record in _differences(kind, resource, old, configs):
            self._write(record)
        for topic, (min_insync, unclean) in before.items():
            now_min_insync, now_unclean = self._rules(topic)
            if now_min_insync != min_insync:
                self._look_at_eligible_leaders(topic)
            if now_unclean and not unclean:
                self._elect_where_nobody_leads(topic)
        self._commit()

    def _rules(self, topic: str) -> tuple[int, bool]:
        return self.configured_min_insync_replicas(topic), self.unclean_leader_election(topic)

    def _look_at_eligible_leaders(self, topic: str) -> None:
        for index, partition in list(self.image.topics[topic].partitions.items()):
            elr = self.elr_after(topic, partition, partition.isr, partition.elr)
            self._write(PartitionChangeRecord(topic, index, elr=tuple(sorted(elr))))

    def _elect_where_nobody_leads(self, topic: str) -> None:
        for index, partition in list(self.image.topics[topic].partitions.items()):
            if partition.leader == NO_LEADER:
                self._write_partition(topic, index, partition, self.with_leader(topic, partition))


def _differences(kind: int, resource: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[MetadataRecord]:
    """The records that turn one map of settings into another."""
    record = ConfigRecord if kind == ConfigResourceType.TOPIC else BrokerConfigRecord
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield record(resource, name, new.get(name))
