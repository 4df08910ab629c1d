"""The authorizer decides as Kafka's rules say: examples, and a naive reading of the rules as the oracle."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegauge.impl.metadata.access import (
    WILDCARD,
    AccessControlLists,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegauge.impl.server.transport.authorization import Principal
from tidegauge.impl.server.transport.security import acl_authorizer
from tidegauge.impl.server.transport.security.acl_authorizer import AclAuthorizer, parse_super_users
from tidegauge.model_tests.amounts import amount

ALICE, BOB, ADMIN = (Principal("User", name) for name in ("alice", "bob", "admin"))
HOST = "10.0.0.1"
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: Permission = ALLOW,
    *,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = WILDCARD,
    resource: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, principal, host, operation, permission)


def lists(*acls: Acl) -> AccessControlLists:
    made = AccessControlLists()
    for one in acls:
        made.add(one)
    return made


def authorizer(*acls: Acl, everyone: bool = False) -> AclAuthorizer:
    made = lists(*acls)
    return AclAuthorizer(lambda: made, super_users=["User:admin"], allow_everyone_if_no_acl_found=everyone)


def may(
    decides: AclAuthorizer,
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    who: Principal = ALICE,
    host: str = HOST,
    resource: ResourceType = ResourceType.TOPIC,
) -> bool:
    return decides.allowed(who, host, operation, resource, name)


def test_nobody_may_do_anything_without_an_acl_but_super_users() -> None:
    assert not may(authorizer())
    assert may(authorizer(), who=ADMIN)
    assert may(authorizer(acl(permission=DENY, principal="User:*")), who=ADMIN), "super users are beyond ACLs"


def test_a_denial_wins_over_everything_that_allows() -> None:
    allowing = [acl(), acl(WILDCARD), acl("or", pattern=PREFIXED), acl(operation=Operation.ALL)]
    for denial in (
        acl(permission=DENY),
        acl(WILDCARD, permission=DENY),
        acl("o", pattern=PREFIXED, permission=DENY),
        acl(permission=DENY, principal="User:*"),
        acl(permission=DENY, host=HOST),
        acl(permission=DENY, operation=Operation.ALL),
    ):
        assert may(authorizer(*allowing))
        assert not may(authorizer(*allowing, denial)), denial


def test_patterns_literal_prefixed_and_wildcard() -> None:
    assert not may(authorizer(acl("order")))
    assert may(authorizer(acl("order", pattern=PREFIXED)))
    assert may(authorizer(acl("orders", pattern=PREFIXED)))
    assert not may(authorizer(acl("orders-", pattern=PREFIXED)))
    assert may(authorizer(acl(WILDCARD)))
    assert not may(authorizer(acl(WILDCARD, pattern=PREFIXED))), "a prefix * is the character, not the wildcard"
    assert not may(authorizer(acl(resource=ResourceType.GROUP)))


def test_principals_and_hosts() -> None:
    assert not may(authorizer(acl()), who=BOB)
    assert may(authorizer(acl(principal="User:*")), who=BOB)
    assert not may(authorizer(acl(principal="Group:*")))
    assert may(authorizer(acl(host=HOST)))
    assert not may(authorizer(acl(host="10.0.0.2")))


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_what_implies_describe(operation: Operation) -> None:
    assert may(authorizer(acl(operation=operation)), Operation.DESCRIBE)
    assert not may(authorizer(acl(operation=Operation.DESCRIBE)), operation)
    both = authorizer(acl(operation=operation, permission=DENY), acl(operation=Operation.DESCRIBE))
    assert may(both, Operation.DESCRIBE), "a denial is of its own operation alone"


def test_what_implies_describe_configs() -> None:
    assert may(authorizer(acl(operation=Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)
    for other in (Operation.READ, Operation.WRITE, Operation.ALTER, Operation.DESCRIBE, Operation.CREATE):
        assert not may(authorizer(acl(operation=other)), Operation.DESCRIBE_CONFIGS)
    for other in (Operation.CREATE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS):
        assert not may(authorizer(acl(operation=other)), Operation.DESCRIBE)


def test_everyone_is_allowed_only_where_no_acl_bears_on_the_resource() -> None:
    assert may(authorizer(everyone=True))
    assert not may(authorizer(acl(principal="User:bob"), everyone=True)), "an ACL for somebody else closes the resource"
    assert may(authorizer(acl("payments"), everyone=True))


def test_a_decision_is_remembered_until_an_acl_changes() -> None:
    made = lists(acl())
    decides = AclAuthorizer(lambda: made)
    assert may(decides)
    made.add(acl(permission=DENY))
    assert not may(decides)
    made.remove(acl(permission=DENY))
    assert may(decides)
    made.remove(acl())
    assert not may(decides)


def test_decisions_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_authorizer, "REMEMBERED", 3)
    decides = authorizer(acl("t", pattern=PREFIXED))
    for number in range(10):
        assert may(decides, name=f"t{number}")
        assert len(decides._remembered) <= 3


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_super_users(" User:CN=a,O=b; User:c ;") == ("User:CN=a,O=b", "User:c")
    with pytest.raises(ValueError, match="'alice': write Type:name"):
        parse_super_users("alice")


# --- against an oracle ---------------------------------------------------------------------------------------------

NAMES = ["a", "ab", "abc", "b", WILDCARD]
acls_of_few_names = st.builds(
    Acl,
    resource_type=st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from([HOST, "10.0.0.2", WILDCARD]),
    operation=st.sampled_from([op for op in Operation if op is not Operation.ANY]),
    permission=st.sampled_from([ALLOW, DENY]),
)
implied = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE},
    Operation.DESCRIBE_CONFIGS: {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS},
}


def applies(one: Acl, name: str) -> bool:
    if one.pattern_type is PREFIXED:
        return name.startswith(one.resource_name)
    return one.resource_name in (name, "*")


def naive(
    acls: list[Acl], who: Principal, operation: Operation, resource: ResourceType, name: str, everyone: bool
) -> bool:
    if str(who) == "User:admin":
        return True
    bearing = [one for one in acls if one.resource_type is resource and applies(one, name)]
    if not bearing:
        return everyone
    mine = [one for one in bearing if one.principal in (str(who), "User:*") and one.host in (HOST, "*")]
    if any(one.permission is DENY and one.operation in (operation, Operation.ALL) for one in mine):
        return False
    enough = implied.get(operation, {operation}) | {Operation.ALL}
    return any(one.permission is ALLOW and one.operation in enough for one in mine)


@settings(max_examples=amount(70, deep=200), deadline=None)
@given(
    st.lists(acls_of_few_names, max_size=12),
    st.lists(st.integers(0, 11), max_size=6),
    st.sampled_from([ALICE, BOB, ADMIN]),
    st.booleans(),
)
def test_it_decides_as_the_naive_oracle(acls: list[Acl], removed: list[int], who: Principal, everyone: bool) -> None:
    made = lists(*acls)
    decides = AclAuthorizer(lambda: made, super_users=["User:admin"], allow_everyone_if_no_acl_found=everyone)
    left = list(dict.fromkeys(acls))
    for phase in range(2):
        for name in ["a", "ab", "abc", "abcd", "b", "c"]:
            for operation in (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.CREATE):
                for resource in (ResourceType.TOPIC, ResourceType.GROUP):
                    expected = naive(left, who, operation, resource, name, everyone)
                    assert decides.allowed(who, HOST, operation, resource, name) == expected
        if phase == 0:
            for index in removed:
                if index < len(left):
                    made.remove(left.pop(index))
    assert list(made) == left
    assert len(made) == len(left)


def longest_names() -> list[str]:
    """Enough names for every pattern over NAMES to apply to one that no longer pattern applies to."""
    return ["a", "a_", "ab", "ab_", "abc", "abc_", "b", "b_", "*", "*_", "hardcode", "_"]


@settings(max_examples=amount(100, deep=300), deadline=None)
@given(st.lists(acls_of_few_names, max_size=8), st.sampled_from([ALICE, BOB, ADMIN]), st.booleans())
@example([acl("a", permission=DENY, operation=Operation.WRITE), acl("a", operation=Operation.WRITE)], ALICE, False)
def test_allowed_anywhere_is_allowed_on_some_name(acls: list[Acl], who: Principal, everyone: bool) -> None:
    """KIP-679, held against trying every kind of name; where it is stricter, the KIP's own rule says why."""
    decides = authorizer(*acls, everyone=everyone)
    tried = any(
        naive(list(dict.fromkeys(acls)), who, Operation.WRITE, ResourceType.TOPIC, name, everyone)
        for name in longest_names()
    )
    response = decides.allowed_anywhere(who, HOST, Operation.WRITE, ResourceType.TOPIC)
    if response != tried:
        # The rule knows patterns, not names. A prefix that is allowed counts although literals may deny every name
        # tried; and "allow everyone" counts at the probe's name alone.
        assert everyone or any(one.pattern_type is PREFIXED and one.permission is ALLOW for one in acls)


