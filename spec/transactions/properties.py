"""What must hold of transactions, what a search must have reached, and what everything comes to.

The invariants know what no process knows: which transaction each record is of, and how it ends (`Transaction`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from itertools import pairwise

from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant
from tidegauge.spec.kernel.piecemeal import question
from tidegauge.spec.transactions.actions import CLOCK
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import (
    NONE,
    PREPARED,
    Decision,
    Log,
    Marker,
    Metadata,
    Partition,
    Phase,
    Record,
    State,
    Status,
    Transaction,
    outcome_of,
    producer_of,
)


def closing(log: Log, offset: int) -> Marker | None:
    """The marker that ends the transaction of the record at an offset, found in the log alone."""
    record = log[offset]
    for entry in log[offset + 1 :]:
        if isinstance(entry, Marker) and entry.producer_id == record.producer_id:
            return entry
    return None


def records(partition: Partition) -> Iterator[tuple[int, Record]]:
    """The records of a log by offset."""
    return ((offset, entry) for offset, entry in enumerate(partition.log) if isinstance(entry, Record))


# --- what readers see ----------------------------------------------------------------------------------------------


def views(machine: TransactionRules, partition: Partition) -> Iterator[Partition]:
    """The partition at its leader, and at a replica that has read what is committed from its disk, or followed."""
    yield partition
    kept = partition.log[: partition.high_watermark]
    yield Partition(kept, partition.high_watermark, machine.rebuilt(kept, partition.high_watermark))


def reads_only_committed(machine: TransactionRules) -> Invariant[State]:
    """Whatever read_committed returns is of a transaction that is committed."""

    def holds(state: State) -> bool:
        for partition in state.partitions:
            for view in views(machine, partition):
                for offset in machine.returned(view):
                    record = view.log[offset]
                    assert isinstance(record, Record), "read_committed returns no markers"
                    if outcome_of(state.transactions, record.transaction) is not Decision.COMMIT:
                        return False
        return True

    return holds


def decided_below_stable(machine: TransactionRules) -> Invariant[State]:
    """Below the last stable offset every transaction is decided, and a committed one is returned."""

    def holds(state: State) -> bool:
        for partition in state.partitions:
            for view in views(machine, partition):
                returned = machine.returned(view)
                stable = machine.last_stable_offset(view)
                for offset, record in records(view):
                    outcome = outcome_of(state.transactions, record.transaction)
                    if offset >= stable:
                        break
                    if outcome is Decision.NONE or (outcome is Decision.COMMIT) != (offset in returned):
                        return False
        return True

    return holds


def atomic_visibility(state: State) -> bool:
    """Of a committed transaction each record is in its log, to become visible; of an aborted one, none is."""
    for partition in state.partitions:
        for offset, record in records(partition):
            marker = closing(partition.log, offset)
            if marker is not None and marker.decision is not outcome_of(state.transactions, record.transaction):
                return False
    return True


def committed_records_are_kept(state: State) -> bool:
    """What a producer was told is in a log is there, as often as it was sent, until the transaction is decided."""
    for producer in state.producers:
        for number, slot in enumerate(producer.slots):
            found = sum(record.transaction == producer.transaction for _, record in records(state.partitions[number]))
            if found < slot.acknowledged:
                return False
    return True


# --- outcomes ------------------------------------------------------------------------------------------------------


def told_the_outcome(state: State) -> bool:
    """A producer is told what the log says."""
    return all(each.told in (Decision.NONE, each.outcome) for each in state.transactions)


def committed_as_asked(state: State) -> bool:
    """A transaction is committed if its producer asks for it, and not otherwise."""
    return all(each.outcome is not Decision.COMMIT or each.asked is Decision.COMMIT for each in state.transactions)


def decided_is_kept(state: State) -> bool:
    """What a database has committed is not aborted (KIP-939)."""
    return all(each.asked is not Decision.COMMIT or each.outcome is not Decision.ABORT for each in state.transactions)


def one_outcome(before: State, action: Action, after: State) -> bool:
    """What is decided is not decided again."""
    return are_kept(before.transactions, after.transactions)


@question
def are_kept(before: tuple[Transaction, ...], after: tuple[Transaction, ...]) -> bool:
    """Whether each outcome that there was still is what it was."""
    return all(
        one.outcome is Decision.NONE or one.outcome is other.outcome for one, other in zip(before, after, strict=False)
    )


def no_late_join(state: State) -> bool:
    """Nothing of one transaction is part of another, at the coordinator or in a partition."""
    if any(len(one.logged.transactions) > 1 for one in state.coordination):
        return False
    for partition in state.partitions:
        open_of: dict[int, int] = {}
        for entry in partition.log:
            if isinstance(entry, Marker):
                open_of.pop(entry.producer_id, None)
            elif open_of.setdefault(entry.producer_id, entry.transaction) != entry.transaction:
                return False
    return True


def open_is_known(state: State) -> bool:
    """What is open in a partition, the coordinator's log has open there: somebody will end it."""
    for number, partition in enumerate(state.partitions):
        for entry in partition.memory.producers:
            if entry.open_from != NONE and not any(
                entry.producer_id in (one.logged.producer_id, one.logged.ongoing_producer_id)
                and one.logged.status in (Status.ONGOING, *PREPARED)
                and number in one.logged.partitions
                for one in state.coordination
            ):
                return False
    return True


