"""Transactions in lockstep: the coordinator's core and those of the partitions beside the machine of transactions.

The harness is the shell, and the clients. It is the transaction log: it holds a record that the coordinator has asked
to append until the action that commits it. It gives producer ids, sends the markers that the coordinator has
outstanding, and tells producers of responses, whose numbers come from the cores. What clients choose, and which of
their requests are late, is nobody's rule: it is taken from the machine. So is the group of consumers.

Of each transactional id the log has a partition of its own, all with the same leader epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from random import Random
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.coordinator import DEFAULT_ID_EXPIRATION_MS, TransactionConfig
from tidegauge.impl.coordinators.transactions.log_format import decode_value
from tidegauge.impl.coordinators.transactions.messages import (
    AddPartitions,
    Append,
    EndTxn,
    InitProducerId,
    Marker,
    Outstanding,
    ProducerIdNeeded,
    VerifyPartitions,
)
from tidegauge.impl.coordinators.transactions.metadata import NO_TIMEOUT, TopicPartition, TransactionMetadata
from tidegauge.impl.partition.messages import Appended
from tidegauge.model_tests.harness.cores.transaction_abstraction import (
    SET_BACK_MS,
    entries_in,
    has_all_markers,
    known_version,
    metadata_of,
)
from tidegauge.model_tests.harness.cores.transaction_clients import (
    BY_CLIENTS,
    BY_GROUP,
    TransactionClients,
    error_of,
    is_of_group,
    told_version,
)
from tidegauge.model_tests.harness.cores.transaction_loading import (
    forgets_each_once,
    loaded,
    replaced,
    stops_where_it_has_resigned,
)
from tidegauge.model_tests.harness.cores.transaction_operators import described, listed
from tidegauge.model_tests.harness.cores.transaction_partitions import PartitionCores
from tidegauge.model_tests.harness.cores.transaction_roles import CORRECT, TransactionRoles
from tidegauge.model_tests.harness.cores.transaction_rulings import ruled_otherwise
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.transactions import coordinating, partitioning
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.actions import Waiting, own_markers
from tidegauge.spec.transactions.machine import Transactions

TOPIC: Final = "records"
TIMEOUT_MS: Final = 1_000
BEGINNING_MS: Final = 1_000_000_000_000
COPIED_SHARE: Final = 0.1
"""Of the states, those in which a copy of the coordinator is asked."""
LATEST_MS: Final = BEGINNING_MS + SET_BACK_MS
"""Later than any time that the clock says, however often it is set back."""


@attrs.define
class LoggedId:
    """One transactional id in the transaction log: its committed records, and one that is not."""

    values: list[bytes | None] = attrs.field(factory=lambda: [None])
    pending: Append[object] | None = None
    waiting: Waiting | None = None
    is_due: bool = False
    """Whether the coordinator has asked to append the complete record, since it has loaded."""

    @property
    def logged(self) -> bytes | None:
        """The last committed record; None before the first one, and after a tombstone."""
        return self.values[-1]


class TransactionCores(TransactionClients):
    """The coordinator, its log, the partitions, and what clients know, in the machine's initial state."""

    def __init__(self, machine: Transactions, roles: TransactionRoles = CORRECT) -> None:
        super().__init__(machine)
        self.now_ms = BEGINNING_MS
        needs_2 = machine.version > 1 or "Upgrade" in machine.bounds
        level = 0 if not machine.log_version else 2 if needs_2 else 1
        config = TransactionConfig(allows_two_phase=True, transaction_version=level)
        self.coordinator = roles.coordinator(config, roles.rules(max_epoch=machine.max_epoch))
        self.leader_epoch = 0
        self.names = [f"id-{number}" for number in range(machine.transactional_ids)]
        self.log = [LoggedId() for _ in self.names]
        for number in range(len(self.names)):
            self.coordinator.begin_loading(self.log_partition(number), 0)
            self.load(number)
        self.producer_ids = 0
        self.asking = Random(0)
        """Draws what is asked about in each state."""
        self.waiting: dict[int, Appended] = {}
        """The offset commits that are in the log, and whose producers wait for the response."""
        self.partitions = [PartitionCores(machine, roles.replica, roles.producers) for _ in range(machine.partitions)]

    def log_partition(self, number: int) -> int:
        return self.coordinator.partition_of(self.names[number])

    def perform(self, action: Action, before: spec.State) -> None:
        """Do what the action says; it is enabled in the specification."""
        self.now_ms += 1
        STEPS.perform(self, action, before)

    def can_send(self, kind: type[Action]) -> bool:
        return kind in SENT

    def refuse(self, action: Action, before: spec.State) -> IntEnum | None:
        """Send a request that is refused; returns the error."""
        if isinstance(action, partitioning.Append) and is_of_group(self.machine, action.request, before):
            return None
        return SENT.perform(self, action) if self.can_send(type(action)) else None

    def close(self) -> None:
        """Cores have no resources."""

    # --- the transaction log -------------------------------------------------------------------------------------

    def append(self, number: int, append: Append[object], waiting: Waiting | None) -> None:
        """The coordinator has a record to append; it is committed at once where nothing may come between."""
        written = None if append.value is None else decode_value(append.value)
        if written is not None and self.producer_ids in (written.producer_id, written.next_producer_id):
            self.producer_ids += 1
        self.log[number].pending, self.log[number].waiting = append, waiting
        if not self.machine.writes_in_two_steps:
            self.commit(number)

    def commit(self, number: int) -> None:
        """The pending record of an id is committed; who waits for it is told, if the coordinator takes it in."""
        one = self.log[number]
        append, waiting = one.pending, one.waiting
        assert append is not None
        assert append.leader_epoch == self.leader_epoch
        one.values.append(append.value)
        committed = self.coordinator.committed(append, self.now_ms)
        assert committed.error is ErrorCode.none
        if self.is_pending(number, append):
            return
        one.pending, one.waiting = None, None
        self.postpone(number, committed.outstanding)
        if waiting is not None:
            self.deliver(waiting, append.response)

    def is_pending(self, number: int, append: Append[object]) -> bool:
        """Whether the coordinator waits for a record to be committed."""
        known = self.coordinator.partitions[self.log_partition(number)].ids.get(self.names[number])
        return known is not None and known.pending is not None and known.pending.number == append.number

    def postpone(self, number: int, outstanding: Outstanding) -> None:
        """A complete record waits for the action that writes it."""
        for append in outstanding.appends:
            self.coordinator.failed(append)
            self.log[number].is_due = True

    def load(self, number: int) -> None:
        """A new coordinator reads the log of one id, every other time as the cleaner leaves it."""
        values = self.log[number].values[1:]
        cleaned = values[-1:] if self.leader_epoch % 2 else values
        loaded(self.coordinator, self.names[number], self.leader_epoch, self.key_of(number), cleaned)
        self.postpone(number, self.outstanding(number))

    def key_of(self, number: int) -> bytes:
        name = self.names[number].encode()
        return b"\0\0" + len(name).to_bytes(2, "big") + name

    def outstanding(self, number: int) -> Outstanding:
        """Of the only id in its partition of the log; nothing where that is not known."""
        found = list(self.coordinator.outstanding(self.log_partition(number), self.now_ms))
        return found[0] if found else Outstanding()

    # --- requests ------------------------------------------------------------------------------------------------

    def sent(self, request: Waiting) -> Append[object] | object:
        """A request reaches the coordinator: a record to append, or the response.

        At first the record is not in the log, which changes nothing, and the request comes again.
        """
        outcome = self.ruled(request)
        if not isinstance(outcome, Append):
            return outcome
        self.coordinator.failed(outcome)
        assert self.coordinator.committed(outcome, self.now_ms).error is ErrorCode.not_coordinator
        return self.ruled(request)

    def ruled(self, request: Waiting) -> Append[object] | object:
        """What the coordinator makes of a request."""
        number = self.machine.id_of(request.producer)
        outcome = self.asked(self.names[number], request, -1)
        if isinstance(outcome, ProducerIdNeeded):
            cached = self.coordinator.describe(self.names[number]).metadata
            assert cached is None or self.machine.is_exhausted(cached.epoch), (
                "a producer id is asked for, and not needed"
            )
            outcome = self.asked(self.names[number], request, self.producer_ids)
        return outcome

    def asked(self, name: str, request: Waiting, new_id: int) -> object:
        core, now_ms = self.coordinator, self.now_ms
        match request:
            case spec.InitRequest(producer_id=producer_id, epoch=epoch, keeps_prepared=keeps):
                two_phase = self.machine.two_phase
                asked = InitProducerId(name, TIMEOUT_MS, producer_id, epoch, keeps, two_phase)
                outcome = core.init_producer_id(asked, now_ms, new_id)
                return outcome if isinstance(outcome, Append | ProducerIdNeeded) else outcome.response
            case spec.EndRequest(producer_id=producer_id, epoch=epoch, version=version):
                is_commit = request.decision is spec.Decision.COMMIT
                ended = core.end(EndTxn(name, producer_id, epoch, is_commit, told_version(version)), now_ms, new_id)
                return ended if isinstance(ended, Append | ProducerIdNeeded) else ended.response
            case spec.ProduceRequest(version=1):
                return self.verified(name, request)
            case _:
                version = request.version if isinstance(request, spec.ProduceRequest) else 1
                partitions = frozenset({TopicPartition(TOPIC, request.partition)})
                adds = AddPartitions(name, request.producer_id, request.epoch, partitions, told_version(version))
                added = core.add_partitions(adds, now_ms)
                return added if isinstance(added, Append | ProducerIdNeeded) else added.response

    def verified(self, name: str, request: spec.ProduceRequest) -> ErrorCode:
        """What a leader makes of the coordinator's response; its clients do not know TRANSACTION_ABORTABLE."""
        partition = TopicPartition(TOPIC, request.partition)
        asked = VerifyPartitions(name, request.producer_id, request.epoch, frozenset({partition}))
        error = self.coordinator.verify_partitions(asked)[partition]
        return ErrorCode.invalid_txn_state if error is ErrorCode.transaction_abortable else error

    def received(self, request: Waiting, *, late: bool) -> None:
        """A request of a client or a leader is carried out; nobody is told of a late one, but for a leader."""
        waiting = None if late and not isinstance(request, spec.ProduceRequest) else request
        outcome = self.sent(request)
        if isinstance(outcome, Append):
            is_refused = error_of(outcome.response) is not ErrorCode.none
            self.append(self.machine.id_of(request.producer), outcome, None if is_refused else waiting)
            outcome = outcome.response if is_refused else None
        if outcome is not None and waiting is not None and not (late and error_of(outcome) is not ErrorCode.none):
            self.deliver(waiting, outcome)

    # --- responses -----------------------------------------------------------------------------------------------

    def deliver(self, request: Waiting, response: object) -> None:
        """A response of the coordinator reaches who waits for it; a leader may append now."""
        if isinstance(request, spec.ProduceRequest) and error_of(response) is ErrorCode.none:
            self.partitions[request.partition].confirm(request)
        else:
            super().deliver(request, response)

    # --- markers -------------------------------------------------------------------------------------------------

    def told_of_markers(self, place: int, committed_before: int) -> None:
        """Markers of a partition are committed: the coordinator that wrote them is told."""
        partition = self.partitions[place]
        entries = list(entries_in(partition.batches, ()))
        for entry in entries[committed_before : partition.leader.high_watermark]:
            if isinstance(entry, spec.Marker):
                self.marked(place, entry)

    def marked(self, place: int, entry: spec.Marker) -> None:
        for number, name in enumerate(self.names):
            partitions = frozenset({TopicPartition(TOPIC, place)})
            marker = Marker(
                name,
                self.log_partition(number),
                entry.coordinator_epoch,
                entry.producer_id,
                entry.epoch,
                entry.decision is spec.Decision.COMMIT,
                0,
                partitions,
            )
            completes = self.coordinator.marker_written(marker, partitions, self.now_ms)
            if completes is not None:
                self.postpone(number, Outstanding(appends=[completes]))

    def markers(self) -> Iterator[spec.MarkerRequest]:
        """All that the coordinator has outstanding."""
        for number in range(len(self.names)):
            outstanding = self.outstanding(number)
            for append in outstanding.appends:
                self.coordinator.failed(append)
            for marker in outstanding.markers:
                decision = spec.Decision.COMMIT if marker.is_commit else spec.Decision.ABORT
                for partition in sorted(marker.partitions):
                    yield spec.MarkerRequest(
                        number,
                        partition.partition,
                        marker.producer_id,
                        marker.epoch,
                        marker.coordinator_epoch,
                        decision,
                        known_version(marker.transaction_version),
                    )

    # --- as the specification has it -----------------------------------------------------------------------------

    def abstraction(self, expected: spec.State) -> spec.State:
        """All of it; which transaction is which, what clients wish and what is late is the specification's."""
        self.expect(expected)
        return spec.State(
            producers=self.producers,
            coordination=tuple(map(self._coordination, range(len(self.names)), expected.coordination)),
            partitions=tuple(
                cores.abstraction(partition)
                for cores, partition in zip(self.partitions, expected.partitions, strict=True)
            ),
            coordinator_epoch=self.leader_epoch,
            producer_ids=self.producer_ids,
            transactions=expected.transactions,
            late=expected.late,
            group=expected.group,
            spent=expected.spent,
        )

    def _coordination(self, number: int, expected: spec.Coordination) -> spec.Coordination:
        one = self.log[number]
        described = self.coordinator.describe(self.names[number])
        logged = decode_value(one.logged) if one.logged is not None else None
        loading = described.error is ErrorCode.coordinator_load_in_progress
        cached = expected.cached or spec.Metadata()
        return spec.Coordination(
            self.as_specified(logged, expected.logged),
            None if loading else self.as_specified(described.metadata, cached),
            self._pending(one, expected.pending),
            self._is_unattended(one, described.metadata),
        )

    def _is_unattended(self, one: LoggedId, cached: TransactionMetadata | None) -> bool:
        """Whether a transaction has all its markers, and the coordinator has never asked to complete it."""
        return has_all_markers(cached) and one.pending is None and not one.is_due

    def _pending(self, one: LoggedId, expected: spec.Pending | None) -> spec.Pending | None:
        if one.pending is None:
            return None
        known = expected.metadata if expected is not None else spec.Metadata()
        if self.machine.log_version or one.pending.value is None:
            metadata = decode_value(one.pending.value) if one.pending.value is not None else None
        else:  # the value says less than the coordinator knows
            metadata = self.pending_of(one.pending)
        return spec.Pending(self.as_specified(metadata, known), one.waiting)

    def pending_of(self, append: Append[object]) -> TransactionMetadata | None:
        """What the coordinator knows of an id once a record is committed that it has asked to append."""
        pending = self.coordinator.partitions[append.partition].ids[append.transactional_id].pending
        assert pending is not None, "it waits for that"
        return pending.metadata

    def as_specified(self, found: TransactionMetadata | None, expected: spec.Metadata) -> spec.Metadata:
        return metadata_of(found, expected, self.coordinator.rules, beginning_ms=BEGINNING_MS)

    def differences(self, expected: spec.State) -> Iterator[Change]:
        """What readers would see otherwise, and markers on their way that are not the specification's."""
        for place, cores in enumerate(self.partitions):
            yield from cores.differences(f"partitions[{place}]", expected.partitions[place])
        wanted, found = tuple(own_markers(self.machine, expected)), tuple(self.markers())
        pending = {number for number, one in enumerate(expected.coordination) if one.pending is not None}
        found = tuple(marker for marker in found if marker.transactional_id not in pending)
        if set(wanted) != set(found):
            yield Change("markers", wanted, found)
        yield from self.told_otherwise(expected)
        yield from self.in_time(expected)
        yield from described(self, expected)
        yield from listed(self, expected)
        yield from ruled_otherwise(self, expected, self.asking)

    def in_time(self, expected: spec.State) -> Iterator[Change]:
        """What the coordinator would abort and forget, if no more was asked: nothing as yet."""
        core, now_ms = self.coordinator, self.now_ms
        at_rest = {
            name: one for name, one in zip(self.names, expected.coordination, strict=True) if one.pending is None
        }
        known = {name: one.cached for name, one in at_rest.items() if one.cached not in (None, spec.Metadata())}
        late = [name for name, one in known.items() if one is not None and self.machine.expired(one) is not None]
        idle = [name for name, one in known.items() if one is not None and self.machine.is_forgotten(one)]
        for what, steps, wanted in (
            ("overdue", core.overdue(LATEST_MS + NO_TIMEOUT + 1), late),
            ("overdue already", core.overdue(now_ms), []),
            ("idle", core.expired(LATEST_MS + DEFAULT_ID_EXPIRATION_MS), idle),
            ("idle already", core.expired(now_ms), []),
        ):
            found = []
            for append in filter(None, steps):
                found.append(append.transactional_id)
                core.failed(append)
            if sorted(found) != wanted:
                yield Change(what, wanted, found)
        ids = sorted(name for one in core.partitions.values() for name in one.ids)
        pending = [name for name, one in zip(self.names, expected.coordination, strict=True) if one.pending is not None]
        if ids != (there := sorted({*known, *pending})):
            yield Change("ids that there are", there, ids)
        if self.asking.random() < COPIED_SHARE:
            stops_where_it_has_resigned(core)
            forgets_each_once(core, now_ms)


