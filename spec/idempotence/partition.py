"""What happens to the partition: produce requests, replication, elections, segments, crashes, retention, expiry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

import attrs

from tidegauge.spec.idempotence.actions import IdempotenceAction, with_last, with_response, without_first
from tidegauge.spec.idempotence.producer import disconnected
from tidegauge.spec.idempotence.rules import IdempotenceRules
from tidegauge.spec.idempotence.state import (
    NONE,
    Acknowledged,
    Batch,
    BrokerId,
    Error,
    LoggedBatch,
    ProducerEntry,
    ProduceRequest,
    ProduceResponse,
    ProducerId,
    Producers,
    Replica,
    Snapshot,
    State,
    Waiting,
    entry_of,
    without_entry,
)
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.piecemeal import one_at_a_time, question


@attrs.frozen
class ReceiveProduce(IdempotenceAction):
    """A produce request reaches a broker; a duplicate of it may stay on its way."""

    bounded_as: ClassVar[str] = "DuplicateProduce"

    request: ProduceRequest
    duplicate: bool = False

    @classmethod
    def is_possible(cls, machine: IdempotenceRules) -> bool:
        return True

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        duplicates = (False, True) if machine.may_perturb(state, cls.bounded_as) else (False,)
        return [cls(request, duplicate) for request in dict.fromkeys(state.requests) for duplicate in duplicates]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        if self.request not in state.requests:
            return self.not_on_its_way(machine, state)
        if self.duplicate and not machine.may_perturb(state, self.bounded_as):
            return "no more duplicates in this model"
        if machine.reordering:
            return ""
        return "" if is_first_in_line(state.requests, self.request) else "another request was sent before it"

    def not_on_its_way(self, machine: IdempotenceRules, state: State) -> str:
        """Any process may send a batch; only one that is refused, or committed before, changes nothing."""
        broker, batch = self.request.broker, self.request.batch
        if broker != state.leader:
            return Refusal(f"broker {broker} does not lead", Error.NOT_LEADER_OR_FOLLOWER)
        leader = state.replicas[broker]
        if machine.idempotent:
            known = machine.repeated(leader, batch)
            if known is not None and known.last_offset < leader.high_watermark:
                return Refusal(f"{batch} is committed at offset {known.base_offset}", Error.OK)
            if known is None and (error := machine.sequence_error(leader, batch)):
                return Refusal(f"broker {broker} does not append {batch}", error)
        return f"no such request is on its way: {self.request}"

    @classmethod
    def attempts(cls, machine: IdempotenceRules, state: State) -> Iterator[Self]:
        """Batches that are known or come too early, and those of other epochs, on the leader and elsewhere."""
        for broker, replica in enumerate(state.replicas):
            for number, producer in enumerate(state.producers):
                entry = entry_of(replica.producers, number)
                committed = [b.batch for b in replica.log[-machine.batches_retained :] if b.batch.producer == number]
                ends = [batch for known in committed for batch in ends_of(machine, known)]
                yield from (cls(ProduceRequest(batch, broker, machine.max_attempts)) for batch in (*committed, *ends))
                last = entry.batches[-1].last_sequence if entry is not None else NONE
                epoch = entry.epoch if entry is not None else producer.epoch
                for wrong in (epoch - 1, epoch, epoch + 1):
                    for ahead in (1, 2, 3):
                        batch = Batch(number, wrong, machine.advanced(last, ahead), 0, 1)
                        if wrong >= 0:
                            yield cls(ProduceRequest(batch, broker, machine.max_attempts))

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        if self.duplicate:
            state = state.spend(self.bounded_as)
        else:
            state = evolve(state, requests=without_first(state.requests, self.request))
        broker, batch = self.request.broker, self.request.batch
        if broker != state.leader:
            return with_response(state, ProduceResponse(self.request, Error.NOT_LEADER_OR_FOLLOWER))
        leader = state.replicas[broker]
        if machine.idempotent:
            known = machine.repeated(leader, batch)
            if known is not None:
                waiting = Waiting(self.request, known.base_offset, repeated=True)
                return acknowledge_committed(machine, waits(state, broker, waiting), broker)
            if error := machine.sequence_error(leader, batch):
                return with_response(state, ProduceResponse(self.request, error))
        is_unknown = machine.idempotent and entry_of(leader.producers, batch.producer) is None
        on_trust = is_unknown and batch.sequence != 0 and leader.may_have_forgotten
        logged = LoggedBatch(state.leader_epoch, leader.log_end, batch, on_trust)
        state = state.with_replica(broker, appended(machine, leader, logged))
        waiting = Waiting(self.request, logged.base_offset, repeated=False)
        return advance_high_watermark(machine, waits(state, broker, waiting), broker)


@question
def is_first_in_line(requests: tuple[ProduceRequest, ...], request: ProduceRequest) -> bool:
    """Whether no request of the same producer to the same broker was sent before it."""
    line = (request.batch.producer, request.broker)
    return next(r for r in requests if (r.batch.producer, r.broker) == line) == request


def waits(state: State, broker: int, waiting: Waiting) -> State:
    leader = state.replicas[broker]
    if waiting in leader.waiting:
        return state
    return state.with_replica(broker, evolve(leader, waiting=with_last(leader.waiting, waiting)))


def appended(machine: IdempotenceRules, replica: Replica, logged: LoggedBatch) -> Replica:
    """A replica with a batch more in its log and in its memory, in a new segment if the former one is full."""
    before = replica.producers
    after = before
    if logged.batch.sequence != NONE:
        after = machine.with_batch(before, logged.batch, logged.base_offset)
    if replica.segment_full:
        shot = snapshot(replica.log_end, machine.snapshot_at_roll(before, after))
        replica = evolve(replica, segment_full=False, snapshots=(*replica.snapshots, shot))
    return evolve(replica, log=(*replica.log, logged), producers=after)


def snapshot(offset: int, producers: Producers) -> Snapshot:
    """As the file has it: one batch a producer."""
    return Snapshot(offset, tuple(ProducerEntry(e.producer, e.epoch, e.batches[-1:]) for e in producers))


def advance_high_watermark(machine: IdempotenceRules, state: State, broker: int) -> State:
    """The leader commits what everybody in sync has shown to have."""
    leader = state.replicas[broker]
    reached = leader.log_end
    for member in state.in_sync:
        if member != broker:
            reached = min(reached, leader.known_ends[member])
    high_watermark = max(leader.high_watermark, reached)
    state = state.with_replica(broker, evolve(leader, high_watermark=high_watermark))
    return acknowledge_committed(machine, state, broker)


def acknowledge_committed(machine: IdempotenceRules, state: State, broker: int) -> State:
    """Producers whose batch is committed are told where it is."""
    leader = state.replicas[broker]
    done = committed(leader.waiting, leader.high_watermark)
    if not done:
        return state
    state = state.with_replica(broker, evolve(leader, waiting=uncommitted(leader.waiting, leader.high_watermark)))
    promised = tuple(Acknowledged(w.base_offset, w.request.batch) for w in done)
    state = evolve(state, acknowledged=with_promises(state.acknowledged, promised))
    for waiting in done:
        response = ProduceResponse(waiting.request, Error.OK, waiting.base_offset, waiting.repeated)
        state = with_response(state, response)
    return state


@question
def committed(waiting: tuple[Waiting, ...], high_watermark: int) -> tuple[Waiting, ...]:
    """Those whose batch is below the high watermark."""
    return tuple(w for w in waiting if w.base_offset + w.request.batch.count <= high_watermark)


@one_at_a_time
def uncommitted(waiting: tuple[Waiting, ...], high_watermark: int) -> tuple[Waiting, ...]:
    """The others."""
    return tuple(w for w in waiting if w.base_offset + w.request.batch.count > high_watermark)


@one_at_a_time
def with_promises(known: tuple[Acknowledged, ...], promised: tuple[Acknowledged, ...]) -> tuple[Acknowledged, ...]:
    """Promises in order, with those that are new."""
    return tuple(sorted({*known, *promised}))


def ends_of(machine: IdempotenceRules, batch: Batch) -> Iterator[Batch]:
    """What ends as a batch does and begins later: no repeat, for it would be acknowledged for what it is not."""
    if batch.count > 1:
        sequence = machine.advanced(batch.sequence, batch.count - 1)
        yield evolve(batch, sequence=sequence, first=batch.first + batch.count - 1, count=1)


@attrs.frozen
class Fetch(IdempotenceAction):
    """A follower fetches: it cuts what its leader lacks, or shows how far it is and appends the next batch."""

    broker: BrokerId

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in range(machine.brokers) if broker != state.leader]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        if self.broker == state.leader:
            return f"broker {self.broker} leads"
        return f"broker {self.broker} is stuck" if state.replicas[self.broker].stuck else ""

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        follower, leader = state.replicas[self.broker], state.replicas[state.leader]
        common = machine.truncation_offset(follower, leader)
        if common < follower.log_end:
            return state.with_replica(self.broker, truncated(machine, follower, common))
        ends = leader.known_ends
        ends = (*ends[: self.broker], follower.log_end, *ends[self.broker + 1 :])
        state = state.with_replica(state.leader, evolve(leader, known_ends=ends))
        caught_up = follower.log_end >= max(leader.high_watermark, leader.epoch_start)
        if caught_up and self.broker not in state.in_sync:
            state = evolve(state, in_sync=tuple(sorted((*state.in_sync, self.broker))))
        state = advance_high_watermark(machine, state, state.leader)
        leader = state.replicas[state.leader]
        for logged in leader.log:
            if logged.base_offset == follower.log_end:
                if machine.replication_error(follower, logged.batch):
                    return state.with_replica(self.broker, evolve(follower, stuck=True))
                follower = appended(machine, follower, logged)
                break
        high_watermark = min(leader.high_watermark, follower.log_end)
        return state.with_replica(self.broker, evolve(follower, high_watermark=high_watermark))


def truncated(machine: IdempotenceRules, replica: Replica, offset: int) -> Replica:
    """The log cut at `offset`, snapshots beyond it gone, the memory as of what is left."""
    replica = evolve(
        replica,
        log=tuple(logged for logged in replica.log if logged.end_offset <= offset),
        high_watermark=min(replica.high_watermark, offset),
        segment_full=False,
    )
    return reloaded(machine, replica)


def reloaded(machine: IdempotenceRules, replica: Replica) -> Replica:
    """The memory from the disk; snapshots outside the log are of no use, and those beyond it would come to lie."""
    kept = tuple(s for s in replica.snapshots if replica.log_start < s.offset <= replica.log_end)
    replica = evolve(replica, snapshots=kept)
    return evolve(replica, producers=machine.rebuilt(replica))


@attrs.frozen
class Elect(IdempotenceAction):
    """The controller moves the leadership to another replica in sync, and everybody learns of it."""

    bounded_as: ClassVar[str] = "Elect"

    broker: BrokerId

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in state.in_sync if broker != state.leader]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more elections in this model"
        if self.broker == state.leader or self.broker not in state.in_sync:
            return f"broker {self.broker} leads, or is not in sync"
        return ""

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        for waiting in state.replicas[state.leader].waiting:
            response = ProduceResponse(waiting.request, Error.NOT_LEADER_OR_FOLLOWER)
            state = with_response(state, response)
        return led_by(machine, state, self.broker).spend(self.bounded_as)


def led_by(machine: IdempotenceRules, state: State, broker: int) -> State:
    """A new leader epoch: the leader knows nothing of its followers yet, and the former one is none any more."""
    former = evolve(state.replicas[state.leader], epoch_start=NONE, known_ends=(), waiting=())
    state = state.with_replica(state.leader, former)
    leader = state.replicas[broker]
    leader = evolve(leader, epoch_start=leader.log_end, known_ends=(NONE,) * machine.brokers)
    state = evolve(state, leader=broker, leader_epoch=state.leader_epoch + 1)
    return advance_high_watermark(machine, state.with_replica(broker, leader), broker)


@attrs.frozen
class FillSegment(IdempotenceAction):
    """A replica's active segment is full: the next append goes into a new one."""

    fair: ClassVar[bool] = False

    broker: BrokerId

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in range(machine.brokers)] if machine.segments else ()

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if not machine.segments or replica.segment_full:
            return "no segment fills up now"
        begins_here = any(shot.offset == replica.log_end for shot in replica.snapshots)
        return "the active segment is empty" if begins_here or replica.log_end == replica.log_start else ""

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        return state.with_replica(self.broker, evolve(state.replicas[self.broker], segment_full=True))


