"""Error responses: credentials, delegation tokens and authentication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse
from kio.schema.describe_delegation_token.v3.response import DescribeDelegationTokenResponse
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2.response import ExpireDelegationTokenResponse
from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.message_classes import EPOCH
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
    from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
    from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
    from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
    from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
    from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
    from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest


def describe_user_scram_credentials_error(
    request: DescribeUserScramCredentialsRequest, error: ErrorCode, message: str = ""
) -> DescribeUserScramCredentialsResponse:
    """The error, for the request and for every user of it; as Kafka has it, these have no names then."""
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_WAIT,
        error_code=error,
        error_message=explained(error, message),
        results=tuple(
            DescribeUserScramCredentialsResult(
                user="", error_code=error, error_message=explained(error, message), credential_infos=()
            )
            for _ in request.users or ()
        ),
    )


def alter_user_scram_credentials_error(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, message: str = ""
) -> AlterUserScramCredentialsResponse:
    """Every user of the request, with the error."""
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_WAIT,
        results=(
            *(
                AlterUserScramCredentialsResult(
                    user=deletion.name, error_code=error, error_message=explained(error, message)
                )
                for deletion in request.deletions
            ),
            *(
                AlterUserScramCredentialsResult(
                    user=upsertion.name, error_code=error, error_message=explained(error, message)
                )
                for upsertion in request.upsertions
            ),
        ),
    )


def create_delegation_token_error(
    _: CreateDelegationTokenRequest, error: ErrorCode, _message: str = ""
) -> CreateDelegationTokenResponse:
    """The error alone."""
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type="",
        principal_name="",
        token_requester_principal_type="",
        token_requester_principal_name="",
        issue_timestamp=EPOCH,
        expiry_timestamp=EPOCH,
        max_timestamp=EPOCH,
        token_id="",
        hmac=b"",
        throttle_time=NO_WAIT,
    )


def renew_delegation_token_error(
    _: RenewDelegationTokenRequest, error: ErrorCode, _message: str = ""
) -> RenewDelegationTokenResponse:
    """The error alone."""
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp=EPOCH, throttle_time=NO_WAIT)


def expire_delegation_token_error(
    _: ExpireDelegationTokenRequest, error: ErrorCode, _message: str = ""
) -> ExpireDelegationTokenResponse:
    """The error alone."""
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp=EPOCH, throttle_time=NO_WAIT)


def describe_delegation_token_error(
    _: DescribeDelegationTokenRequest, error: ErrorCode, _message: str = ""
) -> DescribeDelegationTokenResponse:
    """The error alone."""
    return DescribeDelegationTokenResponse(error_code=error, tokens=(), throttle_time=NO_WAIT)


def sasl_handshake_error(_: SaslHandshakeRequest, error: ErrorCode, _message: str = "") -> SaslHandshakeResponse:
    """The error alone."""
    return SaslHandshakeResponse(error_code=error)


def sasl_authenticate_error(
    _: SaslAuthenticateRequest, error: ErrorCode, message: str = ""
) -> SaslAuthenticateResponse:
    """The error alone."""
    return SaslAuthenticateResponse(error_code=error, error_message=explained(error, message), auth_bytes=b"")
