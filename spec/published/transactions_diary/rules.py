"""The rules of the published models of transactions, and their constants; a variant overrides one rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.published.transactions_diary.state import (
    AddPartitionsRequest,
    Broker,
    Client,
    Metadata,
    State,
    TxnState,
)

_COMPLETE: Final = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
FORMER: Final[Mapping[TxnState, tuple[TxnState, ...]]] = {
    TxnState.EMPTY: (TxnState.EMPTY, *_COMPLETE),
    TxnState.ONGOING: (TxnState.ONGOING, TxnState.EMPTY, *_COMPLETE),
    TxnState.PREPARE_COMMIT: (TxnState.ONGOING,),
    TxnState.PREPARE_ABORT: (TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE),
    TxnState.COMPLETE_COMMIT: (TxnState.PREPARE_COMMIT,),
    TxnState.COMPLETE_ABORT: (TxnState.PREPARE_ABORT,),
    TxnState.PREPARE_EPOCH_FENCE: (TxnState.ONGOING,),
}
"""ValidPrevTxnStates: by a transaction's state, those that it may have been in before."""


@attrs.frozen
class DiaryRules(GuardedMachine[State]):
    """What a coordinator decides; its fields are the constants of the TLA+ models."""

    brokers: int = 2
    clients: int = 2
    partitions: int = 1
    max_elections: int = 1

    def former(self, state: TxnState) -> tuple[TxnState, ...]:
        """The states that a transaction may have been in before."""
        return FORMER[state]

    def is_busy(self, broker: Broker) -> bool:
        """A transition is written and not committed: no other may begin."""
        return broker.transition is not None

    def initialised(self, metadata: Metadata) -> Metadata:
        """A producer's next epoch, in which it has no transaction."""
        return evolve(
            metadata, pepoch=metadata.pepoch + 1, last_pepoch=metadata.pepoch, state=TxnState.EMPTY, partitions=()
        )

    def fencing_epoch(self, metadata: Metadata) -> int:
        """The epoch in which a coordinator aborts the transaction of a producer that another one replaces."""
        return metadata.pepoch + 1

    def is_fenced(self, metadata: Metadata, request: AddPartitionsRequest) -> bool:
        """A request of another epoch than the producer's is refused."""
        return request.pepoch != metadata.pepoch

    def elected_epoch(self, cepoch: int) -> int:
        """The coordinator epoch of whom the controller elects."""
        return cepoch + 1

    def may_commit(self, state: State, broker: int) -> bool:
        """Whether a coordinator's next entry is replicated: it leads, and every replica is in its epoch."""
        cepoch = state.brokers[broker].cepoch
        return broker == state.leader and all(each.cepoch == cepoch for each in state.brokers)

    def may_ask(self, state: State, broker: int) -> bool:
        """Whether a client may ask a broker for a producer id: it has found that to be the coordinator."""
        return broker == state.leader

    def with_pid(self, client: Client, broker: int) -> Client:
        """A client that has a producer id has its coordinator, and forgets earlier errors."""
        return evolve(client, tc=broker, last_state=None, last_error=None)
