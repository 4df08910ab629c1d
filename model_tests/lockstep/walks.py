"""Random walks in lockstep: deep, quick, and a function of (machine, seed, number) alone.

Each walk gives every kind of action a weight of its own, often zero (swarm testing: Groce et al., ISSTA 2012), so that
walks are unlike one another. Now and then comes a *calm round*: everything on its way arrives, everybody fetches and
learns the metadata. Faults alone never let a cluster commit anything worth losing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Final

import attrs

from model_tests.harness.lockstep import calm_round
from model_tests.lockstep.cores import CORRECT, Roles
from model_tests.lockstep.lockstep import CoresLockstep, Outcome, failure_of
from spec.machine import Action
from spec.replication import Replication
from spec.replication_actions import ReplicationAction

_WEIGHTS: Final = (0, 1, 1, 4)
_CALM_ROUNDS: Final = (0.0, 0.02, 0.1)
"""How likely each step is to be a calm round; drawn once a walk."""


@attrs.frozen
class Walk:
    """What became of one walk: how many actions were taken, and what went wrong, if anything did."""

    number: int
    steps: int
    failure: Outcome | None


def walk(
    machine: Replication,
    seed: int,
    number: int = 0,
    *,
    length: int = 100,
    roles: Roles = CORRECT,
) -> Walk:
    """Walk `number` of `seed`: about `length` actions, fewer if nothing more can happen or something is wrong."""
    rng = Random(f"{seed}/{number}")  # a string is hashed the same way in every process
    weights = {kind: rng.choice(_WEIGHTS) for kind in machine.action_types}
    calm = rng.choice(_CALM_ROUNDS)
    pair = CoresLockstep(machine, roles)
    failure = failure_of(pair, _choices(rng, weights, calm, pair, length))
    return Walk(number, len(pair.actions), failure)


def _choices(rng: Random, weights: dict[Any, int], calm: float, pair: CoresLockstep, length: int) -> Iterator[Action]:
    """What the walk does next, each chosen in the state that the former ones led to."""
    while len(pair.actions) < length:
        if rng.random() < calm:
            yield from calm_round(pair)
            continue
        action = _draw(rng, weights, pair)
        if action is None:
            return
        yield action


def walks(
    machine: Replication,
    seed: int,
    count: int,
    *,
    length: int = 100,
    roles: Roles = CORRECT,
) -> Iterator[Walk]:
    """The first `count` walks of `seed`, one at a time."""
    return (walk(machine, seed, number, length=length, roles=roles) for number in range(count))


def walks_to_find(
    machine: Replication,
    seed: int,
    limit: int,
    *,
    length: int = 100,
    roles: Roles = CORRECT,
) -> tuple[int, Walk] | None:
    """How many walks it takes until one fails, and that one; None when none of the first `limit` does."""
    for taken in walks(machine, seed, limit, length=length, roles=roles):
        if taken.failure is not None:
            return taken.number + 1, taken
    return None


def _draw(rng: Random, weights: dict[Any, int], pair: CoresLockstep) -> Action | None:
    """A kind of action by weight, then one of that kind that is enabled; kinds of weight zero come last."""
    kinds = sorted(
        weights, key=lambda kind: rng.random() ** (1 / weights[kind]) if weights[kind] else -1.0, reverse=True
    )
    for kind in kinds:
        candidates: Iterable[ReplicationAction] = kind.candidates(pair.machine, pair.state)
        enabled = [action for action in candidates if pair.is_enabled(action)]
        if enabled:
            return rng.choice(enabled)
    return None
