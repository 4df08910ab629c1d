"""The brokers' assignors: each partition goes to one member that wants it, evenly, and nothing moves that need not."""

from __future__ import annotations

from random import Random

import pytest

from tidegauge.impl.coordinators.groups.consumer import assignors
from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember, Place, Topic, Topics
from tidegauge.model_tests.harness.cores.consumer_abstraction import GROUP, member_name
from tidegauge.model_tests.harness.cores.consumer_groups import TOPIC_IDS


def group_of(rng: Random, members: int, topics: int) -> tuple[ConsumerGroup, Topics]:
    known = {f"topic-{t}": Topic(TOPIC_IDS[t], rng.randint(0, 7)) for t in range(topics)}
    subscribed = [frozenset(rng.sample(sorted(known), rng.randint(1, topics))) for _ in range(members)]
    if rng.random() < 0.5:
        subscribed = [frozenset(known)] * members
    return ConsumerGroup(
        GROUP, members={member_name(n): ConsumerMember(member_name(n), topics=subscribed[n]) for n in range(members)}
    ), known


@pytest.mark.parametrize("name", assignors.ASSIGNORS)
def test_an_assignor_gives_each_partition_once_to_who_wants_it(name: str) -> None:
    rng = Random(name)
    for _ in range(300):
        group, topics = group_of(rng, rng.randint(1, 5), rng.randint(1, 3))
        target = assignors.ASSIGNORS[name](group, topics)
        given = [place for has in target.values() for place in has]
        wanted = {
            (topics[topic].topic_id, index)
            for member in group.members.values()
            for topic in member.topics
            for index in range(topics[topic].partitions)
        }
        assert len(given) == len(set(given))
        assert set(given) == wanted
        assert target.keys() == group.members.keys()
        ids = {topics[topic].topic_id: topic for topic in topics}
        assert all(ids[p[0]] in group.members[one].topics for one, has in target.items() for p in has)


def test_the_uniform_assignor_is_even_and_moves_no_more_than_it_has_to() -> None:
    rng = Random(1)
    for _ in range(200):
        members = rng.randint(2, 6)
        topics = {f"topic-{t}": Topic(TOPIC_IDS[t], rng.randint(0, 9)) for t in range(3)}
        every = {member_name(n): ConsumerMember(member_name(n), topics=frozenset(topics)) for n in range(members)}
        before = assignors.assign_uniform(ConsumerGroup(GROUP, members=every), topics)
        loads = [len(has) for has in before.values()]
        assert max(loads) - min(loads) <= 1
        again = assignors.assign_uniform(ConsumerGroup(GROUP, members=every, target=before), topics)
        assert again == before
        more = {**every, "new": ConsumerMember("new", topics=frozenset(topics))}
        after = assignors.assign_uniform(ConsumerGroup(GROUP, members=more, target=before), topics)
        assert max(map(len, after.values())) - min(map(len, after.values())) <= 1
        assert all(after[one] <= before[one] for one in every), "only the new one is given something"


A, B, C = TOPIC_IDS
TOPICS = {"a": Topic(A, 5), "b": Topic(B, 4)}


def places(topic_id: str, *indexes: int) -> frozenset[Place]:
    return frozenset((topic_id, index) for index in indexes)


def group(*members: tuple[str, str], **instances: str) -> ConsumerGroup:
    """Members by name, and the topics of each, a letter each; the instance ids of static ones."""
    return ConsumerGroup(
        GROUP,
        members={name: ConsumerMember(name, instances.get(name), topics=frozenset(topics)) for name, topics in members},
    )


def test_range_gives_neighbours_and_those_who_come_first_one_more() -> None:
    """In the order of instance ids, where there are any: it is the same after a restart."""
    three = group(("x", "ab"), ("y", "ab"), ("z", "ab"), z="a", x="b")
    assert assignors.assign_range(three, TOPICS) == {
        "z": places(A, 0, 1) | places(B, 0, 1),
        "x": places(A, 2, 3) | places(B, 2),
        "y": places(A, 4) | places(B, 3),
    }
    assert assignors.assign_range(group(("x", "a"), ("y", "ab")), TOPICS) == {
        "x": places(A, 0, 1, 2),
        "y": places(A, 3, 4) | places(B, 0, 1, 2, 3),
    }


