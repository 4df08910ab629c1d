"""Who may do what: the names of Kafka's authorization model, and the port that a broker asks.

A handler asks for every resource that its request touches (`RequestContext.allowed`) before it does anything. The
broker that a client talks to decides; the controller trusts brokers.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from tidegauge.impl.metadata.access import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType


class Principal(NamedTuple):
    """Who a connection belongs to, as in `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of unauthenticated clients."""


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


__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "OPERATIONS_OF",
    "AllowAll",
    "Authorizer",
    "Operation",
    "Principal",
    "ResourceType",
]
