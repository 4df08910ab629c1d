"""ApiVersions: what is served here (KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from impl.wire.apis import ApiKey, VersionRange
from impl.wire.primitives import NO_WAIT, i16, i64


def unsupported_version(served: Mapping[ApiKey, VersionRange]) -> Any:
    """ApiVersions version 0, with what is served: what a client gets that asks in a version unknown here."""
    from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse

    return ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=tuple(
            ApiVersion(api_key=i16(key), min_version=i16(versions.lowest), max_version=i16(versions.highest))
            for key, versions in served.items()
        ),
    )


def api_versions_response(served: Mapping[ApiKey, VersionRange], epoch: int) -> Any:
    """What is served here; `epoch` is that of the cluster's finalized features."""
    from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse

    return ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=tuple(
            ApiVersion(api_key=i16(key), min_version=i16(versions.lowest), max_version=i16(versions.highest))
            for key, versions in served.items()
        ),
        throttle_time=NO_WAIT,
        finalized_features_epoch=i64(epoch),
    )
