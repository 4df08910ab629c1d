"""UnregisterBroker at the controller (KIP-631)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from tidegauge.impl.server import trace
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_unregister_broker(
    request: UnregisterBrokerRequest, _: RequestContext, *, decisions: Decisions
) -> UnregisterBrokerResponse:
    """A broker that is gone for good is removed. Errors: BROKER_ID_NOT_REGISTERED."""
    broker = int(request.broker_id)
    async with decisions.turn() as turn:
        error = await turn.commit(turn.controller.members.unregister(broker))
        if error is ErrorCode.none and turn.is_traced:
            turn.tracer.record(trace.events.UnregisterBroker, broker=broker, changed=turn.changed())
    message = None if error is ErrorCode.none else f"broker {broker} is not registered"
    return UnregisterBrokerResponse(throttle_time=NO_WAIT, error_code=error, error_message=message)
