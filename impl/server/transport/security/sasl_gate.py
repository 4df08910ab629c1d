"""The gate before a connection's requests on a SASL listener: nobody passes who has not authenticated.

Theory of operation
-------------------
A gate sees every frame of its connection first. Until the peer has authenticated, the gate responds to the requests of
SASL, lets ApiVersions through, and closes the connection on anything else. A peer that has not authenticated learns
nothing but the versions that are served. Its frames are small (`sasl.server.max.receive.size`), so that it cannot make
a broker hold much.

    state          takes                                             then
    HANDSHAKE      ApiVersions (KIP-511); SaslHandshake (KIP-43)     AUTHENTICATE, or the end
    AUTHENTICATE   SaslAuthenticate (KIP-152); after SaslHandshake   AUTHENTICATE until the exchange is over, then OPEN,
                   of version 0 frames that are bare tokens          or the end
    OPEN           every request, until the session has expired      HANDSHAKE again by SaslHandshake (KIP-368)

A failure ends the connection. Its response has the same message whatever the reason, and is sent when
`connection.failed.authentication.delay.ms` have passed (KIP-306).

With `connections.max.reauth.ms` a session has a lifetime, which the last response of an exchange tells. A client
authenticates again on the same connection before that, as the same user by the same mechanism, and not more often than
once a second; a request on an expired session ends the connection.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import attrs
import trio
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.server.transport.authorization import ANONYMOUS, Principal
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError, Exchange
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, response_class
from tidegauge.impl.wire.codecs import Request, api_name, decode_canonical_request, encode_response, peek_request
from tidegauge.impl.wire.frames import Payload
from tidegauge.impl.wire.message_classes import span
from tidegauge.impl.wire.versions import convert

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

    from tidegauge.impl.server.transport.security.failed_logins import FailedLogins

MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1_000

_LENGTH = struct.Struct(">i")


class GateState(Enum):
    """Which frames a gate takes now."""

    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    OPEN = auto()


@attrs.frozen(eq=False, repr=False)
class SaslServer:
    """What all connections of a SASL listener have in common."""

    exchanges: Mapping[str, Callable[[], Exchange]]
    """Begins an exchange; by the mechanism's name, in the order of `sasl.enabled.mechanisms`."""
    clock: Clock
    max_frame_bytes: int = 524_288
    failure_delay_ms: int = 100
    max_reauth_ms: int = 0
    """A session's lifetime; 0 is for ever."""
    principal_kind: str = "User"
    failed: FailedLogins | None = None
    """Where failures are told; None: nowhere."""


