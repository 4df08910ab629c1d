"""A trio cluster in lockstep with `spec.offsets`: real requests over the network, to coordinators that fail over.

Theory of operation
-------------------
A commit or deletion waits in the cluster until it is replayed; who has its response when is compared. For the
specification a producer's next transaction may begin while the marker of the last one is on its way, which its
coordinator never lets happen; so each transaction has a transactional id of its own, and markers are the harness's.

Two things are as beside the cores. What stays of the log when it is cleaned is the specification's
(`specified_cleaning`). And the records of members have no place in this machine's log: the coordinator is told of them
as if it had read them, and told again when it has loaded; the requests of members are in the lockstep of
`spec.groups.classic`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.coordinators.groups.log_entries import log_entries
from tidegauge.impl.coordinators.groups.requests import NO_RETENTION
from tidegauge.impl.records.payload import ProducerIdentity
from tidegauge.model_tests.harness.cluster import offset_requests as wire
from tidegauge.model_tests.harness.cluster.offset_brokers import TICK_MS, OffsetBrokers
from tidegauge.model_tests.harness.cores.offset_abstraction import abstract_entry, abstract_store
from tidegauge.model_tests.harness.cores.offsets import CORRECT_OFFSETS, OffsetRoles, empty_since, tell_group
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.offsets import actions
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import NONE, Committed, Entry, Error, Kind, Membership, State, Store

ENDS: Final = (Kind.COMMIT, Kind.ABORT)


@attrs.frozen
class Transaction:
    """A transaction of the cluster: that of a producer of the specification."""

    number: int
    """The producer's."""
    transactional_id: str
    identity: ProducerIdentity


@attrs.define(eq=False)
class Call:
    """A request whose record is in the log, and its response when that has come."""

    place: int
    is_marker: bool
    responses: list[Any]


