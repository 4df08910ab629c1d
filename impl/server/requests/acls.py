"""ACLs and filters of ACLs as clients send them (KIP-140)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import attrs

from tidegauge.impl.metadata.access import Acl, AclFilter, Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import AclCreation
    from kio.schema.delete_acls.v3.request import DeleteAclsFilter
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

T = TypeVar("T")
E = TypeVar("E", ResourceType, Operation, PatternType, Permission)


@attrs.frozen
class Unusable:
    """Why what a client sent is no ACL or no filter."""

    message: str


def created_acl(creation: AclCreation) -> Acl | Unusable:
    """The ACL that a request creates."""
    return _read(
        lambda: Acl(
            _code(ResourceType, creation.resource_type, "resource type"),
            creation.resource_name,
            _code(PatternType, creation.resource_pattern_type, "pattern type"),
            creation.principal,
            creation.host,
            _code(Operation, creation.operation, "operation"),
            _code(Permission, creation.permission_type, "permission type"),
        )
    )


def acl_filter(sent: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter | Unusable:
    """The ACLs that a request describes or deletes."""
    return _read(
        lambda: AclFilter(
            _code(ResourceType, sent.resource_type_filter, "resource type"),
            sent.resource_name_filter,
            _code(PatternType, sent.pattern_type_filter, "pattern type"),
            sent.principal_filter,
            sent.host_filter,
            _code(Operation, sent.operation, "operation"),
            _code(Permission, sent.permission_type, "permission type"),
        )
    )


def _read(make: Callable[[], T]) -> T | Unusable:
    try:
        return make()
    except ValueError as error:
        return Unusable(str(error))


def _code(kind: Callable[[int], E], code: int, name: str) -> E:
    try:
        return kind(code)
    except ValueError:
        known: Iterable[E] = kind  # type: ignore[assignment]
        raise ValueError(
            f"{name} {code} is not known: use {', '.join(f'{one.value} ({one.name})' for one in known)}"
        ) from None
