"""The metadata image: what a prefix of the metadata log says of brokers, topics, partitions, settings and rights.

The controller and every broker have such an image and update it in the same way, record by record; so a controller that
takes over after a failure knows all that its predecessor had decided. Nothing else changes an image.

A `draft` is a copy that can be changed without changing the original: the controller computes a decision on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import attrs

from tidegauge.impl.metadata.access import AccessControlLists, Acl, Operation, PatternType, Permission, ResourceType
from tidegauge.impl.metadata.client_quotas import QuotaEntity
from tidegauge.impl.metadata.credentials import ScramCredential
from tidegauge.impl.metadata.draft_dict import DraftDict
from tidegauge.impl.metadata.features import FEATURES
from tidegauge.impl.metadata.records import (
    AccessControlEntryRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEpochRecord,
    FeatureLevelRecord,
    GroupConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ReplicaDirectoryRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from tidegauge.impl.partition.registration import PartitionRegistration, broker_ids

NO_CONTROLLER: Final = -1
NO_FIELDS: Final = frozenset[str]()


class ControllerRegistration(NamedTuple):
    """Where brokers reach a controller while it is the active one."""

    controller_id: int
    host: str
    port: int


class BrokerRegistration(NamedTuple):
    """One incarnation of a broker; a fenced one neither leads nor joins an ISR."""

    broker_id: int
    broker_epoch: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool = False
    """About to stop: it serves, but is neither elected nor given replicas (KIP-841)."""
    listeners: tuple[tuple[str, str, int, int], ...] = ()
    """(name, host, port, security protocol) of each listener; `host` and `port` are those for other brokers."""
    directories: tuple[str, ...] = ()
    """Ids of the log directories that are online."""
    incarnation_id: str = ""
    """The process that registered; "" is not known."""

    def endpoint(self, listener: str) -> tuple[str, int] | None:
        """Where a client that came by a listener reaches this broker; None when it has no such listener."""
        if not self.listeners:
            return self.host, self.port
        for name, host, port, _ in self.listeners:
            if name == listener:
                return host, port
        return None


@attrs.define
class TopicImage:
    """A topic: its settings, and its partitions by number."""

    name: str
    topic_id: str
    configs: dict[str, str] = attrs.field(factory=dict)
    partitions: dict[int, PartitionRegistration] = attrs.field(factory=dict)
    directories: dict[tuple[int, int], str] = attrs.field(factory=dict)
    """(partition, broker) -> id of the log directory, as far as the broker has said."""
    succeeds: bool = False
    """Whether there was a topic of this name before, to which producers may still have been sending."""

    def draft(self) -> TopicImage:
        """A topic whose partitions can be changed without changing this one's.

        It shares the rest: settings are replaced and never changed, and for directories there is `draft_directories`.
        """
        partitions = DraftDict(self.partitions)
        return TopicImage(self.name, self.topic_id, self.configs, partitions, self.directories, self.succeeds)

    def draft_directories(self) -> None:
        """Be a draft in its directories too: few decisions change them."""
        if not isinstance(self.directories, DraftDict):
            self.directories = DraftDict(self.directories)

    def merge(self) -> None:
        """Be a draft no longer: what it is a draft of is void."""
        if isinstance(self.partitions, DraftDict):
            self.partitions = self.partitions.merge()
        if isinstance(self.directories, DraftDict):
            self.directories = self.directories.merge()


class ClusterImage:
    """The cluster after the first `offset` records of the metadata log."""

    def __init__(self) -> None:
        self.offset = 0
        self.controller_id = NO_CONTROLLER
        self.controller_epoch = -1
        self.controllers: dict[int, ControllerRegistration] = {}
        """By node id: the nodes that have been the active controller."""
        self.brokers: dict[int, BrokerRegistration] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topic_names: dict[str, str] = {}
        """By topic id."""
        self.newest_topic = 0
        """The offset of the first image with the topic that came last."""
        self._own_fields: frozenset[str] | None = None
        """The fields of a draft that `_own` has copied; the others are its original's. None: this is no draft."""
        self._removed_topics: dict[str, None] = {}
        """A set, as a dict that a draft need not copy."""
        self.broker_configs: dict[str, dict[str, str]] = {}
        """By broker id as text; "" is all brokers."""
        self.group_configs: dict[str, dict[str, str]] = {}
        """By group; a group without settings is not there."""
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.next_producer_id = 0
        """The first that no broker has been given."""
        self.features: dict[str, int] = {}
        """The levels of those that were changed."""
        self.acls = AccessControlLists()
        self.scram_credentials: dict[str, dict[int, ScramCredential]] = {}
        """By user and mechanism."""

    def draft(self) -> ClusterImage:
        """A copy that can be changed without changing this image; it is void when this image changes.

        A topic has a draft of its own when it is first changed.
        """
        draft = ClusterImage.__new__(ClusterImage)
        draft.__dict__.update(self.__dict__)
        draft.topics, draft._own_fields = DraftDict(self.topics), NO_FIELDS
        return draft

    def adopt(self, draft: ClusterImage) -> None:
        """Become what a draft of this image has become; the draft is void then. Costs as much as there are changes."""
        assert self._own_fields is None, "a draft adopts nothing: it shares objects with its original"
        topics, acls = draft.topics, self.acls
        assert isinstance(topics, DraftDict), "it is a draft"
        for topic in dict.values(topics):
            topic.merge()
        self.__dict__.update(draft.__dict__)
        self.topics, self._own_fields = topics.merge(), None
        if isinstance(self.topic_names, DraftDict) and isinstance(self._removed_topics, DraftDict):
            self.topic_names, self._removed_topics = self.topic_names.merge(), self._removed_topics.merge()
        if draft.acls is not acls:
            self.acls = draft.acls.merge()

    def replay(self, records: Iterable[MetadataRecord]) -> None:
        """Apply the records that follow `offset`."""
        for record in records:
            self.apply(record)

    def apply(self, record: MetadataRecord) -> None:
        """Apply the record at `offset`."""
        _APPLY[type(record)](self, record)
        self.offset += 1

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        """The partition's registration; None when there is no such partition."""
        image = self.topics.get(topic)
        return None if image is None else image.partitions.get(partition)

    def partitions(self) -> Iterator[tuple[str, int, PartitionRegistration]]:
        """(topic, partition, registration) of every partition, in order of creation."""
        for topic in self.topics.values():
            for partition, registration in topic.partitions.items():
                yield topic.name, partition, registration

    def feature_level(self, name: str) -> int:
        """The level of a feature that is in force."""
        return self.features.get(name, FEATURES[name].default)

    def is_unfenced(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker may be elected: it is live, and not about to stop."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def is_shutting_down(self, broker_id: int) -> bool:
        """Whether the broker is about to stop."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.in_controlled_shutdown

    def active_brokers(self) -> list[BrokerRegistration]:
        """The brokers that may be elected and given replicas, in order of their ids."""
        return [broker for broker in self.unfenced_brokers() if not broker.in_controlled_shutdown]

    def unfenced_brokers(self) -> list[BrokerRegistration]:
        """The brokers that can lead, in order of their ids."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.fenced]

    def _own_topic(self, name: str) -> TopicImage:
        """The topic as an object that this image alone has."""
        topics = self.topics
        if self._own_fields is None or dict.__contains__(topics, name):  # of a DraftDict: the draft's own
            return topics[name]
        topic = topics[name] = topics[name].draft()
        return topic

    def _own_directories(self, topic: TopicImage) -> dict[tuple[int, int], str]:
        """The same for the directories of a topic that is its own."""
        if self._own_fields is not None:
            topic.draft_directories()
        return topic.directories

    def _own(self, *fields: str) -> None:
        """Make these fields, which are dicts and sets, objects that this image alone has."""
        if self._own_fields is not None:
            for field in fields:
                if field not in self._own_fields:
                    self._own_fields |= {field}
                    shared = getattr(self, field)
                    setattr(self, field, type(shared)(shared))

    def _own_topic_names(self) -> None:
        """The same for the names that there are and were, of which there may be many."""
        if self._own_fields is not None and "topic_names" not in self._own_fields:
            self._own_fields |= {"topic_names"}
            self.topic_names, self._removed_topics = DraftDict(self.topic_names), DraftDict(self._removed_topics)

    def _own_acls(self) -> None:
        """The same for the ACLs, of which there may be many."""
        if self._own_fields is not None and "acls" not in self._own_fields:
            self._own_fields |= {"acls"}
            self.acls = self.acls.draft()

    def _controller_epoch(self, record: ControllerEpochRecord) -> None:
        self.controller_id, self.controller_epoch = record.controller_id, record.controller_epoch

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._own("controllers")
        self.controllers[record.controller_id] = ControllerRegistration(record.controller_id, record.host, record.port)

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._own("brokers")
        self.brokers[record.broker_id] = BrokerRegistration(
            record.broker_id,
            record.broker_epoch,
            record.host,
            record.port,
            record.rack,
            record.fenced,
            listeners=record.listeners,
            directories=record.directories,
            incarnation_id=record.incarnation_id,
        )

    def _broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        old = self.brokers[record.broker_id]
        self._own("brokers")
        self.brokers[record.broker_id] = old._replace(
            fenced=old.fenced if record.fenced is None else record.fenced,
            in_controlled_shutdown=(
                old.in_controlled_shutdown if record.in_controlled_shutdown is None else record.in_controlled_shutdown
            ),
            directories=old.directories if record.directories is None else record.directories,
        )

    def _replica_directory(self, record: ReplicaDirectoryRecord) -> None:
        directories = self._own_directories(self._own_topic(record.topic))
        directories[record.partition, record.broker_id] = record.directory

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._own("brokers")
        del self.brokers[record.broker_id]

    def _topic(self, record: TopicRecord) -> None:
        self._own_topic_names()
        self.topics[record.name] = TopicImage(
            record.name, record.topic_id, succeeds=record.name in self._removed_topics
        )
        self.topic_names[record.topic_id] = record.name
        self.newest_topic = self.offset + 1

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        self._own_topic_names()
        name = self.topic_names.pop(record.topic_id)
        del self.topics[name]
        self._removed_topics[name] = None

    def _config(self, record: ConfigRecord) -> None:
        topic = self._own_topic(record.topic)
        topic.configs = configs = dict(topic.configs)
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _broker_config(self, record: BrokerConfigRecord) -> None:
        self._own("broker_configs")
        others = {
            name: value for name, value in self.broker_configs.get(record.broker, {}).items() if name != record.name
        }
        self.broker_configs[record.broker] = others if record.value is None else {**others, record.name: record.value}

    def _group_config(self, record: GroupConfigRecord) -> None:
        self._own("group_configs")
        configs = dict(self.group_configs.get(record.group, {}))
        configs.pop(record.name, None)
        if record.value is not None:
            configs[record.name] = record.value
        self.group_configs[record.group] = configs
        if not configs:
            del self.group_configs[record.group]

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        self._own("client_quotas")
        entity = QuotaEntity(record.user, record.client_id, record.ip)
        quotas = {key: value for key, value in self.client_quotas.get(entity, {}).items() if key != record.key}
        if record.value is not None:
            quotas[record.key] = record.value
        self.client_quotas[entity] = quotas
        if not quotas:
            del self.client_quotas[entity]

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        self._own("features")
        self.features[record.name] = record.level

    def _partition(self, record: PartitionRecord) -> None:
        self._own_topic(record.topic).partitions[record.partition] = PartitionRegistration(
            replicas=record.replicas,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            isr=broker_ids(record.isr),
            elr=broker_ids(record.elr),
            last_known_leader=record.last_known_leader,
        )

    def _access_control_entry(self, record: AccessControlEntryRecord) -> None:
        self._own_acls()
        self.acls.add(_acl(record))

    def _remove_access_control_entry(self, record: RemoveAccessControlEntryRecord) -> None:
        self._own_acls()
        self.acls.remove(_acl(record))

    def _user_scram_credential(self, record: UserScramCredentialRecord) -> None:
        self._own("scram_credentials")
        credential = ScramCredential(
            bytes.fromhex(record.salt),
            bytes.fromhex(record.stored_key),
            bytes.fromhex(record.server_key),
            record.iterations,
        )
        others = self.scram_credentials.get(record.user, {})
        self.scram_credentials[record.user] = {**others, record.mechanism: credential}

    def _remove_user_scram_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        self._own("scram_credentials")
        credentials = dict(self.scram_credentials.pop(record.user))
        del credentials[record.mechanism]
        if credentials:
            self.scram_credentials[record.user] = credentials

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._own_topic(record.topic)
        old = topic.partitions[record.partition]
        topic.partitions[record.partition] = changed(old, record)
        if record.replicas is not None:
            for departed in set(old.replicas).difference(record.replicas):
                # Its broker removes the log, and reports where the next one is.
                self._own_directories(topic).pop((record.partition, departed), None)


def _acl(record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> Acl:
    return Acl(
        ResourceType(record.resource_type),
        record.resource_name,
        PatternType(record.pattern_type),
        record.principal,
        record.host,
        Operation(record.operation),
        Permission(record.permission),
    )


def changed(old: PartitionRegistration, record: PartitionChangeRecord) -> PartitionRegistration:
    """The registration after the change; its epochs count the changes."""
    new_leader = record.leader is not None
    return PartitionRegistration(
        old.replicas if record.replicas is None else record.replicas,
        old.leader if record.leader is None else record.leader,
        old.leader_epoch + new_leader,
        old.partition_epoch + 1,
        old.isr if record.isr is None else broker_ids(record.isr),
        old.elr if record.elr is None else broker_ids(record.elr),
        old.last_known_leader if record.last_known_leader is None else record.last_known_leader,
        old.adding_replicas if record.adding_replicas is None else record.adding_replicas,
        old.removing_replicas if record.removing_replicas is None else record.removing_replicas,
        old.offline_replicas if record.offline_replicas is None else broker_ids(record.offline_replicas),
        old.lost_replicas if record.lost_replicas is None else broker_ids(record.lost_replicas),
    )


_APPLY: Final[dict[type[Any], Callable[[ClusterImage, Any], None]]] = {
    ControllerEpochRecord: ClusterImage._controller_epoch,
    RegisterControllerRecord: ClusterImage._register_controller,
    RegisterBrokerRecord: ClusterImage._register_broker,
    BrokerRegistrationChangeRecord: ClusterImage._broker_registration_change,
    ReplicaDirectoryRecord: ClusterImage._replica_directory,
    UnregisterBrokerRecord: ClusterImage._unregister_broker,
    TopicRecord: ClusterImage._topic,
    RemoveTopicRecord: ClusterImage._remove_topic,
    ConfigRecord: ClusterImage._config,
    BrokerConfigRecord: ClusterImage._broker_config,
    GroupConfigRecord: ClusterImage._group_config,
    ClientQuotaRecord: ClusterImage._client_quota,
    PartitionRecord: ClusterImage._partition,
    PartitionChangeRecord: ClusterImage._partition_change,
    ProducerIdsRecord: ClusterImage._producer_ids,
    FeatureLevelRecord: ClusterImage._feature_level,
    AccessControlEntryRecord: ClusterImage._access_control_entry,
    RemoveAccessControlEntryRecord: ClusterImage._remove_access_control_entry,
    UserScramCredentialRecord: ClusterImage._user_scram_credential,
    RemoveUserScramCredentialRecord: ClusterImage._remove_user_scram_credential,
}
