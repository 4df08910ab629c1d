"""Idempotent producers in lockstep: the producers' and the partition's cores beside the machine of `spec.idempotence`.

The harness is the shell: it holds every request and answer until the action that delivers it, is the controller, and
decides what fills up, expires, crashes or is deleted. After each action the two states are compared field by field.
What the specification keeps of deleted batches, and its notes for its invariants, are lent to the abstraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode

from impl.client.sequencing import AGAIN, ANSWERED, DesynchronisedError, InFlightBatch, Sequencing
from impl.partition.messages import Appended, PartitionConfig, SendAlterPartition
from impl.partition.producer_state import ProducerStates
from impl.partition.registration import PartitionRegistration
from impl.partition.replica import PartitionReplica
from impl.storage.producer_snapshot import decode_snapshot
from impl.wire.records import RecordError
from model_tests.harness.counterexamples import Expected, Failure
from model_tests.harness.lockstep import Difference
from model_tests.lockstep.producer_log import ProducerLog, produced
from spec import idempotence_partition as partition
from spec import idempotence_producer as producing
from spec import idempotence_state as spec
from spec.changes import Change, changes, plain
from spec.idempotence import Idempotence
from spec.machine import Action, NotEnabled
from spec.traces import fallen

ACKS_ALL: Final = -1
EXPIRATION_MS: Final = 1_000


@attrs.frozen
class IdempotenceRoles:
    """The classes that play their parts; a bug of the zoo brings its own."""

    replica: type[PartitionReplica] = PartitionReplica
    producers: type[ProducerStates] = ProducerStates
    sequencing: type[Sequencing] = Sequencing


CORRECT: Final = IdempotenceRoles()


@attrs.define
class ProducerClient:
    """One producer: its core, what of its records each batch holds, and whom it takes for the leader."""

    core: Sequencing
    firsts: dict[int, int] = attrs.field(factory=dict)
    """id of a batch in line -> number of its first record."""
    next_record: int = 0
    leader: int = 0


@attrs.define
class BrokerProcess:
    """One broker: its log, its replica, and the producers' attempts that wait for the high watermark."""

    log: ProducerLog
    replica: PartitionReplica
    waiting: list[tuple[spec.Waiting, Appended]] = attrs.field(factory=list)


