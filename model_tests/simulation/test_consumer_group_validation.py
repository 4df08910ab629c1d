"""What coordinators of consumer groups (KIP-848) decide is held against the specification; what is else is found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups, ConsumerWrite, Landed
from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import (
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    Place,
    Topics,
)
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.impl.server.broker.consumer_members import ConsumerMembers
from tidegauge.impl.server.trace import consumer_groups
from tidegauge.impl.server.trace.groups import Resign
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles
from tidegauge.model_tests.harness.cores.group_loading import LoadingRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation.group_campaign import simulate_group
from tidegauge.model_tests.harness.simulation.group_goals import DECISIONS
from tidegauge.model_tests.harness.simulation.group_options import draw_group
from tidegauge.model_tests.harness.simulation.group_roles import CORRECT, CoordinatorRoles
from tidegauge.model_tests.harness.validation.coordinated import ValidatedGroups, validate_group_coordinators
from tidegauge.model_tests.harness.validation.incarnations import with_values
from tidegauge.model_tests.harness.verification.campaigning import draw_group_with
from tidegauge.model_tests.simulation.group_runs import run_of

MACHINE = "consumer-groups"
SEED = 13
"""Of coordinators that fail over five times, and of expressions that are resolved."""
OF_EVERY_KIND = (59, 17)
"""In the first is all but a rebalance that takes too long, which is in the second."""
SPACED = 7
"""There is a least time between two targets."""
WANDERING = 31
"""Of a group whose members want other topics for a while, and whose next target waits."""
DELETED = 27
"""A coordinator fails with the tombstones of a group in its log, and nobody knows that they are committed."""
WANTED_AGAIN = 97
"""A member unsubscribes from a topic, gives it back, and wants it again before the next target."""
TOLD_LATE = 235
"""A coordinator resigns between what is committed and the response that says so."""
UNWRITTEN = 51
"""A session ends while no record can be written."""
Decided = consumer_groups.OfConsumerGroup
Tampered = Callable[[Any], Decided | None]


def trace() -> tuple[TraceEvent, ...]:
    return run_of(SEED).trace


def validated(events: tuple[TraceEvent, ...]) -> ValidatedGroups:
    return validate_group_coordinators(events, HARNESS.followers)


def places(kind: type[Decided], when: Callable[[Any], bool] = lambda one: True) -> list[int]:
    """Where such decisions are."""
    return [at for at, event in enumerate(trace()) if isinstance(event.decision, kind) and when(event.decision)]


def put(place: int, *decisions: Decided) -> tuple[TraceEvent, ...]:
    """The trace with these decisions in the place of one."""
    new = (attrs.evolve(trace()[place], decision=decision) for decision in decisions)
    return (*trace()[:place], *new, *trace()[place + 1 :])


def after(decision: Decided, **values: Any) -> Any:
    assert decision.after is not None
    return with_values(decision, after=decision.after._replace(**values))


def with_first(decision: Decided, **values: Any) -> Any:
    """The decision after which the first member is another one."""
    assert decision.after is not None
    first, *others = decision.after.members
    return after(decision, members=(first._replace(**values), *others))


def test_every_decision_of_a_run_is_an_action_of_the_specification() -> None:
    found = validated(trace())
    assert found.holds, found
    assert found.actions[MACHINE].total() > 500


def test_every_kind_of_decision_is_in_runs_that_hold() -> None:
    runs = [validated(run_of(seed).trace) for seed in OF_EVERY_KIND]
    assert all(found.holds for found in runs), runs
    kinds = {kind.__name__ for kind in DECISIONS[MACHINE]}
    assert not kinds - {kind for found in runs for kind in found.actions[MACHINE]}


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        (consumer_groups.ReceiveHeartbeat, lambda one: after(one, epoch=one.after.epoch + 1), "its epoch is"),
        (consumer_groups.ReceiveHeartbeat, lambda one: after(one, members=()), "member .* is none"),
        (consumer_groups.ReceiveHeartbeat, lambda one: with_first(one, previous_epoch=77), "member .* is Member"),
        (consumer_groups.ReceiveHeartbeat, lambda one: with_first(one, is_waiting=True), "member .* is Member"),
        (consumer_groups.ReceiveHeartbeat, lambda one: with_first(one, has_session=False), "has no end"),
        (consumer_groups.ReceiveHeartbeat, lambda one: after(one, metadata_hash=7), "the hash of its topics"),
        (consumer_groups.ReceiveHeartbeat, lambda one: with_values(one, epoch=one.epoch + 1), "the response is"),
        (
            consumer_groups.ReceiveHeartbeat,
            lambda one: with_values(one, error=ErrorCode.fenced_member_epoch),
            "the response is FENCED_MEMBER_EPOCH, in the specification NONE",
        ),
        (consumer_groups.ReceiveHeartbeat, lambda one: after(one, target_ms=77), "its target was made at 77"),
        (consumer_groups.LoadGroup, lambda one: after(one, target_ms=77), "its target was made at 77"),
        (consumer_groups.ExpireSession, lambda one: after(one, target_epoch=one.after.target_epoch + 1), "its target"),
        (consumer_groups.LoadGroup, lambda one: after(one, epoch=one.after.epoch + 1), "it loads"),
        (consumer_groups.LoadGroup, lambda one: after(one, members=one.after.members[1:]), "it loads"),
        (
            consumer_groups.ReceiveCommit,
            lambda one: with_values(one, error=ErrorCode.unknown_member_id),
            "the response is UNKNOWN_MEMBER_ID, in the specification NONE",
        ),
        (
            consumer_groups.EndResolution,
            lambda one: with_values(one, expressions=(*one.expressions, "x")),
            "are resolved, and begun were",
        ),
        (consumer_groups.EndResolution, lambda one: after(one, epoch=one.after.epoch + 1), "its epoch is"),
        (consumer_groups.EndResolution, lambda one: with_values(one, matches=()), "its resolved is"),
        (
            consumer_groups.CommitRecord,
            lambda one: with_values(one, written=one.written._replace(epoch=one.written.epoch + 1)),
            "what is committed is not the first that was written",
        ),
    ],
)
def test_a_value_that_was_tampered_with_is_found_where_it_is(
    kind: type[Decided], change: Tampered, reason: str
) -> None:
    def is_plain(one: Any) -> bool:
        is_refused = getattr(one, "error", ErrorCode.none) is not ErrorCode.none
        return one.after is not None and bool(one.after.members) and not is_refused

    place = places(kind, is_plain)[-1]
    decision = trace()[place].decision
    assert isinstance(decision, kind)
    changed = change(decision)
    assert changed is not None
    found = validated(put(place, changed))
    assert found.mismatch is not None
    assert found.mismatch.startswith(f"event {place} (")
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.mismatch)


@pytest.mark.parametrize("kind", [consumer_groups.ExpireSession, consumer_groups.CommitRecord])
def test_a_decision_that_is_left_out_or_doubled_is_missed(kind: type[Decided]) -> None:
    place = places(kind)[0]
    decision = trace()[place].decision
    assert isinstance(decision, kind)
    for events in (put(place), put(place, decision, decision)):
        found = validated(events)
        assert found.mismatch is not None
        assert int(found.mismatch.split()[1]) >= place


def test_what_is_begun_twice_or_never_is_found() -> None:
    (place, *_) = places(consumer_groups.ReceiveHeartbeat, lambda one: one.resolves is not None)
    begun, later = trace()[place].decision, places(consumer_groups.ReceiveHeartbeat)
    assert isinstance(begun, consumer_groups.ReceiveHeartbeat)
    never = validated(put(place, with_values(begun, resolves=None)))
    assert "nothing is resolved, nor begun" in str(never.mismatch)
    second = next(at for at in later if at > place)
    again = trace()[second].decision
    assert isinstance(again, consumer_groups.ReceiveHeartbeat)
    twice = validated(put(second, with_values(again, resolves=("x",))))
    assert "are begun" in str(twice.mismatch)
    others = validated(put(place, with_values(begun, resolves=("x",))))
    assert "these are not the group's expressions" in str(others.mismatch)


def test_a_joining_member_that_is_left_out_is_missed() -> None:
    (place, *_) = places(consumer_groups.ReceiveHeartbeat, lambda one: one.request.epoch == 0 and one.is_written)
    assert not validated(put(place)).holds


# --- wrong coordinators ----------------------------------------------------------------------------------------------


class TakesAnyCommit(ConsumerRules):
    """Fences nobody's commit."""

    def commit_error(self, group: ConsumerGroup, commit: Commit) -> ErrorCode:
        return ErrorCode.none

    def place_error(self, group: ConsumerGroup, commit: Commit, place: Place) -> ErrorCode:
        return ErrorCode.none


