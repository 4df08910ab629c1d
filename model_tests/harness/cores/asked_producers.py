"""What no walk asks a replica of idempotent producers: requests of several batches, and who is forgotten when.

A producer of the machine sends one batch at a time, and the harness says who has been idle. So copies of what a replica
remembers are asked: whether several batches are admitted together, as the machine admits them one behind the other; and
who is forgotten at the end of a time, and a moment before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.producer_state import NO_OFFSET, ProducerStates, RepeatedBatchError
from tidegauge.impl.records.batches import BatchHeader, RecordError
from tidegauge.model_tests.harness.cores.producer_log import produced
from tidegauge.spec.idempotence import state as spec
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve

Ruling: TypeAlias = tuple[int, int] | int
"""Where the batches are that were appended before, an error, or none if they may be appended now."""


def copied(states: ProducerStates) -> ProducerStates:
    """What another replica would have that remembers the same: to ask it changes nothing of this one."""
    one = copy(states)
    one.entries = {producer_id: copy(entry) for producer_id, entry in states.entries.items()}
    for entry in one.entries.values():
        entry.batches = list(entry.batches)
    one.transactions = copy(states.transactions)
    one.transactions.open, one.transactions.ended = dict(states.transactions.open), list(states.transactions.ended)
    return one


def admitted(states: ProducerStates, batches: Sequence[spec.Batch]) -> Ruling:
    """What a copy says of a request."""
    try:
        copied(states).admit([BatchHeader.parse(produced(batch)) for batch in batches])
    except RepeatedBatchError as repeated:
        return repeated.base_offset, repeated.end_offset
    except RecordError as refused:
        return refused.error_code.value
    return ErrorCode.none.value


def admitted_one_by_one(machine: Idempotence, replica: spec.Replica, batches: Sequence[spec.Batch]) -> Ruling:
    """What the machine says: each batch as if those before it were in the log; all are repeats, or none is."""
    known: list[spec.BatchMetadata] = []
    admitted: set[int] = set()
    for batch in batches:
        if batch.sequence == spec.NONE:
            continue
        before = None if batch.producer in admitted else machine.repeated(replica, batch)
        if before is not None:
            known.append(before)
            continue
        if error := machine.sequence_error(replica, batch):
            return error.value
        admitted.add(batch.producer)
        replica = evolve(replica, producers=machine.with_batch(replica.producers, batch, replica.log_end))
    if known and len(known) < len(batches):
        return ErrorCode.out_of_order_sequence_number.value
    return (known[0].base_offset, known[-1].last_offset + 1) if known else ErrorCode.none.value


def requests(machine: Idempotence, replica: spec.Replica) -> Iterator[tuple[spec.Batch, ...]]:
    """Requests of several batches: of one producer, of several and of none, known, the next ones, and with a gap."""
    firsts: list[spec.Batch] = []
    for number in range(machine.producers):
        entry = spec.entry_of(replica.producers, number)
        last = entry.batches[-1].last_sequence if entry is not None else spec.NONE
        one, two, three = (
            spec.Batch(number, entry.epoch if entry is not None else 0, machine.advanced(last, ahead), 0, 1)
            for ahead in (1, 2, 3)
        )
        known = [logged.batch for logged in replica.log[-3:] if logged.batch.producer == number]
        newer = evolve(one, epoch=one.epoch + 1, sequence=0)
        yield from ((one, two), (one, three), (two, one), (one, one), (one, newer), (newer, one), (one, two, three))
        plain = spec.Batch(number, 0, spec.NONE, 0, 1)
        yield from ((plain, three), (plain, one), (one, plain), (plain, *known))
        yield from ((batch, one) for batch in known)
        yield tuple(known)
        firsts += [*known[-1:], one]
    yield from ((before, after) for before in firsts for after in firsts if before.producer < after.producer)


def admitted_otherwise(
    machine: Idempotence, name: str, replica: spec.Replica, states: ProducerStates, turn: int
) -> Iterator[Change]:
    """Where a request of several batches, one of `requests` in its turn, is ruled otherwise than batch by batch."""
    if not machine.idempotent:
        return
    every = [batches for batches in requests(machine, replica) if batches]
    batches = every[turn % len(every)]
    wanted, found = admitted_one_by_one(machine, replica, batches), admitted(states, batches)
    if found != wanted:
        yield Change(f"{name}: a request of {batches}", wanted, found)


def forgotten_otherwise(name: str, states: ProducerStates, expiration_ms: int) -> Iterator[Change]:
    """Where a copy forgets others, or knows otherwise whether it has: at the end of each time, and right before."""
    times = {entry.last_timestamp for entry in states.entries.values()} | {states.oldest_timestamp or 0}
    for now_ms in sorted({time + expiration_ms - early for time in times for early in (0, 1)}):
        one = copied(states)
        idle = {
            producer_id
            for producer_id, entry in states.entries.items()
            if entry.last_timestamp + expiration_ms <= now_ms and entry.current_txn_first_offset == NO_OFFSET
        }
        is_old = states.oldest_timestamp is not None and states.oldest_timestamp + expiration_ms <= now_ms
        wanted = idle, states.entries.keys() - idle, states.forgot or is_old or bool(idle)
        found = set(one.expire(now_ms, expiration_ms)), set(one.entries), one.forgot
        if found != wanted:
            yield Change(f"{name}: who is forgotten, who stays, and whether anybody is", wanted, found)
