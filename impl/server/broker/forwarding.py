"""Forwarding: what only the controller can decide, a broker sends on to it (KIP-590).

The broker that a client talks to decides whether the client may ask; the controller trusts brokers. The broker sends
the request on as it is, and hands the controller's response back.

A request that reached no active controller was not carried out, so it is sent again: the node to which it went may be
unreachable, or say NOT_CONTROLLER, which no client is told. The broker tries for as long as the request says
(`timeout`), else for `MOST_MS`, and then gives up with REQUEST_TIMED_OUT, as Kafka's brokers do.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.rights import cluster_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.codecs import encoding_request

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.controller_link import ControllerLink
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.transport.context import RequestContext

Q = TypeVar("Q")
R = TypeVar("R")

MOST_MS: Final = 60_000
"""How long a request is forwarded again that does not say how long it may take; Kafka's number."""


@runtime_checkable
class Timed(Protocol):
    """A request that says how long it may take."""

    @property
    def timeout(self) -> timedelta: ...


def time_ms_of(request: object) -> float:
    """How long a request may take."""
    if isinstance(request, Timed):
        return min(MOST_MS, max(0.0, request.timeout / timedelta(milliseconds=1)))
    return MOST_MS


class Forwarder:
    """Sends clients' requests on to the controller.

    Its methods are given the function that makes the API's error response (`impl.server.error_responses`).
    """

    def __init__(
        self, controller: ControllerLink, loader: MetadataLoader, *, retry_backoff_ms: int | None = None
    ) -> None:
        """`retry_backoff_ms` is the wait before a request is sent again; None: a driver decides, and each is sent
        once.
        """
        self._controller = controller
        self._loader = loader
        self._retry_backoff_ms = retry_backoff_ms

    async def forward(
        self, request: Q, context: RequestContext, error_response: Callable[[Q, ErrorCode, str], Sliced[R]]
    ) -> R:
        """The controller's response to a canonical request, once this broker has learned what came of it.

        Errors: REQUEST_TIMED_OUT when no active controller was reached in time, or nobody knows whether it has acted.
        Other requests are handled meanwhile: they need not wait for a controller that is away.
        """
        gives_up = trio.current_time() + time_ms_of(request) / 1000
        encoded = await context.pace.finish(encoding_request(request))  # type: ignore[arg-type]
        try:
            try:
                response: R = await context.while_connected(partial(self._controller.forward, encoded), watched=False)
            except UnreachableError as error:
                if self._retry_backoff_ms is None:
                    return await refused(context.pace, request, error_response, ErrorCode.not_controller, str(error))
                again = partial(self._forward_again, encoded, error, gives_up, self._retry_backoff_ms / 1000)
                response = await context.while_connected(again)
        except (UnreachableError, NoResponseError) as error:
            return await refused(context.pace, request, error_response, ErrorCode.request_timed_out, str(error))
        await context.while_connected(self._loader.catch_up, watched=False)
        return response

    async def _forward_again(self, request: object, error: UnreachableError, gives_up: float, backoff_s: float) -> R:
        """Send the request until an active controller has responded. Raises the last error at the time `gives_up`."""
        with trio.move_on_at(gives_up):
            while True:
                await trio.sleep(backoff_s)
                try:
                    response: R = await self._controller.forward(request)
                except UnreachableError as again:
                    error = again
                else:
                    return response
        raise error

    async def forward_if_allowed(
        self,
        request: Q,
        context: RequestContext,
        operation: Operation,
        error_response: Callable[[Q, ErrorCode, str], Sliced[R]],
    ) -> R:
        """The same for a client with this right on the cluster; CLUSTER_AUTHORIZATION_FAILED for others."""
        error = cluster_error(operation, context)
        if error is not ErrorCode.none:
            return await refused(context.pace, request, error_response, error)
        return await self.forward(request, context, error_response)
