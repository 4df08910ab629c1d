"""A wrong rule for every rule of transactions: what the machine would do without the one thing that the rule is for.

A mutant takes the machine, the right rule, and the rule's arguments. It is found in the smallest model that shows it:
by an invariant, by a step invariant, or by a goal that no behaviour reaches for good. What the zoo shows
(`spec.bugs.transactions`) is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.coordinator_rules import Ruling
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import NONE, Decision, Error, Memory, Phase, Status

ONE: Final = Transactions(incarnations=1, partitions=1)
FIRST: Final = attrs.evolve(ONE, transactions=1)
ZOMBIE: Final = attrs.evolve(FIRST, incarnations=2)
V1: Final = attrs.evolve(ONE, version=1)
TWO: Final = attrs.evolve(ONE, partitions=2, transactions=1)
GROUP: Final = Transactions(
    transactional_ids=2,
    incarnations=1,
    partitions=1,
    transactions=1,
    inputs=2,
    expiring=False,
    bounds=Bounds(Rebalance=1),
)
DATABASE: Final = attrs.evolve(ZOMBIE, two_phase=True, bounds=Bounds(CrashProducer=1))
SMALL_EPOCHS: Final = attrs.evolve(ONE, transactions=3, max_epoch=2)

TOLD = "a producer that begins or ends is told, or fenced"
COMPLETED = "a prepared transaction is complete"
ENDED = "no transaction is open at the coordinator"
READ = "readers of committed records reach the end of every log"

Wrong = Callable[..., Any]
"""What is done instead: takes the machine, the right rule, and the rule's arguments."""


@attrs.frozen
class RuleMutant:
    """One wrong rule, the model that shows it, and what is violated first there."""

    name: str
    rule: str
    wrong: Wrong
    model: Transactions
    violates: str

    @property
    def machine(self) -> Transactions:
        """The model with the wrong rule."""
        right, wrong = getattr(Transactions, self.rule), self.wrong

        def mutant(machine: Transactions, *args: object, **kwargs: object) -> object:
            return wrong(machine, partial(right, machine), *args, **kwargs)

        kind = type(self.name, (Transactions,), {self.rule: mutant, "__doc__": self.name})
        machine: Transactions = kind(**attrs.asdict(self.model, recurse=False))
        return machine


def _once(model: Transactions, *perturbations: str) -> Transactions:
    return attrs.evolve(model, bounds=Bounds(dict.fromkeys(perturbations, 1)))


def _evolved(**changes: object) -> Wrong:
    """The right outcome, but for these fields."""
    return lambda machine, right, *args, **kwargs: attrs.evolve(right(*args, **kwargs), **changes)


def _always(outcome: object) -> Wrong:
    return lambda machine, right, *args, **kwargs: outcome


def _without_add(machine: Transactions, right: Wrong, metadata: Any, request: Any) -> Ruling:
    error = machine.request_error(metadata, request)
    return Ruling(error) if error else Ruling()


def _keeps_open(machine: Transactions, right: Wrong, memory: Memory, marker: Any, offset: int) -> Memory:
    entry = memory.entry(marker.producer_id)
    after: Memory = right(memory, marker, offset)
    found = after.entry(marker.producer_id)
    assert found is not None
    return after.with_entry(attrs.evolve(found, open_from=entry.open_from)) if entry is not None else after


