"""UpdateFeatures at a broker (KIP-584): who may, on to the controller, and the answer as each version has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v1.response import UpdateFeaturesResponse as UpdateFeaturesResponseV1

from tidegauge.impl.server.broker.forwarding import forwarding, on_cluster
from tidegauge.impl.server.transport.authorization import Operation

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest

    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.transport.context import RequestContext

ONE_ERROR_FROM: Final = 2
"""The version from which features are updated all or none, so that an answer no longer names them one by one."""

_forward = forwarding(on_cluster(Operation.ALTER))


async def handle_update_features(request: UpdateFeaturesRequest, context: RequestContext, *, broker: Broker) -> Any:
    """Features stay at the level that is in force; clients of older versions look for each one's own result.

    Its message is the word that Kafka 4 has there.
    """
    answer = await _forward(request, context, broker=broker)
    if context.api_version >= ONE_ERROR_FROM or answer.error_code is not ErrorCode.none:
        return answer
    return UpdateFeaturesResponseV1(
        throttle_time=answer.throttle_time,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.none, error_message="NONE")
            for update in request.feature_updates
        ),
    )