# --- one action of the specification = one function ------------------------------------------------------------------


def by_clients(cores: TransactionCores, action: Action, before: spec.State) -> None:
    cores.choose(action, before)


def receive_init(cores: TransactionCores, action: coordinating.ReceiveInit, before: spec.State) -> None:
    cores.received(action.request, late=action.late)


def receive_add(cores: TransactionCores, action: coordinating.ReceiveAdd, before: spec.State) -> None:
    cores.received(action.request, late=action.late)


def receive_end(cores: TransactionCores, action: coordinating.ReceiveEnd, before: spec.State) -> None:
    cores.received(action.request, late=action.late)


def verify(cores: TransactionCores, action: partitioning.Verify, before: spec.State) -> None:
    cores.received(action.request, late=action.late)


def complete(cores: TransactionCores, action: coordinating.Complete, before: spec.State) -> None:
    assert cores.log[action.transactional_id].is_due, "the coordinator asks for it"
    cores.log[action.transactional_id].is_due = False
    (append,) = cores.outstanding(action.transactional_id).appends
    cores.append(action.transactional_id, append, None)


@contextmanager
def alone(cores: TransactionCores, number: int) -> Iterator[TransactionMetadata]:
    """What is known of one id, while the coordinator has no other: the harness decides whose time is over."""
    core, place = cores.coordinator, cores.log_partition(number)
    partitions, core.partitions = core.partitions, {place: core.partitions[place]}
    cached = core.partitions[place].ids[cores.names[number]].cached
    assert cached is not None, "the guard has asked"
    yield cached
    core.partitions = partitions


