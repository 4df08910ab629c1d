"""Addresses in responses: a client is told where the tap listens for a broker, and not where the broker does.

Metadata, FindCoordinator and DescribeCluster name brokers; Produce, Fetch, ShareFetch and ShareAcknowledge name the
leaders of partitions whose leader has changed (KIP-951).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from tidegauge.impl.ports.network import Address
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.primitives import i32

Local = Callable[[str, int], Address]
"""Where the tap listens for what is at a host and port."""

NAME_LEADERS_FROM: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 10,
    ApiKey.FETCH: 16,
    ApiKey.SHARE_FETCH: 0,
    ApiKey.SHARE_ACKNOWLEDGE: 0,
}
"""Versions from which responses may say where another leader is."""
NAME_BROKERS: Final = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER})


def may_have_addresses(api_key: int, version: int) -> bool:
    """Whether a response of this API and version can say where a broker is."""
    return api_key in NAME_BROKERS or version >= NAME_LEADERS_FROM.get(api_key, version + 1)


def rewritten(message: Any, api_key: int, local: Local) -> Any | None:
    """The response with the tap's own addresses; None where it has none to change."""
    if api_key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER):
        return _with(message, "brokers", local)
    if api_key == ApiKey.FIND_COORDINATOR:
        return _with(message, "coordinators", local) if hasattr(message, "coordinators") else _moved(message, local)
    return _with(message, "node_endpoints", local)


def _with(message: Any, field: str, local: Local) -> Any | None:
    """The message with what an array of it names moved; None where that is nothing."""
    named = getattr(message, field)
    moved = [_moved(one, local) for one in named]
    if not any(moved):
        return None
    changed = [one if new is None else new for one, new in zip(named, moved, strict=True)]
    if attrs.has(type(message)):
        return attrs.evolve(message, **{field: changed})
    return dataclasses.replace(message, **{field: tuple(changed)})


def _moved(named: Any, local: Local) -> Any | None:
    """What has a host and a port, with the tap's own; None where it says that there is no such broker."""
    if not named.host or named.port <= 0:
        return None
    address = local(named.host, named.port)
    if attrs.has(type(named)):
        return attrs.evolve(named, host=address.host, port=address.port)
    return dataclasses.replace(named, host=address.host, port=i32(address.port))