def prepared_is_known(machine: TransactionRules) -> Invariant[State]:
    """A process that takes a transaction over is told the id and epoch that its records have: the database has them."""

    def holds(state: State) -> bool:
        return all(
            (entry.producer_id, entry.epoch) == machine.ongoing(one.logged)
            for one in state.coordination
            if one.logged.status is Status.ONGOING
            for partition in state.partitions
            for entry in partition.log
            if isinstance(entry, Record) and entry.transaction in one.logged.transactions
        )

    return holds


def exactly_once(state: State) -> bool:
    """Each record of the input is consumed by one committed transaction, and none is left out."""
    consumed = sorted(
        each.consumed for each in state.transactions if each.outcome is Decision.COMMIT and each.consumed != NONE
    )
    return consumed == list(range(len(consumed)))


# --- producers -----------------------------------------------------------------------------------------------------


def zombies_fenced(machine: TransactionRules) -> Invariant[State]:
    """Once a process has begun, nothing of the processes before it is open, or will be.

    Where it takes over what they have prepared, it has begun when that is decided.
    """

    def holds(state: State) -> bool:
        begun = (Phase.READY, Phase.IN_TRANSACTION) if machine.two_phase else BEGUN
        for number, producer in enumerate(state.producers):
            if producer.phase in begun:
                older = range(number - number % machine.incarnations, number)
                if any(is_of(state, one, older, decided=not machine.two_phase) for one in open_transactions(state)):
                    return False
        return True

    return holds


BEGUN = (Phase.READY, Phase.IN_TRANSACTION, Phase.COMMITTING, Phase.ABORTING)


def open_transactions(state: State) -> Iterator[int]:
    """The transactions that are open at the coordinator, or in a partition."""
    for one in state.coordination:
        yield from one.logged.transactions
    for partition in state.partitions:
        for entry in partition.memory.producers:
            record = partition.log[entry.open_from] if NONE < entry.open_from < len(partition.log) else None
            if isinstance(record, Record):
                yield record.transaction


def is_of(state: State, number: int, producers: Container[int], *, decided: bool) -> bool:
    """Whether a transaction is of these producers, decided or not; or not decided."""
    if producer_of(state.transactions, number) not in producers:
        return False
    return decided or outcome_of(state.transactions, number) is Decision.NONE


def only_zombies_fenced(machine: TransactionRules) -> Invariant[State]:
    """A producer is fenced if a newer process has started, or its transaction was aborted unasked; not otherwise.

    Where an id was forgotten, its producer is told that too. A log of version 0 does not say who had the epoch before:
    after a failover its producer is fenced.
    """

    def holds(state: State) -> bool:
        if not machine.log_version and state.coordinator_epoch:
            return True
        for number, producer in enumerate(state.producers):
            if producer.phase is not Phase.FENCED or times(state.spent, "DelayInit") or times(state.spent, "ExpireId"):
                continue
            last = number - number % machine.incarnations + machine.incarnations
            newer = any(each.phase is not Phase.DOWN for each in state.producers[number + 1 : last])
            expired = machine.expiring and is_aborted_unasked(state.transactions, number)
            if not newer and not expired:
                return False
        return True

    return holds


@question
def is_aborted_unasked(transactions: tuple[Transaction, ...], producer: int) -> bool:
    """Whether a transaction of the producer is aborted, and it was not told."""
    return any(
        each.producer == producer and each.outcome is Decision.ABORT and each.told is not Decision.ABORT
        for each in transactions
    )


# --- replicas ------------------------------------------------------------------------------------------------------


def memory_is_of_the_log(machine: TransactionRules) -> Invariant[State]:
    """What the leader remembers is what a replica learns that reads the same log."""

    def holds(state: State) -> bool:
        return all(
            partition.memory == machine.rebuilt(partition.log, partition.high_watermark)
            for partition in state.partitions
        )

    return holds


