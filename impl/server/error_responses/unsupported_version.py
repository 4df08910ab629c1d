"""The response to an ApiVersions request of an unknown version (KIP-511)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.apis import ApiKey, VersionRange
from tidegauge.impl.wire.primitives import i16

if TYPE_CHECKING:
    from kio.schema.api_versions.v0.response import ApiVersionsResponse


def unsupported_version(served: Mapping[ApiKey, VersionRange]) -> ApiVersionsResponse:
    """UNSUPPORTED_VERSION in version 0, with what is served, so that the client can find out what is spoken here."""
    from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse

    return ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=tuple(
            ApiVersion(api_key=i16(key), min_version=i16(versions.lowest), max_version=i16(versions.highest))
            for key, versions in served.items()
        ),
    )
