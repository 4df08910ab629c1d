"""Error responses: versions, features and voters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from tidegauge.impl.records.slices import Sliced, done
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
    from kio.schema.api_versions.v4.request import ApiVersionsRequest
    from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest


def api_versions_error(_: ApiVersionsRequest, error: ErrorCode, _message: str = "") -> Sliced[ApiVersionsResponse]:
    """The error alone."""
    return done(ApiVersionsResponse(error_code=error, api_keys=(), throttle_time=NO_WAIT))


def update_features_error(
    _: UpdateFeaturesRequest, error: ErrorCode, message: str = ""
) -> Sliced[UpdateFeaturesResponse]:
    """The error alone."""
    return done(
        UpdateFeaturesResponse(throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message))
    )


def add_raft_voter_error(_: AddRaftVoterRequest, error: ErrorCode, message: str = "") -> Sliced[AddRaftVoterResponse]:
    """The error alone."""
    return done(AddRaftVoterResponse(throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message)))


def remove_raft_voter_error(
    _: RemoveRaftVoterRequest, error: ErrorCode, message: str = ""
) -> Sliced[RemoveRaftVoterResponse]:
    """The error alone."""
    return done(
        RemoveRaftVoterResponse(throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message))
    )