class RefusesFormerEpochs(ConsumerRules):
    """A commit counts in the member's epoch alone, as before KIP-1251."""

    def place_error(self, group: ConsumerGroup, commit: Commit, place: Place) -> ErrorCode:
        member = group.members.get(commit.member_id)
        is_of_now = member is None or commit.generation == member.epoch
        return ErrorCode.none if is_of_now else ErrorCode.stale_member_epoch


class GivesAgain(ConsumerRules):
    """Gives at once what a member wants again, though the target that gave it is of a former epoch."""

    def reconciled(
        self, group: ConsumerGroup, member: ConsumerMember, owned: Collection[Place] | None, topics: Topics
    ) -> ConsumerMember:
        if member.revoking or member.epoch != group.target_epoch or group.epoch == group.target_epoch:
            return super().reconciled(group, member, owned, topics)
        return self.next_assignment(group, member, member.epoch, owned, topics)


class TakesAnyEpoch(ConsumerRules):
    """A heartbeat that comes again counts, though its epoch is over."""

    def epoch_error(self, member: ConsumerMember, request: ConsumerHeartbeat) -> ErrorCode:
        return ErrorCode.none


class BelievesWhoIsBehind(ConsumerRules):
    """Who is behind by an epoch may own what is another's by now."""

    def is_behind(self, member: ConsumerMember, request: ConsumerHeartbeat) -> bool:
        return request.epoch == member.previous_epoch < member.epoch


