"""Delegation tokens (KIP-48): the requests are answered as by a Kafka broker on which they are not enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.authorization import ANONYMOUS, Operation, ResourceType

if TYPE_CHECKING:
    from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest

    from tidegauge.impl.server.transport.context import RequestContext


async def handle_create_delegation_token(request: CreateDelegationTokenRequest, context: RequestContext) -> Any:
    """Errors, the first that applies: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to whoever has not authenticated,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED for another owner without CREATE_TOKENS on that user, INVALID_PRINCIPAL_TYPE
    for a renewer that is no user, DELEGATION_TOKEN_AUTH_DISABLED.
    """
    return error_response(request, _creation_error(request, context))


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


async def handle_delegation_token(request: Any, context: RequestContext) -> Any:
    """Renew, expire and describe: DELEGATION_TOKEN_AUTH_DISABLED, to those who have authenticated."""
    stranger = context.principal == ANONYMOUS
    return error_response(
        request,
        ErrorCode.delegation_token_request_not_allowed if stranger else ErrorCode.delegation_token_auth_disabled,
    )
