"""The security of an embedded cluster: one value in place of a dozen settings.

    Security("SASL_SSL", certificate=chain_pem, key=key_pem, users={"alice": "alice-secret"},
             acls=allow("User:alice", "READ", "WRITE", topic="orders"))

It becomes settings under Kafka's names (`impl.server.settings.security`), which can also be given singly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from tidegauge.impl.metadata.access import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    acl_error,
)
from tidegauge.impl.server.settings.security import MECHANISMS, PROTOCOL_NAMES, STANDARD_AUTHORIZER
from tidegauge.impl.server.transport.security.acl_authorizer import parse_super_users
from tidegauge.impl.server.transport.security.users import format_users


@attrs.frozen(init=False)
class Security:
    """Listeners, certificates, users and rights of a cluster."""

    protocols: tuple[str, ...]
    """A listener of each, named like it; the first is where `bootstrap_servers` points."""
    users: Mapping[str, str] = attrs.field(repr=False)
    """Passwords by user name, for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 alike."""
    mechanisms: tuple[str, ...]
    acls: tuple[Acl, ...] | None
    """The ACLs from the start; None: no authorization, everything is allowed."""
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool
    _tls: Mapping[str, str] = attrs.field(repr=False)

    def __init__(
        self,
        *protocols: str,
        users: Mapping[str, str] | None = None,
        mechanisms: Sequence[str] = MECHANISMS,
        certificate: str | bytes = "",
        key: str | bytes = "",
        trusted: str | bytes = "",
        client_certificates: Literal["none", "requested", "required"] | None = None,
        acls: Sequence[Acl] | None = None,
        super_users: Sequence[str] = (),
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        """
        protocols: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; a listener of each. Without any: PLAINTEXT.
        users: passwords by user name.
        mechanisms: the SASL mechanisms that clients may use.
        certificate, key: the brokers' certificate chain and private key, PEM; for SSL and SASL_SSL.
        trusted: the certificates that sign clients' certificates, PEM.
        client_certificates: whether clients of SSL show one; "required" if `trusted` is given.
        acls: turns authorization on, with these ACLs (`allow`, `deny`) from the start; () denies everything to all
            but super users until some are created.
        super_users: principals that may do everything, such as "User:admin"; given without `acls` they turn
            authorization on as well.

        Raises ValueError naming what is wrong, its value and the way out.
        """
        for protocol in protocols:
            if protocol not in PROTOCOL_NAMES:
                raise ValueError(f"protocol {protocol!r} is not known: use {', '.join(PROTOCOL_NAMES)}")
        for acl in acls or ():
            if wrong := acl_error(acl):
                raise ValueError(f"acls has {acl}: {wrong}")
        parse_super_users(";".join(super_users))
        tls = {
            "ssl.keystore.certificate.chain": _text(certificate),
            "ssl.keystore.key": _text(key),
            "ssl.truststore.certificates": _text(trusted),
            "ssl.client.auth": client_certificates or ("required" if trusted else ""),
        }
        self.__attrs_init__(
            protocols=protocols or ("PLAINTEXT",),
            users=dict(users or {}),
            mechanisms=tuple(mechanisms),
            acls=tuple(acls or ()) if acls is not None or super_users or allow_everyone_if_no_acl_found else None,
            super_users=tuple(super_users),
            allow_everyone_if_no_acl_found=allow_everyone_if_no_acl_found,
            tls={name: value for name, value in tls.items() if value},
        )

    def properties(self) -> dict[str, str]:
        """The same as settings under Kafka's names."""
        first, *others = self.protocols
        authorization = {
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": ";".join(self.super_users),
            "allow.everyone.if.no.acl.found": str(self.allow_everyone_if_no_acl_found).lower(),
        }
        return {
            "listeners": ",".join([f"{first}://", *(f"{name}://:0" for name in others)]),
            "sasl.enabled.mechanisms": ",".join(self.mechanisms),
            "sasl.users": format_users(self.users),
            **self._tls,
            **(authorization if self.acls is not None else {}),
        }


def _text(pem: str | bytes) -> str:
    return pem.decode() if isinstance(pem, bytes) else pem


def allow(
    principal: str,
    *operations: str,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    host: str = WILDCARD,
) -> tuple[Acl, ...]:
    """ACLs that allow a principal (`User:alice`, `User:*`) these operations; all of them if none is named.

    On a topic, a group, a transactional id or the cluster; `*` is every name, and with `prefixed` the name stands for
    all that begin with it. `host` is the IP address that the principal has to come from. Raises ValueError.
    """
    return _acls(
        Permission.ALLOW, principal, operations, _resource(topic, group, transactional_id, cluster), prefixed, host
    )


def deny(
    principal: str,
    *operations: str,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    host: str = WILDCARD,
) -> tuple[Acl, ...]:
    """ACLs that deny what `allow` would allow; a denial takes precedence."""
    return _acls(
        Permission.DENY, principal, operations, _resource(topic, group, transactional_id, cluster), prefixed, host
    )


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> tuple[ResourceType, str]:
    named = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
        ResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
    }
    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) != 1:
        raise ValueError(f"an ACL on {len(given)} resources: give one of topic, group, transactional_id, cluster=True")
    return given[0]


def _acls(
    permission: Permission,
    principal: str,
    operations: Sequence[str],
    resource: tuple[ResourceType, str],
    prefixed: bool,
    host: str,
) -> tuple[Acl, ...]:
    made: list[Acl] = []
    for name in operations or (Operation.ALL.name,):
        if name.upper() not in Operation.__members__:
            known = ", ".join(one.name for one in Operation if one is not Operation.ANY)
            raise ValueError(f"operation {name!r} is not known: use {known}")
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        acl = Acl(*resource, pattern, principal, host, Operation[name.upper()], permission)
        if wrong := acl_error(acl):
            raise ValueError(wrong)
        made.append(acl)
    return tuple(made)