class IdempotentCores:
    """Producers, brokers and the messages between them, made to stand where the machine begins."""

    def __init__(self, machine: Idempotence, roles: IdempotenceRoles = CORRECT) -> None:
        self.machine, self.roles = machine, roles
        self.now_ms = 0
        counted = {"sequences": machine.sequences}
        retained = {"batches_retained": machine.batches_retained}
        self.states: type[ProducerStates] = type("Counted", (roles.producers,), counted | retained)
        sequencing: type[Sequencing] = type("Counted", (roles.sequencing,), counted)
        self.producers = [
            ProducerClient(sequencing(machine.max_in_flight, idempotent=machine.idempotent))
            for _ in range(machine.producers)
        ]
        everybody = tuple(range(machine.brokers))
        self.registration = PartitionRegistration(everybody, 0, 0, 0, frozenset(everybody))
        self.brokers = [self.start(number, ProducerLog(self.states)) for number in everybody]
        self.requests: list[spec.ProduceRequest] = []
        self.responses: list[spec.ProduceResponse] = []
        self.acknowledged: set[spec.Acknowledged] = set()

    def start(self, number: int, log: ProducerLog) -> BrokerProcess:
        process = BrokerProcess(log, self.roles.replica(number, log, PartitionConfig()))
        process.replica.apply_metadata(self.registration, 0, self.now_ms)
        process.replica.take_effects()
        return process

    # --- messages ----------------------------------------------------------------------------------------------

    def send(self, number: int, batch: InFlightBatch) -> None:
        """Put an attempt on its way."""
        request = spec.ProduceRequest(self.batch(number, batch), batch.sent_to, batch.attempt)
        self.requests.append(request)
        if self.machine.reordering:
            self.requests.sort()

    def batch(self, number: int, batch: InFlightBatch) -> spec.Batch:
        first = self.producers[number].firsts[id(batch)]
        return spec.Batch(number, batch.epoch, batch.base_sequence, first, batch.count)

    def in_line(self, request: spec.ProduceRequest) -> InFlightBatch | None:
        """The batch that waits for an answer to this attempt."""
        number = request.batch.producer
        for batch in self.producers[number].core.line:
            same = (self.batch(number, batch), batch.attempt, batch.sent_to)
            if same == (request.batch, request.attempt, request.broker):
                return batch
        return None

    def answer(self, request: spec.ProduceRequest, error: ErrorCode, offset: int = -1, repeated: bool = False) -> None:
        if error is ErrorCode.none:
            self.acknowledged.add(spec.Acknowledged(offset, request.batch))
        response = spec.ProduceResponse(request, spec.Error(error.value), offset, repeated)
        if self.in_line(request) is not None and response not in self.responses:
            self.responses.append(response)

    def drop_responses(self, number: int, broker: int | None = None) -> None:
        self.responses = [
            r for r in self.responses if r.request.batch.producer != number or broker not in (None, r.request.broker)
        ]

    # --- the partition -----------------------------------------------------------------------------------------

    def settle(self, number: int) -> None:
        """Look again at the attempts that wait on a broker, and carry its ISR proposal out."""
        process = self.brokers[number]
        for effect in process.replica.take_effects():
            if isinstance(effect, SendAlterPartition):
                request = process.replica.alter_partition_request(0)
                assert request is not None
                self.commit(attrs.evolve(self.registration, isr=request.members))
        for waiting, appended in list(process.waiting):
            outcome = process.replica.append_outcome(appended)
            if outcome is None:
                continue
            process.waiting.remove((waiting, appended))
            offset = appended.base_offset if outcome is ErrorCode.none else -1
            self.answer(waiting.request, outcome, offset, appended.repeated and outcome is ErrorCode.none)

    def commit(self, registration: PartitionRegistration, but: int | None = None) -> None:
        """The controller's new word, of which everybody learns at once."""
        self.registration = attrs.evolve(registration, partition_epoch=self.registration.partition_epoch + 1)
        for number, process in enumerate(self.brokers):
            if number != but:
                process.replica.apply_metadata(self.registration, 0, self.now_ms)
        for number in range(len(self.brokers)):
            if number != but:
                self.settle(number)

    def led_by(self, leader: int) -> PartitionRegistration:
        return attrs.evolve(self.registration, leader=leader, leader_epoch=self.registration.leader_epoch + 1)

    # --- the world as the specification sees it ----------------------------------------------------------------

    def abstraction(self, expected: spec.State) -> spec.State:
        return spec.State(
            producers=tuple(self._producer(number, client) for number, client in enumerate(self.producers)),
            replicas=tuple(map(self._replica, range(len(self.brokers)), expected.replicas)),
            leader=self.registration.leader,
            leader_epoch=self.registration.leader_epoch,
            in_sync=tuple(sorted(self.registration.isr)),
            requests=tuple(self.requests),
            responses=tuple(sorted(self.responses)),
            acknowledged=tuple(sorted(self.acknowledged)),
            spent=expected.spent,
        )

    def _producer(self, number: int, client: ProducerClient) -> spec.Producer:
        core = client.core
        line = tuple(
            spec.InFlight(self.batch(number, b), b.attempt, _SENT_TO.get(b.sent_to, b.sent_to), b.behind)
            for b in core.line
        )
        return spec.Producer(
            core.epoch, core.next_sequence, client.next_record, client.leader, line, core.desynchronised
        )

    def _replica(self, number: int, expected: spec.Replica) -> spec.Replica:
        process = self.brokers[number]
        replica, log = process.replica, process.log
        known = {(b.base_offset, b.batch): b.on_trust for b in expected.log}
        deleted = tuple(b for b in expected.log if b.base_offset < log.log_start_offset)
        kept = tuple(attrs.evolve(b, on_trust=known.get((b.base_offset, b.batch), False)) for b in log.batches)
        ends = replica.remote_replicas
        return spec.Replica(
            log=deleted + kept,
            log_start=log.log_start_offset,
            high_watermark=replica.high_watermark,
            producers=_entries(log.producers),
            snapshots=tuple(spec.Snapshot(offset, _of_file(data)) for offset, data in sorted(log.snapshots.items())),
            segment_full=log.segment_full,
            forgot=log.producers.forgot,
            stuck=expected.stuck,
            epoch_start=replica.epoch_start_offset,
            known_ends=tuple(ends[b].log_end_offset if b in ends else spec.NONE for b in range(len(self.brokers)))
            if replica.is_leader
            else (),
            waiting=tuple(waiting for waiting, _ in process.waiting),
        )


_SENT_TO: Final = {AGAIN: spec.NONE, ANSWERED: spec.ANSWERED}


def _entries(states: ProducerStates) -> spec.Producers:
    """What a replica remembers."""
    return tuple(
        spec.ProducerEntry(entry.producer_id, entry.epoch, tuple(spec.BatchMetadata(*b[:3]) for b in entry.batches))
        for _, entry in sorted(states.entries.items())
    )


