"""The sticky assignors: as even as without racks, and within that as much as can be is near its member (KIP-881)."""

from __future__ import annotations

from itertools import product

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.impl.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from tidegauge.impl.client.assignors.subscription import Assignment, Members, Partition, Racks, Subscription
from tidegauge.model_tests.client.assignors.groups_of_members import Group, groups, owning

STICKY, COOPERATIVE = StickyAssignor(), CooperativeStickyAssignor()
few = settings(max_examples=20)


@st.composite
def groups_in_racks(draw: st.DrawFn, most: int = 6) -> tuple[Group, Racks]:
    """A group whose members are in racks, or say nothing, and where the replicas are."""
    group = draw(groups(most=most))
    rack, places = st.sampled_from(("", "a", "b", "c")), st.frozensets(st.sampled_from("abc"), max_size=2)
    members = {name: attrs.evolve(one, rack=draw(rack)) for name, one in group.members.items()}
    where = {topic: tuple(draw(places) for _ in range(count)) for topic, count in group.partitions.items()}
    return attrs.evolve(group, members=members), where


def near(given_to: Assignment, members: Members, racks: Racks) -> int:
    """How many partitions are near to who has them."""
    return sum(is_near(members[name], each, racks) for name, those in given_to.items() for each in those)


def is_near(member: Subscription, partition: Partition, racks: Racks) -> bool:
    topic, number = partition
    return not member.rack or member.rack in racks[topic][number]


def loads(given_to: Assignment) -> list[int]:
    return sorted(map(len, given_to.values()))


def every_assignment(group: Group) -> list[Assignment]:
    wanted = sorted(group.wanted)
    choices = [[name for name, one in group.members.items() if topic in one.topics] for topic, _ in wanted]
    return [
        {name: tuple(p for p, owner in zip(wanted, choice, strict=True) if owner == name) for name in group.members}
        for choice in product(*choices)
    ]


def best(group: Group, racks: Racks) -> tuple[list[int], int]:
    """The loads that are as even as can be, and how much is near at most then, by trying all assignments."""
    found = [(sum(len(each) ** 2 for each in one.values()), one) for one in every_assignment(group)]
    even = [one for squares, one in found if squares == min(squares for squares, _ in found)]
    return loads(even[0]), max(near(one, group.members, racks) for one in even)


@settings(max_examples=60)
@given(groups_in_racks(most=3).filter(lambda drawn: len(drawn[0].wanted) <= 6))
def test_no_assignment_that_is_as_even_has_more_partitions_near_to_their_members(drawn: tuple[Group, Racks]) -> None:
    group, racks = drawn
    found = STICKY.assign_near(group.partitions, group.members, racks)
    assert (loads(found), near(found, group.members, racks)) == best(group, racks)


@few
@given(groups_in_racks())
def test_each_partition_has_one_owner_and_the_loads_are_those_of_a_group_without_racks(
    drawn: tuple[Group, Racks],
) -> None:
    group, racks = drawn
    found, plain = (each.assign_near(group.partitions, group.members, racks) for each in (STICKY, Plain()))
    assert sorted(each for those in found.values() for each in those) == sorted(group.wanted)
    assert all(topic in group.members[name].topics for name, those in found.items() for topic, _ in those)
    assert loads(found) == loads(plain)
    assert near(found, group.members, racks) >= near(plain, group.members, racks)


class Plain(StickyAssignor):
    """One that knows of no racks."""

    def assign_near(self, partitions: object, members: object, racks: object) -> Assignment:
        return super().assign_near(partitions, members, {})  # type: ignore[arg-type]


@few
@given(groups_in_racks())
def test_what_is_even_and_near_stays_where_it_is(drawn: tuple[Group, Racks]) -> None:
    group, racks = drawn
    first = STICKY.assign_near(group.partitions, group.members, racks)
    again = owning(group.members, first)
    assert STICKY.assign_near(group.partitions, again, racks) == first
    assert COOPERATIVE.assign_near(group.partitions, again, racks) == first


