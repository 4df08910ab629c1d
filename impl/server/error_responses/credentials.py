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

from tidegauge.impl.records.slices import Sliced, done, mapped
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.message_classes import EPOCH
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )
    from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
    from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
    from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
    from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
    from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
    from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest


def describe_user_scram_credentials_error(
    request: DescribeUserScramCredentialsRequest, error: ErrorCode, message: str = ""
) -> Sliced[DescribeUserScramCredentialsResponse]:
    """The error, for the request and for every user of it; as Kafka has it, these have no names then."""
    results = yield from mapped(
        request.users or (),
        lambda _: DescribeUserScramCredentialsResult(
            user="", error_code=error, error_message=explained(error, message), credential_infos=()
        ),
    )
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message), results=results
    )


def alter_user_scram_credentials_error(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, message: str = ""
) -> Sliced[AlterUserScramCredentialsResponse]:
    """Every user of the request, with the error."""

    def result(altered: ScramCredentialDeletion | ScramCredentialUpsertion) -> AlterUserScramCredentialsResult:
        return AlterUserScramCredentialsResult(
            user=altered.name, error_code=error, error_message=explained(error, message)
        )

    deleted = yield from mapped(request.deletions, result)
    inserted = yield from mapped(request.upsertions, result)
    return AlterUserScramCredentialsResponse(throttle_time=NO_WAIT, results=(*deleted, *inserted))


def create_delegation_token_error(
    _: CreateDelegationTokenRequest, error: ErrorCode, _message: str = ""
) -> Sliced[CreateDelegationTokenResponse]:
    """The error alone."""
    return done(
        CreateDelegationTokenResponse(
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
    )


def renew_delegation_token_error(
    _: RenewDelegationTokenRequest, error: ErrorCode, _message: str = ""
) -> Sliced[RenewDelegationTokenResponse]:
    """The error alone."""
    return done(RenewDelegationTokenResponse(error_code=error, expiry_timestamp=EPOCH, throttle_time=NO_WAIT))


def expire_delegation_token_error(
    _: ExpireDelegationTokenRequest, error: ErrorCode, _message: str = ""
) -> Sliced[ExpireDelegationTokenResponse]:
    """The error alone."""
    return done(ExpireDelegationTokenResponse(error_code=error, expiry_timestamp=EPOCH, throttle_time=NO_WAIT))


def describe_delegation_token_error(
    _: DescribeDelegationTokenRequest, error: ErrorCode, _message: str = ""
) -> Sliced[DescribeDelegationTokenResponse]:
    """The error alone."""
    return done(DescribeDelegationTokenResponse(error_code=error, tokens=(), throttle_time=NO_WAIT))


def sasl_handshake_error(
    _: SaslHandshakeRequest, error: ErrorCode, _message: str = ""
) -> Sliced[SaslHandshakeResponse]:
    """The error alone."""
    return done(SaslHandshakeResponse(error_code=error))


def sasl_authenticate_error(
    _: SaslAuthenticateRequest, error: ErrorCode, message: str = ""
) -> Sliced[SaslAuthenticateResponse]:
    """The error alone."""
    return done(SaslAuthenticateResponse(error_code=error, error_message=explained(error, message), auth_bytes=b""))
