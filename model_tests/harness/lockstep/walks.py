"""Random walks in lockstep: deep, quick, and a function of (seed, number) alone.

Each walk draws its own min.insync.replicas and whether unclean elections are allowed, and gives every kind of action a
weight of its own (swarm testing: Groce et al., ISSTA 2012): what harms often zero, the protocol never. Now and then a
*round* comes as a whole (everything heals and arrives, or everybody fetches, or one follower does): faults alone never
let a cluster commit anything worth losing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Final

import attrs

from tidegauge.model_tests.harness.cores.driven import driven_cores
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.lockstep.judged import BindRoles, CoresLockstep, Outcome, failure_of
from tidegauge.model_tests.harness.lockstep.lockstep import (
    Lockstep,
    calm_round,
    fetch_round,
    large_machine,
    one_fetch,
)
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions.reassignment_actions import StartReassignment
from tidegauge.spec.replication.extensions.shutdown import BeginShutdown, StopUnasked
from tidegauge.spec.replication.machine import Replication

LENGTH: Final = 100
"""Actions of a walk, unless it ends early."""

_HARM: Final = frozenset(
    {
        control.ShrinkIsr,
        control.PreferredElection,
        control.UncleanElection,
        faults.LapseSession,
        faults.Crash,
        faults.Pause,
        faults.Disconnect,
        faults.DisconnectController,
        faults.ControllerFailover,
        BeginShutdown,
        StopUnasked,
        StartReassignment,
    }
)
_HARM_WEIGHTS: Final = (0, 0, 1)
_PROTOCOL_WEIGHTS: Final = (1, 2, 4, 8)
_ROUNDS: Final = (0.05, 0.2)
"""How likely each choice is to be a round; drawn once a walk."""

Weights = Mapping[type[ReplicationAction], int]


@attrs.frozen
class Walk:
    """What became of one walk: the machine that it drew, the actions that it took, and what went wrong, if anything."""

    number: int
    machine: Replication
    actions: tuple[Action, ...]
    failure: Outcome | None

    @property
    def steps(self) -> int:
        return len(self.actions)


def walk(
    seed: int,
    number: int = 0,
    *,
    machine: type[Replication] = Replication,
    roles: Roles = CORRECT,
    length: int = LENGTH,
    bind: BindRoles = driven_cores,
) -> Walk:
    """Walk `number` of `seed`, of about `length` actions; a bug may be in `machine`, in `roles`, or in both."""
    rng = Random(f"{seed}/{number}")  # a string is hashed the same way in every process
    constants = large_machine(
        min_insync_replicas=rng.choice((1, 1, 2)),
        unclean_leader_election=rng.choice((False, True)),
        delayed_metadata=True,
    )
    drawn = machine(**attrs.asdict(constants, recurse=False))
    weights = {kind: rng.choice(_HARM_WEIGHTS if kind in _HARM else _PROTOCOL_WEIGHTS) for kind in drawn.action_types}
    pair = CoresLockstep(drawn, roles, bind)
    failure = failure_of(pair, _choices(rng, weights, rng.choice(_ROUNDS), pair, length))
    return Walk(number, drawn, tuple(pair.actions), failure)


def walks(
    seed: int,
    count: int,
    *,
    machine: type[Replication] = Replication,
    roles: Roles = CORRECT,
    length: int = LENGTH,
    bind: BindRoles = driven_cores,
) -> Iterator[Walk]:
    """The first `count` walks of `seed`, one at a time."""
    return (walk(seed, number, machine=machine, roles=roles, length=length, bind=bind) for number in range(count))


def first_failure(
    seed: int,
    limit: int,
    *,
    machine: type[Replication] = Replication,
    roles: Roles = CORRECT,
    length: int = LENGTH,
    bind: BindRoles = driven_cores,
) -> Walk | None:
    """The first of `limit` walks that fails, if one does; its number says how many did not."""
    taken = walks(seed, limit, machine=machine, roles=roles, length=length, bind=bind)
    return next((found for found in taken if found.failure is not None), None)


def _choices(
    rng: Random, weights: Weights, rounds: float, pair: CoresLockstep[Replication], length: int
) -> Iterator[Action]:
    """What the walk does next, each chosen in the state that the former ones led to."""
    while len(pair.actions) < length:
        if rng.random() < rounds:
            yield from rng.choice(_MACROS)(pair, rng)
            continue
        action = _draw(rng, weights, pair)
        if action is None:
            return
        yield action


def _draw(rng: Random, weights: Weights, pair: CoresLockstep[Replication]) -> Action | None:
    """A kind of action by weight, then one of that kind that is enabled; kinds of weight zero never."""
    drawn = {kind: rng.random() ** (1 / weight) for kind, weight in weights.items() if weight}
    for kind in sorted(drawn, key=drawn.__getitem__, reverse=True):
        candidates: Iterable[ReplicationAction] = kind.candidates(pair.machine, pair.state)
        enabled = [action for action in candidates if pair.is_enabled(action)]
        if enabled:
            return rng.choice(enabled)
    return None


def _calm(pair: Lockstep[Replication], rng: Random) -> Iterator[Action]:
    return calm_round(pair)


def _fetches(pair: Lockstep[Replication], rng: Random) -> Iterator[Action]:
    return fetch_round(pair)


def _one_fetch(pair: Lockstep[Replication], rng: Random) -> Iterator[Action]:
    return one_fetch(pair, rng.randrange(pair.machine.brokers))


_MACROS: Final[tuple[Callable[[Lockstep[Replication], Random], Iterator[Action]], ...]] = (
    _calm,
    _fetches,
    _fetches,
    _one_fetch,
    _one_fetch,
)