@few
@given(groups_in_racks())
def test_cooperative_members_give_back_what_goes_to_a_nearer_one_and_end_with_as_much_near(
    drawn: tuple[Group, Racks],
) -> None:
    group, racks = drawn
    members = owning(group.members, Plain().assign(group.partitions, group.members))
    for generation in range(2, 4):
        had = {each: name for name, one in members.items() for each in one.owned}
        given_to = COOPERATIVE.assign_near(group.partitions, members, racks)
        assert all(had.get(each, name) == name for name, those in given_to.items() for each in those)
        members = owning(members, given_to, generation)
    fresh = STICKY.assign_near(group.partitions, group.members, racks)
    assert near(given_to, members, racks) == near(fresh, members, racks)
    assert loads(given_to) == loads(fresh)


def members(*those: tuple[str, str, tuple[Partition, ...]], topics: tuple[str, ...] = ("t",)) -> Members:
    """Members by name, rack and what they own."""
    return {name: Subscription(topics, owned, 1, rack=rack) for name, rack, owned in those}


def racks(**topics: str) -> Racks:
    """Of each topic the racks of its partitions, a letter for each rack."""
    return {topic: tuple(map(frozenset, text.split())) for topic, text in topics.items()}


def test_two_members_change_what_is_near_to_the_other_one() -> None:
    those = members(("x", "a", (("t", 0),)), ("y", "b", (("t", 1),)))
    assert STICKY.assign_near({"t": 2}, those, racks(t="b a")) == {"x": (("t", 1),), "y": (("t", 0),)}


def test_a_member_that_has_one_more_gives_that_to_who_is_nearer_and_has_one_fewer() -> None:
    those = members(("x", "a", (("t", 0), ("t", 1))), ("y", "b", (("t", 2),)))
    assert STICKY.assign_near({"t": 3}, those, racks(t="a b b")) == {"x": (("t", 0),), "y": (("t", 1), ("t", 2))}


def test_evenness_counts_for_more_than_racks_and_racks_for_more_than_what_one_had() -> None:
    those = members(("x", "a", (("t", 0), ("t", 1))), ("y", "b", (("t", 2), ("t", 3))))
    found = STICKY.assign_near({"t": 4}, those, racks(t="b a a a"))
    assert {name: len(each) for name, each in found.items()} == {"x": 2, "y": 2}
    assert ("t", 0) in found["y"]


def test_of_two_that_are_alike_the_one_moves_that_its_member_did_not_have() -> None:
    those = members(("x", "a", (("t", 0),)), ("y", "b", (("t", 2), ("t", 3))))
    for before in ((("t", 0),), (("t", 1),)):
        those["x"] = attrs.evolve(those["x"], owned=before)  # type: ignore[index]
        found = STICKY.assign_near({"t": 4}, those, racks(t="b b a b"))
        assert found["x"] == (*before, ("t", 2))


def test_a_partition_goes_round_by_members_that_want_other_topics() -> None:
    """`x` and `z` want nothing in common: what is near to each comes by way of `y`."""
    those = {
        "x": Subscription(("s",), (("s", 0),), 1, rack="a"),
        "y": Subscription(("s", "t"), (("s", 1), ("t", 1)), 1, rack="b"),
        "z": Subscription(("t",), (("t", 0),), 1, rack="c"),
    }
    found = STICKY.assign_near({"s": 2, "t": 2}, those, racks(s="b a", t="b c"))
    assert found == {"x": (("s", 1),), "y": (("s", 0), ("t", 0)), "z": (("t", 1),)}


@pytest.mark.parametrize("where", ["x x x x", "ab ab ab ab"])
def test_racks_count_for_nothing_where_nothing_is_gained(where: str) -> None:
    those = members(("x", "a", (("t", 0),)), ("y", "b", (("t", 2), ("t", 3))))
    assert STICKY.assign_near({"t": 4}, those, racks(t=where)) == STICKY.assign({"t": 4}, those)
