"""A trio cluster in lockstep with classic groups: real requests over the network, to a coordinator that fails over.

Theory of operation
-------------------
A process is the native client's core of a member (`group_clients`). The harness sends what an action says, which has to
be what the core says, each request over a connection of its own, and gives it what it is told. A JoinGroup or SyncGroup
that has to wait waits in the cluster, and its response is on its way to the process when it comes. Who loses its
connection closes it. The response to a late request goes to nobody, but for that to a heartbeat or commit: it goes to
the member, whatever that is by then. A connection that ends when the coordinator's machine dies is, for who waits, a
coordinator that is none any more.

FindCoordinator says where requests go, and is asked again when the coordinator changes. Deadlines are met one by one,
by the task of the broker that meets them (`group_brokers`).

Of the state that is compared the coordinator's memory, its log and all responses are the cluster's, and what processes
make of their responses is the members'. Which member a record of the group is to tell of its replacement is in no
record: it is the specification's here, and shows when the record is committed.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

import attrs
import trio
from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.coordinators.groups.classic.state import Token
from tidegauge.impl.coordinators.groups.classic.turn import Timer
from tidegauge.impl.ports.network import Address
from tidegauge.model_tests.harness.cluster import group_requests as wire
from tidegauge.model_tests.harness.cluster.group_brokers import GroupBrokers
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cores.classic_groups import CORRECT_GROUPS, GroupRoles
from tidegauge.model_tests.harness.cores.group_abstraction import abstract_group, abstract_log, abstract_logged
from tidegauge.model_tests.harness.cores.group_clients import GroupClients
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.groups.classic import actions, processes, requests, timing
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import NONE, Phase, State
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

CLIENT: Final = "operator"
"""The client id of who asks."""


@attrs.define(eq=False)
class Call:
    """A request that was sent: who has the response, and the response when it has come (None if it never will)."""

    process: int
    responses: list[Any] = attrs.field(factory=list)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class GroupCluster:
    """One group at its coordinator, in the machine's initial state."""

    def __init__(self, machine: ClassicGroups, roles: GroupRoles = CORRECT_GROUPS) -> None:
        self.machine = machine
        self.waiting: list[Call] = []
        self.calls: dict[Token, Call] = {}
        """What the coordinator knows a request as that waits."""
        self.responses: dict[int, spec.Response] = {}
        """What is on its way to a process."""
        self.names: dict[int, str] = {}
        """The member ids that were given, by their numbers."""
        self.clients = GroupClients(machine, roles.clients)
        self.found_coordinator: Address | None = None
        self.brokers = GroupBrokers(machine, roles)

    def close(self) -> None:
        """Stop the cluster."""
        self.brokers.close()

    def perform(self, action: Action, before: State) -> None:
        """Perform the action, and wait until every task waits."""
        if type(action) in STEPS:
            self.brokers.run.call(self._perform, action, before)

    async def _perform(self, action: Action, before: State) -> None:
        await STEPS.perform(self, action, before)
        await wait_all_tasks_blocked()
        self.collect()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def coordinator(self) -> Address:
        """Where the coordinator is, as a broker says that has no part in it."""
        if self.found_coordinator is None:
            asked = self.brokers.cluster.broker(len(self.brokers.coordinators)).address
            (response,) = await self.brokers.asked(asked, wire.find())
            (found,) = response.coordinators
            assert found.error_code is ErrorCode.none, found
            self.found_coordinator = Address(found.host, found.port)
        return self.found_coordinator

    async def ask(self, process: int, message: Any) -> Call:
        """Send a request to the coordinator; what waits for its response is known by the token that is new."""
        call = Call(process)
        address = await self.coordinator()

        async def asking() -> None:
            with call.scope:
                call.responses.append(await ask_at(self.brokers.cluster, address, message))

        self.brokers.nursery.start_soon(asking)
        await wait_all_tasks_blocked()
        if not call.responses:
            self.waiting.append(call)
        self.calls = {token: self.calls.get(token, call) for token in self.tokens()}
        return call

    def tokens(self) -> list[Token]:
        """What waits at the coordinator."""
        if self.brokers.core is None:
            return []
        members = self.brokers.group.members.values()
        return [token for one in members for token in (one.joining, one.syncing) if token is not None]

    def process_of(self, token: Token) -> int:
        """The process that will have the response to a request that waits."""
        return self.calls[token].process

    def collect(self) -> None:
        """What has a response now is on its way to its process."""
        for call in [one for one in self.waiting if one.responses]:
            self.waiting.remove(call)
            if call.process != NONE:
                self.responses[call.process] = wire.told(call.responses[0])

    async def disconnect(self, process: int) -> None:
        """A process closes its connections: nobody has what it was to have."""
        self.responses.pop(process, None)
        for call in [one for one in self.waiting if one.process == process]:
            self.waiting.remove(call)
            call.process = NONE
            call.scope.cancel()
        await wait_all_tasks_blocked()

    # --- requests that are built -------------------------------------------------------------------------------------

    def name_of(self, member_id: int) -> str:
        """A member id, as the coordinator has given it, or would have."""
        return "" if member_id == NONE else self.names.get(member_id, f"{CLIENT}-{member_id}")

    def instance_of(self, process: int) -> str | None:
        instance = self.machine.instance_of(process)
        return None if instance == NONE else f"i{instance}"

    def join(self, request: spec.JoinRequest, given: int) -> Any:
        """The message; a member id that is given now has this number."""
        instance = self.instance_of(request.process)
        self.brokers.member_ids = given
        if request.member_id == NONE:
            self.names[given] = f"{instance or CLIENT}-{given}"
        protocols = self.machine.protocols_of(request.process)
        name = self.name_of(request.member_id)
        return wire.join(request, protocols, name, instance, knows_ids=self.machine.requires_id)

    def message(self, request: actions.Copied | spec.LeaveRequest, before: State) -> Any:
        """A request as it is on the wire."""
        name, instance = self.name_of(request.member_id), self.instance_of(request.process)
        match request:
            case spec.JoinRequest():
                return self.join(request, before.member_ids)
            case spec.SyncRequest():
                given = {self.name_of(share.member_id): share for share in request.shares}
                return wire.sync(request, name, instance, given)
            case spec.HeartbeatRequest():
                return wire.heartbeat(request, name, instance)
            case spec.CommitRequest():
                return wire.commit(request, name, instance)
            case spec.LeaveRequest():
                return wire.leave(name, instance)

    # --- requests that are refused -----------------------------------------------------------------------------------

    def can_send(self, kind: type[Action]) -> bool:
        return issubclass(kind, requests.SENT)

    def refuse(self, action: Action, before: State) -> ErrorCode:
        """Send what is refused, or changes nothing; returns the error."""
        assert isinstance(action, requests.SENT), "no other action can be sent"
        return self.brokers.run.call(self._refuse, action.request, before)

    async def _refuse(self, request: actions.Copied | spec.LeaveRequest, before: State) -> ErrorCode:
        call = await self.ask(NONE, self.message(request, before))
        self.collect()
        error = wire.error_of(call.responses[0]) if call.responses else ErrorCode.none
        if isinstance(request, spec.HeartbeatRequest):
            self.clients.told(request, self.name_of(request.member_id), error)
        return error

    # --- as the specification has it ---------------------------------------------------------------------------------

    def abstraction(self, expected: State) -> State:
        """The coordinator, the log, the members and the responses that are on their way to them."""
        return self.brokers.run.call(self._abstraction, expected)

    async def _abstraction(self, expected: State) -> State:
        for number, process in enumerate(expected.processes):
            if process.phase not in (Phase.JOINING, Phase.SYNCING):
                self.responses.pop(number, None)
        core, (committed, appended) = self.brokers.core, self.brokers.entries()
        records = [record for one in appended if (record := abstract_logged(one)) is not None]
        replacing = [*(entry.replacing for entry in expected.appended), *[NONE] * len(records)]
        return evolve(
            expected,
            processes=tuple(
                evolve(self.clients.abstraction(number, one), response=self.responses.get(number))
                for number, one in enumerate(expected.processes)
            ),
            group=None if core is None else abstract_group(self.brokers.group, self.process_of),
            log=abstract_log(committed, len(expected.log.offsets)),
            appended=tuple(map(spec.Entry, records, replacing)),
        )


