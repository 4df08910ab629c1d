"""Who may do what: the names of Kafka's authorization model, and the port that a broker asks.

A handler asks for every resource that its request touches (`RequestContext.allowed`) before it does anything. The
broker that a client talks to decides; the controller trusts brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, Protocol

import attrs


class ResourceType(IntEnum):
    """Kafka's codes of resource types."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    """Kafka's codes of operations."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


OPERATIONS_OF: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        ),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
        ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
        ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
    }
)
"""What can be done to a resource of each type."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


@attrs.frozen
class Principal:
    """Who a connection belongs to, as in `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Whoever has not authenticated."""


class Authorizer(Protocol):
    """Decides what a principal may do."""

    def allowed(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether `principal`, connected from `host`, may do this to the resource."""
        ...

    def allowed_anywhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether `principal` may do this to some resource of the type, be there one or not (KIP-679)."""
        ...


class AllowAll:
    """The authorizer of a cluster without one: everybody may do everything."""

    def allowed(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return True

    def allowed_anywhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return True
