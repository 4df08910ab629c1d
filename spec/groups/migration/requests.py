"""What members of both protocols send to the coordinator, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.groups.consumer import requests
from tidegauge.spec.groups.consumer.actions import ConsumerAction, appended
from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, Stage, Standing
from tidegauge.spec.groups.consumer.requests import Outcome
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    NONE,
    Entry,
    Error,
    HeartbeatRequest,
    Process,
    ProcessNumber,
    Response,
    State,
    partitions_of,
)
from tidegauge.spec.groups.migration.classic_side import dissolve, join, remove, sync
from tidegauge.spec.groups.migration.rules import MigrationRules
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal


def migrating(machine: ConsumerRules) -> MigrationRules:
    """The rules, of a machine that has both protocols."""
    assert isinstance(machine, MigrationRules), "these actions are no others'"
    return machine


@attrs.frozen
class ReceiveHeartbeat(requests.ReceiveHeartbeat):
    """A ConsumerGroupHeartbeat or a JoinGroup reaches the coordinator, and may bring the group over."""

    def outcome(self, machine: ConsumerRules, state: State) -> Outcome:
        rules, request = migrating(machine), self.request
        if state.group is None:
            return Error.COORDINATOR_LOAD_IN_PROGRESS, state
        if request.classic and request.member_id == NONE:
            return self.named(rules, state)
        if request.classic and (state.classic is not None or not state.group.members):
            return self.joined(rules, state)
        if state.classic is None:
            return super().outcome(machine, state)
        if request.epoch != JOINING_EPOCH:
            instance = rules.instance_of(request.process)
            return self.refused(
                rules, state, rules.heartbeat_in_classic_error(state.classic, instance, request.member_id)
            )
        if not rules.upgrades(state.classic):
            return Error.GROUP_ID_NOT_FOUND, state
        return super().outcome(machine, dissolve(rules, state))

    def named(self, machine: MigrationRules, state: State) -> Outcome:
        """A static member that does not know its member id is given one; who has had the instance id before is out."""
        member_id = machine.new_member_id(state)
        state = evolve(state, member_ids=member_id + 1)
        if not self.late:
            process = state.processes[self.request.process]
            state = state.with_process(self.request.process, evolve(process, member_id=member_id))
        return attrs.evolve(self, request=evolve(self.request, member_id=member_id)).outcome(machine, state)

    def joined(self, machine: MigrationRules, state: State) -> Outcome:
        """A JoinGroup in a classic group; only who has no generation may be new."""
        request, group = self.request, state.classic or ClassicGroup()
        error = machine.classic_member_error(group, machine.instance_of(request.process), request.member_id)
        if error and not request.full:
            return self.refused(machine, state, error)
        if not self.late:
            process = state.processes[request.process]
            state = state.with_process(request.process, evolve(process, waiting=True))
        return Error.NONE, join(machine, state, request)

    def refused(self, machine: MigrationRules, state: State, error: Error) -> Outcome:
        """The process, if it waits for the response, learns of the error."""
        number = self.request.process
        if self.late:
            return error, state
        return error, state.with_process(number, machine.after_error(state.processes[number], error))


@attrs.frozen
class LoseResponse(requests.LoseResponse):
    """A heartbeat or JoinGroup does what it does, and its process has no response."""

    receive = ReceiveHeartbeat


@attrs.frozen
class ReceiveLeave(requests.ReceiveLeave):
    """A member of either protocol leaves; the group may go over when the last one of KIP-848 does."""

    def error(self, machine: ConsumerRules, state: State) -> Error:
        if state.classic is None:
            return super().error(machine, state)
        rules, request = migrating(machine), self.request
        instance = rules.instance_of(request.process)
        if not request.classic:
            return rules.heartbeat_in_classic_error(state.classic, instance, request.member_id)
        return rules.classic_member_error(state.classic, instance, request.member_id)

    def effect(self, machine: ConsumerRules, state: State) -> State:
        if state.classic is None:
            return super().effect(machine, state)
        error = self.error(machine, state)
        state = state.with_process(self.request.process, Process()).spend(self.bounded_as)
        return state if error else remove(migrating(machine), state, self.request.member_id)


# --- of the classic protocol only ----------------------------------------------------------------------------------


@attrs.frozen
class ClassicRequest(ConsumerAction):
    """A request that names a generation; one that changes nothing is refused, whatever its error is."""

    process: ProcessNumber

    stage: ClassVar[Stage]
    """In which stage it is sent."""
    while_loading: ClassVar[Error]
    """What it is told by a coordinator that is loading, which knows of no rebalance."""

    @classmethod
    def candidates(cls, machine: ConsumerRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.processes)]

    def outcome(self, machine: MigrationRules, state: State) -> Outcome:
        """What becomes of it."""
        process = state.processes[self.process]
        error = self.while_loading if state.group is None else self.error(machine, state, process)
        if error:
            return error, state.with_process(self.process, machine.after_error(process, error))
        return error, state if state.group is None else self.taken(machine, state)

    def error(self, machine: MigrationRules, state: State, process: Process) -> Error:
        """Why it is refused."""
        raise NotImplementedError

    def taken(self, machine: MigrationRules, state: State) -> State:
        """What comes of it if it is not."""
        return state

    def guard(self, machine: ConsumerRules, state: State) -> str:
        process = state.processes[self.process]
        if not process.classic or not process.works or process.waiting or process.stage is not self.stage:
            return "the process does not send it now"
        error, after = self.outcome(migrating(machine), state)
        return Refusal(f"the request changes nothing: {error.name}", error) if after == state else ""

    def effect(self, machine: ConsumerRules, state: State) -> State:
        _, after = self.outcome(migrating(machine), state)
        return after


@attrs.frozen
class ReceiveSync(ClassicRequest):
    """SyncGroup reaches the coordinator: of a consumer group it tells what the member has there.

    One that is loading has lost the rebalance: the member joins again.
    """

    stage = Stage.JOINED
    while_loading = Error.REBALANCE_IN_PROGRESS

    def error(self, machine: MigrationRules, state: State, process: Process) -> Error:
        instance = machine.instance_of(self.process)
        if (group := state.classic) is not None:
            error = machine.classic_error(group, instance, process.member_id, process.epoch)
            is_joining = group.standing is Standing.PREPARING
            return Error.REBALANCE_IN_PROGRESS if error is Error.NONE and is_joining else error
        if error := machine.generation_error(state.loaded, instance, process.member_id, process.epoch):
            return error
        member = state.loaded.member(process.member_id)
        assert member is not None, "it is known"
        return Error.NONE if machine.may_sync(state.loaded, member) else Error.REBALANCE_IN_PROGRESS

    def taken(self, machine: MigrationRules, state: State) -> State:
        if state.classic is not None:
            return sync(machine, state, self.process)
        process = state.processes[self.process]
        member = state.loaded.member(process.member_id)
        assert member is not None, "it is known"
        assigned = partitions_of(member.assigned)
        if not state.appended or not machine.tells_when_committed():
            return state.with_process(self.process, machine.after_assignment(process, assigned))
        asked = HeartbeatRequest(self.process, process.member_id, process.epoch, classic=True)
        entry = Entry(request=asked, response=Response(process.epoch, assigned))
        return appended(machine, state.with_process(self.process, evolve(process, waiting=True)), entry)


@attrs.frozen
class ReceiveBeat(ClassicRequest):
    """A Heartbeat of the classic protocol reaches the coordinator, and says that the member has to join again.

    While it is loading it says nothing of that.
    """

    stage = Stage.IN
    while_loading = Error.NONE

    def error(self, machine: MigrationRules, state: State, process: Process) -> Error:
        instance = machine.instance_of(self.process)
        if (group := state.classic) is not None:
            error = machine.classic_error(group, instance, process.member_id, process.epoch)
            is_joining = group.standing is Standing.PREPARING
            return Error.REBALANCE_IN_PROGRESS if error is Error.NONE and is_joining else error
        if error := machine.generation_error(state.loaded, instance, process.member_id, process.epoch):
            return error
        member = state.loaded.member(process.member_id)
        assert member is not None, "it is known"
        return Error.REBALANCE_IN_PROGRESS if machine.must_rejoin(state.loaded, member) else Error.NONE
