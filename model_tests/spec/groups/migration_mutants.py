"""A wrong rule for every rule of groups that go over, found in the smallest model that shows it."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.groups.consumer_mutants import RuleMutant, Wrong
from tidegauge.spec.groups.consumer.classic_group import ClassicGroup
from tidegauge.spec.groups.consumer.state import NONE, Entry, Error, Group, Member
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.rules import Policy
from tidegauge.spec.kernel.bounds import Bounds

TWO: Final = GroupMigration()
CLASSIC: Final = GroupMigration(classic=(True, True))
LEAVING: Final = GroupMigration(bounds=Bounds(Leave=1))
LATE: Final = GroupMigration(bounds=Bounds(DelayHeartbeat=1))
OVER: Final = GroupMigration(classic=(True, True), bounds=Bounds(Leave=1, StartOver=1))

STATIC: Final = GroupMigration(instances=(0,), partitions=1, bounds=Bounds(Crash=1, StartOver=1))
STATIC_LATE: Final = GroupMigration(instances=(0, 1), classic=(True, True), bounds=Bounds(EndJoining=1))
ZOMBIE: Final = GroupMigration(instances=(0, 0), partitions=1, commits=1)

STABLE: Final = "every process that goes on is in the one generation, with its part"
OWNED: Final = "what somebody wants somebody owns"
AS_MEMBERS: Final = "a group is a classic one if all who go on speak that protocol"
IN_EPOCH: Final = "a classic process is in the epoch of its member"


def _forgets(machine: Any, right: Wrong, group: ClassicGroup, before: Group) -> Group:
    """The consumer group begins with members that have nothing."""
    made: Group = right(group, before)
    return attrs.evolve(made, members=tuple(attrs.evolve(one, assigned=(), revoking=()) for one in made.members))


def _epoch_of_none(machine: Any, right: Wrong, group: ClassicGroup, before: Group) -> Group:
    """The group's epoch begins anew, beside members that are in a later one."""
    return attrs.evolve(right(group, before), epoch=1, target_epoch=1) if group.members else before


def _gives_away(machine: Any, right: Wrong, group: Group) -> ClassicGroup:
    """The classic group begins with members that have nothing."""
    made: ClassicGroup = right(group)
    return attrs.evolve(made, members=tuple(attrs.evolve(one, assigned=()) for one in made.members))


def _shares_all(machine: Any, right: Wrong, group: ClassicGroup) -> dict[int, tuple[int, ...]]:
    """What somebody owns yet is given to who is to own it, as if all had given everything back."""
    free = tuple(attrs.evolve(member, claims=()) for member in group.members)
    shares: dict[int, tuple[int, ...]] = right(attrs.evolve(group, members=free))
    return shares


def _is_of_member(group: Group, member_id: int) -> bool:
    member = group.member(member_id)
    return member is not None and member.classic


def _forgets_instances(machine: Any, right: Wrong, group: ClassicGroup, before: Group) -> Group:
    """The consumer group does not know who is a static member."""
    made: Group = right(group, before)
    return attrs.evolve(made, members=tuple(attrs.evolve(one, instance=NONE) for one in made.members))


def _unknown_if_fenced(machine: Any, right: Wrong, *args: Any, **named: Any) -> Error:
    """A former process of a static member may join again, and does."""
    error: Error = right(*args, **named)
    return Error.UNKNOWN_MEMBER_ID if error is Error.FENCED_INSTANCE_ID else error


