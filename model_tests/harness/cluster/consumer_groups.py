"""A trio cluster in lockstep with consumer groups (KIP-848): real requests over the network, to a real coordinator.

Theory of operation
-------------------
A process is the harness's: it sends what an action says, each request over a connection of its own. A heartbeat whose
records are not committed has its response when they are; it is held against the specification's then. Who is told that
there is another coordinator, or loses its connection, is told nothing.

The specification has a batch also for a response that only waits for what was decided before it: there is none in the
log. What the coordinator has in memory, and the log byte by byte, are the cluster's; what processes make of responses
is the specification's.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerTimer
from tidegauge.impl.coordinators.groups.consumer.rules import PAUSE_MS
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.ports.network import Address
from tidegauge.model_tests.harness.cluster import consumer_requests as wire
from tidegauge.model_tests.harness.cluster.consumer_brokers import ConsumerBrokers
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cores.consumer_abstraction import (
    CORRECT_CONSUMERS,
    GROUP,
    INTERVAL_MS,
    REFRESH_MS,
    ConsumerRoles,
    Numbers,
    abstract_group,
    abstract_offsets,
    abstract_resolving,
    check_error,
    check_told,
    error_as_specified,
    member_name,
)
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.groups.consumer import processes, requests, timing
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine
from tidegauge.spec.groups.consumer.state import State
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action


@attrs.define(eq=False)
class Call:
    """A request that was sent, and its response when that has come (None: it never will)."""

    responses: list[Any] = attrs.field(factory=list)


@attrs.define(eq=False)
class Appended:
    """A batch of the specification that is not committed."""

    end: int | None
    """Where it ends in the log; None if it is not there, for nothing is written."""
    call: Call | None = None
    """The heartbeat whose response comes when it is committed."""


class ConsumerCluster:
    """One group at its coordinator, in the machine's initial state."""

    def __init__(self, machine: Machine, roles: ConsumerRoles = CORRECT_CONSUMERS) -> None:
        self.machine = machine
        self.numbers = Numbers(machine)
        self.appended: list[Appended] = []
        self.call: Call | None = None
        """Of the action that is performed."""
        self.found_coordinator: Address | None = None
        self.brokers = ConsumerBrokers(machine, roles, self.numbers)

    def close(self) -> None:
        """Stop the cluster."""
        self.brokers.close()

    def perform(self, action: Action, before: State) -> None:
        """Perform the action, and wait until every task waits."""
        self.call = None
        if type(action) in STEPS:
            self.brokers.run.call(self._perform, action, before)

    async def _perform(self, action: Action, before: State) -> None:
        await STEPS.perform(self, action, before)
        await wait_all_tasks_blocked()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def ask(self, message: Any) -> Call:
        """Send a request to the coordinator, which a broker tells that has no part in it."""
        if self.found_coordinator is None:
            asked = self.brokers.cluster.broker(len(self.brokers.coordinators)).address
            (response,) = await self.brokers.asked(asked, wire.find())
            (found,) = response.coordinators
            assert found.error_code is ErrorCode.none, found
            self.found_coordinator = Address(found.host, found.port)
        call, address = Call(), self.found_coordinator

        async def asking() -> None:
            call.responses.append(await ask_at(self.brokers.cluster, address, message))

        self.brokers.nursery.start_soon(asking)
        await wait_all_tasks_blocked()
        return call

    def message(self, request: spec.HeartbeatRequest | spec.CommitRequest) -> Any:
        """A request as it is on the wire."""
        if isinstance(request, spec.CommitRequest):
            return wire.commit(self.machine, request)
        return wire.heartbeat(self.machine, request, self.numbers)

    def can_send(self, kind: type[Action]) -> bool:
        return issubclass(kind, SENT)

    def refuse(self, action: Action, before: State) -> ErrorCode:
        """Send what is refused, or changes nothing; returns the error."""
        assert isinstance(action, SENT), "no other action can be sent"
        return self.brokers.run.call(self._refuse, action.request)

    async def _refuse(self, request: spec.HeartbeatRequest | spec.CommitRequest) -> ErrorCode:
        call = await self.ask(self.message(request))
        return error_as_specified(wire.error_of(call.responses[0])) if call.responses else ErrorCode.none

    # --- as the specification has it ---------------------------------------------------------------------------------

    def abstraction(self, expected: State) -> State:
        """The group in memory, and the log."""
        return self.brokers.run.call(self._abstraction, expected)

    async def _abstraction(self, expected: State) -> State:
        self.take_in(len(expected.appended))
        self.numbers.now_ms = self.brokers.now_ms
        reader = GroupCoordinator(Limits())
        committed, _ = self.brokers.entries()
        reader.replay(committed)
        logged = abstract_group(reader.consumers.committed.get(GROUP), self.numbers, expected.log.group)
        offsets = abstract_offsets(committed, self.machine, (spec.Offset(),) * self.machine.most_partitions)
        core, group, resolving = self.brokers.core, None, None
        if core is not None:
            group = abstract_group(core.consumers.get(GROUP), self.numbers, expected.group or spec.Group())
            resolving = abstract_resolving(self.machine, core.consumers)
        return evolve(expected, group=group, resolving=resolving, log=spec.Log(logged, offsets))

    def take_in(self, count: int) -> None:
        """What was appended by the last action; the specification has so many batches that are not committed."""
        known = max((one.end for one in self.appended if one.end is not None), default=self.brokers.committed)
        has_grown = self.brokers.end > known
        assert not has_grown or len(self.appended) < count, "something is written that changes nothing"
        while len(self.appended) < count:
            self.appended.append(Appended(self.brokers.end if has_grown else None, self.call))


