"""What a node is made of, broker or controller: who it is, and its ports to the network, the disk and the clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.network import Address, Network
from tidegauge.impl.ports.randomness import Randomness, SystemRandomness
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.server.transport.security.logins import Login

if TYPE_CHECKING:
    from tidegauge.impl.server.transport.request_hook import RequestHooks


@attrs.frozen(eq=False, repr=False)
class Node:
    """One node's identity, settings and ports."""

    id: int
    network: Network
    disk: Disk
    clock: Clock
    tracer: Tracer
    directory: str
    listen: Address
    secret: ClusterSecret
    """By which the cluster's nodes know each other."""
    cluster_id: str | None = None
    """The cluster that the node must belong to. A controller without one makes it; a broker always has one."""
    config: ServerConfig = attrs.field(factory=ServerConfig)
    rack: str | None = None
    timers: bool = True
    """Whether it acts by itself. Without timers it only responds, and does what its `actions` are told to do."""
    advertised_host: str | None = None
    """The host name that others are told, when it is not the one of `listen`."""
    request_faults: RequestHooks | None = None
    """Faults to inject into requests, as the cluster's embedder orders them."""
    randomness: Randomness = attrs.field(factory=SystemRandomness)
    internal_host: str = "127.0.0.1"
    """Where it listens for brokers alone, when the listeners for clients are secured."""
    bound: Mapping[str, Address] = attrs.field(factory=dict)
    """Where an earlier process of this node listened, by listener. This process listens there again."""

    @property
    def name(self) -> str:
        """A broker's name, as other nodes are told."""
        return f"broker-{self.id}"

    def login(self) -> Login:
        """Authenticates at another node, on a listener for nodes alone."""
        return self.secret.login(self.name, self.randomness)

    @property
    def log_directories(self) -> list[str]:
        """The paths of `log.dirs`, relative ones inside the node's directory. Without `log.dirs` that directory."""
        names = self.config.log_dirs or ((self.config.log_dir,) if self.config.log_dir else ())
        return [name if name.startswith("/") else f"{self.directory}/{name}" for name in names] or [self.directory]

    def response_timeout_ms(self, configured: int) -> float:
        """How long to wait for a response, in ms: without timers for ever, since the driver decides what is lost."""
        return configured if self.timers else math.inf
