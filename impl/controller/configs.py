"""Dynamic configurations of topics, brokers and groups, in the metadata log (KIP-133, KIP-226, KIP-339, KIP-848).

A topic's settings, a group's, one broker's and those of all brokers (the resource "") are maps of names to texts. A
request changes one map: by operations on single settings, or by a new map in place of the old one. The settings that
result are checked together, and all of them are written or none.

The controller itself decides by two settings, so that a change of one of them is one decision with what follows:

- `min.insync.replicas` says which replicas stay eligible to lead. When it is lowered, a leader may commit without
  replicas that were eligible, so eligibility is decided anew. When it is raised, a leader that has not applied the
  change may still commit by the old value; every partition's epoch is raised with it, so that such a leader cannot
  change an ISR.
- With `unclean.leader.election.enable` a partition that waits for a leader gets one at once.

Brokers' files say nothing about `min.insync.replicas`: a leader whose file has a smaller number than the controller's
would commit without replicas that the controller holds eligible. So the metadata always have the number for all
brokers (KIP-966): the first controller writes its own, nobody can take it away, and no broker can have another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.metadata.config_resources import ALL_BROKERS, AlterOperation, ConfigResourceType
from tidegauge.impl.metadata.config_types import Setting, as_text
from tidegauge.impl.metadata.group_configs import GROUP_CONFIGS, group_config_error
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import (
    BrokerConfigRecord,
    ConfigRecord,
    GroupConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
)
from tidegauge.impl.metadata.topic_configs import (
    MIN_INSYNC_REPLICAS,
    TOPIC_CONFIGS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    config_error,
    config_value,
)
from tidegauge.impl.metadata.topic_names import is_topic_name
from tidegauge.impl.partition.registration import NO_LEADER

LONGEST_VALUE: Final = (1 << 15) - 1
"""Characters of a value that a record of Kafka's metadata log can hold; appending makes lists longer."""

NOT_OF_ONE_BROKER: Final = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
ALWAYS_CLUSTER_WIDE: Final = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
"""Kafka's words, which tools show."""


class ConfigChange(NamedTuple):
    """One operation of a request; `operation` may be none of `AlterOperation`."""

    name: str
    operation: int
    value: str | None


class Altered(NamedTuple):
    """The outcome of a request; `message` says what is wrong with it."""

    error: ErrorCode = ErrorCode.none
    message: str = ""


class ConfigRules:
    """What a changed setting means for a topic's partitions."""

    def __init__(self, elections: ElectionRules) -> None:
        self.elections = elections

    def min_insync_replicas_changed(self, decision: Decision, topic: str) -> None:
        """Raise every partition's epoch, and compare its eligible leaders with the new setting."""
        for index, partition in list(decision.image.topics[topic].partitions.items()):
            elr = self.elections.elr_after(decision.image, topic, partition, partition.isr, partition.elr)
            decision.write(PartitionChangeRecord(topic, index, elr=tuple(sorted(elr))))

    def unclean_election_enabled(self, decision: Decision, topic: str) -> None:
        """Elect a leader where there is none."""
        for index, partition in list(decision.image.topics[topic].partitions.items()):
            if partition.leader == NO_LEADER:
                led = self.elections.with_leader(decision.image, topic, partition)
                decision.change_partition(topic, index, led)


