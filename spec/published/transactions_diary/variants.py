"""The published models of transactions with a rule taken out: what the explorer then finds says what it is for."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.transactions_diary.machine import FirstDiary, TransactionsDiary
from tidegauge.spec.published.transactions_diary.state import AddPartitionsRequest, Broker, Metadata, State, TxnState


@attrs.frozen
class KeepsEpoch(TransactionsDiary):
    """A producer is given the epoch that was there: it has none at first, and its requests name none."""

    def initialised(self, metadata: Metadata) -> Metadata:
        return evolve(super().initialised(metadata), pepoch=metadata.pepoch)


@attrs.frozen
class TransitionsAtOnce(TransactionsDiary):
    """A coordinator writes a transition while another is not committed: two clients have one epoch."""

    def is_busy(self, broker: Broker) -> bool:
        return False


@attrs.frozen
class KeepsCoordinatorEpoch(TransactionsDiary):
    """The controller elects in the same coordinator epoch: two brokers lead in one epoch."""

    def elected_epoch(self, cepoch: int) -> int:
        return cepoch


@attrs.frozen
class FencesInSameEpoch(TransactionsDiary):
    """A coordinator aborts a transaction in the epoch of its producer."""

    def fencing_epoch(self, metadata: Metadata) -> int:
        return metadata.pepoch


@attrs.frozen
class CommitsWhenDeposed(TransactionsDiary):
    """A coordinator need not lead for its entries to be committed: all replicas are in its epoch all the same."""

    def may_commit(self, state: State, broker: int) -> bool:
        return all(each.cepoch == state.brokers[broker].cepoch for each in state.brokers)


@attrs.frozen
class FencesNobody(TransactionsDiary):
    """A coordinator takes requests of any epoch."""

    def is_fenced(self, metadata: Metadata, request: AddPartitionsRequest) -> bool:
        return False


@attrs.frozen
class EmptiesNothing(FirstDiary):
    """An empty transaction may not be emptied: a response has an error that the protocol does not have."""

    def former(self, state: TxnState) -> tuple[TxnState, ...]:
        return tuple(each for each in super().former(state) if each != TxnState.EMPTY or state != TxnState.EMPTY)
