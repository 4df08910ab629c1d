"""A broker's listeners: which there are, what is spoken on each, and what is told to whom (KIP-103, KIP-291).

Theory of operation
-------------------
A listener has a name and one of four protocols: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL. A client is told brokers'
addresses on the listener by which it came, so that it never has to know of the others.

Brokers talk to the controller in plaintext, and by default to each other, too. When no listener for clients is in
plaintext, or when there is an authorizer, which could not tell brokers from clients there, brokers get a listener of
their own, INTERNAL, on a free port (`Node.internal_host`); every connection to it is trusted.
`inter.broker.listener.name` or `security.inter.broker.protocol` names one of the others in its place, of any protocol:
brokers come to it as clients do (`inter_broker`). They are nobody special there, and an authorizer has to let them do
what brokers do (as super users, with Kafka's own brokers as with these; in plaintext they are `User:ANONYMOUS`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

import attrs

from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.settings.security import JAAS
from tidegauge.impl.server.settings.server_config import FIELDS, ServerConfig
from tidegauge.impl.server.transport.security.users import parse_jaas_login

INTERNAL: Final = "INTERNAL"

_ENDPOINT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_]+)://(?:(?P<host>[^\[\]:/,\s]*)|\[(?P<ipv6>[0-9A-Fa-f:.]+)\])(?::(?P<port>\d{1,5}))?"
)


class SecurityProtocol(IntEnum):
    """Kafka's codes of security protocols."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ListenerSpec(NamedTuple):
    """One listener, as it is configured."""

    name: str
    protocol: SecurityProtocol
    host: str = ""
    """Where it listens; "" is the node's own host."""
    port: int | None = None
    """0 picks a free one; None is the node's own."""
    advertised_host: str = ""
    """What others are told; "" is where it listens."""
    advertised_port: int | None = None
    trusted: bool = False
    """Whether only brokers can come by it."""

    def listens_at(self, node: Address) -> Address:
        """The address to listen at, given the node's own."""
        return Address(self.host or node.host, node.port if self.port is None else self.port)

    def advertises(self, listening: Address, host: str = "") -> Address:
        """The address that others are told; `host` replaces the node's own."""
        return Address(
            self.advertised_host or host or listening.host,
            listening.port if self.advertised_port is None else self.advertised_port,
        )


def plan_listeners(config: ServerConfig) -> tuple[ListenerSpec, ...]:
    """The listeners of a broker; the first is for other brokers, and it may be for clients, too.

    Raises ValueError naming the setting, its value and what is allowed.
    """
    specs = _with_advertised(config, _configured(config))
    setting, wanted = _inter_broker_listener(config)
    if wanted:
        chosen = next((spec for spec in specs if spec.name == wanted), None)
        if chosen is None:
            raise ValueError(f"{setting} is {wanted!r}: it must be one of {', '.join(spec.name for spec in specs)}")
        if chosen.protocol.has_sasl:
            own_login(config, chosen)
    else:
        plain = [spec for spec in specs if spec.protocol is SecurityProtocol.PLAINTEXT]
        if not plain or config.authorizer_class_name:
            return (_internal(specs), *specs)
        chosen = plain[0]
    return (chosen, *(spec for spec in specs if spec is not chosen))


def _inter_broker_listener(config: ServerConfig) -> tuple[str, str]:
    """The setting that names the listener for other brokers, and the name; "" when none does."""
    by_name, by_protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    if by_protocol not in config.properties:
        return by_name, config.inter_broker_listener_name
    if config.inter_broker_listener_name:
        raise ValueError(f"{by_name} and {by_protocol} are set: set one of them")
    return by_protocol, config.security_inter_broker_protocol


