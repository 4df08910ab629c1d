"""Random walks of idempotent producers: their constants, which actions perturb, and a round in which all arrives."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan, enabled_candidates
from tidegauge.spec.idempotence import partition
from tidegauge.spec.idempotence import producer as producing
from tidegauge.spec.idempotence.actions import IdempotenceAction
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action

UNBOUNDED: Final = 1_000

PERTURBATIONS: Final[frozenset[type[Action]]] = frozenset(
    {
        producing.LoseConnection,
        producing.GiveUp,
        partition.Elect,
        partition.Crash,
        partition.DeleteRecords,
        partition.Expire,
    }
)
_HEALS: Final[tuple[type[IdempotenceAction], ...]] = (
    producing.RefreshMetadata,
    producing.Retry,
    partition.ReceiveProduce,
    partition.Fetch,
    partition.Fetch,
    producing.ReceiveProduceResponse,
)


def large_machine(rng: Random) -> Idempotence:
    """A machine that bounds nothing but the number of records.

    Where producers expire and records are deleted, requests keep their order and leaders stay: otherwise a producer
    that is unknown to its leader may skip a batch (KIP-360), which is known.
    """
    idempotent = rng.random() < 0.8
    forgets = idempotent and rng.random() < 0.4
    often = UNBOUNDED
    bounds = Bounds(
        LoseConnection=often,
        DuplicateProduce=0 if forgets or not idempotent else often,
        Elect=0 if forgets else often,
        Crash=0 if forgets or not idempotent else often,
        DeleteRecords=often if forgets else 0,
        Expire=often if forgets else 0,
        GiveUp=0 if forgets or not idempotent else often,
    )
    return Idempotence(
        producers=rng.choice((1, 2)) if idempotent else 1,
        brokers=rng.choice((2, 3)),
        max_records=40,
        batch_sizes=rng.choice(((1,), (2,), (1, 2))),
        max_in_flight=rng.choice((2, 3, 5)) if idempotent else 1,
        sequences=rng.choice((11, 2**31)) if forgets else 2**31,
        max_attempts=UNBOUNDED,
        idempotent=idempotent,
        reordering=not forgets,
        segments=True,
        bounds=bounds,
    )


def quiet_round(lockstep: Lockstep[Idempotence], rng: Random) -> Iterator[Action]:
    """All messages arrive, until nobody waits for anything: else no producer is ever idle."""
    for _ in range(4):
        for kind in _HEALS:
            yield from kind.candidates(lockstep.machine, lockstep.state)


def forgetting_round(lockstep: Lockstep[Idempotence], rng: Random) -> Iterator[Action]:
    """All messages arrive, one replica or all forget an idle producer, and it goes on.

    What may have been forgotten decides what is taken on trust: so the log start moves, by one record or by more.
    """
    yield from quiet_round(lockstep, rng)
    machine = lockstep.machine
    everywhere = rng.random() < 0.5
    producer, broker = rng.randrange(machine.producers), rng.randrange(machine.brokers)
    yield from list(partition.DeleteRecords.candidates(machine, lockstep.state))[: rng.choice((0, 0, 1, 3))]
    for one in partition.Expire.candidates(machine, lockstep.state):
        if one.producer == producer and (everywhere or one.broker == broker):
            yield one
    yield from producing.Send.candidates(machine, lockstep.state)
    yield from quiet_round(lockstep, rng)


IDEMPOTENCE_WALKS: Final = WalkPlan(
    large_machine,
    PERTURBATIONS,
    weights=(2, 4, 8),
    rounds=(quiet_round, forgetting_round),
    round_shares=(0.02, 0.1),
    length=80,
    enabled=enabled_candidates,
)
