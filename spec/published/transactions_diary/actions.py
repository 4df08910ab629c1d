"""The actions of the published models of transactions: each has a guard and an effect.

A guard returns what is missing, or "" when the action may happen.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.published.transactions_diary.rules import DiaryRules
from tidegauge.spec.published.transactions_diary.state import (
    NONE,
    AddPartitionsRequest,
    AddPartitionsResponse,
    Broker,
    Client,
    ClientState,
    Code,
    Entry,
    InitPidRequest,
    InitPidResponse,
    Message,
    Metadata,
    State,
    TxnState,
)

PREPARED = (TxnState.PREPARE_ABORT, TxnState.PREPARE_COMMIT)


@attrs.frozen
class DiaryAction(GuardedAction[DiaryRules, State]):
    """An action of the models: one guard, one effect."""


def written(broker: Broker, entry: Entry) -> Broker:
    """With the entry at the end of its log, not yet committed."""
    return evolve(broker, transition=entry.transition, log=(*broker.log, entry))


def completing(machine: DiaryRules, metadata: Metadata) -> Entry | None:
    """The entry that completes a prepared transaction; nobody waits for it. None if the transition is invalid."""
    committed = metadata.state == TxnState.PREPARE_COMMIT
    state = TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT
    if metadata.state not in machine.former(state):
        return None
    return Entry(evolve(metadata, state=state), None, None)


# --- clients ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class OfClient(DiaryAction):
    """A client does something by itself."""

    client: int


@attrs.frozen
class SendInitPidRequest(OfClient):
    """A client asks the coordinator for a producer id and epoch."""

    broker: int

    def guard(self, machine: DiaryRules, state: State) -> str:
        if state.clients[self.client].state != ClientState.READY:
            return "the client is ready"
        return "" if machine.may_ask(state, self.broker) else "the broker is the coordinator"

    def effect(self, machine: DiaryRules, state: State) -> State:
        client = evolve(state.clients[self.client], state=ClientState.SENT_INIT_PID_REQUEST)
        return state.with_client(self.client, client).sent(InitPidRequest(self.client, self.broker))


@attrs.frozen
class SendAddPartitionsToTxnRequest(OfClient):
    """A client adds a partition to its transaction."""

    partition: int

    def guard(self, machine: DiaryRules, state: State) -> str:
        client = state.clients[self.client]
        if client.state not in (ClientState.HAS_PID, ClientState.BEGUN_TXN):
            return "the client has a producer id"
        if client.pending:
            return "it waits for no response"
        return "it has not added the partition" if self.partition in client.partitions else ""

    def effect(self, machine: DiaryRules, state: State) -> State:
        client, added = state.clients[self.client], (self.partition,)
        request = AddPartitionsRequest(self.client, client.tc, client.pid, client.epoch, added)
        after = evolve(client, pending=added, state=ClientState.BEGUN_TXN)
        return state.with_client(self.client, after).sent(request)


# --- messages --------------------------------------------------------------------------------------------------------


@attrs.frozen
class Receive(DiaryAction):
    """A message arrives."""

    message: Message

    takes: ClassVar[type[Message]]

    def guard(self, machine: DiaryRules, state: State) -> str:
        if not isinstance(self.message, self.takes) or self.message not in state.messages:
            return f"a {self.takes.__name__} is on its way"
        return self.lacks(state)

    def lacks(self, state: State) -> str:
        """What is missing, where the message is on its way."""
        return ""


@attrs.frozen
class ReceiveInitPidResponse(Receive):
    """A client has its producer id, or may ask again."""

    message: InitPidResponse
    takes = InitPidResponse

    def lacks(self, state: State) -> str:
        waits = state.clients[self.message.client].state == ClientState.SENT_INIT_PID_REQUEST
        return "" if waits else "the client waits for it"

    def effect(self, machine: DiaryRules, state: State) -> State:
        response, client = self.message, state.clients[self.message.client]
        if response.code == Code.OK:
            after = machine.with_pid(client, response.broker)
            after = evolve(after, state=ClientState.HAS_PID, pid=response.pid, epoch=response.pepoch)
        else:
            after = evolve(client, state=ClientState.READY, last_state=client.state, last_error=response.code)
        return state.with_client(response.client, after).taken(response)


@attrs.frozen
class ReceiveAddPartitionsToTxnResponse(Receive):
    """A client's partition is added; or it may try again, perhaps at another coordinator; or it stops."""

    message: AddPartitionsResponse
    takes = AddPartitionsResponse

    def lacks(self, state: State) -> str:
        begun = state.clients[self.message.client].state == ClientState.BEGUN_TXN
        return "" if begun else "the client has begun a transaction"

    def effect(self, machine: DiaryRules, state: State) -> State:
        response = self.message
        after = self._client(state, state.clients[response.client])
        return state.with_client(response.client, after).taken(response)

    def _client(self, state: State, client: Client) -> Client:
        code, added = self.message.code, self.message.partitions
        if code == Code.OK:
            pending = tuple(each for each in client.pending if each not in added)
            return evolve(client, pending=pending, partitions=tuple(sorted({*client.partitions, *added})))
        refused = evolve(client, pending=(), last_state=client.state, last_error=code)
        if code == Code.NOT_COORDINATOR:
            return evolve(refused, tc=state.leader)
        if code == Code.CONCURRENT_TRANSACTIONS:
            return refused
        return evolve(refused, state=ClientState.TERMINATED, partitions=())


