"""A filter of ACLs finds what going through all of them finds, and a draft of the lists is as good as a copy."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tidegauge.impl.metadata.access import (
    AT_ONCE,
    WILDCARD,
    AccessControlLists,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegauge.impl.records.slices import at_once

NAMES = ("orders", "order", "o", "payments", WILDCARD)
PRINCIPALS = ("User:alice", "User:bob")
HOSTS = (WILDCARD, "10.0.0.1")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = (Operation.READ, Operation.WRITE)
PERMISSIONS = (Permission.ALLOW, Permission.DENY)


def drawn_acl(rng: Random) -> Acl:
    return Acl(
        rng.choice(TYPES),
        rng.choice(NAMES),
        rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        rng.choice(PRINCIPALS),
        rng.choice(HOSTS),
        rng.choice(OPERATIONS),
        rng.choice(PERMISSIONS),
    )


def drawn_filter(rng: Random) -> AclFilter:
    return AclFilter(
        rng.choice((*TYPES, ResourceType.ANY)),
        rng.choice((*NAMES, "others", None, None)),
        rng.choice(list(PatternType)),
        rng.choice((*PRINCIPALS, None, None)),
        rng.choice((*HOSTS, None, None)),
        rng.choice((*OPERATIONS, Operation.ANY)),
        rng.choice((*PERMISSIONS, Permission.ANY)),
    )


def changed(lists: AccessControlLists, rng: Random, count: int) -> None:
    """Add and remove some."""
    for _ in range(count):
        acl = drawn_acl(rng)
        if acl in lists and rng.random() < 0.4:
            lists.remove(acl)
        else:
            lists.add(acl)


def expected(lists: AccessControlLists, wanted: AclFilter) -> Sequence[Acl]:
    """By going through all of them, in order."""
    return [acl for acl in lists if wanted.matches(acl)]


@pytest.mark.parametrize("seed", range(3))
def test_a_filter_finds_what_going_through_all_finds(seed: int) -> None:
    rng = Random(seed)
    lists, found = AccessControlLists(), 0
    for _ in range(20):
        changed(lists, rng, 30)
        for _ in range(40):
            wanted = drawn_filter(rng)
            assert lists.find(wanted) == expected(lists, wanted), wanted
            assert at_once(lists.finding(wanted)) == expected(lists, wanted), wanted
            found += len(lists.find(wanted))
    assert found > 1_000
    assert len(lists) > AT_ONCE, "it takes more than one slice"


@pytest.mark.parametrize("seed", range(3))
def test_a_draft_is_as_good_as_a_copy_and_changes_nothing_until_it_is_merged(seed: int) -> None:
    rng = Random(seed)
    lists = AccessControlLists()
    changed(lists, rng, 60)
    for round_ in range(20):
        before, copy, draft = list(lists), AccessControlLists(lists), lists.draft()
        changed(copy, Random(round_), 15)
        changed(draft, Random(round_), 15)
        wanted = drawn_filter(rng)
        assert list(lists) == before
        assert (list(draft), len(draft), draft.find(wanted)) == (list(copy), len(copy), copy.find(wanted))
        assert draft.merge() is lists
        assert (list(lists), lists.find(wanted)) == (list(copy), copy.find(wanted))
        assert lists.merge() is lists


def test_a_name_is_found_without_a_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many filters that name a resource, a principal or a host: each costs what it finds."""
    looks = 0
    matches = AclFilter.matches

    def counted(wanted: AclFilter, acl: Acl) -> bool:
        nonlocal looks
        looks += 1
        return matches(wanted, acl)

    of_all = [
        Acl(
            ResourceType.TOPIC,
            f"t{n}",
            PatternType.LITERAL,
            f"User:{n}",
            f"10.0.0.{n}",
            Operation.READ,
            Permission.ALLOW,
        )
        for n in range(200)
    ]
    lists = AccessControlLists(of_all)
    monkeypatch.setattr(AclFilter, "matches", counted)
    for wanted in (
        AclFilter(resource_name="t7"),
        AclFilter(resource_name="t7", pattern_type=PatternType.MATCH),
        AclFilter(principal="User:7"),
        AclFilter(host="10.0.0.7"),
    ):
        assert lists.find(wanted) == [of_all[7]]
    assert looks == 4
