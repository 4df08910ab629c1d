"""A wrong rule for every rule of consumer groups: what the machine would do without what the rule is for.

A mutant takes the machine, the right rule, and the rule's arguments. It is found in the smallest model that shows it:
by an invariant, by a step invariant, or by a goal that no behaviour reaches for good.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.models import CONSUMER_MODELS
from tidegauge.spec.groups.consumer.state import JOINING_EPOCH, NONE, Age, Error, Group, Member, Phase, State
from tidegauge.spec.kernel.bounds import Bounds

TWO: Final = ConsumerGroups()
ZOMBIE: Final = ConsumerGroups(instances=(0, 0), partitions=1, bounds=Bounds(Leave=1))
AGAIN: Final = ConsumerGroups(commits=2, bounds=Bounds(DelayCommit=1, Leave=1))
COMMITS: Final = ConsumerGroups(commits=1, bounds=Bounds(DelayCommit=1))

SPACED: Final = CONSUMER_MODELS["consumers-interval"].machine
UNSUBSCRIBING: Final = CONSUMER_MODELS["consumers-interval-unsubscribing"].machine
EXPRESSED_AGAIN: Final = CONSUMER_MODELS["consumers-interval-expression"].machine
EXPRESSION: Final = CONSUMER_MODELS["consumers-expressions"].machine
EXPRESSIONS: Final = ConsumerGroups(topics=2, matches=((0, 1),), expressions=(NONE, 0))
"""A member that names the topics, and one with an expression that matches them."""
SAME_EXPRESSION: Final = ConsumerGroups(partitions=1, matches=((0,),), expressions=(0, 0))
TWO_EXPRESSIONS: Final = ConsumerGroups(partitions=1, matches=((0,), (0,)), expressions=(0, 1))

STABLE: Final = "every process that goes on is in the epoch of the group, with its part"
OWNED: Final = "what somebody wants somebody owns"
GONE: Final = "who is gone is no member"
WANTED: Final = "nobody owns what it does not want"
RACKS: Final = "the group is of the racks that its replicas are in"

Wrong = Callable[..., Any]
"""What is done instead: takes the machine, the right rule, and the rule's arguments."""


@attrs.frozen
class RuleMutant:
    """One wrong rule, the model that shows it, and what is violated first there."""

    name: str
    rule: str
    wrong: Wrong
    model: ConsumerGroups
    violates: str
    also: tuple[str, ...] = ()
    """What is violated after that, if the search goes on."""

    @property
    def machine(self) -> ConsumerGroups:
        """The model with the wrong rule."""
        base, wrong = type(self.model), self.wrong
        right = getattr(base, self.rule)

        def mutant(machine: ConsumerGroups, *args: object, **kwargs: object) -> object:
            return wrong(machine, partial(right, machine), *args, **kwargs)

        kind = type(self.name, (base,), {self.rule: mutant, "__doc__": self.name})
        machine: ConsumerGroups = kind(**attrs.asdict(self.model, recurse=False))
        return machine


def _once(model: ConsumerGroups, *perturbations: str, **constants: Any) -> ConsumerGroups:
    return attrs.evolve(model, bounds=Bounds(dict.fromkeys(perturbations, 1)), **constants)


def _joined_beside(machine: Any, right: Wrong, group: Group, instance: int, request: Any) -> Group:
    """The next process of a static member is a member beside the former one."""
    return group if group.member(request.member_id) else group.with_member(Member(request.member_id, instance))