def own_login(config: ServerConfig, spec: ListenerSpec) -> tuple[str, str, str]:
    """(mechanism, user, password) by which a broker logs in at this listener of others.

    Raises ValueError naming the setting that is wrong or missing.
    """
    own = listener_config(config, spec.name)
    mechanism = config.sasl_mechanism_inter_broker_protocol
    if mechanism not in own.sasl_enabled_mechanisms:
        raise ValueError(
            f"sasl.mechanism.inter.broker.protocol is {mechanism!r}: brokers log in at listener {spec.name}, where "
            f"sasl.enabled.mechanisms is {','.join(own.sasl_enabled_mechanisms)}; name one of these"
        )
    login = parse_jaas_login(own.properties.get(JAAS[mechanism], ""))
    if login is None:
        raise ValueError(
            f"listener.name.{spec.name.lower()}.{JAAS[mechanism]} has no username and password: brokers log in by them "
            f'at listener {spec.name}; write … required username="…" password="…";'
        )
    return mechanism, *login


def _configured(config: ServerConfig) -> list[ListenerSpec]:
    if not config.listeners:
        return [ListenerSpec(SecurityProtocol.PLAINTEXT.name, SecurityProtocol.PLAINTEXT)]
    protocols = _protocols(config)
    specs: list[ListenerSpec] = []
    for text in config.listeners:
        name, host, port = _endpoint("listeners", text)
        if name not in protocols:
            raise ValueError(
                f"listeners has {text!r}: listener.security.protocol.map does not say which protocol {name} speaks"
            )
        _refuse_second("listeners", name, (spec.name for spec in specs))
        specs.append(ListenerSpec(name, protocols[name], host, port))
    return specs


def _with_advertised(config: ServerConfig, specs: list[ListenerSpec]) -> list[ListenerSpec]:
    advertised: dict[str, tuple[str, int | None]] = {}
    for text in config.advertised_listeners:
        name, host, port = _endpoint("advertised.listeners", text)
        if name not in {spec.name for spec in specs}:
            raise ValueError(f"advertised.listeners has {text!r}: there is no listener {name}")
        _refuse_second("advertised.listeners", name, advertised)
        advertised[name] = host, port or None
    told = [
        spec._replace(advertised_host=advertised[spec.name][0], advertised_port=advertised[spec.name][1])
        if spec.name in advertised
        else spec
        for spec in specs
    ]
    for spec in told:
        if "0.0.0.0" in (spec.advertised_host or spec.host) or (spec.advertised_host or spec.host) == "::":
            raise ValueError(
                f"listener {spec.name} is at {spec.host}: clients cannot connect to that; say in advertised.listeners "
                "what they are told"
            )
    return told


def _protocols(config: ServerConfig) -> dict[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    for text in config.listener_security_protocol_map:
        name, colon, protocol = text.partition(":")
        if not name or not colon or protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ValueError(f"listener.security.protocol.map has {text!r}: write NAME:PROTOCOL, one of {known}")
        protocols[name] = SecurityProtocol[protocol]
    return protocols


def _endpoint(setting: str, text: str) -> tuple[str, str, int | None]:
    match = _ENDPOINT.fullmatch(text)
    port = None if match is None or match["port"] is None else int(match["port"])
    if match is None or (port is not None and port > 65_535):
        raise ValueError(f"{setting} has {text!r}: write NAME://host:port, such as SSL://127.0.0.1:9093")
    return match["name"], match["ipv6"] or match["host"] or "", port


def _refuse_second(setting: str, name: str, names: Iterable[str]) -> None:
    if name in names:
        raise ValueError(f"{setting} has {name} twice: give each listener once")


def _internal(specs: list[ListenerSpec]) -> ListenerSpec:
    name = INTERNAL
    while name in {spec.name for spec in specs}:
        name += "_"
    return ListenerSpec(name, SecurityProtocol.PLAINTEXT, port=0, trusted=True)


def listener_config(config: ServerConfig, name: str) -> ServerConfig:
    """The settings as they are for one listener: `listener.name.<name>.<setting>` counts before `<setting>`."""
    prefix = f"listener.name.{name.lower()}."
    own = {key.removeprefix(prefix): value for key, value in config.properties.items() if key.startswith(prefix)}
    if not own:
        return config
    values = {
        setting.replace(".", "_"): FIELDS[setting].parse(value) for setting, value in own.items() if setting in FIELDS
    }
    return attrs.evolve(config, properties={**config.properties, **own}, **values)
