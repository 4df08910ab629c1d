"""The range assignor gives members what has a replica in their rack, as far as their shares allow (KIP-881)."""

from __future__ import annotations

from collections import Counter

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.impl.client.assignors.range import RangeAssignor
from tidegauge.impl.client.assignors.subscription import Assignment, Members, Partition, Racks, Subscription
from tidegauge.model_tests.client.assignors.groups_of_members import Group, groups

RANGE = RangeAssignor()


def members(*racks: str, topics: tuple[str, ...] = ("t",)) -> Members:
    return {f"m{number}": Subscription(topics, rack=rack) for number, rack in enumerate(racks)}


def racks(*partitions: str) -> tuple[frozenset[str], ...]:
    """Each letter is a rack."""
    return tuple(map(frozenset, partitions))


def numbers(given_to: Assignment, topic: str = "t") -> list[list[int]]:
    """The partitions that each member has of a topic."""
    return [[number for name, number in each if name == topic] for _, each in sorted(given_to.items())]


def shared(those: Members, *partitions: str) -> list[list[int]]:
    return numbers(RANGE.assign_near({"t": len(partitions)}, those, {"t": racks(*partitions)}))


def test_members_get_what_has_a_replica_in_their_rack() -> None:
    assert shared(members("b", "a"), "a", "a", "b", "b") == [[2, 3], [0, 1]]
    assert shared(members("a", "b", "c"), "ab", "bc", "ca") == [[0], [1], [2]]
    assert shared(members("c", "b", "a"), "ab", "bc", "ca") == [[1], [0], [2]]


def test_shares_are_as_large_as_without_racks_and_the_rest_goes_wherever_there_is_room() -> None:
    assert shared(members("a", "b"), "a", "a", "a", "b", "c") == [[0, 1, 2], [3, 4]]
    assert shared(members("a", "a"), "b", "b", "a", "b") == [[0, 2], [1, 3]]
    assert shared(members("b", "a"), "a", "a", "b") == [[2], [0, 1]], "the one more goes to who has more that is near"


def test_who_is_in_no_rack_is_near_to_everything() -> None:
    assert shared(members("", "a"), "a", "b", "b", "a") == [[0, 1], [2, 3]]
    assert shared(members("b", ""), "a", "b", "b", "a") == [[1, 2], [0, 3]]


def test_racks_count_for_nothing_where_nothing_is_gained() -> None:
    """No replica is in a member's rack; or every partition is in all the same racks; or nobody knows of racks."""
    for partitions in (("x", "y", "x", "x"), ("ab", "ab", "ab", "ab"), ("", "", "", "")):
        assert shared(members("b", "a"), *partitions) == [[0, 1], [2, 3]]
    assert numbers(RANGE.assign({"t": 4}, members("b", "a"))) == [[0, 1], [2, 3]]


def test_topics_with_the_same_takers_and_as_many_partitions_stay_together() -> None:
    those = members("b", "a", topics=("t", "u"))
    alike = RANGE.assign_near({"t": 2, "u": 2}, those, {"t": racks("a", "b"), "u": racks("a", "b")})
    assert (numbers(alike), numbers(alike, "u")) == ([[1], [0]], [[1], [0]])
    crossed = RANGE.assign_near({"t": 2, "u": 2}, those, {"t": racks("a", "b"), "u": racks("b", "a")})
    assert (numbers(crossed), numbers(crossed, "u")) == ([[0], [1]], [[0], [1]]), "together counts for more"
    others = RANGE.assign_near({"t": 2, "u": 3}, those, {"t": racks("a", "b"), "u": racks("b", "a", "a")})
    assert (numbers(others), numbers(others, "u")) == ([[1], [0]], [[0], [1, 2]])


@settings(max_examples=20)
@given(group=groups(), data=st.data())
def test_each_partition_is_given_once_and_everybody_gets_as_much_of_a_topic_as_without_racks(
    group: Group, data: st.DataObject
) -> None:
    rack, places = st.sampled_from(("", "a", "b")), st.frozensets(st.sampled_from("abc"), max_size=2)
    those = {name: attrs.evolve(one, rack=data.draw(rack)) for name, one in group.members.items()}
    where: Racks = {topic: tuple(data.draw(places) for _ in range(n)) for topic, n in group.partitions.items()}
    near, plain = RANGE.assign_near(group.partitions, those, where), RANGE.assign(group.partitions, those)
    given_to: list[Partition] = [each for of_member in near.values() for each in of_member]
    assert sorted(given_to) == sorted(group.wanted)
    assert all(topic in those[name].topics for name, each in near.items() for topic, _ in each)
    for topic in group.partitions:
        loads = [Counter(map(len, numbers(each, topic))) for each in (near, plain)]
        assert loads[0] == loads[1]
