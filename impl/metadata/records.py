"""The metadata log's records, under Kafka's names: everything that the cluster has decided, in order.

`impl.metadata.codec` says how they are stored and sent. They are NamedTuples: a decision may write tens of thousands,
and a NamedTuple costs half of what a frozen class does, to make one and to define.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tidegauge.impl.partition.registration import NO_LEADER


class ControllerEpochRecord(NamedTuple):
    """A controller became active; whatever an older epoch sends from now on is refused."""

    controller_id: int
    controller_epoch: int


class RegisterControllerRecord(NamedTuple):
    """Where a node of the controllers' quorum is reached, when it is the active controller (KIP-919)."""

    controller_id: int
    host: str
    port: int


class RegisterBrokerRecord(NamedTuple):
    """A broker joined, or came back as a new process; it is fenced until it has caught up with the metadata."""

    broker_id: int
    broker_epoch: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = True
    listeners: tuple[tuple[str, str, int, int], ...] = ()
    """(name, host, port, security protocol) of each listener; none is one, PLAINTEXT, at `host` and `port`."""
    directories: tuple[str, ...] = ()
    """Ids of the log directories that are online."""
    incarnation_id: str = ""
    """The process that registered; "" is not known."""


class BrokerRegistrationChangeRecord(NamedTuple):
    """What changed of a registered broker; None is unchanged.

    It was fenced (its session expired) or unfenced (it has caught up), or it is about to stop (KIP-841).
    """

    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    directories: tuple[str, ...] | None = None
    """Ids of the log directories that are online now."""


class ReplicaDirectoryRecord(NamedTuple):
    """A broker has its replica of a partition in this log directory (KIP-858)."""

    topic: str
    partition: int
    broker_id: int
    directory: str


class UnregisterBrokerRecord(NamedTuple):
    """A broker that is gone for good was removed (KIP-631)."""

    broker_id: int
    broker_epoch: int


class TopicRecord(NamedTuple):
    """A topic was created."""

    name: str
    topic_id: str


class RemoveTopicRecord(NamedTuple):
    """A topic was deleted, with all its partitions and settings."""

    topic_id: str


class ConfigRecord(NamedTuple):
    """A topic's setting, under Kafka's name; None puts the default back."""

    topic: str
    name: str
    value: str | None


class BrokerConfigRecord(NamedTuple):
    """A setting of one broker (its id), or of all brokers (""); None puts the default back."""

    broker: str
    name: str
    value: str | None


class GroupConfigRecord(NamedTuple):
    """A setting of one group; None puts the default back."""

    group: str
    name: str
    value: str | None


class ClientQuotaRecord(NamedTuple):
    """A quota of the clients that are this user, have this client id, or come from this address.

    None: not a part of the entity. "": the clients without a quota of their own. A value of None removes the quota.
    """

    user: str | None
    client_id: str | None
    ip: str | None
    key: str
    value: float | None


class PartitionRecord(NamedTuple):
    """A partition was created."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER


class PartitionChangeRecord(NamedTuple):
    """What changed in a partition; None is unchanged.

    Each such record raises the partition epoch by one, and one that names a leader (or -1) the leader epoch.
    """

    topic: str
    partition: int
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known_leader: int | None = None
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] | None = None
    lost_replicas: tuple[int, ...] | None = None


class AccessControlEntryRecord(NamedTuple):
    """An ACL was added; numbers are the codes of `impl.metadata.access`."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class RemoveAccessControlEntryRecord(NamedTuple):
    """The ACL that says just this was removed."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class UserScramCredentialRecord(NamedTuple):
    """A user has a new SCRAM credential; bytes are in hexadecimal digits."""

    user: str
    mechanism: int
    salt: str
    stored_key: str
    server_key: str
    iterations: int


class RemoveUserScramCredentialRecord(NamedTuple):
    """A user's SCRAM credential was deleted."""

    user: str
    mechanism: int


class ProducerIdsRecord(NamedTuple):
    """A broker has a block of producer ids; the next block begins with this one (KIP-704)."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


class FeatureLevelRecord(NamedTuple):
    """A feature has another level (KIP-584)."""

    name: str
    level: int


MetadataRecord: TypeAlias = (
    ControllerEpochRecord
    | RegisterControllerRecord
    | RegisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | ReplicaDirectoryRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | RemoveTopicRecord
    | ConfigRecord
    | BrokerConfigRecord
    | GroupConfigRecord
    | ClientQuotaRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ProducerIdsRecord
    | FeatureLevelRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
)
