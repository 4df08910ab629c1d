"""The rules of transactions, all together, and the constants that they ask; those of a producer process are here.

A rule is a method, so that a historical bug (`spec.bugs`) can override it. `machine` tells how it works.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.partition_rules import PartitionRules
from tidegauge.spec.transactions.state import (
    NONE,
    AddRequest,
    Decision,
    EndRequest,
    Error,
    Group,
    InitRequest,
    Metadata,
    Partition,
    Phase,
    Producer,
    ProduceRequest,
    Record,
    Slot,
    State,
    Transaction,
)

DEFAULT_BOUNDS = Bounds()


@attrs.frozen
class TransactionRules(PartitionRules):
    """What a machine of transactions decides; its fields are the constants of the model."""

    transactional_ids: int = 1
    incarnations: int = 2
    """Processes of each transactional id, one after the other."""
    partitions: int = 2
    transactions: int = 2
    """Of each process: what a model is cut off at, no rule."""
    records: int = 1
    """Of a transaction in each partition: what a model is cut off at, no rule."""
    version: int = 2
    """Of the protocol of transactions, as producers begin with it."""
    transactions_before_upgrade: int = 1_000_000
    """A process of version 1 upgrades before it begins one more: what a model is cut off at, no rule."""
    guesses_epochs: bool = False
    """Whether a client may end its transaction under an epoch that nobody gave it yet, besides (`DelayEnd`).

    A next transaction that gets that epoch would be ended by it: nothing tells the two apart.
    """
    one_connection: bool = False
    """Whether a client knows of every AddPartitionsToTxn that it has sent, and waits for it: as on one connection."""
    inputs: int = 0
    """Records of an input that a group consumes; if any, the last partition is that of the group's offsets."""
    expiring: bool = True
    """Whether the coordinator aborts what its producer has not ended in time."""
    bounds: Bounds = DEFAULT_BOUNDS

    @property
    def producers(self) -> int:
        """How many processes there are."""
        return self.transactional_ids * self.incarnations

    def id_of(self, producer: int) -> int:
        """The transactional id of a process."""
        return producer // self.incarnations

    @property
    def offsets_partition(self) -> int:
        """The partition of `__consumer_offsets` that has the group's offset; NONE where nothing is consumed."""
        return self.partitions - 1 if self.inputs else NONE

    @property
    def appends_in_two_steps(self) -> bool:
        """Whether a partition's leader may change before what it has appended is committed; else it is at once."""
        return "Elect" in self.bounds

    @property
    def writes_in_two_steps(self) -> bool:
        """Whether a coordinator may be replaced before its record is committed; else it is at once."""
        return "FailOver" in self.bounds

    # --- rules of a producer -------------------------------------------------------------------------------------

    def initialised(self, producer: Producer, producer_id: int, epoch: int) -> Producer:
        """A producer that was given an epoch: sequences begin anew."""
        return evolve(
            producer,
            phase=Phase.READY,
            producer_id=producer_id,
            epoch=epoch,
            sequences=(0,) * self.partitions,
            slots=(Slot(),) * self.partitions,
            transaction=NONE,
        )

    def may_send(self, producer: Producer, partition: int) -> bool:
        """A client of version 1 sends to a partition when the coordinator knows that it is in the transaction."""
        return producer.version >= 2 or producer.slots[partition].added

    def may_commit(self, producer: Producer) -> bool:
        """A producer commits when all that it has sent is acknowledged, and where it goes on with it."""
        if self.inputs and not producer.slots[self.offsets_partition].acknowledged:
            return False
        return not any(slot.in_flight or slot.given_up for slot in producer.slots)

    def may_end(self, late: Iterable[AddRequest], transaction: int) -> bool:
        """A client that knows what it has sent ends no transaction while a partition is on its way into it."""
        return not self.one_connection or all(request.transaction != transaction for request in late)

    def position_after(self, producer: Producer, decision: Decision) -> int:
        """A member goes on with the next record after a commit, and asks for the group's offset after an abort."""
        return producer.position + 1 if decision is Decision.COMMIT and producer.position != NONE else NONE

    # --- rules of the group's coordinator ------------------------------------------------------------------------

    def generation_error(self, group: Group, request: ProduceRequest) -> Error:
        """Who is no member commits nothing, and neither does a member of an older generation (KIP-447)."""
        if not request.is_member:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if request.generation == group.generation else Error.ILLEGAL_GENERATION

    def offset_fetch_error(self, partition: Partition) -> Error:
        """An offset is not told while a transaction may yet change it (KIP-447), one that is not committed too."""
        unstable = partition.log[self.last_stable_offset(partition) :]
        is_stable = not any(isinstance(entry, Record) for entry in unstable)
        return Error.NONE if is_stable else Error.UNSTABLE_OFFSET_COMMIT

    def committed_offset(self, partition: Partition) -> int:
        """Where the group goes on: what the last committed transaction has said, in the order of the log."""
        offsets = [partition.log[place] for place in self.returned(partition)]
        found = [entry.offset for entry in offsets if isinstance(entry, Record)]
        return found[-1] if found else 0

    def has_begun(self, producer: Producer) -> bool:
        """Whether the coordinator may know of the transaction: else its end is nobody else's business."""
        return any(slot != Slot() for slot in producer.slots)

    def after_end(self, producer: Producer, metadata: Metadata) -> Producer:
        """A producer whose transaction has ended: on with the epoch of the response, or to get a new one (KIP-360)."""
        if producer.version >= 2:
            rotated = metadata.next_producer_id != NONE
            producer_id = metadata.next_producer_id if rotated else metadata.producer_id
            return self.initialised(producer, producer_id, 0 if rotated else metadata.epoch)
        is_lost = any(slot.given_up for slot in producer.slots)
        after = self.at_rest(producer)
        return evolve(after, phase=Phase.INITIALISING) if is_lost and self.raises_epoch_after_loss() else after

    def taken_over(self, producer: Producer, metadata: Metadata, found: Transaction) -> Producer:
        """A new process that has taken a transaction over: it ends it as its database says (KIP-939)."""
        begun = self.initialised(producer, metadata.producer_id, metadata.epoch)
        commits = found.asked is Decision.COMMIT
        return evolve(
            begun, phase=Phase.COMMITTING if commits else Phase.ABORTING, transaction=metadata.transactions[0]
        )

    def has_database(self, state: State, number: int) -> bool:
        """Whether the database still takes a process for the present one, and notes its decision (KIP-939)."""
        newer = range(number + 1, (self.id_of(number) + 1) * self.incarnations)
        return not any(state.producers[other].phase not in (Phase.DOWN, Phase.INITIALISING) for other in newer)

    def raises_epoch_after_loss(self) -> bool:
        """A record that was given up may yet arrive: no later one has its epoch (KIP-360)."""
        return True

    def raises_epoch_on_upgrade(self) -> bool:
        """The first transaction of version 2 has an epoch of its own, as every later one (KAFKA-18227)."""
        return True

    def at_rest(self, producer: Producer) -> Producer:
        """A producer between two transactions."""
        return evolve(producer, phase=Phase.READY, transaction=NONE, slots=(Slot(),) * self.partitions)

    def stopped(self, producer: Producer, phase: Phase) -> Producer:
        """A producer that has come to its end: nothing that it knew is of use."""
        return Producer(phase)

    # --- what a producer asks, as long as it waits ---------------------------------------------------------------

    def init_request(self, state: State, number: int) -> InitRequest | None:
        """The InitProducerId that a producer waits for."""
        producer = state.producers[number]
        if producer.phase is not Phase.INITIALISING:
            return None
        keeps = self.two_phase and producer.epoch == NONE
        return InitRequest(number, producer.producer_id, producer.epoch, keeps)

    def end_request(self, state: State, number: int) -> EndRequest | None:
        """The EndTxn that a producer waits for."""
        producer = state.producers[number]
        if producer.phase not in (Phase.COMMITTING, Phase.ABORTING):
            return None
        decision = Decision.COMMIT if producer.phase is Phase.COMMITTING else Decision.ABORT
        return EndRequest(
            number, producer.producer_id, producer.epoch, decision, producer.transaction, producer.version
        )

    def add_request(self, state: State, number: int, partition: int) -> AddRequest | None:
        """The AddPartitionsToTxn that a producer may send."""
        producer = state.producers[number]
        wants = producer.phase is Phase.IN_TRANSACTION and producer.version < 2
        if not wants or producer.slots[partition].added:
            return None
        return AddRequest(number, producer.producer_id, producer.epoch, partition, producer.transaction)

    def produce_request(self, state: State, number: int, partition: int) -> ProduceRequest | None:
        """The record in flight to a partition."""
        producer = state.producers[number]
        if not producer.slots or not producer.slots[partition].in_flight:
            return None
        is_offset = partition == self.offsets_partition
        return ProduceRequest(
            number,
            producer.producer_id,
            producer.epoch,
            partition,
            NONE if is_offset else producer.sequences[partition] - 1,
            producer.transaction,
            producer.version,
            *((producer.generation, producer.position + 1) if is_offset else ()),
        )

    def waits_at(self, state: State, request: ProduceRequest) -> int:
        """Where an offset commit is in the log whose response has yet to come; NONE for a record, which has a sequence.

        Who asks again after its leader has changed is none that waits.
        """
        slots = state.producers[request.producer].slots
        return slots[request.partition].appended if slots else NONE
