"""The mutants of the specification of groups that do what the rules do, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OF_GROUPS: Final[Mapping[str, str]] = {
    "spec/groups/consumer/properties.py offsets_do_not_go_back: "
    "`old == new or new.value >= old.value or new.member_id == old.member_id` -> "
    "`new.value >= old.value or new.member_id == old.member_id`": "of two equal offsets neither is lower",
    "spec/groups/consumer/coordinator_rules.py CoordinatorRules.tells_assignment: `request.full or before is None or "
    "partitions_of(before.assigned) != partitions_of(after.assigned)` -> `request.full or "
    "partitions_of(before.assigned) != partitions_of(after.assigned)`": (
        "who joins says all (`full`): the operand is for the type checker"
    ),
    "spec/groups/classic/properties.py one_committer: `owned.count(partition) > 1` -> `owned.count(partition) >= 1`": (
        "what one process owns nobody else commits: the comparison saves asking"
    ),
    "spec/groups/classic/properties.py one_committer: `not contested or group is None` -> `group is None`": (
        "where nothing is contested no commit is asked for: the operand saves the loop"
    ),
    "spec/groups/classic/properties.py one_committer: `0` -> `1` in "
    "`CommitRequest(number, process.member_id, process.generation, partition, 0)`": (
        "whether a commit is taken does not depend on the offset"
    ),
    "spec/groups/classic/requests.py ReceiveHeartbeat.outcome: `error in (Error.NONE, Error.REBALANCE_IN_PROGRESS) and "
    "member is not None and (not member.watched)` -> `error in (Error.NONE, Error.REBALANCE_IN_PROGRESS) and "
    "(not member.watched)`": "of whom the error says so the group has: the operand is for the type checker",
    "spec/groups/classic/requests.py ReceiveCommit.outcome: `error is Error.NONE and member is not None` -> "
    "`error is Error.NONE`": "whose commit is taken is a member: the operand is for the type checker",
    "spec/groups/classic/rules.py GroupRules.target: `1` -> `2` in `max(1, len(members))`": (
        "a member alone takes all, however much is fair"
    ),
    "spec/groups/classic/properties.py one_owner_of_a_generation: `each.owned and each.phase is Phase.STABLE` -> "
    "`each.phase is Phase.STABLE`": "who owns nothing shares nothing: the operand saves comparing",
    "spec/groups/classic/properties.py only_the_late_are_removed: `before.group is after.group or "
    "isinstance(action, REMOVING)` -> `isinstance(action, REMOVING)`": (
        "the same group has the same members: the operand saves looking at each"
    ),
    "spec/groups/classic/properties.py only_the_stale_are_reset: `old is new or group is None or new.phase in ENDED` "
    "-> `group is None or new.phase in ENDED`": "who is the same has forgotten nothing: the operand saves asking",
    "spec/groups/classic/coordinating.py disconnected: `group is None or all((member.connection != number for "
    "member in group.members))` -> `group is None`": "an equal group: the operand saves the copy",
    "spec/groups/classic/coordinating.py completed: `member.waiting is Waiting.JOIN and "
    "machine.has_response(group, member)` -> `machine.has_response(group, member)`": (
        "who has not joined waits for nothing and has no connection: nobody is told"
    ),
    "spec/groups/consumer/properties.py one_committer: `not contested or state.group is None` -> `state.group is "
    "None`": ("where nothing is contested no commit is asked for: the operand saves the loop"),
    "spec/groups/consumer/properties.py only_the_late_are_removed: `isinstance(action, REMOVING) or before.group is "
    "after.group` -> `isinstance(action, REMOVING)`": (
        "the same group has the same members: the operand saves looking at each"
    ),
    "spec/groups/consumer/ownership.py owners_are_not_refused: `group is None or member is None or (not "
    "JOINING_EPOCH < process.epoch <= member.epoch)` -> `member is None or not JOINING_EPOCH < process.epoch <= "
    "member.epoch`": ("without a group there is no member: the operand is for the type checker"),
    "spec/groups/consumer/ownership.py owners_are_not_refused: `JOINING_EPOCH < process.epoch <= member.epoch` -> "
    "`JOINING_EPOCH <= process.epoch <= member.epoch`": ("nothing is held since the epoch of one that joins"),
    "spec/groups/consumer/ownership.py owners_are_not_refused: `0` -> `1` in `CommitRequest(number, "
    "process.member_id, process.epoch, partition, 0)`": ("whether a commit is taken does not depend on the offset"),
    "spec/groups/consumer/targets.py made_targets_are_new: `before.group is after.group or before.group is None or "
    "after.group is None` -> `before.group is None or after.group is None`": (
        "in the same group no target is made: the operand saves comparing"
    ),
    "spec/groups/consumer/targets.py targets_are_apart: `before.group is after.group or before.group is None or "
    "after.group is None` -> `before.group is None or after.group is None`": (
        "in the same group no target is made: the operand saves comparing"
    ),
    "spec/groups/consumer/targets.py targets_are_given_once: `not machine.spaces_targets or before.group is "
    "after.group or before.group is None or (after.group is None)` -> `not machine.spaces_targets or before.group is "
    "None or after.group is None`": (
        "in the same group nobody is given anything: the operand saves looking at each member"
    ),
    "spec/groups/consumer/coordinator_rules.py CoordinatorRules.target: `1` -> `2` in `max(1, len(given))`": (
        "a member alone takes all, however much is fair"
    ),
    "spec/groups/consumer/coordinator_rules.py CoordinatorRules.commit_error: `since <= request.epoch < "
    "member.epoch` -> `since <= request.epoch <= member.epoch`": (
        "a commit of the member's own epoch is decided before"
    ),
    "spec/groups/consumer/actions.py groups_at: `1` -> `2` in `place + 1`": (
        "each batch is looked at all the same, and some twice"
    ),
    "spec/groups/consumer/actions.py groups_at: `1` -> `2` in `-1`": (
        "each batch is looked at all the same, and some twice"
    ),
    "spec/groups/consumer/properties.py epochs_rise: guard `if old is new` -> nothing": (
        "in the same group no epoch has gone back: the guard saves comparing"
    ),
    "spec/groups/consumer/properties.py goals: `2` -> `3` in `-2`": (
        "names are told apart, and no negative one is a group instance id"
    ),
    "spec/groups/consumer/ownership.py gives_back_in_time: `epoch < new.target_epoch` -> `epoch <= new.target_epoch`": (
        "where the two are compared they are not the same"
    ),
    "spec/groups/consumer/state.py Group.at_age: `self.resolved_age < age` -> `self.resolved_age <= age`": (
        "an equal group: the comparison saves the copy"
    ),
    "spec/groups/consumer/properties.py only_the_removed_are_fenced: `old is new or not new.epoch == JOINING_EPOCH < "
    "old.epoch or new.member_id != old.member_id` -> `not new.epoch == JOINING_EPOCH < old.epoch or new.member_id != "
    "old.member_id`": ("no epoch is both above another one and equal to it: the operand saves comparing"),
    "spec/groups/consumer/properties.py one_committer: `owned.count(partition) > 1` -> `owned.count(partition) >= 1`": (
        "what one process owns nobody else commits: the comparison saves asking"
    ),
    "spec/groups/consumer/ownership.py one_owner_in_each_epoch: `old is new or all((gives_back_in_time(former, new) "
    "for former in old.members))` -> `all((gives_back_in_time(former, new) for former in old.members))`": (
        "in the same group each member has what it had: the operand saves asking"
    ),
    "spec/groups/consumer/timing.py CommitRecord.effect: `entry.request is None or entry.response is None` -> "
    "`entry.request is None`": ("what has a request has its response: the operand is for the type checker"),
    "spec/groups/consumer/ownership.py gives_back_in_time: `former.epoch >= JOINING_EPOCH` -> `former.epoch > "
    "JOINING_EPOCH`": ("who joins has had no other epoch before"),
    "spec/groups/consumer/actions.py groups_at: `place == PLACES[-1]` -> `place != PLACES[-1]`": (
        "each batch is looked at all the same, and some several times"
    ),
    "spec/groups/consumer/ownership.py owners_are_not_refused: `1` -> `2` in `process.epoch + 1`": (
        "what is not held is held since a later epoch, however much later"
    ),
    "spec/groups/consumer/properties.py one_committer: `0` -> `1` in `CommitRequest(number, process.member_id, "
    "process.epoch, partition, 0)`": ("whether a commit is taken does not depend on the offset"),
    "spec/groups/migration/rules.py MigrationRules.generation_error: `member is not None and generation == "
    "member.epoch` -> `generation == member.epoch`": (
        "who is no member is refused before (`side_error`): the operand is for the type checker"
    ),
    "spec/groups/migration/classic_side.py join: `request.owned or ()` -> `request.owned`": (
        "a JoinGroup says what its member owns: the operand is for the type checker"
    ),
    "spec/groups/migration/classic_side.py replace: `request.owned or ()` -> `request.owned`": (
        "a JoinGroup says what its member owns: the operand is for the type checker"
    ),
    "spec/groups/migration/properties.py replacements: `is_same or before.group is None or after.group is None` -> "
    "`before.group is None or after.group is None`": (
        "of the same members none has another member id: the operand saves looking"
    ),
    "spec/groups/migration/requests.py ReceiveHeartbeat.outcome: `request.classic and request.member_id == NONE` -> "
    "`request.member_id == NONE`": (
        "a process of KIP-848 makes its member id itself: only a JoinGroup comes without one"
    ),
    "spec/groups/migration/rules.py MigrationRules.side_error: `member is not None and member.classic == classic` -> "
    "`member.classic == classic`": "who is no member is refused before: the operand is for the type checker",
    "spec/groups/migration/classic_side.py told_replaced: `group is None or member is None or (not "
    "member.joined) or (group.standing is not Standing.STABLE)` -> `member is None or not member.joined or "
    "group.standing is not Standing.STABLE`": (
        "without a group there is no member: the operand is for the type checker"
    ),
    "spec/groups/migration/properties.py the_replaced_end: `old is new or not old.epoch > JOINING_EPOCH == "
    "new.epoch or (not (old.works and new.works))` -> `not old.epoch > JOINING_EPOCH == new.epoch or not "
    "(old.works and new.works)`": ("no epoch is both above another one and equal to it: the operand saves comparing"),
}
"""Name of a mutant -> why it is equivalent."""