class ReplacesWhoGoesOn(ConsumerRules):
    """The next process of a static member takes over, though the former one has not left."""

    def joining_error(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> ErrorCode:
        return ErrorCode.none


class TellsChangesOnly(ConsumerRules):
    """A member that cannot know what it is to own is not told again."""

    def tells_assignment(
        self, before: ConsumerMember | None, after: ConsumerMember, request: ConsumerHeartbeat
    ) -> bool:
        return before is None or before.assigned.keys() != after.assigned.keys()


class RemovesInTheSameEpoch(ConsumerRules):
    """Who goes leaves the group in its epoch."""

    def removed(self, group: ConsumerGroup, member_id: str) -> ConsumerGroup:
        return attrs.evolve(super().removed(group, member_id), epoch=group.epoch)


class KeepsWhatItWantsNoMore(ConsumerRules):
    """What a member has unsubscribed from it keeps until the next target."""

    def unwanted(self, group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> set[Place]:
        return set()


class MakesATargetAtOnce(ConsumerRules):
    """A target does not wait for the interval since the last one."""

    def needs_target(self, group: ConsumerGroup, now_ms: int, interval_ms: int) -> bool:
        return super().needs_target(group, now_ms, 0)


class WaitsTwice(ConsumerRules):
    """A target waits for twice the interval."""

    def needs_target(self, group: ConsumerGroup, now_ms: int, interval_ms: int) -> bool:
        return super().needs_target(group, now_ms, 2 * interval_ms)


class ForgetsWhenItWasMade(ConsumerRules):
    """No target has a time."""

    def time_of_target(self, now_ms: int) -> int:
        return 0


class ForgetsAMember(ConsumerGroups):
    """A coordinator that loads a group forgets one of its members."""

    def load(self, group_id: str, session_timeout_ms: int, now_ms: int) -> None:
        group = self.committed[group_id]
        if group.members:
            self.committed[group_id] = group.without(next(iter(group.members)))
        super().load(group_id, session_timeout_ms, now_ms)


class WaitsForNobody(ConsumerGroups):
    """The members that a coordinator finds in its log have no sessions."""

    def load(self, group_id: str, session_timeout_ms: int, now_ms: int) -> None:
        super().load(group_id, session_timeout_ms, now_ms)
        for member_id in self.groups[group_id].members:
            self._unwatch(group_id, member_id)


class GoesOnWithoutTheLog(ConsumerGroups):
    """What is not in the log, and never will be, counts in memory."""

    def failed(self, write: ConsumerWrite, now_ms: int) -> None:
        self.tell(write.group_id, Landed(write, is_committed=False))


WRONG: Mapping[str, tuple[CoordinatorRoles, int, str]] = {
    "takes any commit": (ConsumerRoles(TakesAnyCommit), 3, "ReceiveCommit"),
    "refuses commits of former epochs": (ConsumerRoles(RefusesFormerEpochs), 1, "ReceiveCommit"),
    "takes any epoch": (ConsumerRoles(TakesAnyEpoch), 5, "ReceiveHeartbeat"),
    "believes who is behind": (ConsumerRoles(BelievesWhoIsBehind), 5, "ReceiveHeartbeat"),
    "replaces who goes on": (ConsumerRoles(ReplacesWhoGoesOn), 3, "ReceiveHeartbeat"),
    "tells changes only": (ConsumerRoles(TellsChangesOnly), 1, "ReceiveHeartbeat"),
    "removes in the same epoch": (ConsumerRoles(RemovesInTheSameEpoch), 1, "ExpireSession"),
    "keeps what it wants no more": (ConsumerRoles(KeepsWhatItWantsNoMore), WANDERING, "ReceiveHeartbeat"),
    "makes a target at once": (ConsumerRoles(MakesATargetAtOnce), SPACED, "ReceiveHeartbeat"),
    "waits twice": (ConsumerRoles(WaitsTwice), SPACED, "ReceiveHeartbeat"),
    "gives again what the same target gave": (ConsumerRoles(GivesAgain), WANTED_AGAIN, "ReceiveHeartbeat"),
    "forgets when it was made": (ConsumerRoles(ForgetsWhenItWasMade), SPACED, "ReceiveHeartbeat"),
    "forgets a member": (LoadingRoles(ForgetsAMember), 1, "LoadGroup"),
    "waits for nobody": (LoadingRoles(WaitsForNobody), 1, "ReceiveCommit"),
    "goes on without the log": (LoadingRoles(GoesOnWithoutTheLog), 1, "FailRecord"),
}
"""What is wrong -> the classes, a seed that finds it, and the decision at which it does."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_coordinator_is_found_at_its_first_wrong_decision(name: str) -> None:
    roles, seed, decision = WRONG[name]
    run = simulate_group(draw_group(seed, is_consumer=True), roles, until_wrong=True)
    mismatch = run.coordinated.mismatch
    assert mismatch is not None, run.failures
    assert f" {decision} " in mismatch.split("log_partition=", 1)[0]
    assert "consumer-groups: " in mismatch


@pytest.mark.parametrize(
    ("bug", "seed"), [("kafka_16147", 1), ("kafka_19233", 12), ("kafka_20442", 8), ("kafka_19974", 19)]
)
def test_a_bug_of_the_zoo_is_found_by_a_seed_of_the_campaign(bug: str, seed: int) -> None:
    run = simulate_group(draw_group_with(seed, bug), HARNESS.bug(bug).roles, until_wrong=True)
    assert "is no action of the specification" in str(run.coordinated)


def test_a_deletion_that_was_on_its_way_may_be_in_the_log_of_the_next_coordinator() -> None:
    assert not simulate_group(draw_group(DELETED)).failures


def test_what_is_wanted_again_comes_with_the_next_target() -> None:
    run = run_of(WANTED_AGAIN)
    assert not run.failures, run.failures


def test_who_is_told_of_what_its_coordinator_has_committed_before_it_resigned_is_told_the_truth() -> None:
    run = run_of(TOLD_LATE)
    assert not run.failures, run.failures
    kinds = [type(one.decision) for one in run.trace]
    late = [at for at, kind in enumerate(kinds) if kind is consumer_groups.RespondToHeartbeat]
    at = next(at for at in late if Resign in kinds[at - 1 : at])
    told = run.trace[at]
    decision: Any = told.decision
    of_more = attrs.evolve(told, decision=with_values(decision, revision=decision.revision + 1))
    found = validated((*run.trace[:at], of_more, *run.trace[at + 1 :]))
    assert "is told of what is not committed" in str(found)


def test_who_is_told_before_it_is_committed_is_found() -> None:
    async def at_once(self: ConsumerMembers, led: Any, decision: Any) -> ErrorCode:
        self.queue(led, decision.write)
        return ErrorCode.none

    with patch.object(ConsumerMembers, "_decide", at_once):
        run = simulate_group(draw_group(SEED), CORRECT, until_wrong=True)
    assert run.coordinated.mismatch is not None
    assert "is told of what is not committed" in run.coordinated.mismatch


def test_a_member_whose_session_ends_while_nothing_can_be_written_does_not_stay() -> None:
    run = simulate_group(draw_group(UNWRITTEN, is_consumer=True))
    assert run.coordinated.actions[MACHINE]["FailRecord"]
    assert not run.failures
