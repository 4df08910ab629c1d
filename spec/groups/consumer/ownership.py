"""What must hold of who has a partition from step to step, and of whose commit of it is taken."""

from __future__ import annotations

from tidegauge.spec.groups.consumer.requests import ReceiveCommit, ReceiveHeartbeat
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    CommitRequest,
    Error,
    Group,
    Member,
    State,
    partitions_of,
)
from tidegauge.spec.kernel.each import holds_of_each
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant


def owners_commit(before: State, action: Action, after: State) -> bool:
    """A commit that is taken is of the member that has the partition, or that nobody has followed yet."""
    if not isinstance(action, ReceiveCommit) or (before.log, before.appended) == (after.log, after.appended):
        return True
    return before.group is not None and is_last_owner(before.group, action.request)


def is_last_owner(group: Group, request: CommitRequest) -> bool:
    """Whether a member has the partition, or has given it back in the target's epoch, in which it is nobody else's."""
    member = group.member(request.member_id)
    if member is None or request.partition in member.held:
        return member is not None
    is_free = all(request.partition not in one.held for one in group.members)
    return is_free and request.epoch == group.target_epoch


def one_owner_in_each_epoch(before: State, action: Action, after: State) -> bool:
    """No partition has two owners in one member epoch, not even one after the other (KAFKA-19974).

    Partitions are given in the epoch of the target. So what a member gives back it had in an epoch before that, or the
    target gives it to nobody else.
    """
    old, new = before.log.group, after.log.group
    return old is new or all(gives_back_in_time(former, new) for former in old.members)


def gives_back_in_time(former: Member, new: Group) -> bool:
    """Whether a member has what it had, or had it in an epoch before the target's, or it is nobody else's in that."""
    member = new.member(former.member_id) or new.of_instance(former.instance)
    name = former.member_id if member is None else member.member_id
    kept = {} if member is None else member.held
    gone = [partition for partition in former.held if partition not in kept]
    if not gone:
        return True
    epoch = former.epoch if former.epoch >= JOINING_EPOCH else former.previous_epoch
    if epoch != new.target_epoch:
        return epoch < new.target_epoch
    owners = {partition: member_id for member_id, has in new.target for partition in has}
    return all(owners.get(partition, name) == name for partition in gone)


def only_what_is_wanted_is_assigned(machine: ConsumerRules) -> StepInvariant[State]:
    """A member whose heartbeat is taken is left nothing of a topic that it wants no more, or that there is no more.

    That it has to give back; it does not wait for the next target with it (KAFKA-19431).
    """

    def holds(before: State, action: Action, after: State) -> bool:
        if not isinstance(action, ReceiveHeartbeat) or before.group is None or after.group is None:
            return True
        request = action.request
        member = after.group.member(request.member_id)
        if member is None:
            return True
        wanted, assigned = after.group.wants(member), partitions_of(member.assigned)
        if all(one % machine.topics in wanted and machine.is_there(after, one) for one in assigned):
            return True
        instance = machine.instance_of(request.process)
        return machine.heartbeat_error(before.group, instance, request) is not Error.NONE

    return holds


def owners_are_not_refused(machine: ConsumerRules) -> Invariant[State]:
    """A process may commit what its member has, in the epoch that the coordinator has told it last (KIP-1251)."""

    def holds(number: int, state: State) -> bool:
        group, process = state.group, state.processes[number]
        member = group.member(process.member_id) if group is not None else None
        if group is None or member is None or not JOINING_EPOCH < process.epoch <= member.epoch:
            return True
        for partition in process.owned:
            is_held = member.held.get(partition, process.epoch + 1) <= process.epoch
            request = CommitRequest(number, process.member_id, process.epoch, partition, 0)
            if is_held and machine.commit_error(group, request) is not Error.NONE:
                return False
        return True

    holds.__doc__ = owners_are_not_refused.__doc__
    return holds_of_each(range(machine.processes), holds)
