"""The registry: which APIs are supported, in which versions, and which message classes stand for them.

A broker advertises the table of one real release, Kafka 4.3, and nothing else: clients infer from it what they talk to.
Handlers see each API in one version only, the canonical one; `impl.wire.versions` lifts requests to it and lowers
responses from it.

The classes are kio's. They are imported when first asked for: all of them together take longer than a cluster takes to
start.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kio.static.protocol import Payload


class ApiKey(IntEnum):
    """Kafka's API keys: those that a broker of Kafka 4.3 advertises, and those that brokers use among themselves."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class VersionRange(NamedTuple):
    """The versions of an API that are spoken, both ends included."""

    lowest: int
    highest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest


BROKER_APIS: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType(
    {
        ApiKey.PRODUCE: VersionRange(0, 13),
        ApiKey.FETCH: VersionRange(4, 18),
        ApiKey.LIST_OFFSETS: VersionRange(1, 11),
        ApiKey.METADATA: VersionRange(0, 13),
        ApiKey.OFFSET_COMMIT: VersionRange(2, 10),
        ApiKey.OFFSET_FETCH: VersionRange(1, 10),
        ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
        ApiKey.JOIN_GROUP: VersionRange(0, 9),
        ApiKey.HEARTBEAT: VersionRange(0, 4),
        ApiKey.LEAVE_GROUP: VersionRange(0, 5),
        ApiKey.SYNC_GROUP: VersionRange(0, 5),
        ApiKey.DESCRIBE_GROUPS: VersionRange(0, 6),
        ApiKey.LIST_GROUPS: VersionRange(0, 5),
        ApiKey.SASL_HANDSHAKE: VersionRange(0, 1),
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.CREATE_TOPICS: VersionRange(2, 7),
        ApiKey.DELETE_TOPICS: VersionRange(1, 6),
        ApiKey.DELETE_RECORDS: VersionRange(0, 2),
        ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
        ApiKey.ADD_PARTITIONS_TO_TXN: VersionRange(0, 5),
        ApiKey.ADD_OFFSETS_TO_TXN: VersionRange(0, 4),
        ApiKey.END_TXN: VersionRange(0, 5),
        ApiKey.WRITE_TXN_MARKERS: VersionRange(1, 2),
        ApiKey.TXN_OFFSET_COMMIT: VersionRange(0, 5),
        ApiKey.DESCRIBE_ACLS: VersionRange(1, 3),
        ApiKey.CREATE_ACLS: VersionRange(1, 3),
        ApiKey.DELETE_ACLS: VersionRange(1, 3),
        ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
        ApiKey.ALTER_CONFIGS: VersionRange(0, 2),
        ApiKey.ALTER_REPLICA_LOG_DIRS: VersionRange(1, 2),
        ApiKey.DESCRIBE_LOG_DIRS: VersionRange(1, 5),
        ApiKey.SASL_AUTHENTICATE: VersionRange(0, 2),
        ApiKey.CREATE_PARTITIONS: VersionRange(0, 3),
        ApiKey.CREATE_DELEGATION_TOKEN: VersionRange(1, 3),
        ApiKey.RENEW_DELEGATION_TOKEN: VersionRange(1, 2),
        ApiKey.EXPIRE_DELEGATION_TOKEN: VersionRange(1, 2),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: VersionRange(1, 3),
        ApiKey.DELETE_GROUPS: VersionRange(0, 2),
        ApiKey.ELECT_LEADERS: VersionRange(0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 1),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
        ApiKey.OFFSET_DELETE: VersionRange(0, 0),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: VersionRange(0, 1),
        ApiKey.ALTER_CLIENT_QUOTAS: VersionRange(0, 1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
        ApiKey.DESCRIBE_QUORUM: VersionRange(0, 2),
        ApiKey.UPDATE_FEATURES: VersionRange(0, 2),
        ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 2),
        ApiKey.DESCRIBE_PRODUCERS: VersionRange(0, 0),
        ApiKey.UNREGISTER_BROKER: VersionRange(0, 0),
        ApiKey.DESCRIBE_TRANSACTIONS: VersionRange(0, 0),
        ApiKey.LIST_TRANSACTIONS: VersionRange(0, 2),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: VersionRange(0, 1),
        ApiKey.CONSUMER_GROUP_DESCRIBE: VersionRange(0, 1),
        ApiKey.LIST_CONFIG_RESOURCES: VersionRange(0, 1),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0),
        ApiKey.SHARE_GROUP_HEARTBEAT: VersionRange(1, 1),
        ApiKey.SHARE_GROUP_DESCRIBE: VersionRange(1, 1),
        ApiKey.SHARE_FETCH: VersionRange(1, 2),
        ApiKey.SHARE_ACKNOWLEDGE: VersionRange(1, 2),
        ApiKey.ADD_RAFT_VOTER: VersionRange(0, 1),
        ApiKey.REMOVE_RAFT_VOTER: VersionRange(0, 0),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: VersionRange(0, 0),
        ApiKey.READ_SHARE_GROUP_STATE: VersionRange(0, 0),
        ApiKey.WRITE_SHARE_GROUP_STATE: VersionRange(0, 1),
        ApiKey.DELETE_SHARE_GROUP_STATE: VersionRange(0, 0),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: VersionRange(0, 1),
        ApiKey.STREAMS_GROUP_HEARTBEAT: VersionRange(0, 0),
        ApiKey.STREAMS_GROUP_DESCRIBE: VersionRange(0, 0),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: VersionRange(0, 1),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: VersionRange(0, 0),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: VersionRange(0, 0),
    }
)
"""What a broker of Kafka 4.3 advertises to clients (without telemetry, which it only does with a plug-in)."""