@attrs.frozen
class ReceiveInitPidRequest(Receive):
    """The coordinator writes the producer's next epoch, or first aborts the transaction that is ongoing."""

    message: InitPidRequest
    takes = InitPidRequest

    def effect(self, machine: DiaryRules, state: State) -> State:
        number = self.message.broker
        broker, taken = state.brokers[number], state.taken(self.message)
        if broker.leader != number:
            return taken.sent(self._refusal(Code.NOT_COORDINATOR))
        metadata = broker.metadata or Metadata(state.pids + 1, NONE, NONE, TxnState.EMPTY, ())
        broker = evolve(broker, metadata=metadata)
        taken = evolve(taken, pids=metadata.pid)
        entry = self._entry(machine, broker, metadata)
        if isinstance(entry, Entry):
            return taken.with_broker(number, written(broker, entry))
        return taken.with_broker(number, broker).sent(self._refusal(entry))

    def _entry(self, machine: DiaryRules, broker: Broker, metadata: Metadata) -> Entry | Code:
        """The entry to write, or the error of the response."""
        if metadata.state in PREPARED or machine.is_busy(broker):
            return Code.CONCURRENT_TRANSACTIONS
        error = self._refusal(Code.NOT_COORDINATOR)
        is_ongoing = metadata.state == TxnState.ONGOING
        if metadata.state not in machine.former(TxnState.PREPARE_EPOCH_FENCE if is_ongoing else TxnState.EMPTY):
            return Code.INVALID_TRANSITION
        if is_ongoing:
            pepoch = machine.fencing_epoch(metadata)
            if pepoch < metadata.pepoch:
                return Code.PRODUCER_FENCED
            fencing = evolve(metadata, pepoch=pepoch, last_pepoch=NONE, state=TxnState.PREPARE_ABORT)
            return Entry(fencing, self._refusal(Code.CONCURRENT_TRANSACTIONS), error)
        after = machine.initialised(metadata)
        return Entry(after, evolve(error, code=Code.OK, pid=after.pid, pepoch=after.pepoch), error)

    def _refusal(self, code: Code) -> InitPidResponse:
        return InitPidResponse(self.message.client, self.message.broker, code)


@attrs.frozen
class ReceiveAddPartitionsToTxnRequest(Receive):
    """The coordinator writes that the transaction has the partitions, or refuses."""

    message: AddPartitionsRequest
    takes = AddPartitionsRequest

    def effect(self, machine: DiaryRules, state: State) -> State:
        number = self.message.broker
        broker, taken = state.brokers[number], state.taken(self.message)
        entry = self._entry(machine, broker)
        if isinstance(entry, Entry):
            return taken.with_broker(number, written(broker, entry))
        return taken.sent(self._response(entry))

    def _entry(self, machine: DiaryRules, broker: Broker) -> Entry | Code:
        """The entry to write, or the error of the response."""
        request, metadata = self.message, broker.metadata
        if broker.leader != request.broker:
            return Code.NOT_COORDINATOR
        if metadata is None or request.pid != metadata.pid:
            return Code.INVALID_PRODUCER_ID_MAPPING
        if machine.is_fenced(metadata, request):
            return Code.PRODUCER_FENCED
        if machine.is_busy(broker) or metadata.state in PREPARED:
            return Code.CONCURRENT_TRANSACTIONS
        if metadata.state not in machine.former(TxnState.ONGOING):
            return Code.INVALID_TRANSITION
        added = tuple(sorted({*metadata.partitions, *request.partitions}))
        after = evolve(metadata, state=TxnState.ONGOING, partitions=added)
        return Entry(after, self._response(Code.OK, added), self._response(Code.NOT_COORDINATOR))

    def _response(self, code: Code, added: tuple[int, ...] = ()) -> AddPartitionsResponse:
        return AddPartitionsResponse(self.message.client, self.message.broker, code, added)


