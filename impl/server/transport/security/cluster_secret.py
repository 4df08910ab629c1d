"""The secret of a cluster: by it nodes know each other, where a listener is for nodes alone.

Those are the controller's listener and the brokers' INTERNAL one. A node that connects to one authenticates by SASL
SCRAM-SHA-256 with the secret as its password and its own name as user, so that neither side is told the secret and both
prove that they know it. Its principal is `Node:broker-0`; no user of a cluster is of that kind.

A cluster in one process makes a secret at each start. Processes of a cluster are given the same one, in a file or in
the environment (`impl.cluster.node_process`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs

from tidegauge.impl.metadata.access import Operation, ResourceType
from tidegauge.impl.metadata.credentials import MIN_ITERATIONS, ScramMechanism, credential, hashed, salted_password
from tidegauge.impl.server.transport.authorization import Principal
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError
from tidegauge.impl.server.transport.security.logins import (
    Login,
    NewConnection,
    choose_mechanism,
    new_nonce,
    send_token,
)
from tidegauge.impl.server.transport.security.sasl_gate import SaslGate, SaslServer
from tidegauge.impl.server.transport.security.scram import ScramExchange
from tidegauge.impl.server.transport.security.scram_client import ScramClient
from tidegauge.impl.wire.channel import UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.randomness import Randomness
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.transport.security.failed_logins import FailedLogins

MECHANISM: Final = ScramMechanism.SCRAM_SHA_256
NODE: Final = "Node"
"""The kind of nodes' principals."""
LEAST_LENGTH: Final = 16
DRAWN: Final = re.compile("[0-9a-f]{64}")
"""A secret that `ClusterSecret.generate` has made: 256 bits."""


@attrs.frozen(eq=False, repr=False)
class ClusterSecret:
    """What all nodes of one cluster know, and nobody else."""

    text: str

    def __attrs_post_init__(self) -> None:
        if len(self.text) < LEAST_LENGTH:
            raise ValueError(f"the cluster's secret has {len(self.text)} characters: take at least {LEAST_LENGTH}")

    @classmethod
    def generate(cls, randomness: Randomness) -> ClusterSecret:
        """A new one, of 256 bits."""
        return cls(randomness.token(32).hex())

    def login(self, name: str, randomness: Randomness) -> Login:
        """How the node of this name authenticates at another node."""

        async def login(channel: NewConnection) -> None:
            try:
                await self._exchange(channel, name, randomness)
            except AuthenticationFailedError as error:
                raise UnreachableError(
                    f"{channel.address} has another cluster secret, or is no node of this cluster: {error}"
                ) from error

        return login

    async def _exchange(self, channel: NewConnection, name: str, randomness: Randomness) -> None:
        client = ScramClient(MECHANISM.hash_name, name, new_nonce(randomness), self._salted_by)
        await choose_mechanism(channel, MECHANISM.sasl_name)
        other = "it has another cluster secret"
        server_first = await send_token(channel, client.first(), other)
        client.verify(await send_token(channel, client.final(server_first), other))

    def _salted_by(self, salt: bytes, iterations: int) -> bytes:
        """The salted secret, for a node of this cluster: the salt is the secret's, too."""
        known, salted = _salted(self.text)
        if (salt, iterations) != (known, MIN_ITERATIONS):
            raise AuthenticationFailedError("a SCRAM server with another credential")
        return salted

    def gate(
        self, clock: Clock, randomness: Randomness, config: ServerConfig, failed: FailedLogins
    ) -> Callable[[str], SaslGate]:
        """The gate of a listener for nodes alone; it is given the address of each peer."""
        salt, salted = _salted(self.text)
        known = credential(MECHANISM.hash_name, salted, salt, MIN_ITERATIONS)

        def exchange() -> ScramExchange:
            return ScramExchange(MECHANISM.hash_name, lambda _: known, new_nonce(randomness), b"")

        server = SaslServer(
            {MECHANISM.sasl_name: exchange},
            clock,
            max_frame_bytes=min(config.sasl_server_max_receive_size, config.socket_request_max_bytes),
            failure_delay_ms=config.connection_failed_authentication_delay_ms,
            principal_kind=NODE,
            failed=failed,
        )
        return lambda host: SaslGate(server, host)


@cache
def _salted(secret: str) -> tuple[bytes, bytes]:
    """The salt of a secret, and the secret with it. The salt need not be drawn: the secret is nobody's password.

    Iterations make guesses dear. Where nobody can guess, they would only make each start of a cluster slower.
    """
    salt = hashed(MECHANISM.hash_name, f"salt of {hashed(MECHANISM.hash_name, secret.encode()).hex()}".encode())
    if DRAWN.fullmatch(secret):
        return salt, hashed(MECHANISM.hash_name, salt + bytes.fromhex(secret))
    return salt, salted_password(MECHANISM.hash_name, secret, salt, MIN_ITERATIONS)


class NodesOnly:
    """The authorizer of the controller: nodes may do everything, others nothing."""

    def allowed(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return principal.kind == NODE

    def allowed_anywhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return principal.kind == NODE
