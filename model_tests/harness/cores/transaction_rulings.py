"""What the coordinator would make of requests that nobody has sent, beside what the specification's rules say of them.

In each state a few are asked of each transactional id: of any producer id that it has, has had or will have, of
another id's and of nobody's, in the epochs around those that matter, whatever its clients do. What the coordinator
would append never is in its log, so that nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, Protocol, TypeAlias

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.log_format import decode_value
from tidegauge.impl.coordinators.transactions.messages import Append, ProducerGiven
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
from tidegauge.model_tests.harness.cores.transaction_clients import error_of
from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.actions import CLOCK, started
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.machine import Transactions

Asked: TypeAlias = spec.InitRequest | spec.AddRequest | spec.ProduceRequest | spec.EndRequest
EACH: Final = 2
"""Requests that are asked about, of each transactional id in each state."""


class Ruled(Protocol):
    """A coordinator beside the machine."""

    machine: Transactions
    coordinator: TransactionCoordinator
    now_ms: int

    def ruled(self, request: Asked, /) -> Append[object] | object:
        """What the coordinator makes of a request."""

    def pending_of(self, append: Append[object], /) -> TransactionMetadata | None:
        """What it knows of an id once a record is committed that it has asked to append."""

    def as_specified(self, found: TransactionMetadata | None, expected: spec.Metadata, /) -> spec.Metadata:
        """The same as the specification has it."""


def ruled_otherwise(cores: Ruled, expected: spec.State, rng: Random) -> Iterator[Change]:
    """Where the coordinator would respond or write otherwise than the specification says."""
    for number, one in enumerate(expected.coordination):
        if one.cached is not None and one.pending is None:
            for _ in range(EACH):
                yield from _asked(cores, expected, one.cached, drawn_request(cores.machine, expected, number, rng))


def drawn_request(machine: Transactions, state: spec.State, number: int, rng: Random) -> Asked:
    """A request of a transactional id, that its producer or another one might send."""
    known = state.coordination[number].cached or spec.Metadata()
    others = [one.logged.producer_id for one in state.coordination]
    own = (known.producer_id, known.previous_producer_id, known.next_producer_id, known.ongoing_producer_id)
    producer_id = rng.choice(
        [one for one in (*own, known.producer_id, *others, state.producer_ids) if one != spec.NONE]
    )
    around = (known.epoch - 1, known.epoch, known.epoch + 1, known.last_epoch, known.ongoing_epoch)
    epoch = rng.choice([one for one in (*around, 0, machine.max_epoch - 1, machine.max_epoch) if one >= 0])
    given = min(epoch, machine.max_epoch - 1)  # no producer goes on from the largest one, nor ends anything in it
    producer, partition = number * machine.incarnations, rng.randrange(machine.partitions)
    match rng.randrange(4):
        case 0:
            keeps = machine.two_phase and rng.choice((False, True))
            goes_on = rng.choice((False, True))
            return spec.InitRequest(
                producer, producer_id if goes_on else spec.NONE, given if goes_on else spec.NONE, keeps
            )
        case 1:
            return spec.AddRequest(producer, producer_id, epoch, partition, spec.NONE)
        case 2:
            version = rng.choice((1, 2))
            return spec.ProduceRequest(producer, producer_id, epoch, partition, 0, spec.NONE, version)
        case _:
            decision = rng.choice((spec.Decision.COMMIT, spec.Decision.ABORT))
            return spec.EndRequest(producer, producer_id, given, decision, spec.NONE, rng.choice((1, 2)))


def ruling_of(machine: Transactions, known: spec.Metadata, request: Asked, new_id: int) -> Ruling:
    """What the specification makes of it."""
    match request:
        case spec.InitRequest():
            return machine.init_ruling(known, request, new_id)
        case spec.AddRequest():
            return machine.add_ruling(known, request)
        case spec.ProduceRequest():
            return machine.verification_ruling(known, request)
        case spec.EndRequest():
            return machine.end_ruling(known, request, new_id)


def _asked(cores: Ruled, state: spec.State, known: spec.Metadata, request: Asked) -> Iterator[Change]:
    ruling = ruling_of(cores.machine, known, request, state.producer_ids)
    outcome = cores.ruled(request)
    written = None
    if isinstance(outcome, Append):
        written = cores.pending_of(outcome)
        cores.coordinator.failed(outcome)
    response = outcome.response if isinstance(outcome, Append) else outcome
    if error_of(response).value != ruling.error.value:
        yield Change(f"the error of {request}", ruling.error.name, error_of(response).name)
        return
    wanted = ruling.metadata
    if wanted is not None:
        wanted = evolve(wanted, started=started(known, wanted, times(state.spent, CLOCK)))
    found = None if written is None else cores.as_specified(written, wanted or spec.Metadata())
    if found != wanted:
        yield Change(f"what is written of {request}", wanted, found)
    elif isinstance(outcome, Append) and written is not None:
        if cores.machine.log_version and decode_value(outcome.value or b"") != written:
            yield Change(f"the record of {request}", written, outcome.value)
        if written.last_update_ms != cores.now_ms:
            yield Change(f"the time of what is written of {request}", cores.now_ms, written.last_update_ms)
    if isinstance(response, ProducerGiven) and response.error is ErrorCode.none:
        yield from _given(cores.machine, request, wanted or known, response)


def _given(machine: Transactions, request: Asked, metadata: spec.Metadata, response: ProducerGiven) -> Iterator[Change]:
    """The producer id and the epoch to go on with, and those of a transaction that is taken over."""
    after = machine.after_end(spec.Producer(version=2), metadata)
    ongoing = (spec.NONE, spec.NONE)
    if isinstance(request, spec.InitRequest) and request.keeps_prepared and machine.is_taken_over(metadata):
        ongoing = machine.ongoing(metadata)
    wanted = after.producer_id, after.epoch, ongoing
    if wanted != response[1:]:
        yield Change(f"what the producer is given upon {request}", wanted, response[1:])
