"""Settings of listeners, TLS, SASL and the authorizer, under Kafka's names; `ServerConfig` takes them over.

A setting of TLS or SASL can be set for one listener alone: `listener.name.<name>.<setting>`, the name in lower case
(KIP-103).
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from tidegauge.impl.metadata.config_types import ConfigType, members_of
from tidegauge.impl.server.settings.fields import Configuration, Update, flag, names, password, text, whole

PER_LISTENER: Final = Update.PER_LISTENER
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PROTOCOL_NAMES: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@attrs.frozen(eq=False, repr=False)
class SecuritySettings(Configuration):
    """Who may connect, how they say who they are, and what they may do."""

    listeners: tuple[str, ...] = names(
        doc="Where the broker listens: NAME://host:port for each listener; what is left out is the node's own.",
        update=Update.PER_BROKER,
    )
    advertised_listeners: tuple[str, ...] = names(
        doc="What clients of each listener are told to connect to, where that is another address."
    )
    listener_security_protocol_map: tuple[str, ...] = names(
        tuple(f"{name}:{name}" for name in PROTOCOL_NAMES),
        doc="The protocol of each listener: NAME:PROTOCOL.",
        update=Update.PER_BROKER,
    )
    inter_broker_listener_name: str = text(
        "", doc="The listener for other brokers. Without it a PLAINTEXT one, or one of their own where needed."
    )
    security_inter_broker_protocol: str = text(
        "PLAINTEXT", "The same, by the listener of this protocol's name.", allowed=PROTOCOL_NAMES
    )
    sasl_mechanism_inter_broker_protocol: str = text(
        "GSSAPI", "The mechanism by which brokers log in at each other.", update=Update.PER_BROKER
    )

    ssl_keystore_type: str = text("PEM", "The format of the key store.", allowed=("PEM",), update=PER_LISTENER)
    ssl_keystore_certificate_chain: str = password(doc="The broker's certificate chain, PEM.", update=PER_LISTENER)
    ssl_keystore_key: str = password(doc="The broker's private key, PEM (PKCS #8).", update=PER_LISTENER)
    ssl_keystore_location: str = text(
        "", "A file with the broker's key and certificate chain, PEM.", update=PER_LISTENER
    )
    ssl_key_password: str = password(doc="The password of an encrypted private key.", update=PER_LISTENER)
    ssl_truststore_type: str = text("PEM", "The format of the trust store.", allowed=("PEM",), update=PER_LISTENER)
    ssl_truststore_certificates: str = password(
        doc="The certificates by which clients' are trusted, PEM.", update=PER_LISTENER
    )
    ssl_truststore_location: str = text("", "A file with those certificates, PEM.", update=PER_LISTENER)
    ssl_client_auth: str = text(
        "none",
        "Whether clients show a certificate.",
        allowed=("none", "requested", "required"),
        update=Update.PER_BROKER,
    )
    ssl_enabled_protocols: tuple[str, ...] = names(
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken.",
        rule=members_of("TLSv1.2", "TLSv1.3"),
        update=Update.PER_BROKER,
    )
    ssl_cipher_suites: tuple[str, ...] = names(
        doc="Cipher suites of TLS 1.2, by OpenSSL's names.", update=Update.PER_BROKER
    )
    ssl_endpoint_identification_algorithm: str = text(
        "https",
        "Whether a broker's certificate must be for the host that another one connects to: https, or empty.",
        allowed=("https", "HTTPS", ""),
        update=Update.PER_BROKER,
    )
    ssl_principal_mapping_rules: str = text("DEFAULT", "How a certificate's name becomes a principal's (KIP-371).")

    sasl_enabled_mechanisms: tuple[str, ...] = names(
        MECHANISMS,
        "The SASL mechanisms that clients may use.",
        rule=members_of(*MECHANISMS),
        update=Update.PER_BROKER,
    )
    sasl_users: str = password(
        doc="Users from the start, for every mechanism: name:password, separated by commas; \\ before , : and \\."
    )
    sasl_server_max_receive_size: int = whole(
        524_288, doc="Largest request of a client that has not authenticated, in bytes."
    )
    connections_max_reauth_ms: int = whole(
        0, least=0, doc="A session's lifetime, after which a client has to authenticate again.", kind=ConfigType.LONG
    )
    connection_failed_authentication_delay_ms: int = whole(
        100, least=0, doc="How long the response to a failed authentication is held back."
    )

    authorizer_class_name: str = text("", "What decides who may do what.", allowed=("", STANDARD_AUTHORIZER))
    super_users: str = text("", "Principals that may do everything, separated by semicolons.")
    allow_everyone_if_no_acl_found: bool = flag(False, "Whether everybody may use what no ACL bears on.")


_OF_A_LISTENER: Final = "listener.name."
_PER_LISTENER: Final = (
    r"listener\.name\.[^.]+\.(?P<setting>ssl\..+|sasl\.enabled\.mechanisms|sasl\.server\.max\.receive\.size"
    r"|connections\.max\.reauth\.ms|max\.connections|max\.connection\.creation\.rate|num\.network\.threads"
    r"|(plain|scram-sha-256|scram-sha-512)\.sasl\.jaas\.config)"
)


def setting_for_listener(name: str) -> str | None:
    """What a `listener.name.<name>.<setting>` sets; None for another setting."""
    match = re.fullmatch(_PER_LISTENER, name) if name.startswith(_OF_A_LISTENER) else None
    return None if match is None else match["setting"]


JAAS: Final = {mechanism: f"{mechanism.lower()}.sasl.jaas.config" for mechanism in MECHANISMS}
"""By mechanism, on one listener: as whom the broker logs in at others, and the users of PLAIN, as Kafka has it."""
