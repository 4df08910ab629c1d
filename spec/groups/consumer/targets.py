"""What must hold of when a consumer group's targets are made (KIP-1263)."""

from __future__ import annotations

from tidegauge.spec.groups.consumer.actions import groups
from tidegauge.spec.groups.consumer.requests import ReceiveHeartbeat
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import State
from tidegauge.spec.kernel.machine import Action, StepInvariant


def is_target_new(state: State) -> bool:
    """Whether the group's target was made a short time ago, as the coordinator knows it or the log does."""
    group, logged = state.loaded, state.log.group
    is_logged = bool(logged.members) and (logged.target_epoch, logged.target) == (group.target_epoch, group.target)
    return group.target_is_new or (is_logged and logged.target_is_new)


def targets_are_apart(before: State, action: Action, after: State) -> bool:
    """No target is made before the interval since the last one has passed, though another coordinator made that."""
    if before.group == after.group or before.group is None or after.group is None or not after.group.members:
        return True
    return after.group.target_epoch == before.group.target_epoch or not is_target_new(before)


def made_targets_are_new(machine: ConsumerRules) -> StepInvariant[State]:
    """From when a target is made its interval runs."""

    def holds(before: State, action: Action, after: State) -> bool:
        if before.group == after.group or before.group is None or after.group is None or not after.group.members:
            return True
        is_made = after.group.target_epoch != before.group.target_epoch
        return not is_made or after.group.target_is_new == machine.spaces_targets

    return holds


def targets_are_given_once(machine: ConsumerRules) -> StepInvariant[State]:
    """Who has had all that an older epoch's target gives it waits for the next one with what it wants again."""

    def holds(before: State, action: Action, after: State) -> bool:
        if not machine.spaces_targets or before.group == after.group or before.group is None or after.group is None:
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
    is_taken = before.group != after.group
    return not is_taken or after.group.target_epoch == after.group.epoch or after.group.target_is_new


def empty_groups_wait_for_nothing(state: State) -> bool:
    """Who joins a group without members does not wait for its share."""
    return all(group.members or not group.target_is_new for group in groups(state))