def _of_file(content: bytes) -> spec.Producers:
    """What a snapshot file says."""
    states = ProducerStates()
    states.restart(decode_snapshot(content) or (), 0, 0)
    return _entries(states)


# --- one action of the specification = one function ----------------------------------------------------------------


def send(cores: IdempotentCores, action: producing.Send, before: spec.State) -> None:
    client = cores.producers[action.producer]
    assert client.core.may_send(client.leader), "the producer would not send now"
    batch = client.core.send(action.count, client.leader)
    client.firsts[id(batch)] = client.next_record
    client.next_record += action.count
    cores.send(action.producer, batch)


def retry(cores: IdempotentCores, action: producing.Retry, before: spec.State) -> None:
    client = cores.producers[action.producer]
    batch = client.core.line[action.place]
    assert client.core.may_retry(batch), "the producer would not send this batch again now"
    client.core.retry(batch, client.leader)
    cores.send(action.producer, batch)


def lose_connection(cores: IdempotentCores, action: producing.LoseConnection, before: spec.State) -> None:
    cores.producers[action.producer].core.disconnected(action.broker)
    cores.drop_responses(action.producer, action.broker)


def refresh_metadata(cores: IdempotentCores, action: producing.RefreshMetadata, before: spec.State) -> None:
    cores.producers[action.producer].leader = cores.registration.leader


def give_up(cores: IdempotentCores, action: producing.GiveUp, before: spec.State) -> None:
    cores.producers[action.producer].core.give_up()
    cores.drop_responses(action.producer)


def receive_response(cores: IdempotentCores, action: producing.ReceiveProduceResponse, before: spec.State) -> None:
    response = action.response
    cores.responses.remove(response)
    client = cores.producers[response.request.batch.producer]
    batch = cores.in_line(response.request)
    if batch is None:
        return
    with suppress(DesynchronisedError):
        client.core.answered(batch, response.request.attempt, ErrorCode(response.error.value))
    if response.error is spec.Error.NOT_LEADER_OR_FOLLOWER:
        client.leader = cores.registration.leader


def receive_produce(cores: IdempotentCores, action: partition.ReceiveProduce, before: spec.State) -> None:
    request = action.request
    if not action.duplicate:
        cores.requests.remove(request)
    process = cores.brokers[request.broker]
    try:
        result = process.replica.append(produced(request.batch, cores.now_ms), ACKS_ALL, cores.now_ms)
    except RecordError as refused:
        cores.answer(request, refused.error_code)
        return
    if not isinstance(result, Appended):
        cores.answer(request, result)
        return
    waiting = spec.Waiting(request, result.base_offset, result.repeated)
    if waiting not in [known for known, _ in process.waiting]:
        process.waiting.append((waiting, result))
    cores.settle(request.broker)


def fetch(cores: IdempotentCores, action: partition.Fetch, before: spec.State) -> None:
    follower, leader = cores.brokers[action.broker].replica, cores.brokers[cores.registration.leader].replica
    common = cores.machine.truncation_offset(before.replicas[action.broker], before.replicas[before.leader])
    diverged = follower.log_end_offset > common
    for _ in range(len(before.replicas[action.broker].log) + 1):
        request = follower.fetch_request(0)
        assert request is not None
        answer = leader.receive_fetch(request, 1, cores.now_ms)
        # Where a log starts is each replica's own affair here.
        follower.receive_fetch_response(request, attrs.evolve(answer, log_start_offset=-1), cores.now_ms)
        if not diverged or follower.log_end_offset <= common:
            break
    cores.settle(cores.registration.leader)
    cores.settle(action.broker)


def elect(cores: IdempotentCores, action: partition.Elect, before: spec.State) -> None:
    cores.commit(cores.led_by(action.broker))


def fill_segment(cores: IdempotentCores, action: partition.FillSegment, before: spec.State) -> None:
    cores.brokers[action.broker].log.segment_full = True


def crash(cores: IdempotentCores, action: partition.Crash, before: spec.State) -> None:
    dead, log = action.broker, before.replicas[action.broker].log
    cores.requests = [request for request in cores.requests if request.broker != dead]
    for number, client in enumerate(cores.producers):
        client.core.disconnected(dead)
        cores.drop_responses(number, dead)
    others = sorted(cores.registration.isr - {dead})
    registration = cores.led_by(others[0]) if cores.registration.leader == dead else cores.registration
    cores.brokers[dead].waiting.clear()
    cores.commit(attrs.evolve(registration, isr=frozenset(others)), but=dead)
    found = cores.brokers[dead].log.after_crash(log[action.kept - 1].end_offset if action.kept else 0)
    cores.brokers[dead] = cores.start(dead, found)