class SaslGate:
    """One connection's gate."""

    def __init__(self, server: SaslServer, host: str = "") -> None:
        """`host` is the peer's address."""
        self.principal: Principal = ANONYMOUS
        """Who the peer is; set when it has first authenticated, and the same ever after."""
        self.state = GateState.HANDSHAKE
        self._server = server
        self._host = host
        self._exchange: Exchange
        self._mechanism = ""
        self._bare_tokens = False
        self._session_mechanism = ""
        """By which the peer authenticated first; "" before it has."""
        self._session_began_ms = 0
        self._session_ends_ms: int | None = None
        self._has_refused = False

    @property
    def max_frame_bytes(self) -> int:
        """The largest frame that a peer may send before it has authenticated."""
        return self._server.max_frame_bytes

    @property
    def is_open(self) -> bool:
        """Whether the peer has authenticated."""
        return self.state is GateState.OPEN

    async def take(self, frame: Payload) -> bytes | None:
        """Look at a frame; returns the frame of its response, or None when it is a request that may pass.

        Raises RefusedError when the connection has to be closed, and MalformedMessageError.
        """
        try:
            return await self._take(frame)
        except RefusedError as error:
            self._has_refused = True
            if self._server.failed is not None:
                self._server.failed.note(self._host, str(error))
            raise

    def left(self) -> None:
        """The peer has closed the connection, or was refused.

        One that leaves an exchange unfinished may have seen that the other side has another credential.
        """
        if self.state is GateState.AUTHENTICATE and not self._has_refused and self._server.failed is not None:
            self._server.failed.note_broken_off(self._host, self._mechanism)

    async def _take(self, frame: Payload) -> bytes | None:
        if self.state is GateState.AUTHENTICATE and self._bare_tokens:
            return await self._take_bare_token(bytes(frame))
        api_key, version, _ = peek_request(frame)
        if self.state is GateState.OPEN:
            if api_key != ApiKey.SASL_HANDSHAKE or not self._may_begin_again():
                self._check_session()
                return None
            self.state = GateState.HANDSHAKE
        if api_key == ApiKey.API_VERSIONS and self.state is GateState.HANDSHAKE:
            return None
        expected = ApiKey.SASL_HANDSHAKE if self.state is GateState.HANDSHAKE else ApiKey.SASL_AUTHENTICATE
        if api_key != expected or version not in BROKER_APIS[expected]:
            raise RefusedError(
                f"{api_name(api_key)} version {version} of a peer that has not authenticated: {expected.name} is due"
            )
        request = decode_canonical_request(frame)
        if expected is ApiKey.SASL_HANDSHAKE:
            return self._handshake(request, request.message)
        return await self._authenticate(request, request.message)

    def _handshake(self, request: Request, message: SaslHandshakeRequest) -> bytes:
        supported = message.mechanism in self._server.exchanges
        error = ErrorCode.none if supported else ErrorCode.unsupported_sasl_mechanism
        response = SaslHandshakeResponse(error_code=error, mechanisms=tuple(self._server.exchanges))
        frame = _encoded(response, request)
        if not supported:
            raise RefusedError(f"SASL mechanism {message.mechanism!r} is not enabled here", frame)
        self._mechanism = message.mechanism
        self._exchange = self._server.exchanges[message.mechanism]()
        self._bare_tokens = request.api_version == 0
        self.state = GateState.AUTHENTICATE
        return frame

    async def _authenticate(self, request: Request, message: SaslAuthenticateRequest) -> bytes:
        try:
            token = self._respond(message.auth_bytes)
        except AuthenticationFailedError as error:
            await trio.sleep(self._server.failure_delay_ms / 1000)
            refusal = SaslAuthenticateResponse(
                error_code=ErrorCode.sasl_authentication_failed,
                error_message=f"Authentication failed: invalid credentials for SASL mechanism {self._mechanism}",
                auth_bytes=b"",
            )
            raise RefusedError(self._failure(error), _encoded(refusal, request)) from None
        lifetime_ms = self._server.max_reauth_ms if self.is_open else 0
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.none,
            error_message=None,
            auth_bytes=token,
            session_lifetime=span(lifetime_ms),
        )
        return _encoded(response, request)

    async def _take_bare_token(self, token: bytes) -> bytes:
        try:
            response = self._respond(token)
        except AuthenticationFailedError as error:
            await trio.sleep(self._server.failure_delay_ms / 1000)
            raise RefusedError(self._failure(error)) from None
        return _LENGTH.pack(len(response)) + response

    def _failure(self, error: AuthenticationFailedError) -> str:
        return f"authentication by {self._mechanism} failed: {error}"

    def _respond(self, token: bytes) -> bytes:
        """The exchange's response to a token; opens the gate when the exchange is over."""
        response = self._exchange.respond(token)
        if self._exchange.user is not None:
            self._begin_session(Principal(self._server.principal_kind, self._exchange.user))
        return response

    def _begin_session(self, principal: Principal) -> None:
        if self._session_mechanism:
            if principal != self.principal:
                raise AuthenticationFailedError(f"{self.principal} authenticates again as {principal}")
            if self._mechanism != self._session_mechanism:
                raise AuthenticationFailedError(
                    f"{self.principal} authenticates again by {self._mechanism}, not {self._session_mechanism}"
                )
        self.principal, self._session_mechanism = principal, self._mechanism
        self._session_began_ms = self._server.clock.steady_ms()
        if self._server.max_reauth_ms > 0:
            self._session_ends_ms = self._session_began_ms + self._server.max_reauth_ms
        self.state = GateState.OPEN

    def _may_begin_again(self) -> bool:
        since_ms = self._server.clock.steady_ms() - self._session_began_ms
        return self._session_ends_ms is not None and since_ms >= MIN_REAUTHENTICATION_INTERVAL_MS

    def _check_session(self) -> None:
        if self._session_ends_ms is not None and self._server.clock.steady_ms() >= self._session_ends_ms:
            raise RefusedError(f"the session of {self.principal} has expired (connections.max.reauth.ms)")


def _encoded(response: SaslHandshakeResponse | SaslAuthenticateResponse, request: Request) -> bytes:
    lowered = convert(response, response_class(request.api_key, request.api_version))
    return encode_response(lowered, request.correlation_id)
