"""The hook between connections and handlers, through which faults are injected into requests (`impl.faults`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from uuid import UUID

    from tidegauge.impl.server.transport.context import Handler, RequestContext


class RequestHook(Protocol):
    """The hook of one server."""

    @property
    def is_active(self) -> bool:
        """Whether the hook wants every request. If not, it gets only the first request of each connection."""
        ...

    async def handle(self, handler: Handler, request: Any, context: RequestContext) -> Any:
        """Call the handler, or do something else; None where no response is to be sent.

        Raises RefusedError to have the connection closed.
        """
        ...


class RequestHooks(Protocol):
    """The hooks of all servers of a cluster."""

    def at(self, node: str, name_of: Callable[[UUID | str], str | None]) -> RequestHook:
        """The hook of one server; `name_of` gives a topic's name by its id."""
        ...
