"""What must hold of when a consumer group's targets are made (KIP-1263), and of what members are given by old ones."""

from __future__ import annotations

from tidegauge.spec.groups.consumer.actions import of_each_group
from tidegauge.spec.groups.consumer.requests import ReceiveHeartbeat
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import Group, Member, State, partitions_of
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant


def is_target_new(state: State) -> bool:
    """Whether the group's target was made a short time ago, as the coordinator knows it or the log does."""
    group, logged = state.loaded, state.log.group
    is_logged = bool(logged.members) and (logged.target_epoch, logged.target) == (group.target_epoch, group.target)
    return group.target_is_new or (is_logged and logged.target_is_new)


def targets_are_apart(before: State, action: Action, after: State) -> bool:
    """No target is made before the interval since the last one has passed, though another coordinator made that."""
    if before.group is after.group or before.group is None or after.group is None:
        return True
    if after.group.target_epoch == before.group.target_epoch:
        return True
    return not after.group.members or not is_target_new(before)


def made_targets_are_new(machine: ConsumerRules) -> StepInvariant[State]:
    """From when a target is made its interval runs."""

    def holds(before: State, action: Action, after: State) -> bool:
        if before.group is after.group or before.group is None or after.group is None:
            return True
        is_made = after.group.target_epoch != before.group.target_epoch and bool(after.group.members)
        return not is_made or after.group.target_is_new == machine.spaces_targets

    return holds


def targets_are_given_once(machine: ConsumerRules) -> StepInvariant[State]:
    """Who has had all that an older epoch's target gives it waits for the next one with what it wants again."""

    def holds(before: State, action: Action, after: State) -> bool:
        if not machine.spaces_targets or before.group is after.group or before.group is None or after.group is None:
            return True
        if after.group.target_epoch != before.group.target_epoch:
            return True
        later = {one.member_id: one for one in after.group.members}
        past = [one for one in before.group.members if before.group.is_past_its_target(one) and one.member_id in later]
        return all(later[one.member_id].held.keys() <= one.held.keys() for one in past)

    return holds


def what_waits_is_made(before: State, action: Action, after: State) -> bool:
    """After a heartbeat that is taken, a group in an epoch without a target waits for the interval."""
    if not isinstance(action, ReceiveHeartbeat) or before.group is None or after.group is None:
        return True
    has_or_waits = after.group.target_epoch == after.group.epoch or after.group.target_is_new
    return has_or_waits or before.group == after.group


def empty_groups_wait_for_nothing(group: Group) -> bool:
    """Who joins a group without members does not wait for its share."""
    return bool(group.members) or not group.target_is_new


def who_waits_lacks_something(group: Group) -> bool:
    """A member in the target's epoch waits for something that the target gives it, and has nothing to give back."""
    return all(
        not member.revoking and bool({*group.target_of(member.member_id)} - {*partitions_of(member.assigned)})
        for member in group.members
        if member.waits and member.epoch == group.target_epoch
    )


def who_lacks_something_waits(machine: ConsumerRules) -> Invariant[State]:
    """Where targets wait, a member in the epoch of the group and of its target has its part, or waits for it."""

    def holds(group: Group) -> bool:
        return not machine.spaces_targets or all(
            member.waits or bool(member.revoking) or lacks_nothing(machine, group, member)
            for member in group.members
            if member.epoch == group.target_epoch == group.epoch
        )

    holds.__doc__ = who_lacks_something_waits.__doc__
    return of_each_group(holds)


def lacks_nothing(machine: ConsumerRules, group: Group, member: Member) -> bool:
    """Whether a member is assigned all that the target gives it and that it wants."""
    return machine.part_of(group, member) <= {*partitions_of(member.assigned)}


def old_target_has_more(machine: ConsumerRules) -> Invariant[State]:
    """A member wants what an old target has for it, and waits for the next: it did not when it came to the old one."""

    def holds(state: State) -> bool:
        group = state.group
        return group is not None and any(
            group.is_past_its_target(member) and not lacks_nothing(machine, group, member) for member in group.members
        )

    return holds