class Configs:
    """Decides about dynamic configurations."""

    def __init__(self, image: ClusterImage, rules: ConfigRules, config: ControllerConfig) -> None:
        self._image = image
        self._rules = rules
        self._config = config

    def cluster_wide(self) -> Sequence[BrokerConfigRecord]:
        """What a controller writes for all brokers when it takes over and the metadata lack it."""
        if MIN_INSYNC_REPLICAS in self._image.broker_configs.get(ALL_BROKERS, {}):
            return ()
        value = config_value({}, MIN_INSYNC_REPLICAS, self._config.topic_defaults)
        return (BrokerConfigRecord(ALL_BROKERS, MIN_INSYNC_REPLICAS, str(value)),)

    def alter(
        self, kind: int, resource: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> Proposal[Altered]:
        """Change some settings of a resource.

        Errors: INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION,
        BROKER_ID_NOT_REGISTERED.
        """
        decision = Decision(self._image)
        refusal = self._name_error(kind, resource)
        if refusal is not None:
            return decision.propose(refusal)
        if len({change.name for change in changes}) < len(changes):
            return decision.propose(Altered(ErrorCode.invalid_request, "a setting is named twice: name each once"))
        if kind == ConfigResourceType.BROKER and resource != ALL_BROKERS and _names_min_insync(changes):
            return decision.propose(Altered(ErrorCode.invalid_config, NOT_OF_ONE_BROKER))
        configs = dict(self._configs(kind, resource))
        for change in changes:
            refusal = self._apply(kind, configs, change)
            if refusal is not None:
                return decision.propose(refusal)
        return self._replace(decision, kind, resource, configs, validate_only)

    def replace(
        self, kind: int, resource: str, values: Mapping[str, str | None], *, validate_only: bool = False
    ) -> Proposal[Altered]:
        """Give a resource these settings and no others; errors as of `alter`."""
        decision = Decision(self._image)
        refusal = self._name_error(kind, resource)
        if refusal is not None:
            return decision.propose(refusal)
        empty = [name for name, value in values.items() if value is None]
        if empty:
            refusal = Altered(ErrorCode.invalid_request, f"{empty[0]} has no value: leave it out to unset it")
            return decision.propose(refusal)
        given = {name: value for name, value in values.items() if value is not None}
        return self._replace(decision, kind, resource, given, validate_only)

    def _name_error(self, kind: int, resource: str) -> Altered | None:
        if kind == ConfigResourceType.TOPIC:
            if not resource:
                return Altered(ErrorCode.invalid_request, "a topic's name is empty: name the topic")
            if not is_topic_name(resource):
                return Altered(ErrorCode.invalid_topic_exception, f"{resource!r} is no topic name")
            return None
        if kind == ConfigResourceType.GROUP:
            return None if resource else Altered(ErrorCode.invalid_request, "a group's name is empty: name the group")
        if kind != ConfigResourceType.BROKER:
            return Altered(ErrorCode.invalid_request, f"resources of type {kind} have no configurations here")
        if resource != ALL_BROKERS and not (resource.isascii() and resource.isdigit()):
            return Altered(ErrorCode.invalid_request, f"broker {resource!r}: give a broker's id, or '' for all brokers")
        return None

    def _absence(self, kind: int, resource: str) -> Altered | None:
        """Checked last, as in Kafka: wrong settings are reported even for a topic that does not exist."""
        if kind == ConfigResourceType.TOPIC:
            if resource not in self._image.topics:
                return Altered(ErrorCode.unknown_topic_or_partition, f"there is no topic {resource!r}")
        elif kind == ConfigResourceType.BROKER and resource != ALL_BROKERS and int(resource) not in self._image.brokers:
            return Altered(ErrorCode.broker_id_not_registered, f"there is no broker {resource}")
        return None

    def _setting(self, kind: int, name: str) -> Setting | None:
        if kind == ConfigResourceType.GROUP:
            return GROUP_CONFIGS[name].setting if name in GROUP_CONFIGS else None
        if kind == ConfigResourceType.TOPIC:
            return TOPIC_CONFIGS.get(name)
        return self._config.dynamic_settings.find(name)

    def _configs(self, kind: int, resource: str) -> Mapping[str, str]:
        if kind == ConfigResourceType.TOPIC:
            topic = self._image.topics.get(resource)
            return {} if topic is None else topic.configs
        if kind == ConfigResourceType.GROUP:
            return self._image.group_configs.get(resource, {})
        return self._image.broker_configs.get(resource, {})

    def _apply(self, kind: int, configs: dict[str, str], change: ConfigChange) -> Altered | None:
        """Apply one operation to the settings; returns what is wrong with it."""
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
        setting = self._setting(kind, name)
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

    def _replace(
        self, decision: Decision, kind: int, resource: str, configs: dict[str, str], validate_only: bool
    ) -> Proposal[Altered]:
        too_long = [name for name, text in configs.items() if len(text) > LONGEST_VALUE]
        if too_long:
            wrong: Altered | None = Altered(
                ErrorCode.invalid_config, f"{too_long[0]} has more than {LONGEST_VALUE} characters: make it shorter"
            )
        elif kind == ConfigResourceType.BROKER:
            wrong = self._broker_error(resource, configs)
        else:
            of_topic = kind == ConfigResourceType.TOPIC
            problem = config_error(configs) if of_topic else group_config_error(configs, self._config.group_settings)
            wrong = Altered(ErrorCode.invalid_config, problem) if problem else None
        wrong = wrong or self._absence(kind, resource)
        if wrong is not None:
            return decision.propose(wrong)
        if not validate_only:
            self._write_configs(decision, kind, resource, configs)
        return decision.propose(Altered())

    def _broker_error(self, resource: str, configs: Mapping[str, str]) -> Altered | None:
        if resource == ALL_BROKERS and MIN_INSYNC_REPLICAS not in configs:
            return Altered(ErrorCode.invalid_config, ALWAYS_CLUSTER_WIDE)
        if resource != ALL_BROKERS and MIN_INSYNC_REPLICAS in configs:
            return Altered(ErrorCode.invalid_config, NOT_OF_ONE_BROKER)
        for name, text in configs.items():
            if resource != ALL_BROKERS and name == UNCLEAN_LEADER_ELECTION_ENABLE:
                return Altered(ErrorCode.invalid_config, f"{name} is the same for all brokers: set it for ''")
            problem = self._config.dynamic_settings.error(name, text, of_all_brokers=resource == ALL_BROKERS)
            if problem:
                return Altered(ErrorCode.invalid_request, problem)
        return None

    def _write_configs(self, decision: Decision, kind: int, resource: str, configs: Mapping[str, str]) -> None:
        """Write what changes, and what follows from it for partitions."""
        topics = self._topics_of(kind, resource)
        before = {topic: self._deciding_settings(decision.image, topic) for topic in topics}
        old = dict(self._configs(kind, resource))
        for record in _differences(kind, resource, old, configs):
            decision.write(record)
        for topic, (min_insync, unclean) in before.items():
            now_min_insync, now_unclean = self._deciding_settings(decision.image, topic)
            if now_min_insync != min_insync:
                self._rules.min_insync_replicas_changed(decision, topic)
            if now_unclean and not unclean:
                self._rules.unclean_election_enabled(decision, topic)

    def _topics_of(self, kind: int, resource: str) -> Iterable[str]:
        """The topics that may decide otherwise when this resource's settings change."""
        if kind == ConfigResourceType.TOPIC:
            return (resource,)
        return self._image.topics if (kind, resource) == (ConfigResourceType.BROKER, ALL_BROKERS) else ()

    def _deciding_settings(self, image: ClusterImage, topic: str) -> tuple[int, bool]:
        return self._config.min_insync_replicas(image, topic), self._config.unclean_leader_election(image, topic)


def _names_min_insync(changes: Sequence[ConfigChange]) -> bool:
    return any(change.name == MIN_INSYNC_REPLICAS for change in changes)


_RECORDS: Final[Mapping[int, type[ConfigRecord | BrokerConfigRecord | GroupConfigRecord]]] = {
    ConfigResourceType.TOPIC: ConfigRecord,
    ConfigResourceType.BROKER: BrokerConfigRecord,
    ConfigResourceType.GROUP: GroupConfigRecord,
}


def _differences(kind: int, resource: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[MetadataRecord]:
    """The records that turn one map of settings into another."""
    record = _RECORDS[kind]
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield record(resource, name, new.get(name))
