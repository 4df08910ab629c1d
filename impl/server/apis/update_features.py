"""UpdateFeatures at a broker (KIP-584): forwarded to the controller, with a response for each version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v1.response import UpdateFeaturesResponse as UpdateFeaturesResponseV1

from tidegauge.impl.server.error_responses.features import update_features_error
from tidegauge.impl.server.transport.authorization import Operation

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest
    from kio.schema.update_features.v2.response import UpdateFeaturesResponse

    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.transport.context import RequestContext

ONE_ERROR_FROM: Final = 2
"""The version from which features are updated all or none, so that a response no longer names them one by one."""


async def handle_update_features(
    request: UpdateFeaturesRequest, context: RequestContext, *, forwarder: Forwarder
) -> UpdateFeaturesResponse | UpdateFeaturesResponseV1:
    """Features stay at the level that is in force; clients of older versions look for each one's own result.

    Its message is the word that Kafka 4 has there.
    """
    response = await forwarder.forward_if_allowed(request, context, Operation.ALTER, update_features_error)
    if context.api_version >= ONE_ERROR_FROM or response.error_code is not ErrorCode.none:
        return response
    return UpdateFeaturesResponseV1(
        throttle_time=response.throttle_time,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.none, error_message="NONE")
            for update in request.feature_updates
        ),
    )
