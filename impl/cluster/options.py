"""What a cluster is made with, and the checks of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from tidegauge.impl.cluster.names import LOOPBACK
from tidegauge.impl.cluster.security import Security
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.settings.voters import SETTING
from tidegauge.impl.server.transport.security.listeners import ListenerSpec, plan_listeners

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.transactions.rules import TransactionRules

DEFAULTS: Final[Mapping[str, Any]] = {"replica.fetch.backoff.ms": 100, "broker.heartbeat.interval.ms": 1_000}
"""Settings whose defaults differ from Kafka's, because a cluster in one process has no network to spare."""


def defaults_of(brokers: int) -> Mapping[str, Any]:
    """`DEFAULTS`, and internal topics that fit so many brokers: Kafka's wait for three of them."""
    return {
        **DEFAULTS,
        "transaction.state.log.replication.factor": min(brokers, 3),
        "transaction.state.log.min.isr": min(brokers, 2),
        "offsets.topic.replication.factor": min(brokers, 3),
    }


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClusterOptions:
    """The arguments of `Cluster`, checked. Raises ValueError that names what is wrong, its value and the way out."""

    brokers: int
    seed: int
    properties: Mapping[str, Any]
    """The settings that the caller gave, under Kafka's names."""
    host: Literal["simulated", "tcp"]
    directory: str | Path | None
    listen: str
    port: int
    advertised_host: str | None
    racks: Sequence[str] | None
    security: Security | None
    timers: bool
    replica_class: type[PartitionReplica]
    controller_class: type[Controller]
    transaction_rules: TransactionRules | None

    def __attrs_post_init__(self) -> None:
        _check(self.brokers, self.seed, self.host, self.directory, self.racks)
        _check_addresses(self.brokers, self.host, self.listen, self.port, self.advertised_host)
        if self.security is not None and not isinstance(self.security, Security):
            raise ValueError(
                f"security is {self.security!r}: give a Security, such as Security('SASL_PLAINTEXT', users=…)"
            )
        refuse_voters(self.properties)
        _check_ports(plan_listeners(self.config), self.brokers, self.host)

    @cached_property
    def config(self) -> ServerConfig:
        """The settings of every node: the caller's, before those of `security`, before the defaults."""
        secured = {} if self.security is None else self.security.properties()
        return ServerConfig.from_properties({**defaults_of(self.brokers), **secured, **self.properties})


def refuse_voters(properties: Mapping[str, Any]) -> None:
    """Raise ValueError for settings that name a controller: a cluster that starts all its nodes has its own."""
    if SETTING in properties:
        raise ValueError(f"{SETTING} is {properties[SETTING]!r}: this cluster starts its own controller; leave it out")


def _check(brokers: int, seed: int, host: str, directory: object, racks: Sequence[str] | None) -> None:
    if type(brokers) is not int:
        raise ValueError(f"brokers is {brokers!r}: give a whole number from 1")
    if brokers < 1:
        raise ValueError(f"brokers is {brokers}: ask for at least 1")
    if type(seed) is not int:
        raise ValueError(f"seed is {seed!r}: give a whole number, so that the run can be repeated")
    if host not in ("simulated", "tcp"):
        raise ValueError(f"host is {host!r}: use 'simulated' or 'tcp'")
    if directory is not None and host != "tcp":
        raise ValueError(f"directory is {str(directory)!r}: only host='tcp' keeps files; leave it out")
    if isinstance(racks, str):
        raise ValueError(f"racks is {racks!r}: give a list with one for each broker")
    if racks is not None and len(racks) != brokers:
        raise ValueError(f"racks has {len(racks)} entries for {brokers} brokers: give one for each")


def _check_addresses(brokers: int, host: str, listen: str, port: int, advertised_host: str | None) -> None:
    if host != "tcp" and (listen, port, advertised_host) != (LOOPBACK, 0, None):
        raise ValueError(f"listen is {listen!r}, port {port!r}: only host='tcp' listens; leave them out")
    if type(port) is not int or not 0 <= port <= 65536 - brokers:
        raise ValueError(f"port is {port!r}: give 0 for free ports, or one from 1 to {65536 - brokers}")
    if listen in ("0.0.0.0", "::") and advertised_host is None:
        raise ValueError(
            f"listen is {listen!r}: give advertised_host as well, for clients have to be told where to connect"
        )
    for name, value in (("listen", listen), ("advertised_host", advertised_host)):
        if value is not None and (not isinstance(value, str) or not value):
            raise ValueError(f"{name} is {value!r}: give a host name or an address")


def _check_ports(listeners: Sequence[ListenerSpec], brokers: int, host: str) -> None:
    for listener in listeners:
        if listener.port and brokers > 1 and host == "tcp":
            raise ValueError(
                f"listeners has {listener.name} at port {listener.port} for {brokers} brokers: leave the port out of "
                "one listener, which gets the broker's own, and say 0 for the others"
            )