class OffsetCluster:
    """One partition of `__consumer_offsets` with its coordinators, in the machine's initial state."""

    def __init__(self, machine: Offsets, roles: OffsetRoles = CORRECT_OFFSETS) -> None:
        self.machine = machine
        self.roles = roles
        self.membership, self.member_since_ms = Membership.NONE, NONE
        self.transactions: dict[int, Transaction] = {}
        """By the places of their offsets."""
        self.begun_so_far = 0
        self.calls: list[Call] = []
        """Since the last coordinator took over."""
        self.brokers = OffsetBrokers(machine, roles)

    def close(self) -> None:
        """Stop the cluster."""
        self.brokers.close()

    def perform(self, action: Action, before: State) -> None:
        """Perform the action, and wait until every task waits."""
        self.brokers.run.call(self._perform, action, before)

    async def _perform(self, action: Action, before: State) -> None:
        await STEPS.perform(self, action, before)
        await wait_all_tasks_blocked()

    # --- requests ------------------------------------------------------------------------------------------------

    async def ask(self, message: Any) -> list[Any]:
        """Send a request to the coordinator: its response is in the list when it has come."""
        return await self.brokers.asked(self.brokers.coordinator.address, message)

    async def send(self, message: Any, place: int, *, is_marker: bool = False) -> None:
        """A request whose record is to be in the log: it waits."""
        responses = await self.ask(message)
        assert not responses, f"it is told {responses[0]} before its record is committed"
        self.calls.append(Call(place, is_marker, responses))

    def open_transaction(self, producer: int, state: State) -> Transaction | None:
        """The one that a producer of the specification has open."""
        found = None
        for entry in state.history:
            if entry.producer == producer:
                found = self.transactions[entry.place] if entry.kind is Kind.OFFSET else None
        return found

    async def begun(self, producer: int) -> Transaction:
        """The next transaction of a producer."""
        self.begun_so_far += 1
        name = f"id-{self.begun_so_far}"
        return Transaction(producer, name, await self.brokers.producer_of(name))

    def can_send(self, kind: type[Action]) -> bool:
        return kind in (actions.Commit, actions.CommitInTransaction, actions.Delete, actions.FetchStable)

    def refuse(self, action: Action, before: State) -> ErrorCode:
        """Send what is refused; returns the error."""
        return self.brokers.run.call(self._refuse, action, before)

    async def _refuse(self, action: Action, before: State) -> ErrorCode:
        match action:
            case actions.Commit():
                message: Any = commit_message(action, before)
            case actions.CommitInTransaction(producer, generation):
                known = self.open_transaction(producer, before) or await self.begun(producer)
                message = wire.commit_in_transaction(before.end, generation, known.transactional_id, known.identity)
            case actions.Delete():
                message = wire.delete()
            case _:
                message = wire.fetch(is_all=False, require_stable=True)
        responses = await self.ask(message)
        return wire.error_of(responses[0]) if responses else ErrorCode.none

    # --- what is compared ----------------------------------------------------------------------------------------

    def abstraction(self, state: State) -> State:
        """The log, what is committed and replayed of it, and what the coordinator knows."""
        logged, former = self.brokers.logged, self.brokers.told_by_former()
        expiries = {entry.place: entry for entry in state.history if entry.is_expiry}
        empty_ms = empty_since(self.brokers.core)
        log = (abstract_entry(batch, entry, expiries) for batch, entry in self.brokers.entries(log_entries))
        return State(
            tuple(map(self._as_specified, log)),
            logged.log.log_end_offset,
            logged.replica.high_watermark,
            self.brokers.applied,
            self._acknowledged(state),
            self._store(abstract_store(self.brokers.core.offsets)),
            self.brokers.ticks(self.brokers.coordinator.clock.now_ms()),
            state.failures,
            self.membership,
            state.rebalances,
            None if former is None else self._store(abstract_store(former)),
            state.history,
            empty_ms if empty_ms == NONE else self.brokers.ticks(empty_ms),
        )

    def _as_specified(self, entry: Entry) -> Entry:
        """An entry with the producer's number, and with times in ticks."""
        ticks, ends = self.brokers.ticks, entry.expires_at
        return evolve(
            entry,
            producer=self._number(entry.producer),
            time=NONE if entry.time == NONE else ticks(entry.time),
            expires_at=ends if ends is None or ends == NONE else ticks(ends),
        )

    def _number(self, producer_id: int) -> int:
        known = {one.identity.producer_id: one.number for one in self.transactions.values()}
        return NONE if producer_id == NONE else known[producer_id]

    def _store(self, store: Store) -> Store:
        pending = sorted((self._number(producer), self._committed(value)) for producer, value in store.pending)
        return Store(None if store.committed is None else self._committed(store.committed), tuple(pending))

    def _committed(self, value: Committed) -> Committed:
        ends = None if value.expires_at is None else self.brokers.ticks(value.expires_at)
        return Committed(value.place, value.value, self.brokers.ticks(value.time), ends)

    def _acknowledged(self, state: State) -> int:
        """As the specification has it, unless a marker's response is there before the marker counts."""
        told = [call.place for call in self.calls if call.is_marker and call.responses]
        return max((place + 1 for place in told if place >= self.brokers.applied), default=state.acknowledged)

    def differences(self, state: State) -> Iterator[Change]:
        """What the coordinator would let expire, whom it has told, what it tells, and what another one would load."""
        expires = self.brokers.would_expire()
        if expires != self.machine.expires(state):
            yield Change("expires", self.machine.expires(state), expires)
        told = [call.place for call in self.calls if call.responses]
        expected = [call.place for call in self.calls if call.place < state.applied]
        if told != expected:
            yield Change("responses", expected, told)
        errors = [error for call in self.calls for one in call.responses if (error := wire.error_of(one))]
        if errors:
            yield Change("errors", (), errors)
        yield from self.brokers.run.call(self._told, state)
        loaded = self.roles.offsets()
        loaded.replay(entry for _, entry in self.brokers.entries(self.roles.read) if entry[0] < state.high_watermark)
        known = self.machine.loaded(entry for entry in state.log if entry.place < state.high_watermark)
        if (found := self._store(abstract_store(loaded))) != known:
            yield Change("loaded", known, found)

    async def _told(self, state: State) -> list[Change]:
        """Who asks for the offset, or for all that the group has, over the network."""
        value = NONE if state.store.committed is None else state.store.committed.value
        is_on_its_way = self.machine.is_in_flight(state)
        found: list[Change] = []
        for require_stable in (True, False):
            error = self.machine.fetch_error(state) if require_stable else Error.NONE
            of_one: int = value if error is Error.NONE else error.value
            of_all = of_one if value != NONE or (error is not Error.NONE and is_on_its_way) else NONE
            for is_all, expected in ((False, of_one), (True, of_all)):
                (response,) = await self.ask(wire.fetch(is_all=is_all, require_stable=require_stable))
                told = wire.fetched(response)
                actual = told.value if isinstance(told, ErrorCode) else told
                if actual != expected:
                    found.append(Change("told all" if is_all else "told", expected, told))
        return found