@one_at_a_time
def without_broker(requests: tuple[ProduceRequest, ...], broker: int) -> tuple[ProduceRequest, ...]:
    """The requests but for those to a broker."""
    return tuple(r for r in requests if r.broker != broker)


@attrs.frozen
class Crash(IdempotenceAction):
    """A broker restarts with the first `kept` batches of its log; if it led, the next in sync leads."""

    bounded_as: ClassVar[str] = "Crash"

    broker: BrokerId
    kept: int

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [
            cls(broker, kept) for broker, replica in enumerate(state.replicas) for kept in range(len(replica.log) + 1)
        ]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more crashes in this model"
        replica = state.replicas[self.broker]
        end = replica.log[self.kept - 1].end_offset if 0 < self.kept <= len(replica.log) else 0
        if not 0 <= self.kept <= len(replica.log) or end < max(other.log_start for other in state.replicas):
            return f"broker {self.broker} would have lost what is on its disk for good, or never had"
        return "" if set(state.in_sync) - {self.broker} else "nobody else is in sync"

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        others = tuple(member for member in state.in_sync if member != self.broker)
        state = evolve(
            state,
            in_sync=others,
            requests=without_broker(state.requests, self.broker),
        )
        for number in range(machine.producers):
            state = disconnected(state, number, self.broker)
        if state.leader == self.broker:
            state = led_by(machine, state, others[0])
        else:
            state = advance_high_watermark(machine, state, state.leader)
        replica = state.replicas[self.broker]
        found = Replica(
            log=replica.log[: self.kept],
            log_start=replica.log_start,
            high_watermark=replica.log_start,
            snapshots=replica.snapshots,
            forgot=replica.forgot,
        )
        return state.with_replica(self.broker, reloaded(machine, found)).spend(self.bounded_as)


