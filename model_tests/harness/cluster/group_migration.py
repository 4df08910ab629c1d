"""A trio cluster in lockstep with a group that goes over: members of both protocols, over the network.

Theory of operation
-------------------
The requests of KIP-848's members are those of `consumer_groups`. A classic member sends JoinGroup, SyncGroup, Heartbeat
and LeaveGroup. In a classic group the first two wait in the cluster until the coordinator responds. What a process is
after an action, is what the machine's rules make of the response that it really had; so its fields are compared too.

When a copy of a JoinGroup arrives late, the coordinator tells who waits already to join again, and tells the copy what
it has to tell; for the specification one request of a member waits. So the process goes on waiting for the copy's.

The time to join again begins when a Heartbeat or SyncGroup has told the member of it. For the specification it may be
over before: no broker ends it then, and both sides skip that.

Which member leads a classic group is the specification's, as beside the cores.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.coordinators.groups.classic.turn import Timer
from tidegauge.impl.coordinators.groups.consumer.records import MEMBER
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.log_entries import ConsumerGroupWritten
from tidegauge.model_tests.harness.cluster import consumer_requests, group_requests
from tidegauge.model_tests.harness.cluster import migration_requests as wire
from tidegauge.model_tests.harness.cluster.consumer_groups import (
    Appended,
    Call,
    ConsumerCluster,
    end_interval,
    fail_over,
    load,
)
from tidegauge.model_tests.harness.cluster.migration_brokers import MigrationBrokers
from tidegauge.model_tests.harness.cores.consumer_abstraction import (
    GROUP,
    Numbers,
    abstract_group,
    abstract_offsets,
    error_as_specified,
    instance_name,
    member_name,
)
from tidegauge.model_tests.harness.cores.group_migration import CORRECT_MIGRATION, TIMERS, MigrationRoles
from tidegauge.model_tests.harness.cores.migration_abstraction import abstract_classic, abstract_metadata
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.groups.consumer import processes
from tidegauge.spec.groups.consumer import requests as consumer
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer import timing as consumer_timing
from tidegauge.spec.groups.consumer.state import NONE, Process, State
from tidegauge.spec.groups.migration import requests, timing
from tidegauge.spec.groups.migration.machine import GroupMigration as Machine
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

CLIENT: Final = "operator"
"""The client id of who asks."""
NOBODY: Final = (ErrorCode.not_coordinator, ErrorCode.coordinator_not_available)
"""The errors of a coordinator that is none any more."""


class MigrationCluster(ConsumerCluster):
    """One group at its coordinator, in the machine's initial state."""

    machine: Machine
    brokers: MigrationBrokers

    def __init__(self, machine: Machine, roles: MigrationRoles = CORRECT_MIGRATION) -> None:
        self.machine = machine
        self.numbers = Numbers(machine)
        self.appended: list[Appended] = []
        self.call: Call | None = None
        self.found_coordinator = None
        self.sent = 0
        """JoinGroups: no two say the same."""
        self.given: dict[int, str] = {}
        """The member ids that the coordinator has made, or would make."""
        self.waits: dict[int, Call] = {}
        """By process: its JoinGroup or SyncGroup, which a classic group lets wait."""
        self.copies: dict[int, list[Call]] = {}
        """By process: its JoinGroups that came late, in the order in which they did."""
        self.after: dict[int, Process] = {}
        """What a process has become by the response that it had in this action."""
        self.brokers = MigrationBrokers(machine, roles, self.numbers)

    def perform(self, action: Action, before: State) -> None:
        self.call = None
        self.after.clear()
        if type(action) in STEPS:
            self.brokers.run.call(self._perform, action, before)

    async def _perform(self, action: Action, before: State) -> None:
        await STEPS.perform(self, action, before)
        await wait_all_tasks_blocked()
        self.tell_who_waits(before)

    def can_perform(self, action: Action, before: State) -> bool:
        """The time to join again runs once the member has been told of it."""
        if not isinstance(action, timing.ExpireRejoin) or before.group is None:
            return True
        return self.brokers.is_waited_for(TIMERS[timing.ExpireRejoin], self.name_of(action.member_id))

    # --- requests ----------------------------------------------------------------------------------------------------

    def name_of(self, member_id: int) -> str:
        """The member id: the coordinator makes those of classic members."""
        return self.given.get(member_id, member_name(member_id))

    async def send(self, request: spec.HeartbeatRequest, state: State, *, late: bool) -> Call:
        """A ConsumerGroupHeartbeat, JoinGroup or LeaveGroup."""
        name, instance_id = self.name_of(request.member_id), instance_name(self.machine, request.process)
        if not request.classic:
            return await self.ask(consumer_requests.heartbeat(self.machine, request, self.numbers, name))
        if request.epoch == spec.LEAVING_EPOCH:
            return await self.ask(group_requests.leave(name, instance_id))
        call = await self.join(request, state)
        if late and not call.responses:
            self.copies.setdefault(request.process, []).append(call)
        return call

    async def join(self, request: spec.HeartbeatRequest, state: State) -> Call:
        """A JoinGroup. One that the coordinator does not know is given its member id first, and joins with that."""
        self.sent += 1
        instance_id = instance_name(self.machine, request.process)
        if request.member_id == NONE:
            self.brokers.member_ids = state.member_ids
            self.given[state.member_ids] = f"{instance_id}-{state.member_ids:03}"
            return await self.ask(wire.join(self.machine, request, "", instance_id, self.sent))
        if request.full and instance_id is None and not self.is_member(request.member_id):
            self.brokers.member_ids = request.member_id
            self.given[request.member_id] = f"{CLIENT}-{request.member_id:03}"
            call = await self.ask(wire.join(self.machine, request, "", None, self.sent))
            (told,) = call.responses
            if told.error_code is not ErrorCode.member_id_required:
                return call
            assert told.member_id == self.name_of(request.member_id), f"{told.member_id} is given"
        name = self.name_of(request.member_id)
        return await self.ask(wire.join(self.machine, request, name, instance_id, self.sent))

    def is_member(self, member_id: int) -> bool:
        """Whether the coordinator knows the member, in either type of group."""
        if (core := self.brokers.core) is None:
            return False
        group = core.classic.get(GROUP) or core.migration.consumer_group(GROUP)
        return group is not None and self.name_of(member_id) in group.members

    async def commit(self, request: spec.CommitRequest) -> Call:
        name, instance_id = self.name_of(request.member_id), instance_name(self.machine, request.process)
        return await self.ask(consumer_requests.commit(self.machine, request, name, instance_id))

    async def sync(self, number: int, state: State) -> Call:
        """A SyncGroup; the leader's has what everybody is to have."""
        process, shares = state.processes[number], {}
        if state.classic is not None and state.classic.leader == process.member_id:
            shares = self.machine.shares(state.classic)
        given = {self.name_of(one): has for one, has in shares.items()}
        name, instance_id = self.name_of(process.member_id), instance_name(self.machine, number)
        return await self.ask(wire.sync(self.machine, process.epoch, name, instance_id, given))

    async def beat(self, number: int, state: State) -> Call:
        """A Heartbeat of the classic protocol."""
        process = state.processes[number]
        name, instance_id = self.name_of(process.member_id), instance_name(self.machine, number)
        return await self.ask(wire.heartbeat(process.epoch, name, instance_id))

    # --- responses ---------------------------------------------------------------------------------------------------

    def error_of(self, call: Call) -> spec.Error:
        """The error of a response, none as long as there is no response.

        A consumer group that is not there has no members; a classic one that stays one is not found.
        """
        error = wire.error_of(call.responses[0]) if call.responses else ErrorCode.none
        core = self.brokers.core
        is_classic = core is not None and core.classic.get(GROUP) is not None
        return spec.Error((error if is_classic else error_as_specified(error)).value)

    def check(self, call: Call, expected: spec.Error) -> None:
        found = self.error_of(call)
        assert found is expected, f"{expected.name} is told, and not {found.name}"

    def tell(self, number: int, call: Call, process: Process, request: spec.HeartbeatRequest | None = None) -> None:
        """A process has its response: what it becomes by that."""
        self.after[number] = self.told(call, process, request)

    def told(self, call: Call, process: Process, request: spec.HeartbeatRequest | None) -> Process:
        machine, (response,) = self.machine, call.responses
        if (error := self.error_of(call)) is not spec.Error.NONE:
            return process if error is spec.Error.UNRELEASED_INSTANCE_ID else machine.after_error(process, error)
        if not process.classic:
            assert request is not None, "a heartbeat has a response of its own"
            epoch, places = consumer_requests.told(response)
            assigned = None if places is None else tuple(sorted(map(self.numbers.partition, places)))
            return machine.after_response(process, request, spec.Response(epoch, assigned))
        if not wire.has_joined(response):
            return machine.after_assignment(process, wire.assigned(machine, response))
        process = evolve(process, member_id=wire.member_of(response))
        if response.leader:
            return machine.after_generation(process, wire.generation_of(response))
        assert request is not None, "nobody leads a consumer group, and who joins it waits for its record only"
        return machine.after_response(process, request, spec.Response(wire.generation_of(response)))

    def tell_who_waits(self, before: State) -> None:
        """Who has waited, and has a response now."""
        for number, call in [(number, call) for number, call in self.waits.items() if call.responses]:
            response = call.responses[0]
            if response is None or wire.error_of(response) in NOBODY:
                del self.waits[number]
            elif wire.error_of(response) is ErrorCode.rebalance_in_progress and self.copies.get(number):
                self.waits[number] = self.copies[number].pop()
            else:
                del self.waits[number]
                self.tell(number, call, before.processes[number])
        self.copies = {number: of for number, of in self.copies.items() if number in self.waits}

    # --- requests that are refused -----------------------------------------------------------------------------------

    def can_send(self, kind: type[Action]) -> bool:
        return issubclass(kind, SENT)

    def refuse(self, action: Action, before: State) -> spec.Error:  # type: ignore[override]
        """Send what is refused, or changes nothing; returns the error."""
        self.call = None
        self.after.clear()
        return self.brokers.run.call(self._refuse_action, action, before)

    async def _refuse_action(self, action: Action, before: State) -> spec.Error:
        if isinstance(action, consumer.ReceiveCommit):
            call = await self.commit(action.request)
        elif isinstance(action, requests.ReceiveBeat):
            call = await self.beat(action.process, before)
        elif isinstance(action, requests.ReceiveSync):
            call = await self.sync(action.process, before)
        else:
            assert isinstance(action, requests.ReceiveHeartbeat | requests.ReceiveLeave), "no other one can be sent"
            call = await self.send(action.request, before, late=True)
        error = self.error_of(call)
        self.tell_who_waits(before)
        return error

    # --- as the specification has it ---------------------------------------------------------------------------------

    async def _abstraction(self, expected: State) -> State:
        await self.take_in_all(len(expected.appended))
        self.numbers.now_ms = self.brokers.now_ms
        reader = GroupCoordinator(Limits())
        committed, _ = self.brokers.entries()
        reader.replay(committed)
        logged = abstract_group(reader.consumers.committed.get(GROUP), self.numbers, expected.log.group)
        offsets = abstract_offsets(committed, self.machine, (spec.Offset(),) * self.machine.most_partitions)
        log = spec.Log(logged, offsets, abstract_metadata(reader.offsets.metadata.get(GROUP), self.machine))
        told = tuple(self.as_told(number, one) for number, one in enumerate(expected.processes))
        expected = evolve(expected, processes=told, log=log)
        core = self.brokers.core
        if core is None:
            return evolve(expected, group=None, classic=None)
        if core.classic.get(GROUP) is not None:
            return evolve(expected, classic=self.abstract_classic(core, expected))
        known = expected.group or spec.Group()
        return evolve(expected, group=abstract_group(core.consumers.get(GROUP), self.numbers, known), classic=None)

    def as_told(self, number: int, expected: Process) -> Process:
        """A process: it waits, or it is what its response has made of it; else nobody has told it anything."""
        if number in self.waits:
            return evolve(expected, waiting=True)
        return self.after.get(number, expected)

    def abstract_classic(self, core: GroupCoordinator, expected: State) -> Any:
        """The classic group in memory, with the leader that it has in the specification."""
        group, beneath = core.classic.get(GROUP), core.consumers.get(GROUP)
        assert group is not None, "it is there"
        assert beneath is None or not beneath.members, "the group is of both types"
        leader = NONE if expected.classic is None else expected.classic.leader
        if self.name_of(leader) in group.members:
            group.leader = self.name_of(leader)
        abstract = abstract_classic(group, self.machine)
        assert abstract is not None, "it is there"
        if NONE in (abstract.leader, leader):  # one that is out leads until there is another one
            return abstract
        return evolve(abstract, leader=leader)

    async def take_in_all(self, count: int) -> None:
        """What was appended by the last action.

        Who joins again may say of itself what is new to the record alone: the specification has no batch for that, and
        it is committed with the one before.
        """
        known = max((one.end for one in self.appended if one.end is not None), default=self.brokers.committed)
        if self.brokers.end == known or len(self.appended) < count:
            self.take_in(count)
            return
        _, appended = self.brokers.entries()
        kinds = {
            one.key.kind if isinstance(one, ConsumerGroupWritten) else None
            for one in appended
            if one.log_offset >= known
        }
        assert kinds == {MEMBER}, f"{kinds} is written, and changes nothing"
        if self.appended:
            self.appended[-1].end = self.brokers.end
        else:
            await self.brokers.commit_up_to(self.brokers.log_topic, 0, self.brokers.end)
            await wait_all_tasks_blocked()


