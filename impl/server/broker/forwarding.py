"""Forwarding: what only the controller can answer, a broker sends on to it (KIP-590).

The broker that a client talks to decides whether the client may ask (the controller trusts brokers), sends the request
on as it is, and hands the controller's answer back. A request that may not be asked, or that does not come through,
is answered as Kafka answers it: every item that it names, with the error.

    ApiKey.UNREGISTER_BROKER: forwarding(on_cluster(Operation.ALTER)),
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.channel import NoAnswerError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.transport.context import RequestContext
    from tidegauge.impl.server.transport.handlers import HandlerFunction

Check: TypeAlias = "Callable[[Any, RequestContext], ErrorCode]"
"""Whether a request may be asked, as a whole: none, or the error that its answer is to carry everywhere."""


def forwarding(check: Check | None = None) -> HandlerFunction:
    """A broker's handler that forwards a request, once `check` allows it.

    An API whose items are allowed or refused one by one has a handler of its own, which calls `forward` with what is
    left of its request.
    """

    async def handle(request: Any, context: RequestContext, *, broker: Broker) -> Any:
        error = ErrorCode.none if check is None else check(request, context)
        if error is not ErrorCode.none:
            return error_response(request, error)
        return await forward(broker, request, context)

    return handle


def on_cluster(operation: Operation) -> Check:
    """The check for an API that needs one right on the cluster: CLUSTER_AUTHORIZATION_FAILED without it."""

    def check(_request: Any, context: RequestContext) -> ErrorCode:
        allowed = context.allowed(operation, ResourceType.CLUSTER)
        return ErrorCode.none if allowed else ErrorCode.cluster_authorization_failed

    return check


async def forward(broker: Broker, request: Any, context: RequestContext) -> Any:
    """The controller's answer to a canonical request, once this broker has learned what came of it.

    An answer of errors when it cannot be had: NOT_CONTROLLER when the controller was not reached, REQUEST_TIMED_OUT
    when nobody knows whether it has acted. Meanwhile others are served: a controller that is away is not their fault.
    """
    return await context.while_connected(partial(_ask_controller, broker, request), watched=False)


async def _ask_controller(broker: Broker, request: Any) -> Any:
    try:
        answer = await broker.controller.forward(request)
    except UnreachableError as error:
        return error_response(request, ErrorCode.not_controller, str(error))
    except NoAnswerError as error:
        return error_response(request, ErrorCode.request_timed_out, str(error))
    await broker.loader.catch_up()
    return answer
