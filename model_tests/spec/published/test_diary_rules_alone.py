"""Rules of the published models of transactions asked alone, in states that no behaviour of them reaches."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.transactions_diary.actions import (
    BecomeFollower,
    CompletePartialTxn,
    ReceiveAddPartitionsToTxnRequest,
    ReceiveInitPidRequest,
)
from tidegauge.spec.published.transactions_diary.machine import TransactionsDiary, type_ok
from tidegauge.spec.published.transactions_diary.rules import FORMER
from tidegauge.spec.published.transactions_diary.state import (
    NONE,
    AddPartitionsRequest,
    AddPartitionsResponse,
    Broker,
    Client,
    Code,
    InitPidRequest,
    InitPidResponse,
    Message,
    Metadata,
    State,
    TxnState,
)
from tidegauge.spec.published.transactions_diary.variants import EmptiesNothing

MACHINE = TransactionsDiary(brokers=3, clients=1)
METADATA = Metadata(pid=0, pepoch=1, last_pepoch=0, state=TxnState.EMPTY, partitions=())
ADDS = AddPartitionsRequest(0, 0, pid=0, pepoch=1, partitions=(0,))
INITIALISES = InitPidRequest(0, 0)


def state_of(*brokers: Broker, messages: tuple[Message, ...] = (), leader: int = 0, cepoch: int = 1) -> State:
    return State((Client(),), brokers, messages=messages, leader=leader, cepoch=cepoch)


def response_to_addition(machine: TransactionsDiary, metadata: Metadata | None) -> Message | None:
    """What a coordinator with this metadata responds at once; None if it writes an entry first."""
    state = state_of(Broker(0, metadata=metadata), messages=(ADDS,))
    return next(iter(machine.step(state, ReceiveAddPartitionsToTxnRequest(ADDS)).messages), None)


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (None, Code.INVALID_PRODUCER_ID_MAPPING),
        (evolve(METADATA, state=TxnState.PREPARE_COMMIT), Code.CONCURRENT_TRANSACTIONS),
        (evolve(METADATA, state=TxnState.PREPARE_EPOCH_FENCE), Code.INVALID_TRANSITION),
    ],
    ids=["knows no producer", "completes a transaction", "fences"],
)
def test_a_coordinator_refuses_to_add_partitions(metadata: Metadata | None, code: Code) -> None:
    assert response_to_addition(MACHINE, metadata) == AddPartitionsResponse(0, 0, code)
    assert response_to_addition(MACHINE, METADATA) is None


@attrs.frozen
class FencesInAFormerEpoch(TransactionsDiary):
    def fencing_epoch(self, metadata: Metadata) -> int:
        return metadata.pepoch - 1


def test_no_transaction_is_aborted_in_a_former_epoch_of_its_producer() -> None:
    ongoing = evolve(METADATA, state=TxnState.ONGOING)
    state = state_of(Broker(0, metadata=ongoing), messages=(INITIALISES,))
    after = FencesInAFormerEpoch(clients=1).step(state, ReceiveInitPidRequest(INITIALISES))
    assert after.messages == (InitPidResponse(0, 0, Code.PRODUCER_FENCED),)


@pytest.mark.parametrize(
    ("own", "leader", "reason"),
    [
        (Broker(0, cepoch=1), 1, ""),
        (Broker(0, cepoch=1), 0, "it takes itself for the leader, and another one is"),
        (Broker(2, cepoch=1), 1, "it takes itself for the leader, and another one is"),
        (Broker(0, cepoch=2), 1, "a later coordinator epoch has begun"),
    ],
    ids=["deposed", "leads", "follows", "of this epoch"],
)
def test_a_coordinator_follows_only_if_it_was_deposed(own: Broker, leader: int, reason: str) -> None:
    state = state_of(own, Broker(1), Broker(1), leader=leader, cepoch=2)
    assert BecomeFollower(0).guard(MACHINE, state) == reason


PREPARED = evolve(METADATA, state=TxnState.PREPARE_COMMIT)


@attrs.frozen
class CompletesNothing(TransactionsDiary):
    def former(self, state: TxnState) -> tuple[TxnState, ...]:
        return ()


@pytest.mark.parametrize(
    ("machine", "own", "reason"),
    [
        (MACHINE, Broker(0, metadata=PREPARED), ""),
        (MACHINE, Broker(1, metadata=PREPARED), "it takes itself for the leader"),
        (MACHINE, Broker(0, metadata=evolve(METADATA, state=TxnState.ONGOING)), "a transaction is prepared"),
        (MACHINE, Broker(0, metadata=PREPARED, transition=PREPARED), "no transition is written"),
        (CompletesNothing(), Broker(0, metadata=PREPARED), "the transaction may be completed"),
    ],
    ids=["prepared", "follows", "ongoing", "writes", "may not"],
)
def test_a_coordinator_completes_what_is_prepared(machine: TransactionsDiary, own: Broker, reason: str) -> None:
    assert CompletePartialTxn(0).guard(machine, state_of(own, Broker(0), Broker(0))) == reason


def test_a_request_names_a_producer_id_and_an_epoch() -> None:
    for request, holds in (
        (ADDS, True),
        (evolve(ADDS, pid=NONE), False),
        (evolve(ADDS, pepoch=NONE), False),
    ):
        assert type_ok(state_of(Broker(0), messages=(request,))) is holds


def test_a_variant_forbids_that_an_empty_transaction_is_emptied_and_nothing_else() -> None:
    emptied = EmptiesNothing().former(TxnState.EMPTY)
    assert emptied == tuple(one for one in FORMER[TxnState.EMPTY] if one != TxnState.EMPTY)
    for state in set(TxnState) - {TxnState.EMPTY}:
        assert EmptiesNothing().former(state) == FORMER[state]
