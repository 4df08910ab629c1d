"""The client's half of a SASL login: how a node authenticates on a new connection to another one."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from tidegauge.impl.metadata.credentials import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, salted_password
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError
from tidegauge.impl.server.transport.security.scram import NONCE_BYTES
from tidegauge.impl.server.transport.security.scram_client import ScramClient

if TYPE_CHECKING:
    from kio.static.protocol import Payload

    from tidegauge.impl.ports.network import Address
    from tidegauge.impl.ports.randomness import Randomness


class NewConnection(Protocol):
    """A connection that is being opened."""

    @property
    def address(self) -> Address: ...

    async def request_here(self, message: Payload) -> Any:
        """Send a request, and return its response."""
        ...


Login = Callable[[NewConnection], Awaitable[None]]
"""Authenticates at the other end of a new connection. Raises UnreachableError or NoResponseError."""


async def log_in(channel: NewConnection, mechanism: str, user: str, password: str, randomness: Randomness) -> None:
    """Authenticate by PLAIN or SCRAM. Raises AuthenticationFailedError or NoResponseError."""
    await choose_mechanism(channel, mechanism)
    refused = f"it refuses user {user!r} by {mechanism}"
    if mechanism == "PLAIN":
        await send_token(channel, f"\0{user}\0{password}".encode(), refused)
        return
    hash_name = ScramMechanism[mechanism.replace("-", "_")].hash_name

    def salted(salt: bytes, iterations: int) -> bytes:
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationFailedError(f"it asks for {iterations} iterations of {mechanism}")
        return _salted(hash_name, password, salt, iterations)

    client = ScramClient(hash_name, user, new_nonce(randomness), salted)
    server_first = await send_token(channel, client.first(), refused)
    client.verify(await send_token(channel, client.final(server_first), refused))


async def choose_mechanism(channel: NewConnection, mechanism: str) -> None:
    """Begin an exchange. Raises AuthenticationFailedError where the mechanism is not enabled."""
    handshake = await channel.request_here(SaslHandshakeRequest(mechanism=mechanism))
    if handshake.error_code is not ErrorCode.none:
        raise AuthenticationFailedError(f"it does not speak {mechanism}")


async def send_token(channel: NewConnection, token: bytes, refused: str) -> bytes:
    """Send a token, and return the other side's. Raises AuthenticationFailedError, saying `refused`."""
    response = await channel.request_here(SaslAuthenticateRequest(auth_bytes=token))
    if response.error_code is not ErrorCode.none:
        raise AuthenticationFailedError(refused)
    token_back: bytes = response.auth_bytes
    return token_back


def new_nonce(randomness: Randomness) -> str:
    """What makes an exchange unlike every other."""
    return base64.b64encode(randomness.token(NONCE_BYTES)).decode()


@lru_cache(maxsize=16)
def _salted(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    return salted_password(hash_name, password, salt, iterations)
