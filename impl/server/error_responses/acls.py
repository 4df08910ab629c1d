"""Error responses: access control lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsResponse
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.records.slices import Sliced, done, mapped
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import CreateAclsRequest
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest


def describe_acls_error(_: DescribeAclsRequest, error: ErrorCode, message: str = "") -> Sliced[DescribeAclsResponse]:
    """The error alone."""
    return done(
        DescribeAclsResponse(
            throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), resources=()
        )
    )


def create_acls_error(request: CreateAclsRequest, error: ErrorCode, message: str = "") -> Sliced[CreateAclsResponse]:
    """Every ACL of the request, with the error."""
    results = yield from mapped(
        request.creations, lambda _: AclCreationResult(error_code=error, error_message=explained(error, message))
    )
    return CreateAclsResponse(throttle_time=NO_WAIT, results=results)


def delete_acls_error(request: DeleteAclsRequest, error: ErrorCode, message: str = "") -> Sliced[DeleteAclsResponse]:
    """Every filter of the request, with the error."""
    filter_results = yield from mapped(
        request.filters,
        lambda _: DeleteAclsFilterResult(error_code=error, error_message=explained(error, message), matching_acls=()),
    )
    return DeleteAclsResponse(throttle_time=NO_WAIT, filter_results=filter_results)
