"""Assignors: covering, disjoint, to those who want it; even; and the sticky ones move nothing that need not move."""

from __future__ import annotations

from collections import Counter
from itertools import product

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.impl.client.assignors.claims import claims
from tidegauge.impl.client.assignors.known import ASSIGNORS, assignors_of
from tidegauge.impl.client.assignors.range import RangeAssignor
from tidegauge.impl.client.assignors.round_robin import RoundRobinAssignor
from tidegauge.impl.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from tidegauge.impl.client.assignors.subscription import Assignment, Assignor, Members, Partition, Subscription
from tidegauge.model_tests.client.assignors.groups_of_members import Group, groups, owning

FULL = [one for one in ASSIGNORS.values() if not one.is_cooperative]
"""Those that give everything at once."""
few = settings(max_examples=20)
STICKY, COOPERATIVE = StickyAssignor(), CooperativeStickyAssignor()


def owners(given_to: Assignment) -> dict[Partition, str]:
    """Who has each partition; nobody else may have it too."""
    found = {partition: member_id for member_id, each in given_to.items() for partition in each}
    assert len(found) == sum(map(len, given_to.values())), "a partition is given twice"
    return found


def loads(given_to: Assignment) -> list[int]:
    return sorted(map(len, given_to.values()))


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions are another one's now."""
    was, is_now = owners(before), owners(after)
    return sum(is_now[partition] != member_id for partition, member_id in was.items() if partition in is_now)


@pytest.mark.parametrize("assignor", FULL, ids=lambda one: one.name)
@few
@given(group=groups())
def test_each_partition_is_given_once_and_to_somebody_who_wants_it(assignor: Assignor, group: Group) -> None:
    given_to = assignor.assign(group.partitions, group.members)
    assert list(given_to) == list(group.members) or set(given_to) == set(group.members)
    found = owners(given_to)
    assert set(found) == group.wanted
    assert all(topic in group.members[member_id].topics for (topic, _), member_id in found.items())


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=lambda one: one.name)
@few
@given(group=groups(), order=st.randoms())
def test_the_order_of_the_members_is_nothing_to_an_assignor(
    assignor: Assignor,
    group: Group,
    order: st.random.Random,  # type: ignore[name-defined]
) -> None:
    shuffled = list(group.members.items())
    order.shuffle(shuffled)
    assert assignor.assign(group.partitions, dict(shuffled)) == assignor.assign(group.partitions, group.members)


@few
@given(group=groups())
def test_range_gives_runs_of_each_topic_that_differ_by_one(group: Group) -> None:
    given_to = RangeAssignor().assign(group.partitions, group.members)
    for topic, number in group.partitions.items():
        runs = [
            [partition for name, partition in given_to[member_id] if name == topic]
            for member_id, one in group.members.items()
            if topic in one.topics
        ]
        assert all(run == list(range(run[0], run[0] + len(run))) for run in runs if run)
        if runs:
            assert max(map(len, runs)) - min(map(len, runs)) <= 1
            assert sum(map(len, runs)) == number


@few
@given(group=groups(alike=True))
def test_round_robin_differs_by_one_where_all_want_the_same(group: Group) -> None:
    found = loads(RoundRobinAssignor().assign(group.partitions, group.members))
    assert found[-1] - found[0] <= 1


def evenest(group: Group) -> list[int]:
    """The loads that are as even as they can be, by trying all assignments."""
    wanted = sorted(group.wanted)
    choices = [[name for name, one in group.members.items() if topic in one.topics] for topic, _ in wanted]
    found = (Counter(choice) for choice in product(*choices))
    every = ([count[name] for name in group.members] for count in found)
    return min((sorted(load) for load in every), key=lambda load: sum(one * one for one in load))


@few
@given(group=groups(most=3).filter(lambda group: len(group.wanted) <= 6))
def test_sticky_is_as_even_as_the_subscriptions_allow(group: Group) -> None:
    assert loads(STICKY.assign(group.partitions, group.members)) == evenest(group)


@few
@given(group=groups())
def test_what_is_even_stays_where_it_is(group: Group) -> None:
    first = STICKY.assign(group.partitions, group.members)
    assert STICKY.assign(group.partitions, owning(group.members, first)) == first
    assert COOPERATIVE.assign(group.partitions, owning(group.members, first)) == first


