"""The context of a request: who sent it, in which version, over which connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

import attrs

from tidegauge.impl.server.pace import Pace
from tidegauge.impl.server.transport.authorization import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    Authorizer,
    Operation,
    Principal,
    ResourceType,
)

T = TypeVar("T")


class PeerConnection(Protocol):
    """What a request's context has of the connection."""

    listener: str
    """The listener by which the peer came."""
    time: Callable[[], float]
    """Trio's time."""
    sent: dict[tuple[str, int], int]
    """Topic and partition -> the offset from which the peer, a consumer, was last sent records."""

    @property
    def is_open(self) -> bool:
        """Whether the peer may still send and receive."""
        ...

    async def while_connected(self, wait: Callable[[], Awaitable[T]], *, watched: bool = True) -> T:
        """Wait on behalf of the peer; see `RequestContext.while_connected`."""
        ...

    def throttle(self, seconds: float) -> None:
        """Look at no further request for so long, once the one at hand has its response (KIP-219)."""
        ...

    def reset(self) -> None:
        """Reset the connection at once; its own task closes what is left of it."""
        ...


@attrs.define(eq=False, repr=False)
class RequestContext:
    """What a handler knows of a request besides its message."""

    api_key: int
    api_version: int
    """The version that the peer speaks; the message itself is in the canonical one."""
    correlation_id: int
    client_id: str | None
    connection: PeerConnection
    principal: Principal
    client_host: str
    """The peer's address, "" where the network has none."""
    authorizer: Authorizer
    pace: Pace = attrs.field(factory=Pace)
    """That of the connection's task: long work for the peer goes on in slices."""
    waited_s: float = 0.0
    """How long the request has waited for others; the rest of its time was spent on it."""

    def allowed(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the peer may do this to the resource."""
        return self.authorizer.allowed(self.principal, self.client_host, operation, resource_type, name)

    def allowed_anywhere(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of this type to which the peer may do this (KIP-679)."""
        return self.authorizer.allowed_anywhere(self.principal, self.client_host, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations that the peer may do to the resource, as the bit field of KIP-430: bit n is operation n."""
        possible = OPERATIONS_OF[resource_type]
        return sum(1 << operation for operation in possible if self.allowed(operation, resource_type, name))

    @property
    def listener(self) -> str:
        """The listener by which the peer came: its responses name brokers' addresses on the same one."""
        return self.connection.listener

    async def while_connected(self, wait: Callable[[], Awaitable[T]], *, watched: bool = True) -> T:
        """Wait on behalf of the peer. When the peer leaves meanwhile the request is cancelled, and its connection ends.

        With `watched=False` nobody looks whether it leaves: for waits that end soon anyway.
        """
        time = self.connection.time
        begun = time()
        try:
            return await self.connection.while_connected(wait, watched=watched)
        finally:
            self.waited_s += time() - begun

    def wait_briefly(self, wait: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """`while_connected`, and nobody looks whether the peer leaves."""
        return self.while_connected(wait, watched=False)


Handler: TypeAlias = Callable[[Any, RequestContext], Awaitable[Any]]
"""Makes the response to a request, both in the canonical version; None is no response (Produce with acks=0)."""