def test_allowed_anywhere_by_the_rules_of_kip_679() -> None:
    def anywhere(*acls: Acl) -> bool:
        writes = [one._replace(operation=Operation.WRITE) for one in acls]
        return authorizer(*writes).allowed_anywhere(ALICE, HOST, Operation.WRITE, ResourceType.TOPIC)

    deny_literal, deny_prefix = acl("ab", permission=DENY), acl("ab", pattern=PREFIXED, permission=DENY)
    assert not anywhere()
    assert anywhere(acl("ab"))
    assert not anywhere(acl("ab"), deny_literal)
    assert not anywhere(acl("abc"), deny_prefix)
    assert anywhere(acl("a", pattern=PREFIXED), deny_prefix), "the denial covers a part only"
    assert anywhere(acl("ab", pattern=PREFIXED), deny_literal)
    assert not anywhere(acl("ab", pattern=PREFIXED), deny_prefix)
    assert anywhere(acl(WILDCARD), deny_literal, deny_prefix)
    assert not anywhere(acl(WILDCARD), acl(WILDCARD, permission=DENY))
    assert not anywhere(acl("ab", principal="User:bob"))
    assert not anywhere(acl("ab", resource=ResourceType.GROUP))
    reader = authorizer(acl("ab", pattern=PREFIXED))
    assert not reader.allowed_anywhere(ALICE, HOST, Operation.DESCRIBE, ResourceType.TOPIC), (
        "implication does not count"
    )