def expire(cores: TransactionCores, action: coordinating.ExpireTransaction, before: spec.State) -> None:
    with alone(cores, action.transactional_id) as known:
        assert not list(filter(None, cores.coordinator.overdue(known.start_ms + TIMEOUT_MS))), "it is in time"
        (append,) = filter(None, cores.coordinator.overdue(known.start_ms + TIMEOUT_MS + 1))
    cores.append(action.transactional_id, append, None)


def expire_id(cores: TransactionCores, action: coordinating.ExpireId, before: spec.State) -> None:
    with alone(cores, action.transactional_id) as known:
        idle_ms = cores.coordinator.config.id_expiration_ms
        assert not list(filter(None, cores.coordinator.expired(known.last_update_ms + idle_ms - 1))), "it is in use"
        (append,) = filter(None, cores.coordinator.expired(known.last_update_ms + idle_ms))
    cores.append(action.transactional_id, append, None)


def turn_clock_back(cores: TransactionCores, action: coordinating.TurnClockBack, before: spec.State) -> None:
    cores.now_ms -= SET_BACK_MS


def commit_record(cores: TransactionCores, action: coordinating.CommitRecord, before: spec.State) -> None:
    cores.commit(action.transactional_id)


def fail_over(cores: TransactionCores, action: coordinating.FailOver, before: spec.State) -> None:
    cores.leader_epoch += 1
    for number, one in enumerate(cores.log):
        former, one.pending, one.waiting, one.is_due = one.pending, None, None, False
        if action.kept and former is not None:
            one.values.append(former.value)
        replaced(cores.coordinator, cores.names[number], cores.leader_epoch, former, cores.now_ms)


