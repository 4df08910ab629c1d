"""Random walks of idempotent producers in lockstep: a function of (seed, number) alone.

Each walk draws its own machine and gives every kind of action a weight of its own; what harms often has none (swarm
testing: Groce et al., ISSTA 2012). Now and then a calm round lets all that is on its way arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

import attrs

from tidegauge.model_tests.harness.cores.driven import driven_cores
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.lockstep.judged import BindRoles, CoresLockstep, Outcome, failure_of
from tidegauge.spec.idempotence import partition
from tidegauge.spec.idempotence import producer as producing
from tidegauge.spec.idempotence.actions import IdempotenceAction
from tidegauge.spec.idempotence.machine import Idempotence, IdempotenceBounds
from tidegauge.spec.kernel.machine import Action

LENGTH: Final = 80
"""Actions of a walk, unless it ends early."""
UNBOUNDED: Final = 1_000

_HARM: Final = frozenset(
    {
        producing.LoseConnection,
        producing.GiveUp,
        partition.Elect,
        partition.Crash,
        partition.DeleteRecords,
        partition.Expire,
    }
)
_ROUNDS: Final = (0.02, 0.1)
"""How likely each choice is to be a calm round; drawn once a walk."""
_HEALS: Final[tuple[type[IdempotenceAction], ...]] = (
    producing.RefreshMetadata,
    producing.Retry,
    partition.ReceiveProduce,
    partition.Fetch,
    partition.Fetch,
    producing.ReceiveProduceResponse,
)
_HARM_WEIGHTS: Final = (0, 0, 1)
_PROTOCOL_WEIGHTS: Final = (2, 4, 8)


def large_machine(rng: Random, machine: type[Idempotence] = Idempotence) -> Idempotence:
    """A machine that bounds nothing but the number of records.

    Where producers expire and records are deleted requests keep their order, and leaders stay: whoever is taken on
    trust may otherwise skip a batch (KIP-360), which is known.
    """
    idempotent = rng.random() < 0.8
    forgets = idempotent and rng.random() < 0.4
    often = UNBOUNDED
    bounds = IdempotenceBounds(
        connection_losses=often,
        duplicates=0 if forgets or not idempotent else often,
        elections=0 if forgets else often,
        crashes=0 if forgets or not idempotent else often,
        retentions=often if forgets else 0,
        expiries=often if forgets else 0,
        give_ups=0 if forgets or not idempotent else often,
    )
    return machine(
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


@attrs.frozen
class IdempotenceWalk:
    """What became of one walk: its machine, the actions that it took, and what went wrong, if anything."""

    number: int
    machine: Idempotence
    actions: tuple[Action, ...]
    failure: Outcome | None


def walk(
    seed: int,
    number: int = 0,
    *,
    machine: type[Idempotence] = Idempotence,
    roles: Roles = CORRECT,
    length: int = LENGTH,
    bind: BindRoles = driven_cores,
) -> IdempotenceWalk:
    """Walk `number` of `seed`, of about `length` actions; a bug may be in `machine`, in `roles`, or in both."""
    rng = Random(f"{seed}/{number}")  # a string is hashed the same way in every process
    drawn = large_machine(rng, machine)
    weights = {kind: rng.choice(_HARM_WEIGHTS if kind in _HARM else _PROTOCOL_WEIGHTS) for kind in drawn.action_types}
    pair = CoresLockstep(drawn, roles, bind)
    failure = failure_of(pair, _choices(rng, weights, pair, length))
    return IdempotenceWalk(number, drawn, tuple(pair.actions), failure)


def first_failure(
    seed: int,
    limit: int,
    *,
    machine: type[Idempotence] = Idempotence,
    roles: Roles = CORRECT,
    length: int = LENGTH,
    bind: BindRoles = driven_cores,
) -> IdempotenceWalk | None:
    """The first of `limit` walks that fails, if one does; its number says how many did not."""
    taken = (walk(seed, number, machine=machine, roles=roles, length=length, bind=bind) for number in range(limit))
    return next((found for found in taken if found.failure is not None), None)


def _choices(
    rng: Random, weights: Mapping[type[IdempotenceAction], int], pair: CoresLockstep[Idempotence], length: int
) -> Iterator[Action]:
    """What the walk does next: a kind of action by weight, then one of that kind that is enabled; or a calm round."""
    rounds = rng.choice(_ROUNDS)
    while len(pair.actions) < length:
        if rng.random() < rounds:
            yield from _calm(pair)
        drawn = {kind: rng.random() ** (1 / weight) for kind, weight in weights.items() if weight}
        for kind in sorted(drawn, key=drawn.__getitem__, reverse=True):
            found = [a for a in kind.candidates(pair.machine, pair.state) if not a.guard(pair.machine, pair.state)]
            if found:
                yield rng.choice(found)
                break
        else:
            return


def _calm(pair: CoresLockstep[Idempotence]) -> Iterator[Action]:
    """Everything that is on its way arrives, until nobody waits for anything: else no producer is ever idle."""
    for _ in range(4):
        for kind in _HEALS:
            yield from kind.candidates(pair.machine, pair.state)