def test_a_topic_that_is_not_there_is_not_given() -> None:
    for assign in assignors.ASSIGNORS.values():
        assert assign(group(("x", "ac"), ("y", "c")), {"a": Topic(A, 1)}) == {"x": places(A, 0), "y": frozenset()}
        assert assign(group(("x", "c"), ("y", "c")), {}) == {"x": frozenset(), "y": frozenset()}


def test_uniform_keeps_what_each_was_to_own_where_members_want_different_topics() -> None:
    one = group(("x", "a"), ("y", "ab"))
    before = assignors.assign_uniform(one, TOPICS)
    assert before == {"x": places(A, 0, 1, 2, 3, 4), "y": places(B, 0, 1, 2, 3)}
    had = {"x": places(A, 1, 3, 4), "y": places(A, 0, 2) | places(B, 0, 1), "gone": places(B, 2, 3)}
    again = ConsumerGroup(GROUP, members=one.members, target=had)
    assert assignors.assign_uniform(again, TOPICS) == {
        "x": places(A, 1, 3, 4) | places(A, 2),
        "y": places(A, 0) | places(B, 0, 1, 2, 3),
    }, "one partition moves, since y would have two more than x"


def had(**places_of: frozenset[Place]) -> dict[str, frozenset[Place]]:
    return places_of


@pytest.mark.parametrize(
    ("wants", "before", "after"),
    [
        pytest.param(
            {"x": "ab", "y": "ab", "z": "c"},
            had(x=places(A, 0, 1, 2) | places(B, 0, 1, 2), z=places(C, 0)),
            had(x=places(B, 0, 1, 2), y=places(A, 0, 1, 2), z=places(C, 0)),
            id="of one topic as long as that is uneven",
        ),
        pytest.param(
            {"x": "ab", "y": "a"},
            had(x=places(A, 0) | places(B, 0, 1, 2, 3)),
            had(x=places(B, 0, 1, 2, 3), y=places(A, 0)),
            id="no more than there is of a topic",
        ),
        pytest.param(
            {"x": "a", "y": "ab", "z": "b"},
            had(x=places(A, 0, 1, 2, 3, 4, 5), y=places(B, 0, 1)),
            had(x=places(A, 0, 1, 2), y=places(A, 3, 4, 5), z=places(B, 0, 1)),
            id="to who has given something itself",
        ),
    ],
)
def test_uniform_moves_single_partitions_until_nobody_has_two_more_than_one_who_wants_them(
    wants: dict[str, str], before: dict[str, frozenset[Place]], after: dict[str, frozenset[Place]]
) -> None:
    every = frozenset[Place]().union(*before.values())
    topics = {
        name: Topic(one, sum(place[0] == one for place in every)) for name, one in zip("abc", TOPIC_IDS, strict=True)
    }
    one = ConsumerGroup(GROUP, members=group(*wants.items()).members, target=before)
    assert assignors.assign_uniform(one, topics) == after


def test_uniform_takes_from_who_wants_a_topic_no_more_and_of_what_there_is_no_more() -> None:
    members = {"x": ConsumerMember("x", topics=frozenset("a")), "y": ConsumerMember("y", topics=frozenset("ab"))}
    had = {"x": places(A, 0, 1) | places(B, 0), "y": places(A, 7) | places(B, 1, 2, 3)}
    target = assignors.assign_uniform(ConsumerGroup(GROUP, members=members, target=had), TOPICS)
    assert target == {"x": places(A, 0, 1, 2, 3, 4), "y": places(B, 0, 1, 2, 3)}
    same = {name: ConsumerMember(name, topics=frozenset("a")) for name in "xy"}
    had = {"x": places(A, 0, 1, 9), "gone": places(A, 2)}
    target = assignors.assign_uniform(ConsumerGroup(GROUP, members=same, target=had), TOPICS)
    assert target == {"x": places(A, 0, 1, 2), "y": places(A, 3, 4)}


@pytest.mark.parametrize(
    ("named", "chosen"),
    [((None, None), "uniform"), (("range", None), "range"), (("range", "uniform"), "uniform"), (("x", "x"), "uniform")],
)
def test_the_assignor_is_the_one_that_most_members_name_of_those_that_the_brokers_have(
    named: tuple[str | None, ...], chosen: str
) -> None:
    members = {str(n): ConsumerMember(str(n), assignor=one) for n, one in enumerate(named)}
    assert ConsumerRules().assignor(ConsumerGroup(GROUP, members=members), ("uniform", "range")) == chosen
