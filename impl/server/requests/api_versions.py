"""ApiVersions: what is served here, and which features are in force (KIP-35, KIP-511, KIP-584).

It is the first request of nearly every client, which does not know yet what is spoken. A request of any version gets a
response: one of an unknown version that of version 0, with UNSUPPORTED_VERSION and the list. Responses always have
header version 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.features import FEATURES
from tidegauge.impl.wire.apis import ApiKey, VersionRange
from tidegauge.impl.wire.primitives import NO_WAIT, i16, i64

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_NAMED_FROM: Final = 3
"""The version from which clients say what software they are."""
ZERO_LEVELS_FROM: Final = 4
"""The version from which supported ranges may begin at 0: older clients fail on one (KIP-1022)."""


def names_its_software(request: Any, version: int) -> bool:
    """Whether a request's name and version of the client's software are such; older versions have none."""
    return version < SOFTWARE_NAMED_FROM or all(
        _SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version)
    )


def invalid_request() -> Any:
    """INVALID_REQUEST, for a client that names its software in a way that it must not."""
    return ApiVersionsResponse(error_code=ErrorCode.invalid_request, api_keys=(), throttle_time=NO_WAIT)


def api_versions_response(
    served: Mapping[ApiKey, VersionRange], epoch: int, level: Callable[[str], int], version: int = ZERO_LEVELS_FROM
) -> Any:
    """What is served here, to a peer that asks in `version`.

    `epoch` is that of the features that are in force, `level` what is in force of each.
    """
    return ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=tuple(
            ApiVersion(api_key=i16(key), min_version=i16(versions.lowest), max_version=i16(versions.highest))
            for key, versions in served.items()
        ),
        throttle_time=NO_WAIT,
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=i16(feature.lowest), max_version=i16(feature.highest))
            for name, feature in FEATURES.items()
            if feature.lowest > 0 or version >= ZERO_LEVELS_FROM
        ),
        finalized_features_epoch=i64(epoch),
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, min_version_level=i16(level(name)), max_version_level=i16(level(name)))
            for name in FEATURES
            if level(name) > 0
        ),
    )
