"""What coordinators decide of groups that go over is held against the specification; what is else is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.migration.rules import MigrationRules
from tidegauge.impl.server.trace import consumer_groups, groups
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.group_migration import MigrationRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation.group_campaign import simulate_group
from tidegauge.model_tests.harness.simulation.group_goals import WENT_BACK, WENT_OVER
from tidegauge.model_tests.harness.simulation.group_options import MIGRATES_EACH, draw_group
from tidegauge.model_tests.harness.validation.coordinated import ValidatedGroups, validate_group_coordinators
from tidegauge.model_tests.harness.validation.incarnations import with_values
from tidegauge.model_tests.lockstep.test_group_migration import (
    CountsOn,
    NeverGoesBack,
    TakesAFencedMemberForAnUnknownOne,
)
from tidegauge.model_tests.simulation.group_runs import run_of

MACHINE = "group-migration"
SEED = 48
"""Of a group that goes over and back, and of a coordinator that loads it while it is a classic one."""
Decided = groups.OfGroup | consumer_groups.OfConsumerGroup
Tampered = Callable[[Any], Any]


def trace() -> tuple[TraceEvent, ...]:
    return run_of(SEED).trace


def validated(events: tuple[TraceEvent, ...]) -> ValidatedGroups:
    return validate_group_coordinators(events, HARNESS.followers)


def place_of(kind: type[Decided], when: Callable[[Any], bool] = lambda one: True) -> int:
    """Where the last such decision is."""
    return max(at for at, event in enumerate(trace()) if isinstance(event.decision, kind) and when(event.decision))


def put(place: int, *decisions: Any) -> tuple[TraceEvent, ...]:
    """The trace with these decisions in the place of one."""
    new = (attrs.evolve(trace()[place], decision=decision) for decision in decisions)
    return (*trace()[:place], *new, *trace()[place + 1 :])


def after(decision: Any, **values: Any) -> Any:
    return with_values(decision, after=decision.after._replace(**values))


def with_first(decision: Any, **values: Any) -> Any:
    """The decision after which the first member is another one."""
    first, *others = decision.after.members
    return after(decision, members=(first._replace(**values), *others))


def test_every_decision_of_a_run_is_an_action_of_the_specification() -> None:
    assert not run_of(SEED).failures
    found = validated(trace())
    assert found.holds, found
    kinds = set(found.actions[MACHINE])
    assert kinds >= {
        "groups.Dissolve",
        "groups.GoOver",
        "groups.LoadGroup",
        "groups.ReceiveJoin",
        "consumer_groups.GoOver",
        "consumer_groups.ReceiveHeartbeat",
        "consumer_groups.ReceiveSync",
        "consumer_groups.ReceiveClassicHeartbeat",
        "consumer_groups.RefuseHeartbeat",
        "consumer_groups.ReceiveCommit",
        "consumer_groups.CommitRecord",
    }


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        (138, "a static member's next process brings an expression, and gets what it matches with the next target"),
        (159, "a heartbeat of who is gone comes to a classic group in which somebody has only a member id"),
    ],
)
def test_what_is_rare_is_the_specification_s(seed: int, what: str) -> None:
    run = simulate_group(draw_group(seed))
    assert not run.failures, f"{what}: {run.failures}"


def test_a_group_of_one_protocol_is_left_to_the_others() -> None:
    of_classic = tuple(one for one in trace() if not isinstance(one.decision, consumer_groups.OfConsumerGroup))
    first = next(at for at, one in enumerate(of_classic) if isinstance(one.decision, groups.GoOver | groups.Dissolve))
    found = validated(of_classic[:first])
    assert found.holds
    assert not found.actions[MACHINE]
    assert found.actions["classic-groups"]


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        (
            groups.GoOver,
            lambda one: after(one, generation=one.after.generation + 1),
            "the classic group is PREPARING, in generation",
        ),
        (groups.GoOver, lambda one: with_first(one, assignment=b""), "the classic group has the members"),
        (groups.GoOver, lambda one: with_values(one, written=(*one.written, *one.written)), "it writes"),
        (
            consumer_groups.ReceiveHeartbeat,
            lambda one: with_first(one, assigned=(), revoking=()),
            "member .* is Member",
        ),
        (consumer_groups.ReceiveHeartbeat, lambda one: after(one, epoch=one.after.epoch + 1), "its epoch is"),
        (
            consumer_groups.ReceiveClassicHeartbeat,
            lambda one: with_values(one, error=ErrorCode.illegal_generation),
            "the response is ILLEGAL_GENERATION, in the specification",
        ),
        (consumer_groups.ReceiveSync, lambda one: with_values(one, assigned=()), "is told that it has"),
        (
            consumer_groups.RefuseHeartbeat,
            lambda one: with_values(one, error=ErrorCode.fenced_instance_id),
            "the response is FENCED_INSTANCE_ID, in the specification UNKNOWN_MEMBER_ID",
        ),
        (groups.LoadGroup, lambda one: after(one, generation=one.after.generation + 1), "it loads"),
    ],
)
def test_a_value_that_was_tampered_with_is_found_where_it_is(
    kind: type[Decided], change: Tampered, reason: str
) -> None:
    def is_telling(one: Any) -> bool:
        if isinstance(one, consumer_groups.ReceiveSync):
            return bool(one.assigned)
        is_mixed = one.after is not None and any(getattr(member, "is_classic", True) for member in one.after.members)
        is_taken = getattr(one, "error", ErrorCode.none) is ErrorCode.none
        return isinstance(one, consumer_groups.RefuseHeartbeat) or (is_mixed and is_taken)

    place = place_of(kind, is_telling)
    found = validated(put(place, change(trace()[place].decision)))
    assert found.mismatch is not None
    assert found.mismatch.startswith(f"event {place} (")
    machine = "" if kind is groups.LoadGroup else MACHINE  # it is a classic group when it is loaded
    assert f"{machine}: " in found.mismatch
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.mismatch)


@pytest.mark.parametrize("kind", [consumer_groups.GoOver, groups.GoOver, groups.Dissolve])
def test_a_step_of_going_over_that_is_left_out_is_missed(kind: type[Decided]) -> None:
    place = place_of(kind)
    found = validated(put(place))
    assert found.mismatch is not None
    assert int(found.mismatch.split()[1]) >= place


# --- wrong coordinators ----------------------------------------------------------------------------------------------


class TellsNobodyToJoinAgain(MigrationRules):
    def must_rejoin(self, group: Any, member: Any) -> bool:
        return False


class TakesNothingOver(MigrationRules):
    """A classic member has nothing in the consumer group."""

    def upgraded(self, group: Any, before: Any, topics: Any) -> Any:
        made = super().upgraded(group, before, topics)
        members = {name: attrs.evolve(one, assigned={}, revoking={}) for name, one in made.members.items()}
        return attrs.evolve(made, members=members)


class GivesNothingBack(MigrationRules):
    """A member has nothing in the classic group."""

    def downgraded(self, group: Any, topics: Any, wall_ms: int) -> Any:
        made = super().downgraded(group, topics, wall_ms)
        return made._replace(members=tuple(one._replace(assignment=b"") for one in made.members))


WRONG: Mapping[type[MigrationRules], tuple[int, str]] = {
    NeverGoesBack: (SEED, "CommitRecord"),
    TellsNobodyToJoinAgain: (SEED, "ReceiveClassicHeartbeat"),
    CountsOn: (SEED, "GoOver"),
    TakesNothingOver: (SEED, "ReceiveHeartbeat"),
    GivesNothingBack: (SEED, "GoOver"),
    TakesAFencedMemberForAnUnknownOne: (54, "RefuseHeartbeat"),
}
"""What is wrong -> a seed that finds it, and the decision at which it does."""
QUICK = (NeverGoesBack,)


@pytest.mark.parametrize("rules", [pytest.param(one, marks=[pytest.mark.deep] * (one not in QUICK)) for one in WRONG])
def test_a_wrong_coordinator_is_found_at_its_first_wrong_decision(rules: type[MigrationRules]) -> None:
    seed, decision = WRONG[rules]
    mismatch = simulate_group(draw_group(seed), MigrationRoles(rules), until_wrong=True).coordinated.mismatch
    assert mismatch is not None
    assert f" {decision} " in mismatch.split("log_partition=", 1)[0]
    assert f"{MACHINE}: " in mismatch


# --- the campaign ----------------------------------------------------------------------------------------------------


def test_groups_of_every_third_seed_go_over_and_back() -> None:
    runs = [run_of(SEED), *(simulate_group(draw_group(MIGRATES_EACH * one)) for one in range(3, amount(3, deep=22)))]
    assert all(one.options.migrates for one in runs)
    for one in runs:
        assert not one.failures, one.failures
    for goal in (WENT_OVER, WENT_BACK):
        assert sum(one.sometimes[goal] for one in runs), f"{goal}: never"
        share = sum(bool(one.sometimes[goal]) for one in runs) / len(runs)
        assert share > 0.5, f"{goal}: in {share:.0%} of the runs"
    assert not draw_group(MIGRATES_EACH + 1).migrates
    assert not draw_group(MIGRATES_EACH, is_consumer=True).migrates
