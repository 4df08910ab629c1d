"""CreateAcls and DeleteAcls at the controller (KIP-140)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.access import Acl, AclFilter
from tidegauge.impl.server.error_responses.acls import delete_acls_error
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.acls import acl_filter, created_acl
from tidegauge.impl.wire.primitives import NO_WAIT, i8

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kio.schema.create_acls.v3.request import CreateAclsRequest
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest

    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.pace import Pace
    from tidegauge.impl.server.requests.acls import Unusable
    from tidegauge.impl.server.transport.context import RequestContext

PART: Final = 100
"""ACLs that one decision adds or removes."""
PART_UNITS: Final = 500
"""Of work, for such a decision: others have their turn after each."""
MOST_MATCHES: Final = 10_000
"""ACLs that the filters of a request match together; Kafka bounds one operation to as many records."""


async def handle_create_acls(
    request: CreateAclsRequest, context: RequestContext, *, decisions: Decisions
) -> CreateAclsResponse:
    """Each ACL is added, or refused by itself with INVALID_REQUEST; `PART` of them are one decision."""
    pace = context.pace
    read = [created_acl(creation) async for creation in pace.each(request.creations)]
    valid = [acl for acl in read if isinstance(acl, Acl)]
    refusals: list[str] = []
    async for part in pace.each(_parts(valid), units=PART_UNITS):
        async with decisions.turn() as turn:
            refusals += await turn.commit(turn.controller.acls.create(part))
    refused = iter(refusals)
    results = [
        _created(next(refused) if isinstance(acl, Acl) else acl.message) async for acl in pace.each(read, units=2)
    ]
    return CreateAclsResponse(throttle_time=NO_WAIT, results=tuple(results))


def _created(message: str) -> AclCreationResult:
    error = ErrorCode.invalid_request if message else ErrorCode.none
    return AclCreationResult(error_code=error, error_message=message or None)


async def handle_delete_acls(
    request: DeleteAclsRequest, context: RequestContext, *, decisions: Decisions
) -> DeleteAclsResponse:
    """The ACLs that each filter matches are removed, `PART` of them by one decision.

    Errors: INVALID_REQUEST for a filter that is none, and POLICY_VIOLATION for the whole request when its filters
    match more than `MOST_MATCHES`, as in Kafka: nothing is removed then.
    """
    pace = context.pace
    read = [acl_filter(one) async for one in pace.each(request.filters)]
    found = await _found(read, pace, decisions)
    if found is None:
        message = f"the filters match more than {MOST_MATCHES} ACLs: send several requests"
        return await refused(pace, request, delete_acls_error, ErrorCode.policy_violation, message)
    removed: set[Acl] = set()
    wanted = list(dict.fromkeys(acl for some in found.values() for acl in some))
    async for part in pace.each(_parts(wanted), units=PART_UNITS):
        async with decisions.turn() as turn:
            removed.update(await turn.commit(turn.controller.acls.remove(part)))
    results = []
    for one in read:
        if isinstance(one, AclFilter):
            each = pace.each((acl for acl in found[one] if acl in removed), units=4)
            matching = tuple([_matching(acl) async for acl in each])
            results.append(
                DeleteAclsFilterResult(error_code=ErrorCode.none, error_message=None, matching_acls=matching)
            )
        else:
            error, message = ErrorCode.invalid_request, one.message
            results.append(DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=()))
        await pace.did(2)
    return DeleteAclsResponse(throttle_time=NO_WAIT, filter_results=tuple(results))


async def _found(
    read: Sequence[AclFilter | Unusable], pace: Pace, decisions: Decisions
) -> dict[AclFilter, list[Acl]] | None:
    """What each filter matches now; None when that are too many to tell."""
    async with decisions.turn() as turn:
        acls = turn.controller.image.acls
    found: dict[AclFilter, list[Acl]] = {}
    left = MOST_MATCHES
    for wanted in read:
        if not isinstance(wanted, AclFilter):
            continue
        if wanted not in found:
            found[wanted] = await pace.finish(acls.finding(wanted))
        left -= len(found[wanted])
        if left < 0:
            return None
    return found


def _parts(acls: Sequence[Acl]) -> Iterator[Sequence[Acl]]:
    return (acls[begin : begin + PART] for begin in range(0, len(acls), PART))


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
