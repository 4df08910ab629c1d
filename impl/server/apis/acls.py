"""ACLs over the wire (KIP-140): any broker describes them from its metadata, changes are the controller's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.access import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from tidegauge.impl.server.broker.forwarding import forward
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.wire.primitives import NO_WAIT, i8

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
    from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext

E = TypeVar("E", ResourceType, Operation, PatternType, Permission)

NO_AUTHORIZER = "there is no authorizer: set authorizer.class.name"


@attrs.frozen
class Unusable:
    """What a client sent in place of an ACL or a filter, in words."""

    message: str


# --- at a broker ---------------------------------------------------------------------------------------------------


async def handle_describe_acls(request: DescribeAclsRequest, context: RequestContext, *, broker: Broker) -> Any:
    """The ACLs that a filter means, by resource pattern. DESCRIBE on the cluster."""
    if not context.allowed(Operation.DESCRIBE, ResourceType.CLUSTER):
        return error_response(request, ErrorCode.cluster_authorization_failed)
    if not broker.config.current.authorizer_class_name:
        return error_response(request, ErrorCode.security_disabled, NO_AUTHORIZER)
    wanted = acl_filter(request)
    if isinstance(wanted, Unusable):
        return error_response(request, ErrorCode.invalid_request, wanted.message)
    by_pattern: dict[tuple[ResourceType, str, PatternType], list[Acl]] = {}
    for acl in broker.metadata.image.acls.find(wanted):
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


async def handle_alter_acls(
    request: CreateAclsRequest | DeleteAclsRequest, context: RequestContext, *, broker: Broker
) -> Any:
    """CreateAcls and DeleteAcls, forwarded. ALTER on the cluster."""
    if not context.allowed(Operation.ALTER, ResourceType.CLUSTER):
        return error_response(request, ErrorCode.cluster_authorization_failed)
    if not broker.config.current.authorizer_class_name:
        return error_response(request, ErrorCode.security_disabled, NO_AUTHORIZER)
    return await forward(broker, request, context)


# --- at the controller ---------------------------------------------------------------------------------------------


async def create_acls(request: CreateAclsRequest, _: RequestContext, *, decisions: Decisions) -> CreateAclsResponse:
    """Each ACL is added, or refused by itself with INVALID_REQUEST."""
    read = [_acl(creation) for creation in request.creations]
    async with decisions.turn() as turn:
        valid = [acl for acl in read if isinstance(acl, Acl)]
        refusals = iter(await turn.commit(turn.controller.acls.create(valid)))
    messages = [next(refusals) if isinstance(acl, Acl) else acl.message for acl in read]
    return CreateAclsResponse(
        throttle_time=NO_WAIT,
        results=tuple(
            AclCreationResult(
                error_code=ErrorCode.invalid_request if message else ErrorCode.none, error_message=message or None
            )
            for message in messages
        ),
    )


async def delete_acls(request: DeleteAclsRequest, _: RequestContext, *, decisions: Decisions) -> DeleteAclsResponse:
    """What each filter means is removed; a filter that is none is answered with INVALID_REQUEST."""
    read = [acl_filter(one) for one in request.filters]
    async with decisions.turn() as turn:
        filters = [wanted for wanted in read if isinstance(wanted, AclFilter)]
        found = iter(await turn.commit(turn.controller.acls.delete(filters)))
    return DeleteAclsResponse(
        throttle_time=NO_WAIT,
        filter_results=tuple(
            DeleteAclsFilterResult(
                error_code=ErrorCode.none, error_message=None, matching_acls=tuple(map(_matching, next(found)))
            )
            if isinstance(wanted, AclFilter)
            else DeleteAclsFilterResult(
                error_code=ErrorCode.invalid_request, error_message=wanted.message, matching_acls=()
            )
            for wanted in read
        ),
    )


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=i8(acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=i8(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=i8(acl.operation),
        permission_type=i8(acl.permission),
    )


# --- from the wire -------------------------------------------------------------------------------------------------


def _acl(creation: AclCreation) -> Acl | Unusable:
    return _read(
        lambda: Acl(
            _code(ResourceType, creation.resource_type, "resource type"),
            creation.resource_name,
            _code(PatternType, creation.resource_pattern_type, "pattern type"),
            creation.principal,
            creation.host,
            _code(Operation, creation.operation, "operation"),
            _code(Permission, creation.permission_type, "permission type"),
        )
    )


def acl_filter(sent: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter | Unusable:
    """The filter in a request."""
    return _read(
        lambda: AclFilter(
            _code(ResourceType, sent.resource_type_filter, "resource type"),
            sent.resource_name_filter,
            _code(PatternType, sent.pattern_type_filter, "pattern type"),
            sent.principal_filter,
            sent.host_filter,
            _code(Operation, sent.operation, "operation"),
            _code(Permission, sent.permission_type, "permission type"),
        )
    )


T = TypeVar("T")


def _read(make: Callable[[], T]) -> T | Unusable:
    try:
        return make()
    except ValueError as error:
        return Unusable(str(error))


def _code(kind: Callable[[int], E], code: int, name: str) -> E:
    try:
        return kind(code)
    except ValueError:
        known: Iterable[E] = kind  # type: ignore[assignment]
        raise ValueError(
            f"{name} {code} is not known: use {', '.join(f'{one.value} ({one.name})' for one in known)}"
        ) from None
