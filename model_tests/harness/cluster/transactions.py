"""A trio cluster in lockstep with transactions: real requests to coordinators and leaders, and markers between them.

Theory of operation
-------------------
`transaction_binding` says how requests and markers come to be sent. The group of consumers has its member, its
coordinator and its offsets in the cluster too (`transaction_group`). Its partition has a TxnOffsetCommit where others
have a record. The response to one that is in the log is waited for, since a repeat would be written again.

What the specification allows and a cluster never does it is not asked to do (`can_perform`):

* a coordinator sends a leader one request with markers at a time, and another one when it has the response;
* a leader asks the coordinator before it looks at a record, and has it tried again while that is busy;
* a leader asks the coordinator about one record at a time, for a connection has its responses in order;
* a coordinator that has lost the connection to a leader sends its marker again, and is not told of the first one;
* a replica that leads next has all that the last leader began with;
* a follower that fetches says by that what it has: only what it has fetched last may be uncommitted;
* a group's coordinator that takes over responds when all that it began with is committed;
* a group's record is committed with all that is before it, so none is written before that is.
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import IntEnum
from typing import Final, TypeAlias

import attrs
import trio
from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.model_tests.harness.cluster import transaction_requests as wire
from tidegauge.model_tests.harness.cluster.transaction_binding import TIMEOUT_MS, TRIED_AGAIN, TransactionBinding
from tidegauge.model_tests.harness.cores.transaction_clients import (
    BY_CLIENTS,
    error_of,
    is_of_group,
)
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.transactions import consuming, coordinating, partitioning
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.actions import TransactionAction, own_markers

PATIENCE_S: Final = 1
"""Longer than a leader asks a coordinator again."""

Request: TypeAlias = coordinating.ReceiveInit | coordinating.ReceiveAdd | coordinating.ReceiveEnd | partitioning.Verify


# --- one action of the specification = one function ------------------------------------------------------------------


async def receive(cluster: TransactionBinding, action: Request, before: spec.State) -> None:
    """A request of a client reaches the coordinator, or a record its leader, which asks about it."""
    await cluster.receive(action.request, late=action.late)


async def complete(cluster: TransactionBinding, action: coordinating.Complete, before: spec.State) -> None:
    brokers, number = cluster.brokers, action.transactional_id
    brokers.completing = brokers.names[number]
    brokers.due.discard(brokers.completing)
    now_ms = brokers.coordinator.clock.now_ms()
    (append,) = brokers.core.outstanding_of(number, brokers.completing, now_ms).appends
    brokers.coordinator.transactions._appended_in_the_end(append)
    await wait_all_tasks_blocked()
    cluster.brokers.completing = ""


async def expire(cluster: TransactionBinding, action: coordinating.ExpireTransaction, before: spec.State) -> None:
    """The harness decides which transaction has been open for too long: this one, and no other."""
    brokers, number = cluster.brokers, action.transactional_id
    with brokers.alone_at(number, brokers.known(number).start_ms + TIMEOUT_MS + 1):
        await brokers.coordinator.transactions.abort_overdue()
        await wait_all_tasks_blocked()


async def expire_id(cluster: TransactionBinding, action: coordinating.ExpireId, before: spec.State) -> None:
    """The harness decides which id nobody has used for long."""
    brokers, number = cluster.brokers, action.transactional_id
    idle_ms = brokers.core.config.id_expiration_ms
    with brokers.alone_at(number, brokers.known(number).last_update_ms + idle_ms):
        await brokers.coordinator.transactions.expire_ids()
        await wait_all_tasks_blocked()


async def turn_clock_back(cluster: TransactionBinding, action: coordinating.TurnClockBack, before: spec.State) -> None:
    cluster.brokers.turn_clock_back()


async def commit_record(cluster: TransactionBinding, action: coordinating.CommitRecord, before: spec.State) -> None:
    number = action.transactional_id
    awaited, cluster.awaited[number] = cluster.awaited[number], None
    await cluster.brokers.commit(TRANSACTION_STATE, number)
    if awaited is not None:
        await cluster.told(awaited)


async def fail_over(cluster: TransactionBinding, action: coordinating.FailOver, before: spec.State) -> None:
    cluster.awaited = [None] * len(cluster.awaited)
    cluster.found_coordinator = None
    cluster.brokers.due.clear()
    await cluster.brokers.fail_over(cluster.brokers.ends() if action.kept else {})


async def load(cluster: TransactionBinding, action: coordinating.Load, before: spec.State) -> None:
    cluster.brokers.loads[action.transactional_id].set()


async def append(cluster: TransactionBinding, action: partitioning.Append, before: spec.State) -> None:
    request, waiting = action.request, None
    if not action.late and cluster.waits(request):
        waiting = cluster.offset_commits.pop(request.producer)
    responses = waiting if waiting is not None else await cluster.produce(request)
    if action.late:
        return
    if not responses:
        if cluster.group.is_of(request) and waiting is None:
            cluster.offset_commits[request.producer] = responses
            cluster.wait(request, len(before.partitions[request.partition].log))
        return
    error = wire.said_by_leader(responses[0])
    if error is ErrorCode.none:
        cluster.acknowledge(request)
    elif error is ErrorCode.illegal_generation:
        cluster.give_up(action, before)
    elif error not in TRIED_AGAIN:
        cluster.stop(request.producer)


async def write_marker(cluster: TransactionBinding, action: partitioning.WriteMarker, before: spec.State) -> None:
    """The coordinator sends what it waits for, or again what it has waited for; else somebody sends it."""
    request, place = action.request, action.request.partition
    if cluster.is_sent_by_coordinator(request, before):
        (marker,) = cluster.outstanding(request.transactional_id).markers
        await cluster.send_marker(place, marker)
    elif request.coordinator_epoch == before.coordinator_epoch and not cluster.is_busy(place):
        await cluster.send_marker(place, cluster.marker(request))
    else:
        await cluster.send_late_marker(request)


async def replicate(cluster: TransactionBinding, action: partitioning.Replicate, before: spec.State) -> None:
    await cluster.brokers.commit(*cluster.brokers.located(action.partition))
    cluster.least[action.partition] = len(before.partitions[action.partition].log)


async def elect(cluster: TransactionBinding, action: partitioning.Elect, before: spec.State) -> None:
    place, high_watermark = action.partition, before.partitions[action.partition].high_watermark
    cluster.least[place] = action.kept
    cluster.elections += 1
    if action.kept == high_watermark and cluster.elections % 2:
        await cluster.brokers.crash_leader(place)
    else:
        end = cluster.brokers.led(place).replica.high_watermark if place == cluster.group.place else action.kept
        await cluster.brokers.give_way(*cluster.brokers.located(place), end)
    if place == cluster.group.place:
        await cluster.brokers.commit(*cluster.brokers.located(place))
        cluster.offset_commits.clear()
        cluster.forget(place)


async def rebalance(cluster: TransactionBinding, action: consuming.Rebalance, before: spec.State) -> None:
    cluster.generation = await cluster.group.join()


async def fetch_offset(cluster: TransactionBinding, action: consuming.FetchOffset, before: spec.State) -> None:
    offset, producer = await cluster.group.fetch(), cluster.producers[action.producer]
    assert not isinstance(offset, ErrorCode), offset
    cluster.replace(action.producer, attrs.evolve(producer, generation=cluster.generation, position=offset))


STEPS: Final = Steps[TransactionBinding, [spec.State], Awaitable[None]](
    on(coordinating.ReceiveInit, receive),
    on(coordinating.ReceiveAdd, receive),
    on(coordinating.ReceiveEnd, receive),
    on(coordinating.Complete, complete),
    on(coordinating.ExpireTransaction, expire),
    on(coordinating.ExpireId, expire_id),
    on(coordinating.TurnClockBack, turn_clock_back),
    on(coordinating.CommitRecord, commit_record),
    on(coordinating.FailOver, fail_over),
    on(coordinating.Load, load),
    on(partitioning.Verify, receive),
    on(partitioning.Append, append),
    on(partitioning.WriteMarker, write_marker),
    on(partitioning.Replicate, replicate),
    on(partitioning.Elect, elect),
    on(consuming.Rebalance, rebalance),
    on(consuming.FetchOffset, fetch_offset),
)


# --- requests that are refused ---------------------------------------------------------------------------------------


async def ask_coordinator(cluster: TransactionBinding, action: Request, before: spec.State) -> IntEnum:
    """Any request to the coordinator; a leader asks it about a record."""
    responses = await cluster.ask_coordinator(action.request)
    if not responses:
        return ErrorCode.none
    return error_of(wire.said_by_coordinator(action.request, responses[0]))


async def ask_leader(cluster: TransactionBinding, action: partitioning.Append, before: spec.State) -> IntEnum | None:
    """A record; not one that its leader asks the coordinator about, unless that has the same against it.

    While the coordinator is busy the leader has it tried again: it is not verified.
    """
    request, machine, busy = action.request, cluster.machine, False
    if wire.is_to_be_verified(machine, request, before):
        said, refusal = wire.said_of_record(machine, request, before), action.guard(machine, before)
        assert isinstance(refusal, Refusal), "only what is refused is sent"
        busy = said in spec.RETRIABLE
        if cluster.is_asking(request.partition) or refusal.error != (spec.Error.INVALID_TXN_STATE if busy else said):
            return None
    responses = await cluster.produce(request)
    if busy and not responses:
        await trio.sleep(PATIENCE_S)
    error = wire.said_by_leader(responses[0]) if responses else ErrorCode.none
    is_to_ask_again = error in (ErrorCode.not_enough_replicas, ErrorCode.coordinator_load_in_progress)
    return ErrorCode.invalid_txn_state if busy and is_to_ask_again else error


async def send_marker(cluster: TransactionBinding, action: partitioning.WriteMarker, before: spec.State) -> IntEnum:
    return await cluster.send_late_marker(action.request)


async def ask_group(cluster: TransactionBinding, action: consuming.FetchOffset, before: spec.State) -> IntEnum:
    offset = await cluster.group.fetch()
    return offset if isinstance(offset, ErrorCode) else ErrorCode.none


REFUSALS: Final = Steps[TransactionBinding, [spec.State], Awaitable[IntEnum | None]](
    on(consuming.FetchOffset, ask_group),
    on(coordinating.ReceiveInit, ask_coordinator),
    on(coordinating.ReceiveAdd, ask_coordinator),
    on(coordinating.ReceiveEnd, ask_coordinator),
    on(partitioning.Verify, ask_coordinator),
    on(partitioning.Append, ask_leader),
    on(partitioning.WriteMarker, send_marker),
)


# --- what the harness performs ----------------------------------------------------------------------------------------


class TransactionCluster(TransactionBinding):
    """Producers, a cluster, and what is on its way between them, in the machine's initial state."""

    def perform(self, action: Action, before: spec.State) -> None:
        """Perform the action, and wait until every task waits."""
        self.sent_markers.clear()
        self.were_wanted = set(own_markers(self.machine, before))
        if type(action) in BY_CLIENTS:
            self.choose(action, before)
        else:
            self.brokers.run.call(self._perform, action, before)

    async def _perform(self, action: Action, before: spec.State) -> None:
        await STEPS.perform(self, action, before)
        await wait_all_tasks_blocked()
        await self.lose_markers()

    def can_send(self, kind: type[Action]) -> bool:
        return kind in REFUSALS

    def refuse(self, action: Action, before: spec.State) -> IntEnum | None:
        """Send a request that is refused; returns the error."""
        return self.brokers.run.call(REFUSALS.perform, self, action, before)

    def can_perform(self, action: Action, before: spec.State) -> bool:
        """Whether the cluster can, in its present state; what is refused can be sent in any."""
        assert isinstance(action, TransactionAction)
        if action.guard(self.machine, before):
            return True
        match action:
            case consuming.Rebalance():
                offsets = before.partitions[self.group.place]
                return offsets.high_watermark == len(offsets.log)
            case partitioning.Elect(partition=place, kept=kept):
                return self._can_elect(place, kept, before)
            case partitioning.Verify(request=request):
                return not self.is_asking(request.partition)
            case partitioning.Append(request=request) if wire.is_to_be_verified(self.machine, request, before):
                said = wire.said_of_record(self.machine, request, before)
                is_told = said not in (spec.Error.NONE, *spec.RETRIABLE) and not self.is_asking(request.partition)
                return is_told and not is_of_group(self.machine, request, before)
            case partitioning.WriteMarker(request=request) if self.is_sent_by_coordinator(request, before):
                return not self.is_busy(request.partition)
        return True

    def _can_elect(self, place: int, kept: int, before: spec.State) -> bool:
        partition, least = before.partitions[place], self.least[place]
        if kept < least or partition.high_watermark < least < kept:
            return False
        if place == self.group.place and kept > partition.high_watermark:
            return False
        awaited = [partitioning.marker_of(request) for request in own_markers(self.machine, before)]
        return not any(entry in awaited for entry in partition.log[partition.high_watermark : kept])
