"""Requests about the cluster that are the controller's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.create_topics.v7 import response as create_response
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode

from impl.wire.channel import NoAnswerError, UnreachableError
from impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from impl.server.broker import Broker
    from impl.server.context import RequestContext


async def handle_create_topics(broker: Broker, request: CreateTopicsRequest, _: RequestContext) -> CreateTopicsResponse:
    """Forwarded to the controller."""
    try:
        response: CreateTopicsResponse = await broker.controller.forward(request)
    except (UnreachableError, NoAnswerError) as error:
        return CreateTopicsResponse(
            throttle_time=NO_WAIT,
            topics=tuple(
                create_response.CreatableTopicResult(
                    name=topic.name,
                    topic_id=None,
                    error_code=_forwarding_error(error),
                    error_message=str(error),
                    configs=(),
                )
                for topic in request.topics
            ),
        )
    return response


async def handle_elect_leaders(broker: Broker, request: ElectLeadersRequest, _: RequestContext) -> ElectLeadersResponse:
    """Forwarded to the controller."""
    try:
        response: ElectLeadersResponse = await broker.controller.forward(request)
    except (UnreachableError, NoAnswerError) as error:
        return ElectLeadersResponse(
            throttle_time=NO_WAIT, error_code=_forwarding_error(error), replica_election_results=()
        )
    return response


def _forwarding_error(error: Exception) -> ErrorCode:
    return ErrorCode.not_controller if isinstance(error, UnreachableError) else ErrorCode.request_timed_out
