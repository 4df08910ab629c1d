"""The published models of transactions: a producer has its id and epoch, and adds partitions to its transaction.

A port of the first two models of Jack Vanlightly's diary of Kafka's transactions (github.com/Vanlightly/kafka-tlaplus,
`transactions/diary`), rule by rule and under its names, so that this explorer can be held against TLC: same states,
same levels, same shortest counterexamples. Its simplifications are therefore kept as they are. There is one
transactional id, and one partition of the transaction log, as in the published configurations.

Theory of operation
-------------------
Each client asks the coordinator for a producer id and epoch, under one transactional id. The coordinator writes a
transition to its log, and refuses whatever needs another one until that is committed. Once it is, every replica has
it, and the coordinator responds. A client then adds partitions to its transaction likewise. Who asks while another's
transaction is ongoing has it aborted, in an epoch that fences the other, and asks again.

The controller may elect another coordinator, in the next coordinator epoch. Until the former one learns of it, nothing
is committed: it then truncates its log, and refuses those who waited. Who was elected completes what was prepared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, check_processes
from tidegauge.spec.published.transactions_diary import actions as protocol
from tidegauge.spec.published.transactions_diary.actions import DiaryAction
from tidegauge.spec.published.transactions_diary.rules import DiaryRules
from tidegauge.spec.published.transactions_diary.state import (
    NONE,
    AddPartitionsRequest,
    AddPartitionsResponse,
    Broker,
    Client,
    ClientState,
    Code,
    InitPidRequest,
    InitPidResponse,
    Message,
    State,
)


@attrs.frozen
class TransactionsDiary(DiaryRules):
    """The second model; the fields of its rules are the constants of the TLA+ model."""

    action_base = DiaryAction
    action_types: ClassVar[tuple[type[Action], ...]] = (
        protocol.SendInitPidRequest,
        protocol.ReceiveInitPidRequest,
        protocol.ReceiveInitPidResponse,
        protocol.SendAddPartitionsToTxnRequest,
        protocol.ReceiveAddPartitionsToTxnRequest,
        protocol.ReceiveAddPartitionsToTxnResponse,
        protocol.CommitTxnLogAppend,
        protocol.ElectLeader,
        protocol.BecomeFollower,
        protocol.CompletePartialTxn,
    )

    def initial(self) -> Iterable[State]:
        """The first broker is the coordinator. Raises ValueError for constants that fit no state."""
        check_processes("brokers", self.brokers)
        check_processes("clients", self.clients)
        yield State((Client(),) * self.clients, (Broker(0),) * self.brokers)

    def candidates(self, state: State) -> list[DiaryAction]:
        """Actions whose guards are worth a look."""
        found: list[DiaryAction] = []
        for client in range(self.clients):
            found += [protocol.SendInitPidRequest(client, broker) for broker in range(self.brokers)]
            found += [protocol.SendAddPartitionsToTxnRequest(client, each) for each in range(self.partitions)]
        for broker in range(self.brokers):
            found += [protocol.CommitTxnLogAppend(broker), protocol.ElectLeader(broker)]
            found += [protocol.BecomeFollower(broker), protocol.CompletePartialTxn(broker)]
        return found + [one for message in state.messages for one in receiving(message)]

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "TypeOK": type_ok,
            "ClientsHaveDifferentProducerEpochs": clients_have_different_producer_epochs,
            "TCsHaveDifferentEpochs": tcs_have_different_epochs,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        """What a search must have reached, as far as the constants let it."""
        goals: dict[str, Invariant[State]] = {"a client has added a partition": has_added}
        if self.clients > 1:
            goals["a client is fenced"] = is_fenced
        if self.max_elections and self.brokers > 1:
            goals["a coordinator is deposed"] = is_deposed
        return goals

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        """What the model calls EventuallyAllClientsGetPid and EventuallyOneClientAddsAllPartitions."""
        return {
            "every client has a producer id": lambda s: all(each.pid != NONE for each in s.clients),
            "a client has added every partition": self.is_added,
        }

    def is_added(self, state: State) -> bool:
        """Not every client comes so far: it stops where it is fenced."""
        return any(
            each.state == ClientState.BEGUN_TXN and len(each.partitions) == self.partitions for each in state.clients
        )

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        """Who has which producer id and epoch, and who leads in which coordinator epoch."""
        return {
            "producers": [(each.pid, each.epoch) for each in state.clients],
            "coordinators": [(each.leader, each.cepoch) for each in state.brokers],
            "messages": list(state.messages),
        }


@attrs.frozen
class FirstDiary(TransactionsDiary):
    """The first model: a client asks any broker for a producer id, and that is all. Nobody is elected."""

    max_elections: int = 0

    action_types: ClassVar[tuple[type[Action], ...]] = (
        protocol.SendInitPidRequest,
        protocol.ReceiveInitPidRequest,
        protocol.ReceiveInitPidResponse,
        protocol.CommitTxnLogAppend,
    )

    def candidates(self, state: State) -> list[DiaryAction]:
        return [one for one in super().candidates(state) if isinstance(one, self.action_types)]

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {}

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        name = "every client has a producer id"
        return {name: super().converges[name]}

    def may_ask(self, state: State, broker: int) -> bool:
        return True

    def with_pid(self, client: Client, broker: int) -> Client:
        return client


def receiving(message: Message) -> list[DiaryAction]:
    """What becomes of a message."""
    match message:
        case InitPidRequest():
            return [protocol.ReceiveInitPidRequest(message)]
        case InitPidResponse():
            return [protocol.ReceiveInitPidResponse(message)]
        case AddPartitionsRequest():
            return [protocol.ReceiveAddPartitionsToTxnRequest(message)]
        case AddPartitionsResponse():
            return [protocol.ReceiveAddPartitionsToTxnResponse(message)]
    return []


def type_ok(state: State) -> bool:
    """Every message is one of the protocol's; NoBadStateResponse follows from it."""
    return all(map(_is_typed, state.messages))


def _is_typed(message: Message) -> bool:
    match message:
        case InitPidResponse():
            return message.code in (Code.OK, Code.CONCURRENT_TRANSACTIONS, Code.NOT_COORDINATOR)
        case AddPartitionsRequest():
            return message.pid >= 0 and message.pepoch >= 0
        case AddPartitionsResponse():
            return message.code != Code.INVALID_TRANSITION
    return True


def clients_have_different_producer_epochs(state: State) -> bool:
    """No two clients have one producer id with one epoch."""
    return not any(
        one.pid != NONE and (one.pid, one.epoch) == (other.pid, other.epoch)
        for one, other in combinations(state.clients, 2)
    )


def tcs_have_different_epochs(state: State) -> bool:
    """No two brokers take themselves for the coordinator of one epoch."""
    leading = [each.cepoch for number, each in enumerate(state.brokers) if each.leader == number]
    return len(leading) == len(set(leading))


def has_added(state: State) -> bool:
    return any(each.partitions for each in state.clients)


def is_fenced(state: State) -> bool:
    return any(each.last_error == Code.PRODUCER_FENCED for each in state.clients)


def is_deposed(state: State) -> bool:
    return any(each.leader == number != state.leader for number, each in enumerate(state.brokers))
