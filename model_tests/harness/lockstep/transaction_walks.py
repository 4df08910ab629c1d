"""Random walks of transactions: their constants, which actions perturb, and a round in which all comes to an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import attrs

from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan, enabled_candidates
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.transactions import consuming, coordinating, partitioning, producing
from tidegauge.spec.transactions.actions import TransactionAction
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import State

UNBOUNDED: Final = 1_000
FEW_REBALANCES: Final = 4
"""With more of them hardly any member comes to commit."""
FEW_OTHERS: Final = 2
"""Ids that are forgotten, and clocks that are set back: with more of them producers hardly come to a transaction."""

PERTURBATIONS: Final[frozenset[type[Action]]] = frozenset(
    {
        consuming.Rebalance,
        coordinating.ExpireId,
        coordinating.ExpireTransaction,
        coordinating.FailOver,
        coordinating.TurnClockBack,
        partitioning.Elect,
        producing.CrashProducer,
    }
)
_HEALS: Final[tuple[type[TransactionAction], ...]] = (
    coordinating.Load,
    coordinating.CommitRecord,
    partitioning.WriteMarker,
    partitioning.Replicate,
    coordinating.Complete,
    coordinating.CommitRecord,
    coordinating.ReceiveInit,
    coordinating.ReceiveEnd,
    partitioning.Verify,
    coordinating.CommitRecord,
    partitioning.Append,
    partitioning.Replicate,
    partitioning.Append,
)


_BEGINS: Final[tuple[type[TransactionAction], ...]] = (
    coordinating.Load,
    producing.Start,
    coordinating.ReceiveInit,
    coordinating.CommitRecord,
    producing.Begin,
    producing.Send,
    coordinating.ReceiveAdd,
    coordinating.CommitRecord,
    partitioning.Verify,
    coordinating.CommitRecord,
    partitioning.Append,
    partitioning.Replicate,
)
_ENDS: Final[tuple[type[TransactionAction], ...]] = (
    producing.End,
    producing.DelayEnd,
    coordinating.ReceiveEnd,
    coordinating.CommitRecord,
    partitioning.WriteMarker,
    partitioning.Replicate,
    coordinating.Complete,
    coordinating.CommitRecord,
)


SHAPES: Final = ("plain", "group", "two-phase", "upgrade")


def large_machine(rng: Random, shapes: Sequence[str] = SHAPES) -> Transactions:
    """A machine that bounds little: several ids and processes, epochs that are soon used up or never.

    Requests of version 1 are late only where they do no harm. A producer has no more than five records of an epoch in a
    partition: as many as a leader remembers.
    """
    version = rng.choice((1, 2, 2))
    shape = rng.choice(shapes)
    grouped, two_phase = shape == "group", shape == "two-phase"
    upgrades = shape == "upgrade"
    version = 1 if upgrades else version
    often = UNBOUNDED
    late = 0 if version == 1 or two_phase else often
    bounds = {
        "FailOver": rng.choice((0, often)),
        "Elect": often,
        "CrashProducer": often,
        "GiveUp": often,
        "DelayInit": often,
        "DelayProduce": often,
        "DelayEnd": late,
        "DelayMarker": late,
        "Rebalance": FEW_REBALANCES if grouped else 0,
        "Upgrade": 2 if upgrades else 0,
        "ExpireId": FEW_OTHERS,
        "TurnClockBack": FEW_OTHERS,
    }
    if two_phase:
        bounds.update(GiveUp=0, DelayProduce=0, DelayInit=0)
    return Transactions(
        transactional_ids=2 if grouped else rng.choice((1, 2)),
        incarnations=2 if grouped else rng.choice((1, 2, 3)),
        partitions=rng.choice((1, 2, 3)),
        transactions=rng.choice((2, 4)),
        records=1,
        version=version,
        transactions_before_upgrade=rng.choice((1, 2)) if upgrades else UNBOUNDED,
        inputs=4 if grouped else 0,
        two_phase=two_phase,
        max_epoch=rng.choice((2, 3, 32_767)),
        bounds=Bounds(**{name: count for name, count in bounds.items() if count}),
    )


def enabled_in_walks(machine: Transactions, state: State, kind: type[Any]) -> Iterator[Action]:
    """What may happen, but for elections in a partition of which nothing is known: most would be of such."""
    enabled = enabled_candidates(machine, state, kind)
    if kind is not partitioning.Elect:
        return enabled
    return (one for one in enabled if isinstance(one, partitioning.Elect) and state.partitions[one.partition].log)


def healing_round(lockstep: Lockstep[Transactions], rng: Random) -> Iterator[Action]:
    """All requests arrive and all is committed: else few transactions are ever complete."""
    for _ in range(2):
        for kind in _HEALS:
            yield from kind.candidates(lockstep.machine, lockstep.state)


def whole_round(lockstep: Lockstep[Transactions], rng: Random) -> Iterator[Action]:
    """A transaction from its beginning to its end; where requests may be late a copy of the last one is.

    Now and then the next process ends it, or begins after its abort.
    """
    kinds: list[type[TransactionAction]] = [*_BEGINS]
    if rng.random() < 0.5:
        kinds += (producing.CrashProducer, *_BEGINS[:4])
    for kind in (*kinds, *_ENDS):
        candidates = list(kind.candidates(lockstep.machine, lockstep.state))
        yield from rng.sample(candidates, len(candidates))


TRANSACTION_WALKS: Final = WalkPlan(
    large_machine,
    PERTURBATIONS,
    weights=(2, 4, 8),
    rounds=(healing_round,),
    forbidden_share=0.2,
    round_shares=(0.02, 0.1),
    length=80,
    enabled=enabled_in_walks,
)


def of_any_log_version(rng: Random) -> Transactions:
    """The same, and in some the log has values of version 0, where clients of version 1 are all that there is.

    More of them have a database: what it takes over is of version 1 always.
    """
    machine = large_machine(rng, (*SHAPES, "two-phase"))
    if machine.two_phase and rng.choice((False, True)):
        return evolve(machine, version=1, log_version=0)
    needs_version_1 = machine.version > 1 or "Upgrade" in machine.bounds
    return machine if needs_version_1 else evolve(machine, log_version=rng.choice((0, 1)))


WHOLE_TRANSACTION_WALKS: Final = attrs.evolve(
    TRANSACTION_WALKS, draw=of_any_log_version, rounds=(healing_round, whole_round), round_shares=(0.04, 0.15)
)
"""Walks in which more transactions come to their ends."""