def load(cores: TransactionCores, action: coordinating.Load, before: spec.State) -> None:
    cores.load(action.transactional_id)


def append(cores: TransactionCores, action: partitioning.Append, before: spec.State) -> None:
    request, machine = action.request, cores.machine
    if cores.give_up(action, before):
        return
    partition = cores.partitions[request.partition]
    waiting = cores.waiting.pop(request.producer) if not action.late and cores.waits(request) else None
    result = waiting or partition.append(request)
    if not isinstance(result, Appended):
        cores.stop(request.producer)
        return
    if not machine.appends_in_two_steps:
        partition.replicate()
    if action.late:
        return
    outcome = partition.leader.append_outcome(result)
    if outcome is ErrorCode.none:
        cores.acknowledge(request)
    elif request.sequence == spec.NONE:
        cores.waiting[request.producer] = result
        cores.wait(request, result.base_offset)


def write_marker(cores: TransactionCores, action: partitioning.WriteMarker, before: spec.State) -> None:
    place = action.request.partition
    committed = cores.partitions[place].leader.high_watermark
    result = cores.partitions[place].append_marker(action.request)
    assert isinstance(result, Appended), result
    if not cores.machine.appends_in_two_steps:
        cores.partitions[place].replicate()
        cores.told_of_markers(place, committed)