def epochs_rise(before: State, action: Action, after: State) -> bool:
    """Epochs of a producer id never go back in a partition's log, nor in the transaction log, where they rise by one.

    An end that raises it twice gives a producer the largest epoch, which is nobody's (KAFKA-19367).
    """
    for one, other in zip(before.coordination, after.coordination, strict=True):
        raised = other.logged.epoch - one.logged.epoch
        if one.logged.producer_id == other.logged.producer_id and raised not in (0, 1):
            return False
    for kept, new in zip(before.partitions, after.partitions, strict=True):
        if kept is new or len(new.log) <= len(kept.log):
            continue
        for entry in new.memory.producers:
            known = kept.memory.entry(entry.producer_id)
            if known is not None and (known.epoch > entry.epoch or known.coordinator_epoch > entry.coordinator_epoch):
                return False
        if not markers_rise(new.log, len(kept.log)):
            return False
    return True


def markers_rise(log: Log, since: int) -> bool:
    """Whether no marker from an offset on is of an older coordinator than one of the same producer before it."""
    return not any(
        isinstance(entry, Marker)
        and isinstance(other, Marker)
        and entry.producer_id == other.producer_id
        and entry.coordinator_epoch < other.coordinator_epoch
        for place, entry in enumerate(log[since:], since)
        for other in log[:place]
    )


def epochs_in_range(machine: TransactionRules) -> Invariant[State]:
    """No epoch is beyond the largest, and no producer is given that."""

    def holds(state: State) -> bool:
        return all(one.logged.epoch <= machine.max_epoch for one in state.coordination) and all(
            producer.epoch < machine.max_epoch for producer in state.producers
        )

    return holds


def log_tells_last_epoch(machine: TransactionRules) -> Invariant[State]:
    """A coordinator finds in the log which epoch may be asked with again, though no field of a record has it."""

    def holds(state: State) -> bool:
        return all(one.logged.last_epoch == machine.last_epoch_of(one.logged) for one in state.coordination)

    return holds


def knows_its_log(machine: TransactionRules) -> Invariant[State]:
    """A coordinator that has loaded an id knows what its log says, but for the partitions that have their marker."""

    def holds(state: State) -> bool:
        return all(
            one.cached is None or machine.in_log(evolve(one.cached, partitions=one.logged.partitions)) == one.logged
            for one in state.coordination
        )

    return holds


def last_marker_is_noticed(state: State) -> bool:
    """A transaction that has all its markers is looked at: somebody will complete it."""
    return not any(one.unattended for one in state.coordination)


def stable_offset_is_monotone(machine: TransactionRules) -> StepInvariant[State]:
    """The last stable offset never moves back."""

    def holds(before: State, action: Action, after: State) -> bool:
        return all(
            old is new or machine.last_stable_offset(old) <= machine.last_stable_offset(new)
            for old, new in zip(before.partitions, after.partitions, strict=True)
        )

    return holds


# --- all together --------------------------------------------------------------------------------------------------


def invariants(machine: TransactionRules) -> Mapping[str, Invariant[State]]:
    """What holds in every state."""
    return {
        "ReadsOnlyCommitted": reads_only_committed(machine),
        "DecidedBelowLastStableOffset": decided_below_stable(machine),
        "AtomicVisibility": atomic_visibility,
        "AcknowledgedRecordsAreKept": committed_records_are_kept,
        "ToldTheOutcome": told_the_outcome,
        "CommittedAsAsked": committed_as_asked,
        "NoLateJoin": no_late_join,
        "OpenIsKnown": open_is_known,
        **(
            {"DecidedIsKept": decided_is_kept, "PreparedIsKnown": prepared_is_known(machine)}
            if machine.two_phase
            else {}
        ),
        **({"ExactlyOnce": exactly_once} if machine.inputs else {}),
        "ZombiesFenced": zombies_fenced(machine),
        "OnlyZombiesFenced": only_zombies_fenced(machine),
        "EpochsAreInRange": epochs_in_range(machine),
        "ProducerStateMatchesLog": memory_is_of_the_log(machine),
        "LogTellsLastEpoch": log_tells_last_epoch(machine),
        "KnowsItsLog": knows_its_log(machine),
        "LastMarkerIsNoticed": last_marker_is_noticed,
    }


def step_invariants(machine: TransactionRules) -> Mapping[str, StepInvariant[State]]:
    """What holds of every step."""
    return {
        "OneOutcome": one_outcome,
        "EpochsRise": epochs_rise,
        "LastStableOffsetIsMonotone": stable_offset_is_monotone(machine),
    }


