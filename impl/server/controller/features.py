"""UpdateFeatures at the controller (KIP-584, KIP-778)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from tidegauge.impl.controller.features import FeatureUpdate
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest

    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_update_features(
    request: UpdateFeaturesRequest, _: RequestContext, *, decisions: Decisions
) -> UpdateFeaturesResponse:
    """All levels are changed as asked, or none is."""
    updates = [FeatureUpdate(one.feature, one.max_version_level, one.upgrade_type) for one in request.feature_updates]
    async with decisions.turn() as turn:
        proposal = turn.controller.features.update(updates, validate_only=request.validate_only)
        updated = await turn.commit(proposal)
    return UpdateFeaturesResponse(
        throttle_time=NO_WAIT, error_code=updated.error, error_message=explain_error(updated.error, updated.message)
    )