def replicate(cores: TransactionCores, action: partitioning.Replicate, before: spec.State) -> None:
    committed = cores.partitions[action.partition].leader.high_watermark
    cores.partitions[action.partition].replicate()
    cores.told_of_markers(action.partition, committed)


def elect(cores: TransactionCores, action: partitioning.Elect, before: spec.State) -> None:
    cores.partitions[action.partition].elect(action.kept)
    cores.forget(action.partition)
    if action.partition == cores.machine.offsets_partition:
        cores.waiting.clear()


STEPS: Final = Steps[TransactionCores, [spec.State], None](
    *(on(kind, by_clients) for kind in (*BY_CLIENTS, *BY_GROUP)),
    on(coordinating.ReceiveInit, receive_init),
    on(coordinating.ReceiveAdd, receive_add),
    on(coordinating.ReceiveEnd, receive_end),
    on(coordinating.Complete, complete),
    on(coordinating.ExpireTransaction, expire),
    on(coordinating.ExpireId, expire_id),
    on(coordinating.TurnClockBack, turn_clock_back),
    on(coordinating.CommitRecord, commit_record),
    on(coordinating.FailOver, fail_over),
    on(coordinating.Load, load),
    on(partitioning.Verify, verify),
    on(partitioning.Append, append),
    on(partitioning.WriteMarker, write_marker),
    on(partitioning.Replicate, replicate),
    on(partitioning.Elect, elect),
)