# --- one action of the specification = one function ------------------------------------------------------------------


async def receive(cluster: GroupCluster, action: requests.Received, before: State) -> ErrorCode:
    """A request reaches the coordinator. Its error is the specification's; none as long as it waits."""
    may_wait = isinstance(action, requests.ReceiveJoin | requests.ReceiveSync) and not action.late
    call = await cluster.ask(action.request.process if may_wait else NONE, cluster.message(action.request, before))
    found = wire.error_of(call.responses[0]) if call.responses else ErrorCode.none
    expected, _ = action.outcome(cluster.machine, before)
    assert found.value == expected.value, f"{expected.name} is told, and not {found.name}"
    if may_wait and call.responses and found is ErrorCode.none:
        cluster.responses[action.request.process] = wire.told(call.responses[0])
    return found


async def receive_join(cluster: GroupCluster, action: requests.ReceiveJoin, before: State) -> None:
    if not action.late:
        cluster.clients.join(action.request)
    error = await receive(cluster, action, before)
    if not action.late and error is not ErrorCode.none:
        cluster.clients.refused_to_join(action.request.process, error, cluster.name_of(before.member_ids))


async def receive_sync(cluster: GroupCluster, action: requests.ReceiveSync, before: State) -> None:
    if not action.late:
        cluster.clients.sync(action.request)
    error = await receive(cluster, action, before)
    if not action.late and error is not ErrorCode.none:
        cluster.clients.of[action.request.process].failed(error)


