"""One listener of a broker: it accepts connections, authenticates the peers, and serves their requests."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.ports.network import Address, Listener, peer_host
from tidegauge.impl.server.transport.authorization import ANONYMOUS, AllowAll, Authorizer, Principal
from tidegauge.impl.server.transport.connection import Connection
from tidegauge.impl.server.transport.security.failed_logins import FailedLogins
from tidegauge.impl.server.transport.security.listeners import ListenerSpec, listener_config
from tidegauge.impl.server.transport.security.sasl_gate import SaslGate
from tidegauge.impl.server.transport.service import Service

if TYPE_CHECKING:
    import ssl

    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.randomness import Randomness
    from tidegauge.impl.ports.tls import TlsSettings
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.node import Node
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
    from tidegauge.impl.server.transport.security.principals import PrincipalMapping

LOGGER: Final = logging.getLogger(__name__)

REFUSED_CLOSES_S: Final = 0.5
"""Seconds that a refused peer may take to close the connection before it is closed here."""

TLS_CLOSE_TIMEOUT_S: Final = 1.0
"""Seconds that the end of TLS may take when a connection is closed."""


class BrokerListener:
    """One of a broker's listeners."""

    def __init__(
        self,
        spec: ListenerSpec,
        config: ServerConfig,
        authorizer: Authorizer,
        registration: Registration,
        metadata: MetadataCache,
        *,
        clock: Clock,
        randomness: Randomness,
        secret: ClusterSecret,
    ) -> None:
        """Raises ValueError for settings that are wrong."""
        self.spec = spec
        self._registration = registration
        self._tls: ssl.SSLContext | None = None
        self._shown: TlsSettings
        """By what `_tls` was made."""
        self._mapping: PrincipalMapping
        self._listener: Listener | None = None
        self._service: Service
        self.address: Address
        """Where it listens, once it is open."""
        self.advertised: Address
        """Where others are told to connect, once it is open."""
        own = listener_config(config, spec.name)
        if spec.protocol.has_tls:
            self._prepare_tls(config)
        self._authorizer = AllowAll() if spec.trusted else authorizer
        self.failed_logins = FailedLogins(spec.name)
        self._gate: Callable[[str], SaslGate] | None = None
        if spec.trusted:
            self._gate = secret.gate(clock, randomness, own, self.failed_logins)
        elif spec.protocol.has_sasl:
            self._gate = _sasl_gate(own, metadata, clock, randomness, self.failed_logins)
        self._awaits_metadata = not spec.trusted and (spec.protocol.has_sasl or not isinstance(authorizer, AllowAll))

    def reconfigure(self, config: DynamicConfig) -> None:
        """Show and trust by the settings of now, which may be new ones of this listener.

        Nothing else of a listener changes while it is open: what all listeners have was read at its start.
        """
        now = config.of_now()
        if not self.spec.protocol.has_tls or self._tls_settings(now) == self._shown:
            return
        try:
            self._prepare_tls(now)
        except ValueError as error:
            after = "mend it and set it again; the earlier certificate is shown meanwhile"
            details = {"listener": self.spec.name, "why": error, "next": after}
            log_event(LOGGER, logging.ERROR, "listener keeps its certificate", **details)

    def tls_error(self, config: ServerConfig) -> str:
        """What is wrong with the TLS settings that these are for this listener; "" when nothing is."""
        from tidegauge.impl.ports.tls import server_context

        if not self.spec.protocol.has_tls:
            return ""
        try:
            server_context(self._tls_settings(config))
        except ValueError as error:
            return f"listener {self.spec.name}: {error}"
        return ""

    def attach(self, service: Service) -> None:
        """Serve requests by this service, with the listener's own authorizer and SASL gate."""
        self._service = attrs.evolve(service, listener=self.spec.name, authorizer=self._authorizer, gate=self._gate)

    async def open(self, node: Node) -> None:
        """Listen: on the port of an earlier process of the node, else where the settings say. Raises OSError."""
        home = Address(node.internal_host, 0) if self.spec.trusted else node.listen
        address = node.bound.get(self.spec.name) or self.spec.listens_at(home)
        self._listener = await node.network.listen(address)
        self.address = self._listener.address
        self.advertised = self.spec.advertises(self.address, "" if self.spec.trusted else node.advertised_host or "")

    async def serve(self, on_connection: Callable[[trio.abc.Stream], Awaitable[None]]) -> None:
        """Call `on_connection` in a task of its own for each connection, until cancelled."""
        assert self._listener is not None, "a listener serves once it is open"
        await self._listener.serve(on_connection)

    async def aclose(self) -> None:
        """Stop listening, if it is open."""
        if self._listener is not None:
            await self._listener.aclose()

    async def serve_stream(self, stream: trio.abc.Stream) -> str | None:
        """Serve one peer until it closes the connection (None), breaks the rules or is lost (the reason).

        Credentials and ACLs are in the metadata: where they count, a peer waits until the broker has the metadata.
        """
        if self._awaits_metadata:
            await self._registration.unfenced.wait()
        if self._tls is None:
            return await self._serve(stream, ANONYMOUS)
        from tidegauge.impl.ports.tls import TlsHandshakeError, accept, peer_name
        from tidegauge.impl.server.transport.security.principals import NoPrincipalError

        try:
            secured = await accept(stream, self._tls)
            name = peer_name(secured)
            principal = ANONYMOUS if name is None else Principal("User", self._mapping.name(name))
        except (TlsHandshakeError, NoPrincipalError) as error:
            self.failed_logins.note(peer_host(stream), str(error))
            return str(error)
        reason = await self._serve(secured, principal)
        with trio.move_on_after(TLS_CLOSE_TIMEOUT_S):
            await secured.aclose()
        return reason

    async def _serve(self, stream: trio.abc.Stream, principal: Principal) -> str | None:
        reason = await Connection(stream, self._service, principal).serve()
        if reason is not None and self._service.gate is not None:
            await _let_read(stream)
        return reason

    def _prepare_tls(self, config: ServerConfig) -> None:
        from tidegauge.impl.ports.tls import server_context
        from tidegauge.impl.server.transport.security.principals import PrincipalMapping

        settings = self._tls_settings(config)
        self._tls, self._shown = server_context(settings), settings
        self._mapping = PrincipalMapping(listener_config(config, self.spec.name).ssl_principal_mapping_rules)

    def _tls_settings(self, config: ServerConfig) -> TlsSettings:
        from tidegauge.impl.server.transport.security.listener_tls import tls_settings

        return tls_settings(self.spec, config)


def _sasl_gate(
    config: ServerConfig, metadata: MetadataCache, clock: Clock, randomness: Randomness, failed: FailedLogins
) -> Callable[[str], SaslGate]:
    from tidegauge.impl.server.transport.security.authentication import sasl_server

    server = sasl_server(config, clock, randomness, lambda: metadata.image.scram_credentials, failed)
    return partial(SaslGate, server)


async def _let_read(stream: trio.abc.Stream) -> None:
    """Give a refused peer time to read the reason: some clients drop what comes together with the end of a stream."""
    with trio.move_on_after(REFUSED_CLOSES_S), contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while await stream.receive_some():
            pass  # what else it sends is dropped