# --- one action of the specification = one function ------------------------------------------------------------------


async def receive(cluster: MigrationCluster, action: requests.ReceiveHeartbeat, before: State) -> None:
    """A heartbeat or JoinGroup reaches the coordinator. Its error is the specification's; none as long as it waits."""
    call = await cluster.send(action.request, before, late=action.late)
    error, after = action.outcome(cluster.machine, before)
    cluster.check(call, error)
    if not action.late:
        await respond(cluster, action.request, call, before, after)


async def respond(
    cluster: MigrationCluster, request: spec.HeartbeatRequest, call: Call, before: State, after: State
) -> None:
    """A process has its response, or waits: for a record that is committed, or in a classic group for the others."""
    number, process = request.process, before.processes[request.process]
    is_written = len(after.appended) > len(before.appended)
    if is_written and after.appended[-1].request is not None:
        cluster.call = call
    elif after.processes[number].waiting:
        cluster.waits[number] = call
    elif call.responses:
        cluster.tell(number, call, process, request)


async def receive_sync(cluster: MigrationCluster, action: requests.ReceiveSync, before: State) -> None:
    number, process = action.process, before.processes[action.process]
    call = await cluster.sync(number, before)
    error, after = action.outcome(cluster.machine, before)
    cluster.check(call, error)
    request = spec.HeartbeatRequest(number, process.member_id, process.epoch, classic=True)
    await respond(cluster, request, call, before, after)


