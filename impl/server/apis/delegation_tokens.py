"""Delegation tokens (KIP-48): a broker responds as a Kafka broker on which they are not enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.credentials import (
    create_delegation_token_error,
    describe_delegation_token_error,
    expire_delegation_token_error,
    renew_delegation_token_error,
)
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.transport.authorization import ANONYMOUS, Operation, ResourceType

if TYPE_CHECKING:
    from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
    from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse
    from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
    from kio.schema.describe_delegation_token.v3.response import DescribeDelegationTokenResponse
    from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
    from kio.schema.expire_delegation_token.v2.response import ExpireDelegationTokenResponse
    from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
    from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse

    from tidegauge.impl.server.transport.context import RequestContext


async def handle_create_delegation_token(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    """Errors, the first that applies: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to an unauthenticated client,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED for another owner without CREATE_TOKENS on that user, INVALID_PRINCIPAL_TYPE
    for a renewer that is no user, DELEGATION_TOKEN_AUTH_DISABLED.
    """
    return await refused(context.pace, request, create_delegation_token_error, _creation_error(request, context))


def _creation_error(request: CreateDelegationTokenRequest, context: RequestContext) -> ErrorCode:
    if context.principal == ANONYMOUS:
        return ErrorCode.delegation_token_request_not_allowed
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
        if owner != str(context.principal) and not context.allowed(Operation.CREATE_TOKENS, ResourceType.USER, owner):
            return ErrorCode.delegation_token_authorization_failed
    if any(renewer.principal_type != "User" for renewer in request.renewers):
        return ErrorCode.invalid_principal_type
    return ErrorCode.delegation_token_auth_disabled


async def handle_renew_delegation_token(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    """DELEGATION_TOKEN_AUTH_DISABLED, or DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to an unauthenticated client."""
    return await refused(context.pace, request, renew_delegation_token_error, _error(context))


async def handle_expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    """DELEGATION_TOKEN_AUTH_DISABLED, or DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to an unauthenticated client."""
    return await refused(context.pace, request, expire_delegation_token_error, _error(context))


async def handle_describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    """DELEGATION_TOKEN_AUTH_DISABLED, or DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to an unauthenticated client."""
    return await refused(context.pace, request, describe_delegation_token_error, _error(context))


def _error(context: RequestContext) -> ErrorCode:
    anonymous = context.principal == ANONYMOUS
    return ErrorCode.delegation_token_request_not_allowed if anonymous else ErrorCode.delegation_token_auth_disabled
