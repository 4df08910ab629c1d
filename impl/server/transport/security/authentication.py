"""What a SASL listener's settings make: the mechanisms, with the users that each knows."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tidegauge.impl.metadata.credentials import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential,
    salted_password,
)
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.randomness import Randomness
from tidegauge.impl.server.settings.security import JAAS
from tidegauge.impl.server.transport.security.exchanges import Exchange
from tidegauge.impl.server.transport.security.plain import PlainExchange
from tidegauge.impl.server.transport.security.sasl_gate import SaslServer
from tidegauge.impl.server.transport.security.scram import NONCE_BYTES, ScramExchange
from tidegauge.impl.server.transport.security.users import parse_jaas_users, parse_users

if TYPE_CHECKING:
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.transport.security.failed_logins import FailedLogins

SALT_BYTES: Final = 16

CredentialsOf = Callable[[], Mapping[str, Mapping[int, ScramCredential]]]
"""Gives all SCRAM credentials as they are now, by user and mechanism."""


def sasl_server(
    config: ServerConfig,
    clock: Clock,
    randomness: Randomness,
    credentials: CredentialsOf,
    failed: FailedLogins | None = None,
) -> SaslServer:
    """What the connections of a listener share; `config` is the listener's own. Raises ValueError."""
    if not config.sasl_enabled_mechanisms:
        raise ValueError("sasl.enabled.mechanisms is empty: name at least one for a SASL listener")
    passwords = plain_passwords(config)
    decoy_key = randomness.token(32)

    def scram(mechanism: ScramMechanism) -> Exchange:
        nonce = base64.b64encode(randomness.token(NONCE_BYTES)).decode()
        return ScramExchange(
            mechanism.hash_name, lambda user: credentials().get(user, {}).get(mechanism), nonce, decoy_key
        )

    known: dict[str, Callable[[], Exchange]] = {
        "PLAIN": partial(PlainExchange, passwords),
        **{mechanism.sasl_name: partial(scram, mechanism) for mechanism in ScramMechanism},
    }
    return SaslServer(
        {name: known[name] for name in config.sasl_enabled_mechanisms},
        clock,
        max_frame_bytes=min(config.sasl_server_max_receive_size, config.socket_request_max_bytes),
        failure_delay_ms=config.connection_failed_authentication_delay_ms,
        max_reauth_ms=config.connections_max_reauth_ms,
        failed=failed,
    )


def plain_passwords(config: ServerConfig) -> dict[str, str]:
    """The users of PLAIN: those of `sasl.users`, and those of the listener's JAAS configuration. Raises ValueError."""
    return {**parse_users(config.sasl_users), **parse_jaas_users(config.properties.get(JAAS["PLAIN"], ""))}


def initial_credentials(
    config: ServerConfig, randomness: Randomness
) -> list[tuple[str, ScramMechanism, ScramCredential]]:
    """The SCRAM credentials that a new cluster begins with: one for each user and mechanism. Raises ValueError."""
    made = []
    for user, password in parse_users(config.sasl_users).items():
        for mechanism in ScramMechanism:
            if mechanism.sasl_name in config.sasl_enabled_mechanisms:
                salt = randomness.token(SALT_BYTES)
                salted = salted_password(mechanism.hash_name, password, salt, MIN_ITERATIONS)
                made.append((user, mechanism, credential(mechanism.hash_name, salted, salt, MIN_ITERATIONS)))
    return made