async def receive_beat(cluster: MigrationCluster, action: requests.ReceiveBeat, before: State) -> None:
    call = await cluster.beat(action.process, before)
    error, _ = action.outcome(cluster.machine, before)
    cluster.check(call, error)
    if error is not spec.Error.NONE:
        cluster.tell(action.process, call, before.processes[action.process])


async def receive_commit(cluster: MigrationCluster, action: consumer.ReceiveCommit, before: State) -> None:
    cluster.check(await cluster.commit(action.request), action.outcome(cluster.machine, before)[0])


async def leave(cluster: MigrationCluster, action: requests.ReceiveLeave, before: State) -> None:
    cluster.waits.pop(action.request.process, None)
    await cluster.send(action.request, before, late=True)


async def lose_response(cluster: MigrationCluster, action: requests.LoseResponse, before: State) -> None:
    request = cluster.machine.heartbeat_request(before, action.process)
    assert request is not None, "the guard says so"
    await cluster.send(request, before, late=True)


async def crash(cluster: MigrationCluster, action: processes.Crash, before: State) -> None:
    cluster.waits.pop(action.process, None)


async def fetch_offsets(cluster: MigrationCluster, action: processes.FetchOffsets, before: State) -> None:
    """Where to go on: what the coordinator tells is what the log says."""
    call = await cluster.ask(wire.fetch_offsets(cluster.machine, before.partitions))
    found = wire.fetched(cluster.machine, call.responses[0])
    expected = {place: before.log.offsets[place].value for place in range(before.partitions)}
    assert found == expected, f"partitions are at {expected}, and not at {found}"


