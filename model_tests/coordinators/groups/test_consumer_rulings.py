"""What a coordinator of consumer groups makes of a heartbeat that says nothing new, and of topics of two versions."""

from __future__ import annotations

from typing import Final

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer.coordinator import Committing, ConsumerGroups, ConsumerWrite, Decided
from tidegauge.impl.coordinators.groups.consumer.rules import PAUSE_MS, ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember, Resolved, Topic
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.model_tests.coordinators.groups.test_consumer_groups import (
    BY_EXPRESSION,
    GROUP,
    ID,
    KNOWN,
    SESSION_MS,
    asked,
    beat,
    joined,
    resolved,
)

RULES: Final = ConsumerRules()
LATER: Final = attrs.evolve(KNOWN, topics={"orders": Topic(ID, 3)}, version=2)


def test_a_heartbeat_that_says_nothing_new_leaves_the_group_as_it_is_and_waits_for_no_record() -> None:
    core = joined("a")
    before = core.groups[GROUP]
    made = core.heartbeat(asked("a", 2), KNOWN, SESSION_MS, 0)
    assert isinstance(made, ConsumerWrite)
    assert made.before is made.after is core.groups[GROUP] is before
    assert core.is_committed(made)


def test_who_joins_in_a_static_members_place_has_what_that_had_though_it_was_a_member_itself() -> None:
    away = ConsumerMember("s", "i", epoch=-2, assigned={(ID, 0): 3})
    group = ConsumerGroup(GROUP, members={"s": away, "d": ConsumerMember("d", epoch=3)})
    after = RULES.joined(group, asked("d", instance_id="i"))
    assert {name: (one.instance_id, one.assigned) for name, one in after.members.items()} == {"d": ("i", {(ID, 0): 3})}


@pytest.mark.parametrize(("passed_ms", "is_needed"), [(PAUSE_MS, False), (PAUSE_MS + 1, True)])
def test_the_pause_between_resolutions_counts_from_the_last_one(passed_ms: int, is_needed: bool) -> None:
    members = {one: ConsumerMember(one, expression=one) for one in "xyz"}
    times = {"x": Resolved(frozenset(), 1, 5), "y": Resolved(frozenset(), 1, 7_000)}
    known = attrs.evolve(KNOWN, time_ms=7_000 + passed_ms)
    group = ConsumerGroup(GROUP, members=members, resolved=times)
    assert RULES.needs_resolution(group, known, 1_000_000, is_resolving=False) is is_needed


def test_a_group_knows_no_more_of_topics_that_only_a_member_wanted_that_is_gone() -> None:
    known = attrs.evolve(KNOWN, topics={**KNOWN.topics, "others": Topic(ID[:-1] + "2", 1)})
    core = ConsumerGroups()
    for request in (asked("a"), asked("b", topics=("others",)), asked("b", -1), asked("a", 2)):
        core.heartbeat(request, known, SESSION_MS, 0)
    assert core.groups[GROUP].metadata_hash == joined("a").groups[GROUP].metadata_hash


def test_topics_that_a_heartbeat_knew_while_expressions_were_resolved_are_looked_at_again() -> None:
    """The epoch that begins with what they match is of the topics of before."""
    core = ConsumerGroups()
    begun = core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0)
    core.heartbeat(asked("b", topics=()), LATER, SESSION_MS, 0)
    assert resolved(core, KNOWN, begun) is not None
    assert core.has_looked(GROUP, KNOWN.version)
    core.heartbeat(asked("b", 1, topics=()), LATER, SESSION_MS, 0)
    assert core.groups[GROUP].metadata_hash == RULES.metadata_hash(core.groups[GROUP], LATER)


def test_who_follows_a_coordinator_is_told_of_commits_too() -> None:
    core = joined("a")
    told: list[Decided] = []
    core.watching = lambda group, decided: told.append(decided)
    commit = Commit(GROUP, (), 9, "a")
    core.commit_errors(core.groups[GROUP], commit)
    assert told == [Committing(commit, ErrorCode.stale_member_epoch, {})]


def test_who_is_unknown_is_told_so_in_a_full_group_too() -> None:
    core = joined("a")
    core.limits = attrs.evolve(core.limits, max_size=1)
    assert beat(core, asked("x", 2)).error is ErrorCode.unknown_member_id
    assert beat(core, asked("x")).error is ErrorCode.group_max_size_reached