# --- brokers ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class OfBroker(DiaryAction):
    """A broker does something by itself, or the controller with it."""

    broker: int


@attrs.frozen
class CommitTxnLogAppend(OfBroker):
    """The coordinator's next entry is committed: it responds, and completes what was prepared."""

    def guard(self, machine: DiaryRules, state: State) -> str:
        if state.hwm >= len(state.brokers[self.broker].log):
            return "its log has an entry that is not committed"
        return "" if machine.may_commit(state, self.broker) else "it leads, and every replica is in its epoch"

    def effect(self, machine: DiaryRules, state: State) -> State:
        entry = state.brokers[self.broker].log[state.hwm]
        brokers = [
            each if number == self.broker else evolve(each, log=(*each.log, entry))
            for number, each in enumerate(state.brokers)
        ]
        own = evolve(brokers[self.broker], metadata=entry.transition, transition=None)
        if entry.transition.state in PREPARED:
            following = completing(machine, entry.transition)
            own = own if following is None else written(own, following)
        brokers[self.broker] = own
        after = evolve(state, brokers=tuple(brokers), hwm=state.hwm + 1)
        return after if entry.response is None else after.sent(entry.response)


@attrs.frozen
class ElectLeader(OfBroker):
    """The controller elects another coordinator, which has what the former one had."""

    def guard(self, machine: DiaryRules, state: State) -> str:
        if state.elections >= machine.max_elections:
            return "elections are left"
        return "it takes another for the leader" if state.brokers[self.broker].leader == self.broker else ""

    def effect(self, machine: DiaryRules, state: State) -> State:
        cepoch = machine.elected_epoch(state.cepoch)
        metadata = state.brokers[state.leader].metadata
        own = evolve(state.brokers[self.broker], leader=self.broker, cepoch=cepoch, metadata=metadata)
        after = state.with_broker(self.broker, own)
        return evolve(after, leader=self.broker, cepoch=cepoch, elections=state.elections + 1)


@attrs.frozen
class BecomeFollower(OfBroker):
    """A deposed coordinator learns of it: it forgets what is not committed, and refuses who waits for that."""

    def guard(self, machine: DiaryRules, state: State) -> str:
        own = state.brokers[self.broker]
        if own.leader != self.broker or state.leader == self.broker:
            return "it takes itself for the leader, and another one is"
        return "" if own.cepoch < state.cepoch else "a later coordinator epoch has begun"

    def effect(self, machine: DiaryRules, state: State) -> State:
        own = state.brokers[self.broker]
        after = state.with_broker(self.broker, Broker(state.leader, state.cepoch, log=own.log[: state.hwm]))
        for entry in own.log[state.hwm :]:
            after = after if entry.error is None else after.sent(entry.error)
        return after


@attrs.frozen
class CompletePartialTxn(OfBroker):
    """A new coordinator completes what the former one had only prepared."""

    def guard(self, machine: DiaryRules, state: State) -> str:
        own = state.brokers[self.broker]
        if own.leader != self.broker:
            return "it takes itself for the leader"
        if own.metadata is None or own.metadata.state not in PREPARED:
            return "a transaction is prepared"
        if own.transition is not None:
            return "no transition is written"
        return "" if completing(machine, own.metadata) is not None else "the transaction may be completed"

    def effect(self, machine: DiaryRules, state: State) -> State:
        own = state.brokers[self.broker]
        entry = completing(machine, own.metadata) if own.metadata is not None else None
        return state if entry is None else state.with_broker(self.broker, written(own, entry))
