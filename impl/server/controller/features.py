"""UpdateFeatures at the controller (KIP-584, KIP-778): each feature has one level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from tidegauge.impl.server.api_versions import FEATURES
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

    from tidegauge.impl.server.transport.context import RequestContext

UPGRADE_TYPES: Final = (1, 2, 3)
"""Upgrade, safe downgrade, unsafe downgrade (KIP-778)."""


async def handle_update_features(
    request: UpdateFeaturesRequest,
    _: RequestContext,
) -> UpdateFeaturesResponse:
    """Each feature has one level, which cannot be changed; a request for that level succeeds."""
    problem = next((wrong for update in request.feature_updates if (wrong := _problem(update))), "")
    error = ErrorCode.invalid_update_version if problem else ErrorCode.none
    return UpdateFeaturesResponse(throttle_time=NO_WAIT, error_code=error, error_message=problem or None)


def _problem(update: FeatureUpdateKey) -> str:
    if update.upgrade_type not in UPGRADE_TYPES:
        return f"upgrade type {update.upgrade_type} is none: use 1 (upgrade), 2 (safe) or 3 (unsafe downgrade)"
    feature = FEATURES.get(update.feature)
    if feature is None:
        return f"{update.feature!r} is no feature of this cluster; there are {', '.join(FEATURES)}"
    if update.max_version_level != feature.finalized:
        return f"{update.feature} is at level {feature.finalized} and stays there, not {update.max_version_level}"
    return ""
