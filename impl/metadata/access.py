"""Kafka's authorization model: operations on resources, and the access control lists that allow or deny them (KIP-11).

An ACL allows or denies one operation on the resources of a pattern to one principal from one host. A pattern is LITERAL
(one name, or `*` for all) or PREFIXED (all names that begin with it, KIP-290). `AccessControlLists` keeps ACLs so that
those that apply to a resource are found without looking at the others: by its name, by `*`, and by each of its prefixes
of a length that some pattern has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

K = TypeVar("K")


class ResourceType(IntEnum):
    """Kafka's codes of resource types."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    """Kafka's codes of operations."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PatternType(IntEnum):
    """Kafka's codes of resource pattern types; the first two are for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Kafka's codes of permission types; the first is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS_OF: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        ),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
        ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
        ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
    }
)
"""What can be done to a resource of each type."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

SPECIFIC: Final = (PatternType.LITERAL, PatternType.PREFIXED)
"""Of ACLs; the other pattern types are for filters."""

AT_ONCE: Final = 64
"""ACLs that are compared with a filter before others have their turn."""
LOOKUP_UNITS: Final = 4
"""Of work, to find what a filter names."""

WILDCARD: Final = "*"
"""As a literal pattern: every resource; as a host: every host."""

EVERYBODY: Final = "User:*"
"""As a principal: every user."""


