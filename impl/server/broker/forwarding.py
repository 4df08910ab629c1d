"""Forwarding: what only the controller can decide, a broker sends on to it (KIP-590).

The broker that a client talks to decides whether the client may ask; the controller trusts brokers. The broker sends
the request on as it is, and hands the controller's response back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.rights import cluster_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.controller_link import ControllerLink
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.transport.context import RequestContext

Q = TypeVar("Q")
R = TypeVar("R")


class Forwarder:
    """Sends clients' requests on to the controller.

    Its methods are given the function that makes the API's error response (`impl.server.error_responses`).
    """

    def __init__(self, controller: ControllerLink, loader: MetadataLoader) -> None:
        self._controller = controller
        self._loader = loader

    async def forward(self, request: Q, context: RequestContext, error_response: Callable[[Q, ErrorCode, str], R]) -> R:
        """The controller's response to a canonical request, once this broker has learned what came of it.

        Errors: NOT_CONTROLLER when the controller was not reached, REQUEST_TIMED_OUT when nobody knows whether it has
        acted. Other requests are handled meanwhile: they need not wait for a controller that is away.
        """
        ask = partial(self._ask_controller, request, error_response)
        return await context.while_connected(ask, watched=False)

    async def forward_if_allowed(
        self,
        request: Q,
        context: RequestContext,
        operation: Operation,
        error_response: Callable[[Q, ErrorCode, str], R],
    ) -> R:
        """The same for a client with this right on the cluster; CLUSTER_AUTHORIZATION_FAILED for others."""
        error = cluster_error(operation, context)
        if error is not ErrorCode.none:
            return error_response(request, error, "")
        return await self.forward(request, context, error_response)

    async def _ask_controller(self, request: Q, error_response: Callable[[Q, ErrorCode, str], R]) -> R:
        try:
            response: R = await self._controller.forward(request)
        except UnreachableError as error:
            return error_response(request, ErrorCode.not_controller, str(error))
        except NoResponseError as error:
            return error_response(request, ErrorCode.request_timed_out, str(error))
        await self._loader.catch_up()
        return response