MUTANTS: Final = (
    RuleMutant(
        "GoesOverUnasked",
        "upgrades",
        lambda m, r, group: True,
        attrs.evolve(LEAVING, policy=Policy.DISABLED),
        "GoesOverAsItMay",
    ),
    RuleMutant("NeverGoesOver", "upgrades", lambda m, r, group: not group.members, TWO, STABLE),
    RuleMutant(
        "GoesBackUnasked",
        "downgrades",
        lambda m, r, group: bool(group.members) and all(one.classic for one in group.members),
        attrs.evolve(LEAVING, policy=Policy.UPGRADE),
        "GoesOverAsItMay",
    ),
    RuleMutant("NeverGoesBack", "downgrades", lambda m, r, group: False, LEAVING, AS_MEMBERS),
    RuleMutant(
        "GoesBackWithOthers",
        "downgrades",
        lambda m, r, group: bool(group.members),
        attrs.evolve(LEAVING, processes=3),
        "GoesOverAsItMay",
    ),
    RuleMutant("ForgetsWhoHasWhat", "upgraded", _forgets, TWO, "OwningIsHaving"),
    RuleMutant("BeginsEpochsAnew", "upgraded", _epoch_of_none, OVER, "EpochsAreOfTheGroup"),
    RuleMutant(
        "ForgetsWhatIsLeftOver",
        "left_over",
        lambda m, r, group, member: (),
        attrs.evolve(CLASSIC, processes=3),
        "OwningIsHaving",
    ),
    RuleMutant("GivesAwayOnGoingBack", "downgraded", _gives_away, LEAVING, "OwningIsHaving"),
    RuleMutant("CountsAnew", "generation_after", lambda m, r, group: 1, LEAVING, "EpochsRise"),
    RuleMutant(
        "StaysStable",
        "taken_over",
        lambda m, r, group: attrs.evolve(group, leader=group.members[0].member_id) if group.members else group,
        LEAVING,
        OWNED,
    ),
    RuleMutant(
        "StaysAConsumerGroup",
        "removal",
        lambda m, r, group, member: Entry(m.removed(group, member)),
        LEAVING,
        AS_MEMBERS,
    ),
    RuleMutant(
        "BelievesWhatIsClaimed",
        "claims_error",
        lambda m, r, member, request: Error.NONE,
        GroupMigration(bounds=Bounds(ExpireRejoin=1)),
        "OwningIsHaving",
    ),
    RuleMutant(
        "TakesAnyGeneration",
        "generation_error",
        lambda m, r, group, instance, member_id, generation: (
            Error.NONE if _is_of_member(group, member_id) else r(group, instance, member_id, generation)
        ),
        LATE,
        IN_EPOCH,
    ),
    RuleMutant(
        "TellsNobodyOfEpochs", "must_rejoin", lambda m, r, group, member: m.has_more(group, member), TWO, STABLE
    ),
    RuleMutant("HasNothingMore", "has_more", lambda m, r, group, member: False, OVER, OWNED),
    RuleMutant(
        "TellsNobodyWhatToGiveBack", "may_sync", lambda m, r, group, member: member.epoch == group.epoch, TWO, STABLE
    ),
    RuleMutant(
        "TellsWhatIsNotInTheLog",
        "tells_when_committed",
        lambda m, r: False,
        GroupMigration(bounds=Bounds(FailOver=1, Leave=1)),
        "ToldEpochsAreTheMembers",
    ),
    RuleMutant(
        "TakesAnyClassicGeneration",
        "classic_error",
        lambda m, r, group, instance, member_id, generation: (
            Error.NONE if group.member(member_id) else r(group, instance, member_id, generation)
        ),
        attrs.evolve(CLASSIC, partitions=1, bounds=Bounds(FailOver=1, Crash=1)),
        IN_EPOCH,
    ),
    RuleMutant(
        "TakesAnyClassicCommit",
        "classic_commit_error",
        lambda m, r, group, request: Error.NONE,
        attrs.evolve(CLASSIC, bounds=Bounds(EndJoining=1)),
        "OneCommitter",
    ),
    RuleMutant("SharesWhatIsOwned", "shares", _shares_all, CLASSIC, "OneCommitter"),
    RuleMutant(
        "TakesAnyCommitOfAMember",
        "commit_error",
        lambda m, r, group, request: Error.NONE if _is_of_member(group, request.member_id) else r(group, request),
        LATE,
        "OneCommitter",
    ),
    RuleMutant(
        "KeepsWhatItHadAsNoMember",
        "after_error",
        lambda m, r, process, error: attrs.evolve(r(process, error), owned=process.owned),
        GroupMigration(bounds=Bounds(ExpireSession=1)),
        "OwningIsHaving",
    ),
    RuleMutant(
        "DoesNotTakeUpWhatItHas",
        "after_assignment",
        lambda m, r, process, assignment: attrs.evolve(r(process, assignment), assigned=None),
        TWO,
        STABLE,
    ),
    RuleMutant("ForgetsInstances", "upgraded", _forgets_instances, STATIC, "GoesOverAsItMay"),
    RuleMutant(
        "ReleasesEverybody",
        "joining_error",
        lambda m, r, group, instance, member_id: Error.NONE,
        attrs.evolve(ZOMBIE, classic=()),
        "OnlyTheReleasedAreReplaced",
    ),
    RuleMutant("FencesNobody", "side_error", _unknown_if_fenced, ZOMBIE, "TheReplacedEnd"),
    RuleMutant(
        "FencesTheUnknown",
        "side_error",
        lambda m, r, *args, **named: Error.FENCED_INSTANCE_ID if r(*args, **named) else Error.NONE,
        GroupMigration(bounds=Bounds(ExpireSession=1)),
        "OnlyTheReplacedEnd",
    ),
    RuleMutant(
        "TakesTheNextProcessForAnotherMember",
        "joined",
        lambda m, r, group, instance, request: group.with_member(Member(request.member_id, instance)),
        ZOMBIE,
        "InstancesAreUnique",
    ),
    RuleMutant(
        "FencesNobodyInClassicGroups",
        "classic_member_error",
        _unknown_if_fenced,
        attrs.evolve(ZOMBIE, classic=(True, True)),
        "TheReplacedEnd",
    ),
    RuleMutant("DropsStaticMembers", "stays", lambda m, r, member: member.joined, STATIC_LATE, "StaticMembersStay"),
    RuleMutant(
        "RebalancesForTheNextProcess",
        "keeps_generation",
        lambda m, r, group: False,
        attrs.evolve(ZOMBIE, classic=(True, True)),
        "TheReplacedKeepTheirPart",
    ),
    RuleMutant(
        "BelievesWhoHasMissedAGeneration",
        "claims",
        lambda m, r, group, member: member.claims,
        STATIC_LATE,
        OWNED,
    ),
    RuleMutant(
        "TakesAFencedMemberForAnUnknownOne",
        "heartbeat_in_classic_error",
        lambda m, r, *args: Error.UNKNOWN_MEMBER_ID,
        ZOMBIE,
        "TheReplacedEnd",
    ),
    RuleMutant(
        "KeepsWhatItHadAGenerationAgo",
        "after_generation",
        lambda m, r, process, generation: attrs.evolve(r(process, generation), owned=process.owned),
        STATIC_LATE,
        "OneCommitter",
    ),
    RuleMutant(
        "StaysAConsumerGroupOfClassicMembers",
        "written",
        lambda m, r, before, after: Entry(after),
        GroupMigration(instances=(0, 1), classic=(False, True), bounds=Bounds(Leave=1, StartOver=1)),
        "GoesOverAsItMay",
    ),
    RuleMutant(
        "StaysWhenItHasGivenBack",
        "after_giving_back",
        lambda m, r, process: attrs.evolve(r(process), stage=process.stage),
        CLASSIC,
        OWNED,
    ),
)
