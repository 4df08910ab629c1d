"""CreateAcls and DeleteAcls at the controller (KIP-140)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.access import Acl, AclFilter
from tidegauge.impl.server.acl_messages import acl_filter, created_acl
from tidegauge.impl.wire.primitives import NO_WAIT, i8

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import CreateAclsRequest
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest

    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_create_acls(
    request: CreateAclsRequest, _: RequestContext, *, decisions: Decisions
) -> CreateAclsResponse:
    """Each ACL is added, or refused by itself with INVALID_REQUEST."""
    read = [created_acl(creation) for creation in request.creations]
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


async def handle_delete_acls(
    request: DeleteAclsRequest, _: RequestContext, *, decisions: Decisions
) -> DeleteAclsResponse:
    """The ACLs that each filter matches are removed; INVALID_REQUEST for a filter that is none."""
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