# --- requests that are refused ---------------------------------------------------------------------------------------


def ask_coordinator(cores: TransactionCores, action: Action) -> IntEnum:
    """Any request to the coordinator; a record that it wants to append shows as the pending one."""
    request = action.request  # type: ignore[attr-defined]
    outcome = cores.sent(request)
    if isinstance(outcome, Append):
        cores.log[cores.machine.id_of(request.producer)].pending = outcome
        return error_of(outcome.response)
    return error_of(outcome)


def ask_leader(cores: TransactionCores, action: partitioning.Append) -> IntEnum:
    result = cores.partitions[action.request.partition].append(action.request)
    return result if isinstance(result, ErrorCode) else ErrorCode.none


def send_marker(cores: TransactionCores, action: partitioning.WriteMarker) -> IntEnum:
    result = cores.partitions[action.request.partition].append_marker(action.request)
    return result if isinstance(result, ErrorCode) else ErrorCode.none


SENT: Final = Steps[TransactionCores, [], IntEnum](
    on(coordinating.ReceiveInit, ask_coordinator),
    on(coordinating.ReceiveAdd, ask_coordinator),
    on(coordinating.ReceiveEnd, ask_coordinator),
    on(partitioning.Verify, ask_coordinator),
    on(partitioning.Append, ask_leader),
    on(partitioning.WriteMarker, send_marker),
)