def _to_all(machine: Any, right: Wrong, group: Group, partitions: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """Everybody is to own everything."""
    return {member.member_id: partitions for member in group.members}


def _unsubscribed(machine: Any, right: Wrong, group: Group, partitions: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """The first member is to own everything, whether it wants it or not."""
    first = group.members[0].member_id
    every = tuple(range(machine.most_partitions))
    return {one.member_id: every if one.member_id == first else () for one in group.members}


def _revoking_at_once(machine: Any, right: Wrong, group: Group, member: Member, epoch: int, owned: Any) -> Member:
    """What a member has to give back is not waited for."""
    member = right(group, member, epoch, owned)
    return attrs.evolve(member, revoking=(), epoch=group.target_epoch) if member.revoking else member


def _given_with_the_rest(machine: Any, right: Wrong, group: Group, member: Member, epoch: int, owned: Any) -> Member:
    """A member is in the target's epoch already, while it has something to give back."""
    member = right(group, member, epoch, owned)
    return attrs.evolve(member, epoch=group.target_epoch) if member.revoking else member


def _resolved_at_once(machine: Any, right: Wrong, group: Group) -> Group:
    """A heartbeat waits until its expression is resolved."""
    return attrs.evolve(group, resolved=tuple((one, machine.matches[one]) for one in group.expressions))


def _resolved_for_all(machine: Any, right: Wrong, group: Group, state: State, expressions: tuple[int, ...]) -> Group:
    """An expression that came while others were resolved counts as one that matches nothing."""
    group = right(group, state, expressions)
    missing = ((one, ()) for one in group.expressions if one not in dict(group.resolved))
    return attrs.evolve(group, resolved=tuple(sorted((*group.resolved, *missing))))


def _reuses_the_epoch(machine: Any, right: Wrong, group: Group, member_id: int) -> Group:
    """A member that goes begins no epoch."""
    return group.without(member_id)


def _keeps_the_member(machine: Any, right: Wrong, group: Group, member_id: int) -> Group:
    """Who goes stays."""
    return group


MUTANTS: Final = (
    RuleMutant("ReplacesWhoHasNotLeft", "joining_error", lambda m, r, *a: Error.NONE, ZOMBIE, "OnlyTheLateAreRemoved"),
    RuleMutant(
        "RefusesForEver",
        "joining_error",
        lambda m, r, group, instance, member_id: (
            Error.UNRELEASED_INSTANCE_ID if group.of_instance(instance) else r(group, instance, member_id)
        ),
        _once(TWO, "LoseResponse", instances=(0,), processes=1),
        STABLE,
    ),
    RuleMutant(
        "FencesWhoJoinsAgain",
        "joining_error",
        lambda m, r, group, instance, member_id: (
            Error.FENCED_MEMBER_EPOCH if group.member(member_id) else r(group, instance, member_id)
        ),
        _once(TWO, "LoseResponse"),
        STABLE,
    ),
    RuleMutant(
        "FencesStaticMembers",
        "member_error",
        lambda m, r, group, instance, member_id: Error.NONE if instance == NONE else Error.FENCED_INSTANCE_ID,
        _once(TWO, instances=(0, 1)),
        "OnlyTheReplacedEnd",
    ),
    RuleMutant(
        "TakesAnyEpoch",
        "epoch_error",
        lambda m, r, *a: Error.NONE,
        _once(TWO, "DelayHeartbeat", "ExpireSession", commits=1),
        "OneCommitter",
    ),
    RuleMutant(
        "FencesWhoIsBehind", "is_behind", lambda m, r, *a: False, _once(TWO, "LoseResponse"), "OnlyTheRemovedAreFenced"
    ),
    RuleMutant(
        "ForgivesWhatIsOwned",
        "is_behind",
        lambda m, r, member, request: request.epoch == member.previous_epoch < member.epoch,
        _once(TWO, "DelayHeartbeat"),
        "OneCommitter",
    ),
    RuleMutant("JoinsBeside", "joined", _joined_beside, ZOMBIE, "MemberIdsAreUnique"),
    RuleMutant(
        "IgnoresSubscriptions",
        "begins_epoch",
        lambda m, r, group, before, after, partitions, racks: (
            (before.epoch == JOINING_EPOCH and not before.topics) or group.known != partitions or group.racks != racks
        ),
        _once(TWO, "Resubscribe", topics=2),
        "TargetCovers",
    ),
    RuleMutant(
        "IgnoresPartitions",
        "begins_epoch",
        lambda m, r, group, before, after, partitions, racks: before.topics != after.topics or group.racks != racks,
        _once(TWO, "AddPartition", partitions=1),
        OWNED,
    ),
    RuleMutant(
        "IgnoresRacks",
        "begins_epoch",
        lambda m, r, group, before, after, partitions, racks: r(group, before, after, partitions, group.racks),
        _once(TWO, "ChangeRacks"),
        RACKS,
    ),
    RuleMutant(
        "IgnoresWhatIsResolved", "expression_begins_epoch", lambda m, r, *a: False, SAME_EXPRESSION, "TargetCovers"
    ),
    RuleMutant(
        "BeginsAnEpochForNothing",
        "expression_begins_epoch",
        lambda m, r, group, before, after: before.expression != after.expression,
        EXPRESSION,
        "UnresolvedBeginsNoEpoch",
    ),
    RuleMutant(
        "IgnoresResolutions", "resolution_begins_epoch", lambda m, r, before, after: False, EXPRESSIONS, "TargetCovers"
    ),
    RuleMutant("ResolvesAtOnce", "still_resolved", _resolved_at_once, EXPRESSION, "HeartbeatsResolveNothing"),
    RuleMutant(
        "KeepsWhatNobodyHas",
        "still_resolved",
        lambda m, r, group: group,
        _once(EXPRESSION, "Resubscribe"),
        "ResolvedIsWanted",
    ),
    RuleMutant(
        "ResolvesOnce",
        "needs_resolution",
        lambda m, r, group, state: not group.resolved and r(group, state),
        EXPRESSION,
        OWNED,
    ),
    RuleMutant(
        "ResolvesWhenLongAgo",
        "needs_resolution",
        lambda m, r, group, state: group.resolved_age is Age.DUE and r(group, state),
        EXPRESSION,
        OWNED,
    ),
    RuleMutant(
        "ResolvesNewOnesOnly",
        "needs_resolution",
        lambda m, r, group, state: (
            r(group, state) and (len(group.resolved) < len(group.expressions) or group.resolved_of < state.created)
        ),
        CONSUMER_MODELS["consumers-expressions-due"].machine,
        "WhatIsDueBegins",
    ),
    RuleMutant(
        "ResolvesWithoutPause",
        "needs_resolution",
        lambda m, r, group, state: r(attrs.evolve(group, resolved_age=max(Age.PAST, group.resolved_age)), state),
        EXPRESSION,
        "ResolutionsAreApart",
    ),
    RuleMutant(
        "ResolvesTwiceAtOnce",
        "needs_resolution",
        lambda m, r, group, state: r(group, attrs.evolve(state, resolving=None)),
        TWO_EXPRESSIONS,
        "ResolutionsAreApart",
    ),
    RuleMutant(
        "ResolvesForAll",
        "resolved",
        _resolved_for_all,
        TWO_EXPRESSIONS,
        "ResolvedIsMatched",
    ),
    RuleMutant(
        "MatchesEverything",
        "resolved",
        lambda m, r, group, state, expressions: attrs.evolve(
            r(group, state, expressions), resolved=tuple((one, tuple(range(m.topics))) for one in expressions)
        ),
        EXPRESSION,
        "ResolvedIsMatched",
    ),
    RuleMutant(
        "GivesWhatIsGone",
        "partitions_wanted",
        lambda m, r, group, state: tuple(range(state.partitions)),
        _once(TWO, "DeleteTopic", topics=2, processes=1),
        "OnlyWhatIsWantedIsAssigned",
    ),
    RuleMutant("StaysInTheEpoch", "next_epoch", lambda m, r, group: max(2, group.epoch), TWO, "TargetCovers"),
    RuleMutant(
        "MakesATargetAtOnce",
        "needs_target",
        lambda m, r, group: group.epoch > group.target_epoch,
        SPACED,
        "TargetsAreApart",
    ),
    RuleMutant(
        "MakesTargetsForNewMembersOnly",
        "needs_target",
        lambda m, r, group: r(group) and {*dict(group.target)} != {one.member_id for one in group.members},
        SPACED,
        "WhatWaitsIsMade",
    ),
    RuleMutant("MakesOldTargets", "is_new_when_made", lambda m, r: False, SPACED, "MadeTargetsAreNew"),
    RuleMutant(
        "ForgetsWhenTheTargetWasMade",
        "loaded",
        lambda m, r, log: attrs.evolve(r(log), target_is_new=False),
        CONSUMER_MODELS["consumers-interval-coordinator"].machine,
        "TargetsAreApart",
    ),
    RuleMutant(
        "LetsAnEmptyGroupWait",
        "removed",
        lambda m, r, group, member_id: attrs.evolve(r(group, member_id), target_is_new=group.target_is_new),
        SPACED,
        "EmptyGroupsWaitForNothing",
    ),
    RuleMutant("MakesNoTarget", "needs_target", lambda m, r, group: group.target_epoch < 2, TWO, "WhatWaitsIsMade"),
    RuleMutant("ReusesTheEpoch", "removed", _reuses_the_epoch, _once(TWO, "Crash"), "TargetCovers"),
    RuleMutant(
        "LeavesTheTargetBehind",
        "removed",
        lambda m, r, group, member_id: attrs.evolve(r(group, member_id), target_epoch=group.target_epoch),
        _once(TWO, "Leave", processes=1),
        "TargetIsOfTheEmptyGroup",
    ),
    RuleMutant("KeepsTheMember", "removed", _keeps_the_member, _once(TWO, "Crash"), GONE),
    RuleMutant("GivesToAll", "target", _to_all, TWO, "TargetCovers"),
    RuleMutant("GivesUnasked", "target", _unsubscribed, _once(TWO, "Resubscribe", topics=2), "TargetCovers"),
    RuleMutant("NeverReconciles", "reconciled", lambda m, r, group, member, owned: member, TWO, STABLE),
    RuleMutant(
        "RaisesTheEpoch",
        "epoch_while_revoking",
        lambda m, r, member: member.epoch + 1 if member.revoking else member.epoch,
        CONSUMER_MODELS["consumers-interval-owners"].machine,
        "GivenBackBeforeTheEpoch",
        ("OneOwnerInEachEpoch",),
    ),
    RuleMutant(
        "IsAheadOfTheTarget",
        "epoch_while_revoking",
        lambda m, r, member: member.epoch + 1 if member.revoking else member.epoch,
        UNSUBSCRIBING,
        "EpochsAreOfTheGroup",
        ("EpochsRise", "OneOwnerInEachEpoch"),
    ),
    RuleMutant(
        "GivesBackOnlyWhatTheTargetTakes",
        "part_of",
        lambda m, r, group, member: {*group.target_of(member.member_id)},
        UNSUBSCRIBING,
        "OnlyWhatIsWantedIsAssigned",
    ),
    RuleMutant(
        "GivesBackOneAfterTheOther",
        "revoking_more",
        lambda m, r, group, member: member,
        UNSUBSCRIBING,
        "OnlyWhatIsWantedIsAssigned",
    ),
    RuleMutant("GivesAgain", "is_stable", lambda m, r, *a: False, EXPRESSED_AGAIN, "TargetsAreGivenOnce"),
    RuleMutant("WaitsForItself", "waits_for_others", lambda m, r, *a: True, SPACED, "WhoWaitsLacksSomething"),
    RuleMutant("IsNotGivenTheRest", "waits_for_others", lambda m, r, *a: False, SPACED, "WhoLacksSomethingWaits"),
    RuleMutant(
        "KeepsWhatTheTargetGave",
        "giving_up",
        lambda m, r, group, member, owned: member,
        UNSUBSCRIBING,
        "OnlyWhatIsWantedIsAssigned",
    ),
    RuleMutant(
        "KeepsWhatIsGone",
        "is_wanted",
        lambda m, r, group, member, partition: partition % m.topics in group.wants(member),
        _once(SPACED, "DeleteTopic", topics=2, processes=1),
        "OnlyWhatIsWantedIsAssigned",
    ),
    RuleMutant("TakesItForGivenBack", "has_revoked", lambda m, r, *a: True, TWO, "OwningIsHaving"),
    RuleMutant("RevokesAtOnce", "next_assignment", _revoking_at_once, TWO, "OwningIsHaving"),
    RuleMutant("IsInTheEpochTooEarly", "next_assignment", _given_with_the_rest, TWO, "GivenBackBeforeTheEpoch"),
    RuleMutant(
        "ForgetsTheEpochBefore",
        "in_epoch",
        lambda m, r, member, epoch: attrs.evolve(member, epoch=epoch),
        _once(TWO, "LoseResponse"),
        "OnlyTheRemovedAreFenced",
    ),
    RuleMutant("IsAhead", "in_epoch", lambda m, r, member, epoch: r(member, epoch + 1), TWO, "EpochsAreOfTheGroup"),
    RuleMutant("GivesWhatIsHeld", "is_free", lambda m, r, *a: True, TWO, "OneMemberHasIt"),
    RuleMutant(
        "GivesWhatIsNotGivenBack",
        "is_free",
        lambda m, r, group, partition, member_id: (
            not any(partition in dict(one.assigned) for one in group.members if one.member_id != member_id)
        ),
        TWO,
        "OneMemberHasIt",
    ),
    RuleMutant(
        "HasItForEver",
        "assignment_epoch",
        lambda m, r, group: 1,
        AGAIN,
        "MembersKnowTheirOffsets",
        ("OffsetsDoNotGoBack",),
    ),
    RuleMutant("TellsNobody", "tells_assignment", lambda m, r, *a: False, TWO, "StableMeansAgreed"),
    RuleMutant(
        "TellsOnce",
        "tells_assignment",
        lambda m, r, before, after, request: before is None or before.assigned != after.assigned,
        _once(TWO, "LoseResponse"),
        "StableMeansAgreed",
    ),
    RuleMutant("CommitsOfAnybody", "commit_error", lambda m, r, *a: Error.NONE, COMMITS, "OwnersCommit"),
    RuleMutant(
        "CommitsOfTheEpochOnly",
        "commit_error",
        lambda m, r, group, request: (
            r(group, request)
            if (member := group.member(request.member_id)) is None or member.epoch == request.epoch
            else Error.STALE_MEMBER_EPOCH
        ),
        _once(TWO, "LoseResponse"),
        "OwnersAreNotRefused",
    ),
    RuleMutant(
        "CommitsOfMembers",
        "commit_error",
        lambda m, r, group, request: Error.NONE if group.member(request.member_id) else Error.UNKNOWN_MEMBER_ID,
        COMMITS,
        "OwnersCommit",
    ),
    RuleMutant(
        "CommitsWhatIsGivenBack",
        "may_be_anothers",
        lambda m, r, *a: False,
        CONSUMER_MODELS["consumers-interval-commits"].machine,
        "OwnersCommit",
    ),
    RuleMutant("WaitsForWhatIsOwed", "may_expire_rebalance", lambda m, r, member: False, _once(TWO, "Hang"), STABLE),
    RuleMutant("WaitsForTheDead", "may_expire_session", lambda m, r, member: False, _once(TWO, "Crash"), GONE),
    RuleMutant(
        "WaitsForWhoIsAway",
        "may_expire_session",
        lambda m, r, member: member.epoch >= 0,
        _once(TWO, "Leave", instances=(0, 1)),
        GONE,
    ),
    RuleMutant(
        "TellsBeforeItIsCommitted",
        "responds_when_committed",
        lambda m, r: False,
        _once(TWO, "FailOver", processes=1),
        "ToldEpochsAreLogged",
    ),
    RuleMutant(
        "TellsOffsetsBeforeTheyAreCommitted",
        "acknowledges_when_committed",
        lambda m, r: False,
        _once(TWO, "FailOver", processes=1, partitions=1, commits=1),
        "ToldIsKept",
    ),
    RuleMutant(
        "LoadsNothing",
        "loaded",
        lambda m, r, log: Group(),
        _once(TWO, "FailOver"),
        "OneOwnerInEachEpoch",
        ("EpochsRise",),
    ),
    RuleMutant("TakesTheSameId", "new_member_id", lambda m, r, state: 0, TWO, "MemberIdsAreUnique"),
    RuleMutant(
        "IgnoresItsEpoch",
        "after_response",
        lambda m, r, process, request, response: attrs.evolve(
            r(process, request, response), epoch=max(1, process.epoch)
        ),
        TWO,
        "OnlyTheRemovedAreFenced",
    ),
    RuleMutant(
        "AcknowledgesOnlyWhatIsNew",
        "said_after_assignment",
        lambda m, r, process: process.said,
        _once(TWO, "Leave"),
        "OnlyTheLateAreRemoved",
    ),
    RuleMutant(
        "GoesOnWhenFenced",
        "after_error",
        lambda m, r, process, error: process if error is Error.UNKNOWN_MEMBER_ID else r(process, error),
        _once(TWO, "ExpireSession"),
        STABLE,
    ),
    RuleMutant(
        "EndsWhenFenced",
        "after_error",
        lambda m, r, process, error: attrs.evolve(r(process, error), phase=Phase.FENCED),
        _once(TWO, "ExpireSession"),
        "OnlyTheReplacedEnd",
    ),
    RuleMutant(
        "KeepsWhenFenced",
        "kept_when_fenced",
        lambda m, r, process: process.owned,
        _once(TWO, "ExpireSession", commits=1),
        "OwningIsHaving",
    ),
    RuleMutant(
        "TakesItForGranted",
        "after_loss",
        lambda m, r, process: attrs.evolve(r(process), assigned=process.assigned),
        _once(TWO, "FailOver"),
        "OwningIsHaving",
    ),
    RuleMutant("GivesNothingBack", "after_giving_back", lambda m, r, process: process, TWO, STABLE),
    RuleMutant(
        "KeepsWhatItHasUnsubscribedFrom",
        "after_giving_back",
        lambda m, r, process: process,
        _once(TWO, "Resubscribe", topics=2),
        WANTED,
    ),
    RuleMutant(
        "GoesOnWhereItWas",
        "after_reconciling",
        lambda m, r, process: attrs.evolve(process, owned=process.assigned, assigned=None),
        _once(TWO, "Leave", commits=1),
        "MembersKnowTheirOffsets",
    ),
)
