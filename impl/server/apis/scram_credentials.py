"""SCRAM credentials over the wire (KIP-554): any broker describes them from its metadata, changes are the controller's.

Nobody is told a credential: a description says for which mechanisms a user has one, and its iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.credentials import (
    alter_user_scram_credentials_error,
    describe_user_scram_credentials_error,
)
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.requests.rights import cluster_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.primitives import NO_WAIT, i8, i32

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
    from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResponse
    from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest

    from tidegauge.impl.metadata.credentials import ScramCredential
    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_describe_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, *, metadata: MetadataCache
) -> DescribeUserScramCredentialsResponse:
    """The users asked for, or all. DESCRIBE on the cluster.

    Errors of a user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE (asked for twice).
    """
    error = cluster_error(Operation.DESCRIBE, context)
    if error is not ErrorCode.none:
        return await refused(context.pace, request, describe_user_scram_credentials_error, error)
    known = metadata.image.scram_credentials
    asked = Counter(user.name for user in request.users) if request.users else Counter(list(known))
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            [
                _described(known.get(user, {}), user, times)
                async for user, times in context.pace.each(list(asked.items()))
            ]
        ),
    )


def _described(credentials: Mapping[int, ScramCredential], user: str, times: int) -> DescribeUserScramCredentialsResult:
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


async def handle_alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext, *, forwarder: Forwarder
) -> AlterUserScramCredentialsResponse:
    return await forwarder.forward_if_allowed(request, context, Operation.ALTER, alter_user_scram_credentials_error)
