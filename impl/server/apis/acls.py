"""ACLs at a broker (KIP-140): it describes them from its metadata; the controller changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.access import Acl, Operation, PatternType, ResourceType
from tidegauge.impl.server.error_responses.acls import create_acls_error, delete_acls_error, describe_acls_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.acls import Unusable, acl_filter
from tidegauge.impl.server.requests.rights import cluster_error
from tidegauge.impl.wire.primitives import NO_WAIT, i8

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import CreateAclsRequest
    from kio.schema.create_acls.v3.response import CreateAclsResponse
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest
    from kio.schema.delete_acls.v3.response import DeleteAclsResponse
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.transport.context import RequestContext

ACL_UNITS: Final = 4
NO_AUTHORIZER: Final = "there is no authorizer: set authorizer.class.name"


async def handle_describe_acls(
    request: DescribeAclsRequest, context: RequestContext, *, metadata: MetadataCache, config: DynamicConfig
) -> DescribeAclsResponse:
    """The ACLs that a filter matches, by resource pattern. DESCRIBE on the cluster."""
    refusal = _refusal(Operation.DESCRIBE, context, config)
    if refusal is not None:
        return await refused(context.pace, request, describe_acls_error, *refusal)
    wanted = acl_filter(request)
    if isinstance(wanted, Unusable):
        return await refused(context.pace, request, describe_acls_error, ErrorCode.invalid_request, wanted.message)
    by_pattern: dict[tuple[ResourceType, str, PatternType], list[Acl]] = {}
    found = await context.pace.finish(metadata.image.acls.finding(wanted))
    async for acl in context.pace.each(found, units=ACL_UNITS):
        by_pattern.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(acl)
    return DescribeAclsResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        error_message=None,
        resources=tuple(
            DescribeAclsResource(
                resource_type=i8(resource_type),
                resource_name=name,
                pattern_type=i8(pattern_type),
                acls=tuple(
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=i8(acl.operation),
                        permission_type=i8(acl.permission),
                    )
                    for acl in acls
                ),
            )
            for (resource_type, name, pattern_type), acls in by_pattern.items()
        ),
    )


async def handle_create_acls(
    request: CreateAclsRequest, context: RequestContext, *, config: DynamicConfig, forwarder: Forwarder
) -> CreateAclsResponse:
    """Each ACL is added, or refused by itself; decided by the controller. ALTER on the cluster."""
    refusal = _refusal(Operation.ALTER, context, config)
    if refusal is not None:
        return await refused(context.pace, request, create_acls_error, *refusal)
    return await forwarder.forward(request, context, create_acls_error)


async def handle_delete_acls(
    request: DeleteAclsRequest, context: RequestContext, *, config: DynamicConfig, forwarder: Forwarder
) -> DeleteAclsResponse:
    """The ACLs that each filter matches are removed; decided by the controller. ALTER on the cluster."""
    refusal = _refusal(Operation.ALTER, context, config)
    if refusal is not None:
        return await refused(context.pace, request, delete_acls_error, *refusal)
    return await forwarder.forward(request, context, delete_acls_error)


def _refusal(operation: Operation, context: RequestContext, config: DynamicConfig) -> tuple[ErrorCode, str] | None:
    """CLUSTER_AUTHORIZATION_FAILED without the right; SECURITY_DISABLED on a broker without an authorizer."""
    error = cluster_error(operation, context)
    if error is not ErrorCode.none:
        return error, ""
    return None if config.current.authorizer_class_name else (ErrorCode.security_disabled, NO_AUTHORIZER)