# --- filters -------------------------------------------------------------------------------------------------------


def test_filters_any_and_match() -> None:
    literal, prefix, wildcard = acl("abc"), acl("ab", pattern=PREFIXED), acl(WILDCARD)
    other = acl("abcd", principal="User:bob", operation=Operation.WRITE, permission=DENY, host=HOST)
    made = lists(literal, prefix, wildcard, other)

    def found(**fields: object) -> list[Acl]:
        return made.find(AclFilter(**fields))  # type: ignore[arg-type]

    assert found() == [literal, prefix, wildcard, other]
    assert found(resource_name="abc") == [literal]
    assert found(resource_name="abc", pattern_type=PatternType.MATCH) == [literal, prefix, wildcard]
    assert found(resource_name="a", pattern_type=PatternType.MATCH) == [wildcard]
    assert found(pattern_type=PREFIXED) == [prefix]
    assert found(resource_name="ab", pattern_type=PREFIXED) == [prefix]
    assert found(resource_name="ab", pattern_type=LITERAL) == []
    assert found(pattern_type=PatternType.MATCH) == [literal, prefix, wildcard, other]
    assert found(principal="User:bob") == found(host=HOST) == found(permission=DENY) == [other]
    assert found(operation=Operation.WRITE) == [other]
    assert found(resource_type=ResourceType.GROUP) == []