def delete_records(cores: IdempotentCores, action: partition.DeleteRecords, before: spec.State) -> None:
    cores.brokers[action.broker].log.delete_records_before(action.offset)


def expire(cores: IdempotentCores, action: partition.Expire, before: spec.State) -> None:
    """The harness decides who has been idle for too long: this one, and nobody else."""
    states = cores.brokers[action.broker].log.producers
    for producer_id, entry in states.entries.items():
        entry.last_timestamp = cores.now_ms - (EXPIRATION_MS if producer_id == action.producer else 0)
    states.expire(cores.now_ms, EXPIRATION_MS)


PERFORM: Final[Mapping[type[Action], Callable[[IdempotentCores, Any, spec.State], None]]] = {
    producing.Send: send,
    producing.Retry: retry,
    producing.LoseConnection: lose_connection,
    producing.RefreshMetadata: refresh_metadata,
    producing.GiveUp: give_up,
    producing.ReceiveProduceResponse: receive_response,
    partition.ReceiveProduce: receive_produce,
    partition.Fetch: fetch,
    partition.Elect: elect,
    partition.FillSegment: fill_segment,
    partition.Crash: crash,
    partition.DeleteRecords: delete_records,
    partition.Expire: expire,
}


# --- the two together ----------------------------------------------------------------------------------------------


class InvariantFell(AssertionError):  # noqa: N818 (as the literature says it)
    """The specification's state breaks one of its invariants, whether or not the cores agree with it."""

    def __init__(self, machine: Idempotence, invariant: str, action: Action, state: spec.State) -> None:
        self.invariant = invariant
        values = "".join(f"\n  {name}: {value}" for name, value in machine.explain(invariant, state).items())
        super().__init__(f"{invariant} falls after {plain(action)}:{values}")


class IdempotenceLockstep:
    """The machine's state, the cores, and the actions that both have taken."""

    def __init__(self, machine: Idempotence, roles: IdempotenceRoles = CORRECT) -> None:
        """Raises Difference when they differ to begin with."""
        self.machine = machine
        self.cores = IdempotentCores(machine, roles)
        self.state = next(iter(machine.initial()))
        self.actions: list[Action] = []
        self._compare(None)

    def perform(self, action: Action) -> bool:
        """Take `action` on both sides and check; False if it is not enabled. Raises Difference or InvariantFell."""
        try:
            after = self.machine.step(self.state, action)
        except NotEnabled:
            return False
        before, self.state = self.state, after
        self.actions.append(action)
        self.cores.now_ms += 1
        try:
            PERFORM[type(action)](self.cores, action, before)
            self._compare(action)
        except Difference:
            raise
        except Exception as error:
            raise Difference(action, (Change("error", "none", f"{type(error).__name__}: {error}"),)) from error
        fell = next(fallen(self.machine, after), None)
        if fell is not None:
            raise InvariantFell(self.machine, fell, action, after)
        return True

    def _compare(self, action: Action | None) -> None:
        actual = self.cores.abstraction(self.state)
        if actual != self.state:
            raise Difference(action, tuple(changes(self.state, actual)))
        for number, (producer, client) in enumerate(zip(self.state.producers, self.cores.producers, strict=True)):
            wanted = self._choices(producer)
            core = client.core
            found = (core.may_send(client.leader), *(b.sent_to != AGAIN or core.may_retry(b) for b in core.line))
            if found != wanted:
                raise Difference(action, (Change(f"producers[{number}].choices", wanted, found),))

    def _choices(self, producer: spec.Producer) -> tuple[bool, ...]:
        """What the producer may do: send a new batch, and send those again that are to be."""
        again = (
            f.sent_to != spec.NONE or self.machine.may_retry(producer, n) for n, f in enumerate(producer.in_flight)
        )
        return (self.machine.may_send(producer), *again)


@attrs.frozen
class Outcome:
    """What went wrong in a lockstep: where, in words, and by which actions."""

    expected: Expected
    words: str
    actions: tuple[Action, ...]


def failure_of(pair: IdempotenceLockstep, actions: Iterable[Action]) -> Outcome | None:
    """Perform those of the actions that are enabled; what went wrong, if anything did."""
    try:
        for action in actions:
            pair.perform(action)
    except Difference as difference:
        return Outcome(Expected(Failure.DIFFERENCE, difference.path), str(difference), tuple(pair.actions))
    except InvariantFell as fell:
        return Outcome(Expected(Failure.INVARIANT, fell.invariant), str(fell), tuple(pair.actions))
    return None