UNSTABLE_APIS: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType({ApiKey.INIT_PRODUCER_ID: VersionRange(0, 6)})
"""What it advertises besides if `unstable.api.versions.enable` is set: InitProducerId 6 is KIP-939."""

INTER_BROKER_APIS: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType(
    {
        ApiKey.ALTER_PARTITION: VersionRange(2, 3),
        ApiKey.BROKER_REGISTRATION: VersionRange(0, 4),
        ApiKey.BROKER_HEARTBEAT: VersionRange(0, 2),
        ApiKey.ALLOCATE_PRODUCER_IDS: VersionRange(0, 0),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: VersionRange(0, 0),
    }
)
"""What only brokers ask of the controller."""

CONTROLLER_APIS: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType(
    {
        **INTER_BROKER_APIS,
        **{
            key: BROKER_APIS[key]
            for key in (
                ApiKey.FETCH,
                ApiKey.API_VERSIONS,
                ApiKey.CREATE_ACLS,
                ApiKey.DELETE_ACLS,
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
                ApiKey.CREATE_TOPICS,
                ApiKey.DELETE_TOPICS,
                ApiKey.CREATE_PARTITIONS,
                ApiKey.ELECT_LEADERS,
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                ApiKey.LIST_PARTITION_REASSIGNMENTS,
                ApiKey.UNREGISTER_BROKER,
                ApiKey.ALTER_CONFIGS,
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                ApiKey.ALTER_CLIENT_QUOTAS,
                ApiKey.DESCRIBE_QUORUM,
                ApiKey.DESCRIBE_CLUSTER,
                ApiKey.UPDATE_FEATURES,
            )
        },
    }
)
"""What a controller serves."""

PRODUCE_SERVED_FROM: Final = 3
"""Produce 0 to 2 are advertised, for librdkafka looks at them, and refused (KIP-896)."""

SPOKEN: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.PRODUCE: 13,
        ApiKey.FETCH: 18,
        ApiKey.LIST_OFFSETS: 11,
        ApiKey.METADATA: 13,
        ApiKey.API_VERSIONS: 4,
        ApiKey.CREATE_TOPICS: 7,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
        ApiKey.ELECT_LEADERS: 2,
        ApiKey.ALTER_PARTITION: 3,
        ApiKey.BROKER_REGISTRATION: 4,
        ApiKey.BROKER_HEARTBEAT: 2,
        ApiKey.ALLOCATE_PRODUCER_IDS: 0,
    }
)
"""The version in which brokers and the native client ask."""


_UNITED: Final[Mapping[int, tuple[str, str]]] = {
    ApiKey.METADATA: ("unions", "AnyMetadataRequest"),
    ApiKey.OFFSET_COMMIT: ("offset_unions", "AnyOffsetCommitRequest"),
    ApiKey.OFFSET_FETCH: ("offset_unions", "AnyOffsetFetchRequest"),
}
"""APIs whose canonical messages are those of `impl.wire.unions` and its like: the module and the request."""


class UnknownApiError(LookupError):
    """No message class stands for this API key and version."""


def versions_of(api_key: int) -> VersionRange | None:
    """The versions of an API that anybody here serves; None for an API that is not known."""
    try:
        key = ApiKey(api_key)
    except ValueError:
        return None
    return BROKER_APIS.get(key) or INTER_BROKER_APIS.get(key)


@cache
def canonical_version(api_key: int) -> int:
    """The version in which handlers see an API. Raises UnknownApiError."""
    unstable = next((versions for key, versions in UNSTABLE_APIS.items() if key == api_key), None)
    served = unstable or versions_of(api_key)
    if served is None:
        raise UnknownApiError(f"API key {api_key} is not spoken here")
    return served.highest


@cache
def request_class(api_key: int, version: int) -> type[Payload]:
    """kio's class of a request. Raises UnknownApiError."""
    return _payload_class(api_key, version, "request")


@cache
def response_class(api_key: int, version: int) -> type[Payload]:
    """kio's class of a response. Raises UnknownApiError."""
    return _payload_class(api_key, version, "response")


@cache
def canonical_request_class(api_key: int) -> type[Payload]:
    """The class in which handlers see a request. Raises UnknownApiError."""
    return _united_request(api_key) or request_class(api_key, canonical_version(api_key))


def _united_request(api_key: int) -> type[Payload] | None:
    """The class of the requests of an API that no one version has all of."""
    if api_key not in _UNITED:
        return None
    module, name = _UNITED[api_key]
    united: type[Payload] = getattr(import_module(f"tidegauge.impl.wire.{module}"), name)
    return united


def _payload_class(api_key: int, version: int, kind: str) -> type[Payload]:
    from kio.index import KioIndexError, load_request_schema, load_response_schema

    try:
        return load_request_schema(api_key, version) if kind == "request" else load_response_schema(api_key, version)
    except KioIndexError:
        raise UnknownApiError(f"API key {api_key} has no {kind} of version {version}") from None
