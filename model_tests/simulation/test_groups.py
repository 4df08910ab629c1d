"""Campaigns with members of a group: what they saw is valid, they come together, and a wrong coordinator is found."""

from __future__ import annotations

from collections import Counter

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.impl.server.trace import consumer_groups, groups
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import OF_GROUPS, Kind
from tidegauge.model_tests.bugs.groups import GROUP_BUGS
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles
from tidegauge.model_tests.harness.simulation import consumer_group_members
from tidegauge.model_tests.harness.simulation.group_campaign import SimulatedGroup, simulate_group
from tidegauge.model_tests.harness.simulation.group_goals import GOALS
from tidegauge.model_tests.harness.simulation.group_options import draw_group
from tidegauge.model_tests.lockstep.test_consumer_group_members import WaitsForAGroupThatIsGone
from tidegauge.model_tests.simulation.group_runs import run_of

COOPERATIVE, STATIC, CONSUMERS = 8, 10, 7
"""Seeds."""
MANY = 60
WITHIN = 3


def holds(seed: int, run: SimulatedGroup | None = None) -> SimulatedGroup:
    run = run or simulate_group(draw_group(seed))
    assert not run.failures, f"seed {seed}: {run.failures}"
    return run


def test_members_of_either_protocol_come_together_and_a_run_is_repeated_to_the_row() -> None:
    run, again, other = holds(COOPERATIVE, run_of(COOPERATIVE)), holds(COOPERATIVE), holds(STATIC)
    assert run.options.is_cooperative
    assert other.options.static
    for one in (run, other):
        assert check(one.operations).coverage.complete.all(), "nothing is left open"
        kinds = {Kind.PRODUCE, Kind.FETCH, Kind.SETTLED, Kind.COMMIT_OFFSETS, *OF_GROUPS} - {Kind.AT_MOST_ONCE}
        assert set(one.operations.kind.tolist()) == kinds, "every kind of row was recorded"
    assert list(run.operations) == list(again.operations)


def test_members_of_kip_848_come_together_and_a_run_is_repeated_to_the_decision() -> None:
    run, again = holds(CONSUMERS), holds(CONSUMERS)
    assert run.options.is_consumer
    kinds = {Kind.PRODUCE, Kind.FETCH, Kind.SETTLED, Kind.COMMIT_OFFSETS, Kind.ASSIGN, Kind.RELEASE}
    assert {*kinds, Kind.READ_OFFSETS, Kind.DELIVER} == set(run.operations.kind.tolist())
    assert list(run.operations) == list(again.operations)
    assert run.trace == again.trace


@pytest.mark.deep
def test_many_runs_hold_and_see_all_that_a_campaign_is_to_see() -> None:
    seen = sum((Counter(holds(seed).sometimes) for seed in range(MANY)), Counter[str]())
    assert set(seen) == set(GOALS), f"{set(GOALS) - set(seen)} were never seen"


RARE: dict[int, tuple[str, ...]] = {
    15: ("consumer-groups: FailRecord", "group-migration: RefuseJoin", "offsets: FailAppend"),
    46: ("classic-groups: FailRecord", "classic-groups: ExpireSync"),
}
"""Seeds that have room for what is rare -> what they see of it."""


@pytest.mark.parametrize("seed", RARE)
def test_what_is_rare_is_seen_where_the_log_of_groups_has_no_followers_now_and_then(seed: int) -> None:
    run = holds(seed)
    assert run.options.fences
    assert all(run.sometimes[goal] for goal in RARE[seed])


def test_a_part_of_all_seeds_has_room_for_what_is_rare() -> None:
    drawn = [draw_group(seed) for seed in range(300)]
    for of_one_kind in (
        [one for one in drawn if one.migrates],
        [one for one in drawn if one.is_consumer and not one.migrates],
        [one for one in drawn if not one.is_consumer],
    ):
        assert sum(one.fences for one in of_one_kind) > 0.2 * len(of_one_kind)
    assert not any(draw_group(seed, exactly_once=True).fences for seed in range(300))


def test_a_consumer_group_that_refuses_who_speaks_the_classic_protocol_has_to_do_with_both() -> None:
    """In this seed the first classic member that asks is refused."""
    run = holds(21)
    kinds = [type(one.decision) for one in run.trace]
    first = kinds.index(consumer_groups.RefuseJoin)
    assert not {groups.ReceiveJoin, consumer_groups.ReceiveSync} & set(kinds[:first])


class TakesAnyCommit(ClassicRules):
    """Fences nobody's commit."""

    def commit_error(self, group: ClassicGroup, commit: Commit) -> ErrorCode:
        return ErrorCode.none


def test_a_coordinator_that_fences_no_commit_is_found_by_what_members_saw() -> None:
    roles = GroupRoles(rules=TakesAnyCommit)
    runs = (simulate_group(draw_group(seed, is_consumer=False), roles) for seed in range(1, 1 + WITHIN))
    found = next(run for run in runs if run.failures)
    assert {one.name for one in found.anomalies} & {Name.COMMIT_OF_FORMER_GENERATION, Name.TWO_COMMITTERS}


def test_members_whose_group_went_while_they_were_away_come_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sessions end before anybody has committed, and nothing keeps the group."""
    options = draw_group(173)
    holds(173, simulate_group(options))
    monkeypatch.setattr(consumer_group_members, "ConsumerMembership", WaitsForAGroupThatIsGone)
    (problem,) = simulate_group(options).failures
    assert problem == "not 30 s after healing: no coordinator knows the group"


@pytest.mark.parametrize(("bug", "seed"), [("kafka_8715", 10), ("kafka_5600", 11)])
def test_a_bug_of_the_coordinator_is_found_by_a_group_that_does_not_last_or_by_what_its_members_saw(
    bug: str, seed: int
) -> None:
    assert simulate_group(draw_group(seed, is_consumer=False), GROUP_BUGS[bug].roles).failures