async def receive_heartbeat(cluster: GroupCluster, action: requests.ReceiveHeartbeat, before: State) -> None:
    """The response reaches the member, however late the request was."""
    error = await receive(cluster, action, before)
    cluster.clients.told(action.request, cluster.name_of(action.request.member_id), error)


async def receive_commit(cluster: GroupCluster, action: requests.ReceiveCommit, before: State) -> None:
    if not action.late:
        cluster.clients.may_commit(action.request)
    error = await receive(cluster, action, before)
    if not action.late:
        cluster.clients.told(action.request, cluster.name_of(action.request.member_id), error)


async def leave(cluster: GroupCluster, action: requests.ReceiveLeave, before: State) -> None:
    process = action.request.process
    await cluster.disconnect(process)
    cluster.clients.of[process].leave()
    cluster.clients.stop(process)
    await cluster.ask(NONE, cluster.message(action.request, before))


async def receive_response(cluster: GroupCluster, action: processes.ReceiveResponse, before: State) -> None:
    response = cluster.responses.pop(action.process)
    cluster.clients.receive(action.process, response, cluster.name_of, before.partitions)


async def lose(cluster: GroupCluster, action: processes.LoseConnection, before: State) -> None:
    await cluster.disconnect(action.process)
    cluster.clients.lose_connection(action.process)


async def crash(cluster: GroupCluster, action: processes.Crash, before: State) -> None:
    await cluster.disconnect(action.process)
    cluster.clients.stop(action.process)


async def start(cluster: GroupCluster, action: processes.Start, before: State) -> None:
    cluster.clients.start(action.process)


async def resubscribe(cluster: GroupCluster, action: processes.Resubscribe, before: State) -> None:
    cluster.clients.resubscribe(action.process)


async def notice(cluster: GroupCluster, action: processes.NoticePartitions, before: State) -> None:
    cluster.clients.notice(action.process, before.partitions)


async def fetch_offsets(cluster: GroupCluster, action: processes.FetchOffsets, before: State) -> None:
    """Where to go on: what the coordinator tells is what the log says."""
    offsets = [one.value for one in before.log.offsets]
    call = await cluster.ask(NONE, wire.fetch_offsets(len(offsets)))
    found = wire.fetched(call.responses[0])
    assert found == offsets, f"partitions are at {offsets}, and not at {found}"


async def end_joining(
    cluster: GroupCluster, action: timing.EndInitialDelay | timing.ExpireRebalance, before: State
) -> None:
    """The wait for the first members is put off while more come: it ends in the end."""
    await cluster.brokers.meet(Timer.JOIN)
    while isinstance(action, timing.EndInitialDelay) and cluster.brokers.group.initial is not None:
        await cluster.brokers.meet(Timer.JOIN)


async def end_syncing(cluster: GroupCluster, action: timing.ExpireSync, before: State) -> None:
    await cluster.brokers.meet(Timer.SYNC)


async def end_session(cluster: GroupCluster, action: timing.ExpireSession, before: State) -> None:
    await cluster.brokers.meet(Timer.SESSION, cluster.name_of(action.member_id))


async def commit_record(cluster: GroupCluster, action: timing.CommitRecord, before: State) -> None:
    await cluster.brokers.commit_first()


async def fail_over(cluster: GroupCluster, action: timing.FailOver, before: State) -> None:
    cluster.found_coordinator = None
    await cluster.brokers.replace(action.kept)


async def load(cluster: GroupCluster, action: timing.Load, before: State) -> None:
    cluster.brokers.loads[0].set()


STEPS: Final = Steps[GroupCluster, [State], Awaitable[None]](
    on(requests.ReceiveJoin, receive_join),
    on(requests.ReceiveSync, receive_sync),
    on(requests.ReceiveHeartbeat, receive_heartbeat),
    on(requests.ReceiveCommit, receive_commit),
    on(requests.ReceiveLeave, leave),
    on(processes.Start, start),
    on(processes.Resubscribe, resubscribe),
    on(processes.NoticePartitions, notice),
    on(processes.ReceiveResponse, receive_response),
    on(processes.LoseConnection, lose),
    on(processes.Crash, crash),
    on(processes.FetchOffsets, fetch_offsets),
    on(timing.EndInitialDelay, end_joining),
    on(timing.ExpireRebalance, end_joining),
    on(timing.ExpireSync, end_syncing),
    on(timing.ExpireSession, end_session),
    on(timing.CommitRecord, commit_record),
    on(timing.FailOver, fail_over),
    on(timing.Load, load),
)
BY_PROCESSES: Final = (processes.Hang, processes.AddPartition, *actions.DELAYS)
"""What neither the coordinator nor a member is told of."""
