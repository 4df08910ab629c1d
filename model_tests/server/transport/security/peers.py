"""A raw connection that sends any request in any version, and a cluster of one broker for it to connect to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.security import Security
from tidegauge.impl.wire.apis import ApiKey, request_class
from tidegauge.impl.wire.codecs import decode_response, encode_request
from tidegauge.impl.wire.frames import LENGTH, ConnectionLostError, FrameReader
from tidegauge.impl.wire.message_classes import blank
from tidegauge.impl.wire.versions import convert

USERS = {"alice": "alice-secret", "bob": "bob-secret"}


class Peer:
    """One connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._reader = FrameReader(stream, 1 << 20)
        self._sent = 0

    async def send(self, message: Any, version: int | None = None) -> None:
        """Send a request, in an older version of it if one is named."""
        if version is not None and message.__version__ != version:
            message = convert(message, request_class(message.__api_key__, version))
        self._sent += 1
        await self.stream.send_all(encode_request(message, self._sent, "peer"))

    async def request(self, message: Any, version: int | None = None) -> Any:
        """Send a request and return its response, in the same version."""
        await self.send(message, version)
        frame = await self._reader.read_frame()
        assert frame is not None, "the broker closed the connection"
        sent = message.__version__ if version is None else version
        decoded = decode_response(frame, message.__api_key__, sent)
        assert decoded.correlation_id == self._sent
        return decoded.message

    async def send_token(self, token: bytes) -> None:
        """Send a bare SASL token."""
        await self.stream.send_all(LENGTH.pack(len(token)) + token)

    async def token(self) -> bytes | None:
        """The next frame as it is; None when the broker has closed the connection."""
        try:
            frame = await self._reader.read_frame()
        except (ConnectionLostError, trio.BrokenResourceError):
            return None
        return None if frame is None else bytes(frame)

    async def is_disconnected(self) -> bool:
        """Whether the broker has closed the connection and sends nothing before that."""
        return await self.token() is None

    async def handshake(self, mechanism: str, version: int = 1) -> Any:
        return await self.request(SaslHandshakeRequest(mechanism=mechanism), version)

    async def authenticate(self, token: bytes, version: int = 2) -> Any:
        return await self.request(SaslAuthenticateRequest(auth_bytes=token), version)

    async def log_in(self, user: str, password: str | None = None) -> None:
        """Authenticate by PLAIN."""
        assert (await self.handshake("PLAIN")).error_code is ErrorCode.none
        response = await self.authenticate(f"\0{user}\0{USERS.get(user) if password is None else password}".encode())
        assert response.error_code is ErrorCode.none, response


def empty(key: ApiKey, version: int) -> Any:
    """A request with default values only."""
    return blank(request_class(key, version))


class OneBroker:
    """A simulated cluster of one broker, and connections to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._peers = 0

    async def connect(self, listener: str | None = None) -> Peer:
        """Connect to a listener for clients; by default the first."""
        broker = self.cluster.broker(0)
        address = broker.advertised if listener is None else broker.listeners.advertised[listener]
        self._peers += 1
        return Peer(await self.cluster.host.network(f"peer-{self._peers}").connect(address))

    async def user(self, name: str) -> Peer:
        """Connect and authenticate by PLAIN."""
        peer = await self.connect()
        await peer.log_in(name)
        return peer


@asynccontextmanager
async def one_broker(
    security: Security | None = None, config: Mapping[str, Any] | None = None
) -> AsyncIterator[OneBroker]:
    """Run a cluster; by default with SASL_PLAINTEXT and two users."""
    security = security or Security("SASL_PLAINTEXT", users=USERS)
    async with Cluster(brokers=1, seed=1, config=config, security=security) as cluster:
        yield OneBroker(cluster)
