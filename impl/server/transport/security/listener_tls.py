"""What TLS is on one listener: its `ssl.*` settings, for those who connect to it and for those who listen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.ports.tls import TlsSettings
from tidegauge.impl.server.transport.security.listeners import ListenerSpec, listener_config

if TYPE_CHECKING:
    from tidegauge.impl.server.settings.server_config import ServerConfig


def tls_settings(spec: ListenerSpec, config: ServerConfig) -> TlsSettings:
    """The settings of a listener."""
    own = listener_config(config, spec.name)
    return TlsSettings(
        certificate_chain=own.ssl_keystore_certificate_chain,
        key=own.ssl_keystore_key,
        key_store=own.ssl_keystore_location,
        key_password=own.ssl_key_password,
        trusted=own.ssl_truststore_certificates,
        trust_store=own.ssl_truststore_location,
        client_auth=own.ssl_client_auth if _asks_for_certificates(spec, config) else "none",
        protocols=own.ssl_enabled_protocols,
        ciphers=own.ssl_cipher_suites,
    )


def _asks_for_certificates(spec: ListenerSpec, config: ServerConfig) -> bool:
    """With SASL a client shows a certificate only where the setting is that listener's own (KIP-684)."""
    own = f"listener.name.{spec.name.lower()}.ssl.client.auth"
    return not spec.protocol.has_sasl or own in config.properties