@few
@given(group=groups(alike=True), data=st.data())
def test_only_what_a_member_had_moves_when_it_leaves(group: Group, data: st.DataObject) -> None:
    first = STICKY.assign(group.partitions, group.members)
    gone = data.draw(st.sampled_from(sorted(group.members)))
    left = {name: one for name, one in owning(group.members, first).items() if name != gone}
    if left:
        second = STICKY.assign(group.partitions, left)
        assert moved({name: first[name] for name in left}, second) == 0
        assert loads(second)[-1] - loads(second)[0] <= 1


@few
@given(group=groups(alike=True))
def test_only_what_a_new_member_gets_moves_when_it_joins(group: Group) -> None:
    first = STICKY.assign(group.partitions, group.members)
    topics = next(iter(group.members.values())).topics
    second = STICKY.assign(group.partitions, {**owning(group.members, first), "new": Subscription(topics)})
    assert moved(first, second) == len(second["new"])
    assert loads(second)[-1] - loads(second)[0] <= 1


@few
@given(group=groups(), data=st.data())
def test_cooperative_members_give_back_before_another_one_has_it(group: Group, data: st.DataObject) -> None:
    """From any assignment, each generation gives nobody what another one has; in the end all is given, and evenly."""
    members: Members = owning(group.members, COOPERATIVE.assign(group.partitions, owning(group.members, {})))
    for name in data.draw(st.sets(st.sampled_from(sorted(members)))):
        members = {**members, f"new-{name}": Subscription(members[name].topics)}
    for generation in range(2, 4):
        had = claims(members)
        given_to = COOPERATIVE.assign(group.partitions, members)
        assert all(had.get(partition, name) == name for partition, name in owners(given_to).items())
        members = owning(members, given_to, generation)
    assert set(owners(given_to)) == group.wanted
    assert loads(given_to) == loads(STICKY.assign(group.partitions, members))


def test_a_claim_of_an_earlier_generation_and_one_that_two_members_have_count_for_nothing() -> None:
    two, three = ("t", 2), ("t", 3)
    members = {
        "late": Subscription(("t",), (("t", 0), ("t", 1)), 4),
        "m": Subscription(("t",), (("t", 0), two, three), 5),
        "n": Subscription(("t",), (("t", 1), two), 5),
    }
    assert claims(members) == {("t", 0): "m", three: "m", ("t", 1): "n"}


def test_a_partition_moves_along_members_who_are_not_both_ends() -> None:
    """`x` can give nothing to `z`, but to `y`, which can."""
    members = {
        "x": Subscription(("a",), (("a", 0), ("a", 1)), 1),
        "y": Subscription(("a", "b"), (("b", 0),), 1),
        "z": Subscription(("b",), (), 1),
    }
    given_to = STICKY.assign({"a": 2, "b": 1}, members)
    assert given_to == {"x": (("a", 0),), "y": (("a", 1),), "z": (("b", 0),)}


def test_what_nobody_had_before_moves_first() -> None:
    members = {
        "x": Subscription(("a",), (("a", 1),), 1),
        "y": Subscription(("a", "c"), (("c", 0), ("c", 1)), 1),
        "z1": Subscription(("c",)),
        "z2": Subscription(("c",)),
    }
    given_to = STICKY.assign({"a": 2, "c": 2}, members)
    assert (given_to["x"], given_to["y"]) == ((("a", 1),), (("a", 0),))


def test_static_members_are_served_in_the_order_of_their_names_whatever_their_ids_are() -> None:
    first, second = (attrs.evolve(Subscription(("t",)), instance_id=name) for name in ("a", "b"))
    given_to = RangeAssignor().assign({"t": 3}, {"z": first, "y": second, "x": Subscription(("t",))})
    assert given_to == {"z": (("t", 0),), "y": (("t", 1),), "x": (("t", 2),)}


def test_assignors_are_named_by_kafkas_names_and_of_one_kind() -> None:
    assert [one.name for one in assignors_of(["range", STICKY])] == ["range", "sticky"]
    with pytest.raises(ValueError, match="there is no assignor 'fair': name one of range, roundrobin, sticky"):
        assignors_of(["fair"])
    with pytest.raises(ValueError, match="range, cooperative-sticky are eager and cooperative"):
        assignors_of(["range", "cooperative-sticky"])
    with pytest.raises(ValueError, match="no assignor is named"):
        assignors_of([])
