"""A wrong rule for the rules of idempotent producers that no bug of the zoo has one for."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.rule_mutant import RuleMutant, Wrong, always
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import Batch, BatchMetadata, Error, Producers, Replica, entry_of
from tidegauge.spec.kernel.bounds import Bounds

ALONE: Final = Idempotence(brokers=1, max_records=2, max_attempts=2, bounds=Bounds())
RETRIES: Final = attrs.evolve(ALONE, bounds=Bounds(LoseConnection=1))
FIRST: Final = attrs.evolve(RETRIES, max_records=1)
PAIRS: Final = attrs.evolve(ALONE, max_records=4, batch_sizes=(2,), reordering=False)
WRAPS: Final = Idempotence(
    brokers=1, max_records=4, max_in_flight=1, batches_retained=1, sequences=3, max_attempts=1, bounds=Bounds()
)
GIVES_UP: Final = attrs.evolve(ALONE, max_attempts=1, bounds=Bounds(GiveUp=1))
CRASHES: Final = Idempotence(max_records=1, max_attempts=1, bounds=Bounds(Crash=1))
SNAPSHOTS: Final = attrs.evolve(CRASHES, max_records=3, batches_retained=2, max_in_flight=1, segments=True)


def _of_any_epoch(machine: Any, right: Wrong, replica: Replica, batch: Batch) -> BatchMetadata | None:
    """A batch with the numbers of one of an earlier session counts as its repeat."""
    entry = entry_of(replica.producers, batch.producer)
    found: BatchMetadata | None = right(replica, batch if entry is None else attrs.evolve(batch, epoch=entry.epoch))
    return found


def _fences_nobody(machine: Any, right: Wrong, replica: Replica, batch: Batch) -> Error:
    error: Error = right(replica, batch)
    return Error.OK if error is Error.INVALID_PRODUCER_EPOCH else error


def _with_all_epochs(machine: Any, right: Wrong, producers: Producers, batch: Batch, base_offset: int) -> Producers:
    """Batches of an earlier epoch stay in memory."""
    entry = entry_of(producers, batch.producer)
    if entry is not None:
        producers = tuple(attrs.evolve(one, epoch=batch.epoch) if one is entry else one for one in producers)
    after: Producers = right(producers, batch, base_offset)
    return after


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    # --- the producer
    # without the rule attempts are lost, no more: what comes too early is refused, and may be sent again
    RuleMutant("sends_all_but_the_oldest_again", "may_retry", lambda m, r, producer, place: place > 0,
               RETRIES, "a batch is acknowledged, or all its attempts are used"),
    RuleMutant("gives_up_at_the_first_refusal", "refusal_is_temporary", always(False), ALONE, "HeadOfLineAccepted"),
    # --- the leader
    RuleMutant("knows_no_repeat", "repeated", always(None), FIRST, "HeadOfLineAccepted"),
    RuleMutant("takes_a_new_session_for_the_old_one", "repeated", _of_any_epoch, GIVES_UP, "AcknowledgedWhereItIs"),
    RuleMutant("appends_whatever_comes", "sequence_error", always(Error.OK), ALONE, "NoGap"),
    RuleMutant("fences_nobody", "sequence_error", _fences_nobody, GIVES_UP, "NoReordering"),
    # --- the memory
    RuleMutant("keeps_batches_of_all_epochs", "with_batch", _with_all_epochs, GIVES_UP, "ProducerStateMatchesLog"),
    RuleMutant("never_wraps", "advanced", lambda m, r, sequence, by: sequence + by, WRAPS, "ProducerStateMatchesLog"),
    RuleMutant("begins_with_its_end", "first_sequence", lambda m, r, known: known.last_sequence,
               attrs.evolve(PAIRS, max_records=2, bounds=Bounds(LoseConnection=1)), "HeadOfLineAccepted"),
    RuleMutant("remembers_nothing_after_a_restart", "rebuilt", always(()), CRASHES, "ProducerStateMatchesLog"),
    RuleMutant("goes_by_the_snapshot", "filled", lambda m, r, entry, replica, offset: entry,
               SNAPSHOTS, "ProducerStateMatchesLog"),
    RuleMutant("replays_nothing", "replayed", lambda m, r, producers, log: producers,
               CRASHES, "ProducerStateMatchesLog"),
    RuleMutant("truncates_everything", "truncation_offset", always(0),
               attrs.evolve(CRASHES, bounds=Bounds()), "a follower has what its leader has"),
)
# fmt: on
