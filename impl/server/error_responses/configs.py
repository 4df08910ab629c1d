"""Error responses: configurations of topics, brokers and other resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse, DescribeConfigsResult
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse as IncrementalAlterConfigsAlterConfigsResourceResponse,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.list_config_resources.v1.response import ListConfigResourcesResponse

from tidegauge.impl.records.slices import Sliced, done, mapped
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
    from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest


def describe_configs_error(
    request: DescribeConfigsRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeConfigsResponse]:
    """Every resource of the request, with the error."""
    results = yield from mapped(
        request.resources,
        lambda resource: DescribeConfigsResult(
            error_code=error,
            error_message=explained(error, message),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        ),
    )
    return DescribeConfigsResponse(throttle_time=NO_WAIT, results=results)


def alter_configs_error(
    request: AlterConfigsRequest, error: ErrorCode, message: str = ""
) -> Sliced[AlterConfigsResponse]:
    """Every resource of the request, with the error."""
    responses = yield from mapped(
        request.resources,
        lambda resource: AlterConfigsResourceResponse(
            error_code=error,
            error_message=explained(error, message),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        ),
    )
    return AlterConfigsResponse(throttle_time=NO_WAIT, responses=responses)


def incremental_alter_configs_error(
    request: IncrementalAlterConfigsRequest, error: ErrorCode, message: str = ""
) -> Sliced[IncrementalAlterConfigsResponse]:
    """Every resource of the request, with the error."""
    responses = yield from mapped(
        request.resources,
        lambda resource: IncrementalAlterConfigsAlterConfigsResourceResponse(
            error_code=error,
            error_message=explained(error, message),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        ),
    )
    return IncrementalAlterConfigsResponse(throttle_time=NO_WAIT, responses=responses)


def list_config_resources_error(
    _: ListConfigResourcesRequest, error: ErrorCode, _message: str = ""
) -> Sliced[ListConfigResourcesResponse]:
    """The error alone."""
    return done(ListConfigResourcesResponse(throttle_time=NO_WAIT, error_code=error, config_resources=()))
