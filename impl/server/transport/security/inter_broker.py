"""How a node connects to a broker, by the protocol of brokers' listener for each other.

Theory of operation
-------------------
    listener        network          on a new connection
    INTERNAL        plain            SCRAM by the cluster's secret
    PLAINTEXT       plain            nothing
    SSL             TLS              ApiVersions: with TLS 1.3 only a response shows that the certificate was accepted
    SASL_PLAINTEXT  plain            SASL as the node's own user
    SASL_SSL        TLS              SASL as the node's own user

TLS verifies the broker by the listener's trust store and shows the listener's own certificate. The settings are read
for each connection, so that a new certificate counts from the next one on. A node that is not let in says so in the
log, and comes again: what is wrong may be mended at the other end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio
from kio.schema.api_versions.v4.request import ApiVersionsRequest

from tidegauge.impl.ports.network import Address, Listener, Network, abort
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError
from tidegauge.impl.server.transport.security.listeners import (
    ListenerSpec,
    SecurityProtocol,
    listener_config,
    own_login,
)
from tidegauge.impl.server.transport.security.logins import Login, NewConnection, log_in
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from tidegauge.impl.ports.randomness import Randomness
    from tidegauge.impl.ports.tls import TlsSettings
    from tidegauge.impl.server.settings.server_config import ServerConfig

LOGGER: Final = logging.getLogger(__name__)


class InterBroker:
    """One node's way to brokers, on their listener for each other."""

    def __init__(
        self,
        spec: ListenerSpec,
        settings: Callable[[], ServerConfig],
        network: Network,
        randomness: Randomness,
        secret_login: Login,
    ) -> None:
        """`settings` gives the node's as they are now; `secret_login` authenticates where only nodes may come."""
        self._spec = spec
        self._settings = settings
        self._plain = network
        self._randomness = randomness
        self._secret_login = secret_login
        self._context: tuple[tuple[TlsSettings, bool], ssl.SSLContext] | None = None
        """The latest, and by what it was made."""
        self._lines = RepeatedLines()

    def network(self, broker_id: int | None = None) -> Network:
        """What connects to this broker."""
        return _TlsNetwork(self, broker_id) if self._spec.protocol.has_tls else self._plain

    def login(self, broker_id: int | None = None) -> Login | None:
        """What authenticates on a new connection to this broker; None where nobody does."""
        if self._spec.protocol is SecurityProtocol.PLAINTEXT and not self._spec.trusted:
            return None

        async def login(channel: NewConnection) -> None:
            try:
                await self._log_in(channel)
            except AuthenticationFailedError as error:
                self.note(broker_id, channel.address, str(error))
                raise UnreachableError(f"{channel.address} does not let this node in: {error}") from error
            except UnreachableError as error:
                self.note(broker_id, channel.address, str(error))
                raise
            except NoResponseError as error:
                if self._spec.protocol.has_tls:
                    self.note(broker_id, channel.address, f"{error}; does it trust this node's certificate?")
                raise

        return login

    async def _log_in(self, channel: NewConnection) -> None:
        if self._spec.trusted:
            await self._secret_login(channel)
        elif self._spec.protocol.has_sasl:
            mechanism, user, password = own_login(self._settings(), self._spec)
            await log_in(channel, mechanism, user, password, self._randomness)
        else:
            await channel.request_here(
                ApiVersionsRequest(client_software_name="tidegauge", client_software_version="1")
            )

    async def connect(self, address: Address, broker_id: int | None) -> trio.abc.Stream:
        """Open a TLS connection. Raises OSError."""
        from tidegauge.impl.ports.tls import TlsHandshakeError, connect

        stream = await self._plain.connect(address)
        try:
            return await connect(stream, self._client_context(), address.host)
        except BaseException as error:
            await abort(stream)
            if isinstance(error, TlsHandshakeError | ValueError):
                self.note(broker_id, address, str(error))
                raise OSError(str(error)) from error
            raise

    async def listen(self, address: Address) -> Listener:
        """Take connections, in plaintext: TLS is the listener's part."""
        return await self._plain.listen(address)

    def _client_context(self) -> ssl.SSLContext:
        from tidegauge.impl.ports.tls import client_context
        from tidegauge.impl.server.transport.security.listener_tls import tls_settings

        config = self._settings()
        settings = tls_settings(self._spec, config)
        checks_host = listener_config(config, self._spec.name).ssl_endpoint_identification_algorithm != ""
        if self._context is None or self._context[0] != (settings, checks_host):
            self._context = (settings, checks_host), client_context(settings, checks_host=checks_host)
        return self._context[1]

    def note(self, broker_id: int | None, address: Address, why: str) -> None:
        """A broker has not let this node in, or this node does not trust it."""
        mend = "mend this node's settings of that listener, or the broker's"
        if self._spec.trusted:
            mend = "give all nodes of the cluster the same secret"
        self._lines.log_event(
            LOGGER,
            logging.WARNING,
            "broker not logged in at",
            broker=broker_id,
            at=address,
            listener=self._spec.name,
            why=why,
            next=f"it is tried again; {mend}",
        )


@attrs.frozen(eq=False, repr=False)
class _TlsNetwork:
    """The network, with TLS on each connection to a broker."""

    _ways: InterBroker
    _broker_id: int | None

    async def connect(self, address: Address) -> trio.abc.Stream:
        return await self._ways.connect(address, self._broker_id)

    async def listen(self, address: Address) -> Listener:
        return await self._ways.listen(address)