def commit_message(action: actions.Commit, before: State) -> Any:
    retention_ms = NO_RETENTION if action.retention == NONE else action.retention * TICK_MS
    return wire.commit(before.end, action.generation, retention_ms)


# --- one action of the specification = one function ------------------------------------------------------------------


async def commit(cluster: OffsetCluster, action: actions.Commit, before: State) -> None:
    await cluster.send(commit_message(action, before), before.end)


async def commit_in_transaction(cluster: OffsetCluster, action: actions.CommitInTransaction, before: State) -> None:
    known = cluster.open_transaction(action.producer, before) or await cluster.begun(action.producer)
    cluster.transactions[before.end] = known
    message = wire.commit_in_transaction(before.end, action.generation, known.transactional_id, known.identity)
    await cluster.send(message, before.end)


async def write_marker(cluster: OffsetCluster, action: actions.WriteMarker, before: State) -> None:
    known = cluster.open_transaction(action.producer, before)
    assert known is not None, "the guard says so"
    await cluster.send(wire.end(known.identity, commits=action.commits), before.end, is_marker=True)


async def delete(cluster: OffsetCluster, action: actions.Delete, before: State) -> None:
    await cluster.send(wire.delete(), before.end)


async def expire(cluster: OffsetCluster, action: actions.Expire, before: State) -> None:
    await cluster.brokers.expire()


async def replicate(cluster: OffsetCluster, action: actions.Replicate, before: State) -> None:
    await cluster.brokers.commit(cluster.brokers.log_topic, 0)


async def apply(cluster: OffsetCluster, action: actions.Apply, before: State) -> None:
    await cluster.brokers.apply()


async def acknowledge(cluster: OffsetCluster, action: actions.Acknowledge, before: State) -> None:
    """The transactions' coordinators have had their responses: each is compared where the marker counts."""


async def fail_over(cluster: OffsetCluster, action: actions.FailOver, before: State) -> None:
    cluster.calls.clear()
    await cluster.brokers.replace(action.end)
    tell_group(cluster.brokers.core, cluster.membership, cluster.member_since_ms)


async def clean(cluster: OffsetCluster, action: actions.Clean, before: State) -> None:
    kept = {entry.place for entry in cluster.machine.cleaned(before, action.end)}
    cluster.brokers.clean(kept.__contains__)


async def tick(cluster: OffsetCluster, action: actions.Tick, before: State) -> None:
    cluster.brokers.tick()


async def rebalance(
    cluster: OffsetCluster, action: actions.Join | actions.Assign | actions.Leave, before: State
) -> None:
    cluster.membership, cluster.member_since_ms = MEMBERSHIPS[type(action)], cluster.brokers.coordinator.clock.now_ms()
    tell_group(cluster.brokers.core, cluster.membership, cluster.member_since_ms)


MEMBERSHIPS: Final = {
    actions.Join: Membership.REBALANCING,
    actions.Assign: Membership.STABLE,
    actions.Leave: Membership.EMPTY,
}
STEPS: Final = Steps[OffsetCluster, [State], Awaitable[None]](
    on(actions.Commit, commit),
    on(actions.CommitInTransaction, commit_in_transaction),
    on(actions.WriteMarker, write_marker),
    on(actions.Delete, delete),
    on(actions.Expire, expire),
    on(actions.Replicate, replicate),
    on(actions.Apply, apply),
    on(actions.Acknowledge, acknowledge),
    on(actions.FailOver, fail_over),
    on(actions.Clean, clean),
    on(actions.Tick, tick),
    on(actions.Join, rebalance),
    on(actions.Assign, rebalance),
    on(actions.Leave, rebalance),
)
