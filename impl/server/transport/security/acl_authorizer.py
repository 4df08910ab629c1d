"""Kafka's authorizer: decides by the ACLs of the metadata log (KIP-11, KIP-290, KIP-801).

    super user                       may do everything
    an ACL that denies               forbids, whatever others allow
    an ACL that allows               allows; READ, WRITE, DELETE and ALTER allow DESCRIBE, too, and ALTER_CONFIGS
                                     allows DESCRIBE_CONFIGS; a denial is of its own operation alone
    ACLs bear on the resource, none
      of which is about this          forbids
    no ACL bears on the resource     forbids, unless `allow.everyone.if.no.acl.found`

An ACL is about a request when its principal is the peer's or `User:*`, its host the peer's or `*`, and its operation
the request's, ALL, or one that implies it.

Decisions are remembered until an ACL changes, so that a producer's or a consumer's next request costs one look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from tidegauge.impl.metadata.access import EVERYBODY, WILDCARD, AccessControlLists, Acl, PatternType, Permission
from tidegauge.impl.server.transport.authorization import AllowAll, Authorizer, Operation, Principal, ResourceType

if TYPE_CHECKING:
    from tidegauge.impl.server.settings.server_config import ServerConfig

REMEMBERED: Final = 10_000
"""Decisions that are kept at most."""

IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Operations whose permission is one for the key, too."""

_PROBE: Final = "hardcode"
_Question: TypeAlias = tuple[Principal, str, Operation, ResourceType, str]


class AclAuthorizer:
    """The authorizer of one broker."""

    def __init__(
        self,
        acls: Callable[[], AccessControlLists],
        *,
        super_users: Collection[str] = (),
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        """`acls` gives the lists in force; `super_users` are principals as `Type:name`."""
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._default = allow_everyone_if_no_acl_found
        self._remembered: dict[_Question, bool] = {}
        self._remembered_of: tuple[AccessControlLists, int] | None = None

    def allowed(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        acls = self._acls()
        if self._remembered_of != (acls, acls.changes) or len(self._remembered) >= REMEMBERED:
            self._remembered, self._remembered_of = {}, (acls, acls.changes)
        question = (principal, host, operation, resource_type, name)
        decision = self._remembered.get(question)
        if decision is None:
            decision = self._remembered[question] = self._decide(acls, question)
        return decision

    def _decide(self, acls: AccessControlLists, question: _Question) -> bool:
        principal, host, operation, resource_type, name = question
        if str(principal) in self._super_users:
            return True
        granted = found = False
        for acl in acls.bearing_on(resource_type, name):
            found = True
            if is_about(acl, principal, host, operation):
                if acl.permission is Permission.DENY:
                    return False
                granted = True
        return granted or (not found and self._default)

    def allowed_anywhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be a resource of the type to which the principal may do this.

        A pattern that allows counts unless one that denies covers all of it: for a literal the same literal or one of
        its prefixes, for a prefix itself or one of its prefixes, and for anything the wildcard.
        """
        if self.allowed(principal, host, operation, resource_type, _PROBE):
            return True
        about = [
            acl
            for acl in self._acls().of_type(resource_type)
            if acl.operation in (operation, Operation.ALL) and is_about(acl, principal, host, operation)
        ]
        denied = {(acl.pattern_type, acl.resource_name) for acl in about if acl.permission is Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not denied.intersection(_covering(acl)) for acl in about if acl.permission is Permission.ALLOW)


def is_about(acl: Acl, principal: Principal, host: str, operation: Operation) -> bool:
    """Whether an ACL that bears on a resource allows or denies this."""
    if acl.principal not in (str(principal), EVERYBODY) or acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (operation, Operation.ALL):
        return True
    return acl.permission is Permission.ALLOW and acl.operation in IMPLIED_BY.get(operation, ())


def _covering(acl: Acl) -> Iterable[tuple[PatternType, str]]:
    """The patterns that apply to all that the ACL's pattern applies to, the wildcard left out."""
    name = acl.resource_name
    if acl.pattern_type is PatternType.LITERAL and name == WILDCARD:
        return ()
    return (
        (acl.pattern_type, name),
        *((PatternType.PREFIXED, name[:length]) for length in range(1, len(name) + 1)),
    )


def parse_super_users(text: str) -> tuple[str, ...]:
    """The principals of `super.users`, separated by semicolons. Raises ValueError."""
    principals = tuple(_principals(text))
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"super.users has {principal!r}: write Type:name, such as User:admin, separated by ;")
    return principals


def _principals(text: str) -> Iterator[str]:
    return (part.strip() for part in text.split(";") if part.strip())


def make_authorizer(config: ServerConfig, acls: Callable[[], AccessControlLists]) -> Authorizer:
    """The authorizer that a broker's settings ask for. Raises ValueError."""
    if not config.authorizer_class_name:
        return AllowAll()
    return AclAuthorizer(
        acls,
        super_users=parse_super_users(config.super_users),
        allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found,
    )
