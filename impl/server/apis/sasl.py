"""SASL requests that no gate takes: those on a listener without SASL, and of peers that have authenticated already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

    from tidegauge.impl.server.transport.context import RequestContext


async def handle_sasl_handshake(_: SaslHandshakeRequest, __: RequestContext) -> SaslHandshakeResponse:
    """There is nothing to begin here: ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())


async def handle_sasl_authenticate(_: SaslAuthenticateRequest, __: RequestContext) -> SaslAuthenticateResponse:
    """There is nothing to go on with here: ILLEGAL_SASL_STATE."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.illegal_sasl_state,
        error_message="SaslAuthenticate is for a connection on a SASL listener that has not authenticated",
        auth_bytes=b"",
    )