def converging(machine: TransactionRules) -> Mapping[str, Invariant[State]]:
    """What everything comes to once what is late has arrived or is lost, and what heals has happened."""
    wanted: dict[str, Invariant[State]] = {
        "a producer that begins or ends is told, or fenced": lambda state: (
            not any(
                producer.phase in (Phase.INITIALISING, Phase.COMMITTING, Phase.ABORTING) for producer in state.producers
            )
        ),
        "a prepared transaction is complete": lambda state: all(
            one.pending is None and one.logged.status not in PREPARED for one in state.coordination
        ),
    }
    if machine.expiring and not machine.two_phase:
        wanted["no transaction is open at the coordinator"] = lambda state: all(
            one.logged.status is not Status.ONGOING for one in state.coordination
        )
        wanted["readers of committed records reach the end of every log"] = lambda state: all(
            machine.last_stable_offset(partition) == len(partition.log) for partition in state.partitions
        )
    return wanted


def owed(machine: TransactionRules) -> Mapping[str, LeadsTo[State]]:
    """What comes though producers never rest, by weak fairness: nothing stays prepared for ever."""

    def completed(number: int) -> LeadsTo[State]:
        def is_prepared(state: State) -> bool:
            return state.coordination[number].logged.status in PREPARED

        return LeadsTo(is_prepared, lambda state: not is_prepared(state))

    return {
        f"a prepared transaction of id {number} is completed": completed(number)
        for number in range(machine.transactional_ids)
    }


def goals(machine: TransactionRules) -> Mapping[str, Callable[[State], bool]]:
    """What a search within these constants must have reached, else it has proved little."""
    bounds = machine.bounds
    wanted: dict[str, Callable[[State], bool]] = {
        "a transaction over all partitions is committed and visible": lambda state: all(
            machine.returned(partition) for partition in state.partitions
        ),
        "an aborted record is left out": lambda state: any(
            partition.memory.aborted and machine.last_stable_offset(partition) == len(partition.log)
            for partition in state.partitions
        ),
        "a transaction is decided, and a marker is missing": lambda state: any(
            one.cached is not None and machine.unmarked(one.cached) for one in state.coordination
        ),
    }
    if machine.incarnations > 1:
        wanted["a zombie is fenced"] = lambda state: any(
            producer.phase is Phase.FENCED and state.producers[number + 1].phase is Phase.READY
            for number, producer in enumerate(state.producers)
            if number % machine.incarnations < machine.incarnations - 1
        )
    if machine.two_phase:
        wanted["a new process commits what an older one has prepared"] = lambda state: any(
            producer.phase is Phase.READY
            and producer.transaction == NONE
            and each.producer < number
            and each.told is Decision.COMMIT
            and state.producers[each.producer].phase in (Phase.CRASHED, Phase.FENCED)
            for number, producer in enumerate(state.producers)
            for each in state.transactions
        )
    if machine.max_epoch < 32767:
        wanted["a producer id is used up"] = lambda state: state.producer_ids > machine.transactional_ids
    if bounds["Rebalance"]:
        wanted["a member goes on where another one was"] = lambda state: any(
            one.outcome is other.outcome is Decision.COMMIT and one.producer != other.producer
            for one, other in pairwise(state.transactions)
        )
    if bounds["ExpireId"]:
        wanted["an id that was forgotten has a new producer"] = lambda state: (
            bool(times(state.spent, "ExpireId")) and state.producer_ids > machine.transactional_ids
        )
        wanted["a process is told that its id was forgotten"] = lambda state: (
            any(producer.phase is Phase.FENCED for producer in state.producers)
            and all(one.logged == Metadata() for one in state.coordination)
        )
    if bounds[CLOCK]:
        wanted["a transaction that began after the clock was set back is complete"] = lambda state: any(
            one.logged.started > 0 and one.logged.decision is not Decision.NONE and one.logged.status not in PREPARED
            for one in state.coordination
        )
    if bounds["FailOver"]:
        wanted["a new coordinator completes what the last one has prepared"] = lambda state: any(
            one.logged.status in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)
            and state.coordinator_epoch > 0
            and any(
                isinstance(entry, Marker) and entry.coordinator_epoch > 0
                for partition in state.partitions
                for entry in partition.log
            )
            for one in state.coordination
        )
    return wanted


def explain(state: State) -> Mapping[str, object]:
    """The logs, what the coordinator has, and what is true of each transaction."""
    shown: dict[str, object] = {f"partition {n}": each.log for n, each in enumerate(state.partitions)}
    shown |= {f"transactional id {n}": each.logged for n, each in enumerate(state.coordination)}
    shown |= {f"transaction {n}": each for n, each in enumerate(state.transactions)}
    return shown
