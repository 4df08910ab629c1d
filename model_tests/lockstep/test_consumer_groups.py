"""The core of consumer groups (KIP-848) goes beside its specification, walk by walk, refusals and failovers included.

The bugs of the zoo are in `zoo/test_consumer_zoo.py`.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer import assignors
from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember, Topic, Topics
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.consumer_abstraction import GROUP, ConsumerRoles, member_name
from tidegauge.model_tests.harness.cores.consumer_groups import TOPIC_IDS
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine
from tidegauge.spec.kernel.machine import Action

SEED = 4
"""The first whose walks take every action and refusal; nineteen of them do."""
WALKS = amount(20, deep=24)
REGISTERED = HARNESS["consumer-groups"]
REFUSED = {
    ("ReceiveHeartbeat", "UNKNOWN_MEMBER_ID"),
    ("ReceiveHeartbeat", "FENCED_INSTANCE_ID"),
    ("ReceiveHeartbeat", "FENCED_MEMBER_EPOCH"),
    ("ReceiveHeartbeat", "UNRELEASED_INSTANCE_ID"),
    ("ReceiveHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("ReceiveCommit", "UNKNOWN_MEMBER_ID"),
    ("ReceiveCommit", "STALE_MEMBER_EPOCH"),
    ("ReceiveLeave", "UNKNOWN_MEMBER_ID"),
    ("ReceiveLeave", "FENCED_INSTANCE_ID"),
    ("ReceiveLeave", "COORDINATOR_LOAD_IN_PROGRESS"),
}


def test_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in REGISTERED.walks(SEED, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken == set(Machine.action_types)
    assert set(refused) >= REFUSED


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in REGISTERED.walks(100, 500, length=150):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


# --- the core with a rule that is wrong ------------------------------------------------------------------------------


class AcceptsAnyEpoch(ConsumerRules):
    def epoch_error(self, member: Any, request: Any) -> ErrorCode:
        return ErrorCode.none


class CommitsOfTheEpochOnly(ConsumerRules):
    """Before KIP-1251."""

    def place_error(self, group: Any, commit: Any, place: Any) -> ErrorCode:
        member = group.members.get(commit.member_id)
        is_behind = member is not None and commit.generation != member.epoch
        return ErrorCode.stale_member_epoch if is_behind else ErrorCode.none


class StaysWhereItWas(ConsumerRules):
    def epoch_after_revoking(self, member: Any) -> int:
        return int(member.epoch)


class ForgivesWhatIsOwned(ConsumerRules):
    def is_behind(self, member: Any, request: Any) -> bool:
        return bool(request.epoch == member.previous_epoch < member.epoch)


class ResolvesOnce(ConsumerRules):
    def resolved(self, group: Any, known: Any, *, again: bool) -> Any:
        return super().resolved(group, known, again=False)


MUTANTS = (AcceptsAnyEpoch, CommitsOfTheEpochOnly, StaysWhereItWas, ForgivesWhatIsOwned, ResolvesOnce)
SLOW = (StaysWhereItWas, CommitsOfTheEpochOnly, ForgivesWhatIsOwned)
"""Found on many walks only."""
FIRST = 19
"""The first walk that shows the last of them: the search begins there."""


@pytest.mark.parametrize("mutant", [pytest.param(one, marks=[pytest.mark.deep] * (one in SLOW)) for one in MUTANTS])
def test_walks_find_a_rule_that_is_wrong(mutant: type[ConsumerRules]) -> None:
    first = FIRST if mutant is ResolvesOnce else 0
    found = REGISTERED.first_failure(SEED, 2_000, first=first, roles=ConsumerRoles(mutant))
    assert found is not None, "no walk has found it"


# --- assignors -------------------------------------------------------------------------------------------------------


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
