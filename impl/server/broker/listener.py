"""A listener while its broker runs: it takes connections, finds out who the peers are, and serves them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidegauge.impl.ports.network import Address, Listener
from tidegauge.impl.server.transport.authorization import ANONYMOUS, AllowAll, Principal
from tidegauge.impl.server.transport.connection import Connection, Service
from tidegauge.impl.server.transport.security.listeners import ListenerSpec, listener_config

if TYPE_CHECKING:
    import ssl

    from tidegauge.impl.ports.randomness import Randomness
    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.config import ServerConfig
    from tidegauge.impl.server.node import Node
    from tidegauge.impl.server.transport.security.principals import PrincipalMapping
    from tidegauge.impl.server.transport.security.sasl_gate import SaslGate

LAST_WORDS_S: Final = 0.5
"""How long a peer that was turned away may take to close the connection before it is closed here."""

GOODBYE_TIMEOUT_S: Final = 1.0
"""How long a peer's end of TLS may take to hear that a connection is closed."""


class BrokerListener:
    """One of a broker's listeners."""

    def __init__(self, broker: Broker, spec: ListenerSpec, service: Service, randomness: Randomness) -> None:
        """`service` is what the broker's listeners have in common. Raises ValueError for settings that are wrong."""
        self.spec = spec
        self._broker = broker
        self._tls: ssl.SSLContext | None = None
        self._mapping: PrincipalMapping
        self._listener: Listener | None = None
        self.address: Address
        """Where it listens, once it does."""
        self.advertised: Address
        """What others are told."""
        config = listener_config(broker.config.current, spec.name)
        if spec.protocol.has_tls:
            self._prepare_tls(config)
        self._service = attrs.evolve(
            service,
            listener=spec.name,
            authorizer=AllowAll() if spec.trusted else broker.authorizer,
            gate=self._gate(config, randomness) if spec.protocol.has_sasl else None,
        )
        self._awaits_metadata = not spec.trusted and (
            spec.protocol.has_sasl or not isinstance(broker.authorizer, AllowAll)
        )

    async def open(self, node: Node) -> None:
        """Take the port: the one that an earlier process of the node had, or what the settings say. Raises OSError."""
        home = Address(node.internal_host, 0) if self.spec.trusted else node.listen
        address = node.bound.get(self.spec.name) or self.spec.listens_at(home)
        self._listener = await node.network.listen(address)
        self.address = self._listener.address
        self.advertised = self.spec.advertises(self.address, "" if self.spec.trusted else node.advertised_host or "")

    async def serve(self) -> None:
        """Serve whoever connects, until cancelled."""
        assert self._listener is not None, "a listener serves once it is open"
        await self._listener.serve(partial(self._broker.serve_connection, self))

    async def aclose(self) -> None:
        """Stop listening, if it does."""
        if self._listener is not None:
            await self._listener.aclose()

    async def serve_stream(self, stream: trio.abc.Stream) -> str | None:
        """Serve one peer until it closes (None), breaks the rules or is lost (the reason in words).

        Who may do what is in the metadata: until the broker has it nobody is let in or turned away.
        """
        if self._awaits_metadata:
            await self._broker.registration.unfenced.wait()
        if self._tls is None:
            return await self._serve(stream, ANONYMOUS)
        from tidegauge.impl.ports.tls import TlsHandshakeError, accept, peer_name
        from tidegauge.impl.server.transport.security.principals import NoPrincipalError

        try:
            secured = await accept(stream, self._tls)
            name = peer_name(secured)
            principal = ANONYMOUS if name is None else Principal("User", self._mapping.name(name))
        except (TlsHandshakeError, NoPrincipalError) as error:
            return str(error)
        reason = await self._serve(secured, principal)
        with trio.move_on_after(GOODBYE_TIMEOUT_S):
            await secured.aclose()
        return reason

    async def _serve(self, stream: trio.abc.Stream, principal: Principal) -> str | None:
        reason = await Connection(stream, self._service, principal).serve()
        if reason is not None and self._service.gate is not None:
            await _let_read(stream)
        return reason

    def _prepare_tls(self, config: ServerConfig) -> None:
        from tidegauge.impl.ports.tls import TlsSettings, server_context
        from tidegauge.impl.server.transport.security.principals import PrincipalMapping

        self._tls = server_context(
            TlsSettings(
                certificate_chain=config.ssl_keystore_certificate_chain,
                key=config.ssl_keystore_key,
                key_store=config.ssl_keystore_location,
                key_password=config.ssl_key_password,
                trusted=config.ssl_truststore_certificates,
                trust_store=config.ssl_truststore_location,
                client_auth=config.ssl_client_auth if self._looks_at_certificates() else "none",
                protocols=config.ssl_enabled_protocols,
                ciphers=config.ssl_cipher_suites,
            )
        )
        self._mapping = PrincipalMapping(config.ssl_principal_mapping_rules)

    def _looks_at_certificates(self) -> bool:
        """With SASL a client shows a certificate only where the setting is that listener's own (KIP-684)."""
        own = f"listener.name.{self.spec.name.lower()}.ssl.client.auth"
        return not self.spec.protocol.has_sasl or own in self._broker.config.current.properties

    def _gate(self, config: ServerConfig, randomness: Randomness) -> Callable[[], SaslGate]:
        from tidegauge.impl.server.transport.security.authentication import sasl_server
        from tidegauge.impl.server.transport.security.sasl_gate import SaslGate

        metadata = self._broker.metadata
        server = sasl_server(config, self._broker.clock, randomness, lambda: metadata.image.scram_credentials)
        return partial(SaslGate, server)


async def _let_read(stream: trio.abc.Stream) -> None:
    """Give a peer that was turned away the time to read why: some clients drop what comes with the end of a stream."""
    with trio.move_on_after(LAST_WORDS_S), contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while await stream.receive_some():
            pass  # what else it sends is not looked at
