"""The metadata log's records, under Kafka's names: everything that the cluster has decided, in order.

`impl.metadata.codec` says how they are stored and sent.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from tidegauge.impl.partition.registration import NO_LEADER


@attrs.frozen
class ControllerEpochRecord:
    """A controller became active; whatever an older epoch sends from now on is refused."""

    controller_id: int
    controller_epoch: int


@attrs.frozen
class RegisterControllerRecord:
    """Where a node of the controllers' quorum is reached, when it is the active controller (KIP-919)."""

    controller_id: int
    host: str
    port: int


@attrs.frozen
class RegisterBrokerRecord:
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


@attrs.frozen
class BrokerRegistrationChangeRecord:
    """What changed of a registered broker; None is unchanged.

    It was fenced (its session expired) or unfenced (it has caught up), or it is about to stop (KIP-841).
    """

    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    directories: tuple[str, ...] | None = None
    """Ids of the log directories that are online now."""


@attrs.frozen
class ReplicaDirectoryRecord:
    """A broker has its replica of a partition in this log directory (KIP-858)."""

    topic: str
    partition: int
    broker_id: int
    directory: str


@attrs.frozen
class UnregisterBrokerRecord:
    """A broker that is gone for good was removed (KIP-631)."""

    broker_id: int
    broker_epoch: int


@attrs.frozen
class TopicRecord:
    """A topic was created."""

    name: str
    topic_id: str


@attrs.frozen
class RemoveTopicRecord:
    """A topic was deleted, with all its partitions and settings."""

    topic_id: str


@attrs.frozen
class ConfigRecord:
    """A topic's setting, under Kafka's name; None puts the default back."""

    topic: str
    name: str
    value: str | None


@attrs.frozen
class BrokerConfigRecord:
    """A setting of one broker (its id), or of all brokers (""); None puts the default back."""

    broker: str
    name: str
    value: str | None


@attrs.frozen
class GroupConfigRecord:
    """A setting of one group; None puts the default back."""

    group: str
    name: str
    value: str | None


@attrs.frozen
class ClientQuotaRecord:
    """A quota of the clients that are this user, have this client id, or come from this address.

    None: not a part of the entity. "": the clients without a quota of their own. A value of None removes the quota.
    """

    user: str | None
    client_id: str | None
    ip: str | None
    key: str
    value: float | None


@attrs.frozen
class PartitionRecord:
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


@attrs.frozen
class PartitionChangeRecord:
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


@attrs.frozen
class AccessControlEntryRecord:
    """An ACL was added; numbers are the codes of `impl.metadata.access`."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


@attrs.frozen
class RemoveAccessControlEntryRecord:
    """The ACL that says just this was removed."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


@attrs.frozen
class UserScramCredentialRecord:
    """A user has a new SCRAM credential; bytes are in hexadecimal digits."""

    user: str
    mechanism: int
    salt: str
    stored_key: str
    server_key: str
    iterations: int


@attrs.frozen
class RemoveUserScramCredentialRecord:
    """A user's SCRAM credential was deleted."""

    user: str
    mechanism: int


@attrs.frozen
class ProducerIdsRecord:
    """A broker has a block of producer ids; the next block begins with this one (KIP-704)."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


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
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
)