# --- one action of the specification = one function ------------------------------------------------------------------


async def receive(
    cluster: ConsumerCluster, action: requests.ReceiveHeartbeat | requests.ReceiveCommit, before: State
) -> None:
    """A request reaches the coordinator. Its error is the specification's; none as long as it waits."""
    call = await cluster.ask(cluster.message(action.request))
    error, after = action.outcome(cluster.machine, before)
    check_error(wire.error_of(call.responses[0]) if call.responses else ErrorCode.none, error)
    if isinstance(action, requests.ReceiveCommit) or action.late or error is not spec.Error.NONE:
        return
    if len(after.appended) > len(before.appended):
        cluster.call = call
    elif call.responses:
        check_response(cluster, call, requests.advanced(cluster.machine, before, action.request)[1])


def check_response(cluster: ConsumerCluster, call: Call, expected: spec.Response) -> None:
    assert call.responses, "nobody has told the member"
    assert wire.error_of(call.responses[0]) is ErrorCode.none, call.responses[0]
    check_told(cluster.numbers, *wire.told(call.responses[0]), expected)


async def send(cluster: ConsumerCluster, action: requests.ReceiveLeave | requests.LoseResponse, before: State) -> None:
    """Nobody looks at the response."""
    if isinstance(action, requests.LoseResponse):
        request = cluster.machine.heartbeat_request(before, action.process)
    else:
        request = action.request
    assert request is not None, "the guard says so"
    await cluster.ask(cluster.message(request))


async def expire(cluster: ConsumerCluster, action: timing.MemberTimeout, before: State) -> None:
    timer = ConsumerTimer.SESSION if isinstance(action, timing.ExpireSession) else ConsumerTimer.REBALANCE
    await cluster.brokers.meet_member(timer, member_name(action.member_id))


async def end_resolution(cluster: ConsumerCluster, action: timing.EndResolution, before: State) -> None:
    await cluster.brokers.end_resolution()


async def end_interval(cluster: ConsumerCluster, action: timing.EndInterval, before: State) -> None:
    cluster.brokers.let_pass(INTERVAL_MS)


async def end_pause(cluster: ConsumerCluster, action: timing.EndPause, before: State) -> None:
    cluster.brokers.let_pass(PAUSE_MS + 1)


async def become_due(cluster: ConsumerCluster, action: timing.BecomeDue, before: State) -> None:
    cluster.brokers.let_pass(REFRESH_MS + 1)


async def commit_record(cluster: ConsumerCluster, action: timing.CommitRecord, before: State) -> None:
    first, entry = cluster.appended.pop(0), before.appended[0]
    if first.end is not None:
        await cluster.brokers.commit_up_to(cluster.brokers.log_topic, 0, first.end)
        await wait_all_tasks_blocked()
    if first.call is not None and entry.response is not None:
        check_response(cluster, first.call, entry.response)


async def fail_over(cluster: ConsumerCluster, action: timing.FailOver, before: State) -> None:
    ends = [one.end for one in cluster.appended[: action.kept] if one.end is not None]
    cluster.found_coordinator = None
    cluster.appended.clear()
    await cluster.brokers.replace(ends[-1] - cluster.brokers.committed if ends else 0)


async def load(cluster: ConsumerCluster, action: timing.Load, before: State) -> None:
    cluster.brokers.loads[0].set()


async def create_topic(cluster: ConsumerCluster, action: processes.CreateTopic, before: State) -> None:
    await cluster.brokers.create_topic(before)


async def delete_topic(cluster: ConsumerCluster, action: processes.DeleteTopic, before: State) -> None:
    await cluster.brokers.delete_topic(action.topic)


async def add_partition(cluster: ConsumerCluster, action: processes.AddPartition, before: State) -> None:
    await cluster.brokers.add_partition(before)


async def change_racks(cluster: ConsumerCluster, action: processes.ChangeRacks, before: State) -> None:
    await cluster.brokers.change_racks(str(before.racks + 1))


SENT: Final = (requests.ReceiveHeartbeat, requests.ReceiveCommit, requests.ReceiveLeave)
STEPS: Final = Steps[ConsumerCluster, [State], Awaitable[None]](
    on(requests.ReceiveHeartbeat, receive),
    on(requests.ReceiveCommit, receive),
    on(requests.ReceiveLeave, send),
    on(requests.LoseResponse, send),
    on(timing.ExpireSession, expire),
    on(timing.ExpireRebalance, expire),
    on(timing.EndResolution, end_resolution),
    on(timing.EndInterval, end_interval),
    on(timing.EndPause, end_pause),
    on(timing.BecomeDue, become_due),
    on(timing.CommitRecord, commit_record),
    on(timing.FailOver, fail_over),
    on(timing.Load, load),
    on(processes.CreateTopic, create_topic),
    on(processes.DeleteTopic, delete_topic),
    on(processes.AddPartition, add_partition),
    on(processes.ChangeRacks, change_racks),
)
"""All others are of processes alone."""