async def expire(cluster: MigrationCluster, action: consumer_timing.MemberTimeout, before: State) -> None:
    name = cluster.name_of(action.member_id)
    if before.classic is not None:
        await cluster.brokers.meet(Timer.SESSION, name)
    else:
        await cluster.brokers.meet_member(TIMERS[type(action)], name)


async def end_joining(cluster: MigrationCluster, action: timing.EndJoining, before: State) -> None:
    """The wait for the first members is put off while more come: it ends in the end."""
    await cluster.brokers.meet(Timer.JOIN)
    while cluster.brokers.group.initial is not None:
        await cluster.brokers.meet(Timer.JOIN)


async def commit_record(cluster: MigrationCluster, action: timing.CommitRecord, before: State) -> None:
    """Who has waited for it has its response; of others nobody is told."""
    first, entry = cluster.appended.pop(0), before.appended[0]
    if first.end is not None:
        await cluster.brokers.commit_up_to(cluster.brokers.log_topic, 0, first.end)
        await wait_all_tasks_blocked()
    if first.call is None or entry.request is None:
        return
    assert first.call.responses, "nobody has told the member"
    process = before.processes[entry.request.process]
    if process.waiting and process.member_id == entry.request.member_id:
        cluster.tell(entry.request.process, first.call, process, entry.request)