class Acl(NamedTuple):
    """An access control list's entry, with the pattern of resources to which it applies."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """As `Type:name`; `User:*` matches every user."""
    host: str
    """An IP address, or `*`."""
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """Which ACLs match: None and ANY match every value of a field."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    """MATCH means all patterns that apply to `resource_name`: the literal one, `*`, and its prefixes."""
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL matches."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._names_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _names_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.resource_name == acl.resource_name
        if acl.pattern_type is PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name in (self.resource_name, WILDCARD)


class AccessControlLists:
    """All ACLs of a cluster, in the order in which they were added."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self.changes = 0
        """How often the lists have changed; a decision that is remembered is void when this has changed."""
        self._all: dict[Acl, int] = {}
        """Each with a number that says when it was added."""
        self._by_principal: dict[str, dict[Acl, None]] = {}
        self._by_host: dict[str, dict[Acl, None]] = {}
        self._by_pattern: dict[tuple[PatternType, ResourceType, str], dict[Acl, None]] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        for acl in acls:
            self.add(acl)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._all

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, acl: Acl) -> None:
        """Add an ACL; one that is there stays there once."""
        if acl in self._all:
            return
        self.changes += 1
        self._all[acl] = self.changes
        self._by_pattern.setdefault(_pattern(acl), {})[acl] = None
        self._by_principal.setdefault(acl.principal, {})[acl] = None
        self._by_host.setdefault(acl.host, {})[acl] = None
        if acl.pattern_type is PatternType.PREFIXED:
            self._prefix_lengths.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += 1

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is there."""
        self.changes += 1
        del self._all[acl]
        _take_out(self._by_pattern, _pattern(acl), acl)
        _take_out(self._by_principal, acl.principal, acl)
        _take_out(self._by_host, acl.host, acl)
        if acl.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def bearing_on(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """The ACLs whose pattern applies to a resource."""
        yield from self._by_pattern.get((PatternType.LITERAL, resource_type, name), ())
        if name != WILDCARD:
            yield from self._by_pattern.get((PatternType.LITERAL, resource_type, WILDCARD), ())
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._by_pattern.get((PatternType.PREFIXED, resource_type, name[:length]), ())

    def of_type(self, resource_type: ResourceType) -> Iterator[Acl]:
        """The ACLs of one type of resources."""
        return (acl for acl in self._all if acl.resource_type is resource_type)

    def find(self, wanted: AclFilter) -> list[Acl]:
        """The ACLs that match a filter."""
        return self._in_order(acl for acl in self._candidates(wanted) if wanted.matches(acl))

    def finding(self, wanted: AclFilter) -> Generator[int, Any, list[Acl]]:
        """The same in slices (`impl.records.slices`); of ACLs that are added or removed meanwhile nothing is said."""
        found: list[Acl] = []
        candidates = list(self._candidates(wanted))
        yield LOOKUP_UNITS
        for begin in range(0, len(candidates), AT_ONCE):
            found += (acl for acl in candidates[begin : begin + AT_ONCE] if wanted.matches(acl))
            yield AT_ONCE
        return self._in_order(acl for acl in found if acl in self)

    def _candidates(self, wanted: AclFilter) -> Collection[Acl]:
        """All that may match a filter, as few as what it names allows to tell."""
        found: list[Collection[Acl]] = [self._all]
        if wanted.principal is not None:
            found.append(self._by_principal.get(wanted.principal, ()))
        if wanted.host is not None:
            found.append(self._by_host.get(wanted.host, ()))
        if wanted.resource_name is not None:
            found.append(self._named(wanted.resource_type, wanted.pattern_type, wanted.resource_name))
        return min(found, key=len)

    def _named(self, resource_type: ResourceType, pattern_type: PatternType, name: str) -> list[Acl]:
        """Those with this name in their pattern, or, with MATCH, those whose pattern applies to it."""
        types = list(ResourceType) if resource_type is ResourceType.ANY else [resource_type]
        if pattern_type is PatternType.MATCH:
            return [acl for one in types for acl in self.bearing_on(one, name)]
        patterns = SPECIFIC if pattern_type is PatternType.ANY else (pattern_type,)
        return [acl for one in types for kind in patterns for acl in self._by_pattern.get((kind, one, name), ())]

    def _in_order(self, acls: Iterable[Acl]) -> list[Acl]:
        return sorted(acls, key=self._all.__getitem__)

    def draft(self) -> AccessControlLists:
        """Lists that can be changed without changing these; they are void when these change."""
        return _DraftLists(self)

    def merge(self) -> AccessControlLists:
        """The lists of which these are a draft, with what has changed in the draft; these are no draft."""
        return self


class _DraftLists(AccessControlLists):
    """A decision's own lists: what it has changed, over those of the image that it is made on, which are not copied."""

    def __init__(self, original: AccessControlLists) -> None:
        super().__init__()
        self._original = original
        self._steps: list[tuple[Acl, bool]] = []
        self._is_there: dict[Acl, bool] = {}

    def __contains__(self, acl: Acl) -> bool:
        return self._is_there.get(acl, acl in self._original)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def add(self, acl: Acl) -> None:
        if acl not in self:
            self._note(acl, True)

    def remove(self, acl: Acl) -> None:
        if acl not in self:
            raise KeyError(acl)
        self._note(acl, False)

    def bearing_on(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        return self._whole().bearing_on(resource_type, name)

    def of_type(self, resource_type: ResourceType) -> Iterator[Acl]:
        return self._whole().of_type(resource_type)

    def find(self, wanted: AclFilter) -> list[Acl]:
        return self._whole().find(wanted)

    def finding(self, wanted: AclFilter) -> Generator[int, Any, list[Acl]]:
        return self._whole().finding(wanted)

    def merge(self) -> AccessControlLists:
        self._carry_out(self._original)
        return self._original

    def _note(self, acl: Acl, is_there: bool) -> None:
        self.changes += 1
        self._steps.append((acl, is_there))
        self._is_there[acl] = is_there

    def _carry_out(self, lists: AccessControlLists) -> None:
        for acl, is_there in self._steps:
            if is_there:
                lists.add(acl)
            elif acl in lists:
                lists.remove(acl)

    def _whole(self) -> AccessControlLists:
        """A copy; decisions need none."""
        whole = AccessControlLists(self._original)
        self._carry_out(whole)
        return whole


def _take_out(index: dict[K, dict[Acl, None]], key: K, acl: Acl) -> None:
    del index[key][acl]
    if not index[key]:
        del index[key]


def _pattern(acl: Acl) -> tuple[PatternType, ResourceType, str]:
    return acl.pattern_type, acl.resource_type, acl.resource_name


def acl_error(acl: Acl) -> str:
    """What is wrong with an ACL that is to be added; "" when nothing is."""
    if acl.resource_type is ResourceType.ANY:
        return "resource type ANY is for filters: name the type of the resource"
    if acl.pattern_type not in SPECIFIC:
        return f"pattern type {acl.pattern_type.name} is for filters: use LITERAL or PREFIXED"
    if acl.operation is Operation.ANY:
        return "operation ANY is for filters: name the operation, or ALL"
    if acl.permission is Permission.ANY:
        return "permission ANY is for filters: use ALLOW or DENY"
    if not acl.resource_name:
        return "the resource name is empty: name the resource, or * for all"
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"resource {acl.resource_name!r} of type CLUSTER: there is only {CLUSTER_NAME!r}"
    kind, colon, _ = acl.principal.partition(":")
    if not kind or not colon:
        return f"principal {acl.principal!r}: write Type:name, such as User:alice"
    return "" if acl.host else "the host is empty: give an IP address, or * for all"
