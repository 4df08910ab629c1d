"""SCRAM credentials over the wire (KIP-554): any broker describes them from its metadata, changes are the controller's.

Nobody is told a credential: a description says for which mechanisms a user has one, and its iterations.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.scram_credentials import Deletion, Upsertion
from tidegauge.impl.server.error_responses.credentials import describe_user_scram_credentials_error
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import NO_WAIT, i8, i32

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
    from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest

    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_describe_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, *, broker: Broker
) -> Any:
    """The users asked for, or all. DESCRIBE on the cluster.

    Errors of a user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE (asked for twice).
    """
    if not context.allowed(Operation.DESCRIBE, ResourceType.CLUSTER):
        return describe_user_scram_credentials_error(request, ErrorCode.cluster_authorization_failed)
    known = broker.metadata.image.scram_credentials
    asked = Counter(user.name for user in request.users) if request.users else Counter(list(known))
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(_described(broker, user, times) for user, times in asked.items()),
    )


def _described(broker: Broker, user: str, times: int) -> DescribeUserScramCredentialsResult:
    credentials = broker.metadata.image.scram_credentials.get(user, {})
    error, message = ErrorCode.none, None
    if times > 1:
        error, message = ErrorCode.duplicate_resource, f"user {user!r} is asked for {times} times: ask once"
    elif not credentials:
        error, message = ErrorCode.resource_not_found, f"user {user!r} has no SCRAM credentials"
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=error,
        error_message=message,
        credential_infos=()
        if error is not ErrorCode.none
        else tuple(
            CredentialInfo(mechanism=i8(mechanism), iterations=i32(credential.iterations))
            for mechanism, credential in sorted(credentials.items())
        ),
    )


async def alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, _: RequestContext, *, decisions: Decisions
) -> AlterUserScramCredentialsResponse:
    """At the controller: each user's alterations are carried out, all or none."""
    async with decisions.turn() as turn:
        proposal = turn.controller.scram_credentials.alter(
            [Deletion(one.name, one.mechanism) for one in request.deletions],
            [
                Upsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
                for one in request.upsertions
            ],
        )
        altered = await turn.commit(proposal)
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_WAIT,
        results=tuple(
            AlterUserScramCredentialsResult(user=one.user, error_code=one.error, error_message=one.message)
            for one in altered
        ),
    )
