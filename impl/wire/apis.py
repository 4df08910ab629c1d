"""The registry: which APIs this house speaks, in which versions, and which message classes stand for them.

The classes are kio's. They are imported when first asked for: all of them together take longer than a cluster takes to
start.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kio.static.protocol import Payload


class ApiKey(IntEnum):
    """Kafka's API keys, as far as they are served here."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    OFFSET_FOR_LEADER_EPOCH = 23
    ELECT_LEADERS = 43
    ALTER_PARTITION = 56
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63


SPOKEN: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.PRODUCE: 11,
        ApiKey.FETCH: 17,
        ApiKey.LIST_OFFSETS: 8,
        ApiKey.METADATA: 12,
        ApiKey.API_VERSIONS: 4,
        ApiKey.CREATE_TOPICS: 7,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
        ApiKey.ELECT_LEADERS: 2,
        ApiKey.ALTER_PARTITION: 3,
        ApiKey.BROKER_REGISTRATION: 4,
        ApiKey.BROKER_HEARTBEAT: 1,
    }
)
"""The version in which brokers and the native client speak; so far the only one that is served."""

BROKER_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ELECT_LEADERS,
)
"""What a broker serves."""

CONTROLLER_APIS: Final = (
    ApiKey.FETCH,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
)
"""What a controller serves."""


class UnknownApiError(LookupError):
    """No message class stands for this API key and version."""


@cache
def request_class(api_key: int, version: int) -> type[Payload]:
    """kio's class of a request. Raises UnknownApiError."""
    return _payload_class(api_key, version, "request")


@cache
def response_class(api_key: int, version: int) -> type[Payload]:
    """kio's class of a response. Raises UnknownApiError."""
    return _payload_class(api_key, version, "response")


def _payload_class(api_key: int, version: int, kind: str) -> type[Payload]:
    from kio.index import KioIndexError, load_request_schema, load_response_schema

    try:
        return load_request_schema(api_key, version) if kind == "request" else load_response_schema(api_key, version)
    except KioIndexError:
        raise UnknownApiError(f"API key {api_key} has no {kind} of version {version}") from None
