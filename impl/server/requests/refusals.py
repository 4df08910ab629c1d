"""Handlers that refuse: for APIs of what a broker does not have, as Kafka responds where a feature is off.

`refuse` makes a handler from the API's error response. It checks first whether the client may ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.rights import cluster_error, group_error, transaction_error

if TYPE_CHECKING:
    from tidegauge.impl.server.transport.authorization import Operation
    from tidegauge.impl.server.transport.context import RequestContext

Q = TypeVar("Q")
R = TypeVar("R")
Check: TypeAlias = "Callable[[Q, RequestContext], ErrorCode]"
"""Whether the client may send the request: NONE, or the error of the response."""


class NamesGroup(Protocol):
    """A request about one group."""

    @property
    def group_id(self) -> str | None: ...


class NamesTransaction(Protocol):
    """A request about one transactional id."""

    @property
    def transactional_id(self) -> str: ...


def refuse(
    error_response: Callable[[Q, ErrorCode, str], Sliced[R]], check: Check[Q], error: ErrorCode, message: str = ""
) -> Callable[[Q, RequestContext], Awaitable[R]]:
    """A handler whose response is always an error: that of `check`, or `error` with the message."""

    async def handle(request: Q, context: RequestContext) -> R:
        denied = check(request, context)
        if denied is not ErrorCode.none:
            return await refused(context.pace, request, error_response, denied)
        return await refused(context.pace, request, error_response, error, message)

    return handle


def on_cluster(operation: Operation) -> Check[object]:
    """The check for a right on the cluster."""
    return lambda _, context: cluster_error(operation, context)


def on_group(operation: Operation) -> Check[NamesGroup]:
    """The check for a right on the group that the request is about."""
    return lambda request, context: group_error(operation, request.group_id or "", context)


def on_transaction(operation: Operation) -> Check[NamesTransaction]:
    """The check for a right on the transactional id that the request is about."""
    return lambda request, context: transaction_error(operation, request.transactional_id, context)