# fmt: off
MUTANTS: tuple[RuleMutant, ...] = (
    # --- InitProducerId
    RuleMutant("begins_while_a_transaction_is_open", "init_ruling",
               lambda m, right, metadata, request, new_id: Ruling(metadata=m.begun(metadata, request, new_id))
               if metadata.epoch != NONE else right(metadata, request, new_id),
               ZOMBIE, "OpenIsKnown"),
    RuleMutant("lets_any_producer_go_on", "recovery_error", _always(Error.NONE),
               _once(attrs.evolve(V1, incarnations=2, transactions=1), "GiveUp"), "OnlyZombiesFenced"),
    RuleMutant("takes_no_repeat_of_a_recovery", "is_init_repeated", _always(False),
               _once(attrs.evolve(V1, transactions=1), "GiveUp", "DelayInit", "FailOver"), "OnlyZombiesFenced"),
    RuleMutant("gives_the_largest_epoch", "is_exhausted",
               lambda m, right, epoch: epoch >= m.max_epoch, SMALL_EPOCHS, "EpochsAreInRange"),
    RuleMutant("begins_under_the_old_epoch", "begun",
               lambda m, right, metadata, request, new_id: attrs.evolve(
                   right(metadata, request, new_id), epoch=metadata.epoch),
               _once(attrs.evolve(ZOMBIE), "DelayProduce"), "ZombiesFenced"),
    RuleMutant("fences_and_aborts_nothing", "fencing_ruling",
               _always(Ruling(Error.CONCURRENT_TRANSACTIONS)),
               attrs.evolve(ZOMBIE, expiring=False), TOLD),
    # --- partitions of a transaction
    RuleMutant("adds_nothing", "add_ruling", _without_add, FIRST, "OpenIsKnown"),
    RuleMutant("adds_while_prepared", "request_error",
               lambda m, right, metadata, request: Error.NONE
               if right(metadata, request) is Error.CONCURRENT_TRANSACTIONS else right(metadata, request),
               ONE, "NoLateJoin"),
    RuleMutant("forgets_other_partitions", "with_partition",
               lambda m, right, metadata, request: attrs.evolve(
                   right(metadata, request), partitions=(request.partition,)),
               TWO, "OpenIsKnown"),
    RuleMutant("verifies_nothing", "verification_ruling",
               lambda m, right, metadata, request: right(metadata, request) if request.version >= 2 else Ruling(),
               _once(V1, "GiveUp"), "OpenIsKnown"),
    # --- EndTxn
    RuleMutant("decides_again", "end_ruling",
               lambda m, right, metadata, request, new_id: Ruling(metadata=m.prepared(metadata, request, new_id))
               if metadata.status is Status.PREPARE_ABORT else right(metadata, request, new_id),
               ZOMBIE, "OneOutcome"),
    RuleMutant("ends_the_next_transaction_meanwhile", "is_end_too_early", _always(False),
               _once(ONE, "GiveUp"), "OpenIsKnown"),
    RuleMutant("knows_no_next_producer_id", "is_of_next",
               lambda m, right, metadata, request:
               (request.producer_id, request.epoch) == (metadata.producer_id, metadata.epoch),
               SMALL_EPOCHS, "OnlyZombiesFenced"),
    RuleMutant("takes_no_repeat_of_an_end", "is_end_repeated", _always(False),
               _once(FIRST, "DelayEnd"), "OnlyZombiesFenced"),
    RuleMutant("commits_what_is_aborted", "prepared",
               _evolved(status=Status.PREPARE_COMMIT), FIRST, "ToldTheOutcome"),
    RuleMutant("keeps_its_producer_id_for_ever", "with_next_epoch",
               _evolved(next_producer_id=NONE), SMALL_EPOCHS, "EpochsAreInRange"),
    RuleMutant("finds_no_last_epoch_in_the_log", "last_epoch_of", _always(NONE), FIRST, "LogTellsLastEpoch"),
    RuleMutant("logs_no_previous_producer_id", "with_next_epoch",
               _evolved(previous_producer_id=NONE), FIRST, "LogTellsLastEpoch"),
    # --- markers
    RuleMutant("writes_the_other_marker", "marker", _evolved(decision=Decision.ABORT),
               FIRST, "DecidedBelowLastStableOffset"),
    RuleMutant("writes_one_marker", "unmarked",
               lambda m, right, metadata: right(metadata)[:1] if len(metadata.partitions) > 1 else (), TWO, COMPLETED),
    RuleMutant("takes_one_marker_for_all", "acknowledged", _evolved(partitions=()), TWO, "OpenIsKnown"),
    RuleMutant("writes_the_other_marker_in_time", "marker", _evolved(decision=Decision.COMMIT),
               _once(FIRST, "Elect"), "AtomicVisibility"),
    RuleMutant("completes_with_markers_missing", "completed",
               lambda m, right, metadata: right(attrs.evolve(metadata, partitions=())),
               FIRST, "OpenIsKnown"),
    RuleMutant("expires_nothing", "expired", _always(None), _once(FIRST, "CrashProducer"), ENDED),
    RuleMutant("loads_an_older_record", "loaded",
               lambda m, right, logged: attrs.evolve(logged, status=Status.ONGOING)
               if logged.status is Status.PREPARE_COMMIT else logged,
               _once(FIRST, "FailOver"), "KnowsItsLog"),
    RuleMutant("forgets_an_id_in_use", "is_forgotten", lambda m, right, metadata: metadata.producer_id != NONE,
               _once(FIRST, "ExpireId"), "OpenIsKnown"),
    RuleMutant("logs_no_partitions", "in_log", _evolved(partitions=()), _once(FIRST, "FailOver"), "OpenIsKnown"),
    RuleMutant("logs_no_former_producer_id", "in_log", _evolved(previous_producer_id=NONE),
               _once(attrs.evolve(V1, transactions=1), "GiveUp", "FailOver"), "LogTellsLastEpoch"),
    RuleMutant("logs_no_partitions_in_version_0", "in_log", _evolved(partitions=()),
               _once(attrs.evolve(V1, transactions=1, log_version=0), "FailOver"), "OpenIsKnown"),
    # --- records
    RuleMutant("counts_on_over_epochs", "record_error",
               lambda m, right, memory, request: Error.NONE if (entry := memory.entry(request.producer_id)) is None
               or request.sequence == entry.last_sequence + 1 else Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
               _once(attrs.evolve(V1, transactions=3), "GiveUp"), "OnlyZombiesFenced"),
    RuleMutant("takes_a_new_epoch_for_a_repeat", "is_repeat", lambda m, right, memory, request:
               (entry := memory.entry(request.producer_id)) is not None and request.sequence <= entry.last_sequence,
               _once(attrs.evolve(V1, transactions=3), "GiveUp"), "AcknowledgedRecordsAreKept"),
    RuleMutant("knows_no_repeat", "is_repeat", _always(False), _once(FIRST, "DelayProduce"), "OnlyZombiesFenced"),
    RuleMutant("remembers_no_open_transaction", "with_record", lambda m, right, memory, record, offset:
               _forgetting(right(memory, record, offset), record), FIRST, "ReadsOnlyCommitted"),
    # --- markers at a partition
    RuleMutant("takes_every_marker", "marker_error", _always(Error.NONE),
               _once(ONE, "DelayMarker", "FailOver"), "EpochsRise"),
    RuleMutant("keeps_a_transaction_open", "with_marker", _keeps_open, FIRST, "OpenIsKnown"),
    RuleMutant("forgets_the_coordinator", "coordinator_epoch_after",
               lambda m, right, entry, marker: NONE if entry.coordinator_epoch != NONE else marker.coordinator_epoch,
               ONE, "EpochsRise"),
    # --- replicas and readers
    RuleMutant("ends_reading_at_the_high_watermark", "last_stable_offset",
               lambda m, right, partition: partition.high_watermark, FIRST, "ReadsOnlyCommitted"),
    RuleMutant("reads_to_a_marker_that_may_be_lost", "last_stable_offset",
               lambda m, right, partition: right(attrs.evolve(
                   partition, memory=attrs.evolve(partition.memory, unreplicated=()))),
               _once(FIRST, "Elect"), "LastStableOffsetIsMonotone"),
    RuleMutant("waits_for_a_marker_for_ever", "replicated",
               lambda m, right, memory, high_watermark: memory, FIRST, READ),
    RuleMutant("rebuilds_no_index", "rebuilt",
               lambda m, right, log, high_watermark: attrs.evolve(right(log, high_watermark), aborted=()),
               FIRST, "ReadsOnlyCommitted"),
    RuleMutant("rebuilds_no_sequences", "rebuilt",
               lambda m, right, log, high_watermark: attrs.evolve(right(log, high_watermark), producers=tuple(
                   attrs.evolve(entry, last_sequence=NONE) for entry in right(log, high_watermark).producers)),
               FIRST, "ProducerStateMatchesLog"),
    RuleMutant("leaves_out_all_of_an_aborting_producer", "returned",
               lambda m, right, partition: tuple(o for o in right(partition) if not any(
                   span.producer_id == partition.log[o].producer_id for span in partition.memory.aborted)),
               ONE, "DecidedBelowLastStableOffset"),
    # --- two-phase commit
    RuleMutant("aborts_what_it_should_keep", "keeping_ruling",
               lambda m, right, metadata, new_id: Ruling(Error.CONCURRENT_TRANSACTIONS, m.fenced(metadata)),
               DATABASE, "DecidedIsKept"),
    RuleMutant("keeps_the_epoch_of_what_it_keeps", "keeping_ruling",
               lambda m, right, metadata, new_id: Ruling(metadata=metadata),
               attrs.evolve(DATABASE, version=1, partitions=2), "NoLateJoin"),
    RuleMutant("forgets_what_it_was_begun_under", "ongoing",
               lambda m, right, metadata: (metadata.producer_id, metadata.epoch), DATABASE, "PreparedIsKnown"),
    RuleMutant("ends_what_was_taken_over_under_the_new_id", "ending",
               lambda m, right, metadata: (metadata.producer_id, metadata.epoch),
               attrs.evolve(DATABASE, transactions=2, max_epoch=2), "OpenIsKnown"),
    RuleMutant("expires_what_is_prepared", "expired",
               lambda m, right, metadata: m.fenced(metadata) if metadata.status is Status.ONGOING else None,
               DATABASE, "DecidedIsKept"),
    RuleMutant("aborts_what_it_has_taken_over", "taken_over", _evolved(phase=Phase.ABORTING),
               DATABASE, "DecidedIsKept"),
    RuleMutant("decides_after_it_was_replaced", "has_database", _always(True), DATABASE, "DecidedIsKept"),
    # --- groups
    RuleMutant("takes_offsets_of_any_generation", "generation_error", _always(Error.NONE), GROUP, "ExactlyOnce"),
    RuleMutant("tells_offsets_that_are_not_committed", "committed_offset",
               lambda m, right, partition: max([0, *(getattr(entry, "offset", 0) for entry in partition.log)]),
               _once(attrs.evolve(GROUP, transactions=2), "Rebalance", "GiveUp"), "ExactlyOnce"),
    RuleMutant("tells_offsets_that_are_about_to_change", "offset_fetch_error",
               lambda m, right, partition: Error.UNSTABLE_OFFSET_COMMIT
               if m.last_stable_offset(partition) < partition.high_watermark else Error.NONE,
               _once(GROUP, "Rebalance", "Elect"), "ExactlyOnce"),
    RuleMutant("goes_on_after_an_abort", "position_after",
               lambda m, right, producer, decision: right(producer, Decision.COMMIT),
               attrs.evolve(GROUP, transactions=2), "ExactlyOnce"),
    RuleMutant("goes_back_to_the_beginning_after_an_abort", "position_after",
               lambda m, right, producer, decision: right(producer, decision) if decision is Decision.COMMIT else 0,
               attrs.evolve(GROUP, transactional_ids=1, transactions=3, bounds=Bounds()), "ExactlyOnce"),
    RuleMutant("commits_without_its_offset", "may_commit",
               lambda m, right, producer: not any(slot.in_flight or slot.given_up for slot in producer.slots),
               attrs.evolve(GROUP, partitions=2), "ExactlyOnce"),
    # --- producers
    RuleMutant("goes_on_with_old_sequences", "initialised",
               lambda m, right, producer, producer_id, epoch: attrs.evolve(
                   right(producer, producer_id, epoch), sequences=producer.sequences or (0,) * m.partitions),
               ONE, "OnlyZombiesFenced"),
    RuleMutant("sends_before_it_has_added", "may_send", _always(True), attrs.evolve(V1, transactions=1),
               "OnlyZombiesFenced"),
    RuleMutant("commits_what_it_gave_up", "may_commit", _always(True),
               _once(TWO, "GiveUp"), "OnlyZombiesFenced"),
    RuleMutant("ends_what_has_not_begun", "has_begun", _always(True), FIRST, "OnlyZombiesFenced"),
    RuleMutant("goes_on_with_the_old_epoch", "after_end",
               lambda m, right, producer, metadata: m.at_rest(producer), ONE, "NoLateJoin"),
    RuleMutant("goes_on_after_a_loss", "raises_epoch_after_loss", _always(False), _once(V1, "GiveUp"),
               "OnlyZombiesFenced"),
)
# fmt: on


def _forgetting(memory: Memory, record: Any) -> Memory:
    entry = memory.entry(record.producer_id)
    assert entry is not None
    return memory.with_entry(attrs.evolve(entry, open_from=NONE))
