"""The one hook on the path of a request: what may delay a request, refuse it, or change its response.

Fault injection implements it (`impl.faults`); a server knows no more of faults than this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from tidegauge.impl.server.transport.context import Handler, RequestContext


class RequestHook(Protocol):
    """The hook of one server."""

    @property
    def is_active(self) -> bool:
        """Whether `handle` may do more than call the handler."""
        ...

    async def handle(self, handler: Handler, request: Any, context: RequestContext) -> Any:
        """Handle a request; None where no response is to be sent.

        Raises RefusedError to have the connection closed.
        """
        ...


class RequestHooks(Protocol):
    """The hooks of all servers of a cluster."""

    def at(self, node: str, name_of: Callable[[UUID | str], str | None]) -> RequestHook:
        """The hook of one server; `name_of` gives a topic's name by its id."""
        ...
