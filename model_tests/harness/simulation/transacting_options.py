"""What a run with transactions is made of: that of a run without them, with other clients and fewer faults."""

from __future__ import annotations

from random import Random

import attrs

from tidegauge.impl.coordinators.transactions.metadata import MAX_EPOCH
from tidegauge.model_tests.harness.simulation.options import (
    DAMAGES,
    DISK_FAULTS,
    OPERATED,
    SEGMENT_MS,
    Fault,
    Losses,
    Options,
    dense,
    sparse,
    without,
    without_idempotent_producers,
)

LOSSES = (Losses.NONE, Losses.NONE, Losses.SPARED, Losses.SPARED, Losses.SPARED, Losses.SPARED, Losses.ANY)
"""Of runs with transactions, by how often they are so."""
NO_PART_OF_TRANSACTIONS: tuple[Fault, ...] = (
    *(Fault.UNCLEAN, Fault.DELETION, Fault.SETTINGS),
    *(*OPERATED, *DAMAGES, *DISK_FAULTS, Fault.FAILED_FLUSH),
)
"""Faults by which records may be lost or deleted: then a history of transactions claims nothing."""
VERSIONS = ((2,), (2,), (1,), (1, 2), (2, 1, 2))
"""The levels of `transaction.version`: clients speak another protocol below 2, and follow between two transactions.
"""
WITHOUT_VERSIONS = ((0,), (0, 2), (2, 0, 2), (1, 0))
"""The same where the log has no room for the version of a transaction: version 2 is loaded as version 1."""
WITHOUT_VERSIONS_SHARE = 1 / 6
FEW_EPOCHS = 6
"""Of a transactional producer, in every other run."""


def transacting(options: Options, bug: str | None = None) -> Options:
    """The same with transactions and one plain producer; no operator or disk takes what is committed.

    Where crashes take whatever was not synced, brokers that die one after the other may lose what was committed, and
    then the history claims nothing: few runs are so. With a bug a run is the same but for that.
    """
    rng = Random(f"options/{options.seed}/transactions")
    return attrs.evolve(
        without_idempotent_producers(without(options, *NO_PART_OF_TRANSACTIONS)),
        transactions=rng.choice((1, 2, 3)),
        transaction_timeout_ms=500 if options.dense else 1_500,
        partitions=rng.choice((2, 3)),
        replication_factor=3,
        min_insync_replicas=2,
        unclean_leader_election=False,
        changes_unclean=False,
        retention_bytes=None,
        flush_messages=None,
        segment_ms=rng.choice((None, SEGMENT_MS)),
        producers=1,
        consumers=0,
        readers=0,
        acks=(-1,),
        duration=2 * options.duration,
        transaction_versions=_levels(options.seed),
        max_epoch=Random(f"options/{options.seed}/epochs").choice((MAX_EPOCH, FEW_EPOCHS)),
        losses=Random(f"options/{options.seed}/losses").choice(LOSSES),
        bug=bug,
    )


def draw_transacting(seed: int, bug: str | None = None) -> Options:
    """The options of a seed of a campaign with transactions."""
    return transacting(dense(sparse(seed)), bug)


def _levels(seed: int) -> tuple[int, ...]:
    old = Random(f"options/{seed}/level 0")
    levels = WITHOUT_VERSIONS if old.random() < WITHOUT_VERSIONS_SHARE else VERSIONS
    return Random(f"options/{seed}/versions").choice(levels)