@attrs.frozen
class DeleteRecords(IdempotenceAction):
    """A replica's log start moves up to `offset`: retention, or DeleteRecords. What it remembers stays."""

    bounded_as: ClassVar[str] = "DeleteRecords"

    broker: BrokerId
    offset: int

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [
            cls(broker, logged.end_offset) for broker, replica in enumerate(state.replicas) for logged in replica.log
        ]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more records are deleted in this model"
        replica = state.replicas[self.broker]
        if not replica.log_start < self.offset <= replica.high_watermark:
            return f"[{replica.log_start}, {replica.high_watermark}) does not reach to offset {self.offset}"
        if any(other.log_end < self.offset for other in state.replicas) or self.offset == replica.log_end:
            return "a replica has not got so far, or would be left with nothing to compare (`extensions.retention`)"
        return "" if any(b.end_offset == self.offset for b in replica.log) else "no batch ends there"

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        replica = evolve(state.replicas[self.broker], log_start=self.offset)
        return state.with_replica(self.broker, replica).spend(self.bounded_as)


@attrs.frozen
class Expire(IdempotenceAction):
    """A replica drops a producer that has been idle for long: nothing of it is in flight any more."""

    bounded_as: ClassVar[str] = "Expire"

    broker: BrokerId
    producer: ProducerId

    @classmethod
    def candidates(cls, machine: IdempotenceRules, state: State) -> Iterable[Self]:
        return [cls(broker, number) for broker in range(machine.brokers) for number in range(machine.producers)]

    def guard(self, machine: IdempotenceRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more producers expire in this model"
        if entry_of(state.replicas[self.broker].producers, self.producer) is None:
            return f"broker {self.broker} knows nothing of producer {self.producer}"
        busy = state.producers[self.producer].in_flight or any(
            request.batch.producer == self.producer for request in state.requests
        )
        return f"producer {self.producer} is not idle" if busy else ""

    def effect(self, machine: IdempotenceRules, state: State) -> State:
        replica = state.replicas[self.broker]
        producers = without_entry(replica.producers, self.producer)
        state = state.with_replica(self.broker, evolve(replica, producers=producers, forgot=True))
        return state.spend(self.bounded_as)