async def replace_coordinator(cluster: MigrationCluster, action: consumer_timing.FailOver, before: State) -> None:
    cluster.waits.clear()
    await fail_over(cluster, action, before)


SENT: Final = (
    requests.ReceiveHeartbeat,
    consumer.ReceiveCommit,
    requests.ReceiveLeave,
    requests.ReceiveSync,
    requests.ReceiveBeat,
)
STEPS: Final = Steps[MigrationCluster, [State], Awaitable[None]](
    on(requests.ReceiveHeartbeat, receive),
    on(requests.ReceiveSync, receive_sync),
    on(requests.ReceiveBeat, receive_beat),
    on(consumer.ReceiveCommit, receive_commit),
    on(requests.ReceiveLeave, leave),
    on(requests.LoseResponse, lose_response),
    on(processes.Crash, crash),
    on(processes.FetchOffsets, fetch_offsets),
    on(timing.ExpireSession, expire),
    on(timing.ExpireRebalance, expire),
    on(timing.ExpireRejoin, expire),
    on(consumer_timing.EndInterval, end_interval),
    on(timing.EndJoining, end_joining),
    on(timing.CommitRecord, commit_record),
    on(consumer_timing.FailOver, replace_coordinator),
    on(consumer_timing.Load, load),
)
BY_PROCESSES: Final = (
    timing.Start,
    timing.StartOver,
    processes.GiveBack,
    processes.Reconcile,
    consumer.DelayHeartbeat,
    consumer.DelayCommit,
)
"""What no coordinator is told of."""
