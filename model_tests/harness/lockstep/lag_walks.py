"""Random walks of lag: a leader and its followers, a limit of a tick or more, and a clock that goes on."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.lag.machine import (
    Append,
    AskAgain,
    BeginRest,
    Fetch,
    Follow,
    Lag,
    Lead,
    Restart,
    Shrink,
    Tick,
    Wake,
)
from tidegauge.spec.lag.state import State

UNBOUNDED: Final = 1_000


def large_machine(rng: Random) -> Lag:
    """Two followers or one; records are few, so that some are caught up with."""
    return Lag(
        count=rng.choice((1, 2)),
        limit=rng.choice((1, 2, 3)),
        max_time=UNBOUNDED,
        max_records=rng.choice((2, 20)),
        max_fetches=UNBOUNDED,
        max_epochs=UNBOUNDED,
        max_restarts=UNBOUNDED,
    )


def enabled(machine: Lag, state: State, kind: type[Action]) -> Iterator[Action]:
    """The enabled actions of one class."""
    return (one for one in machine.candidates(state) if type(one) is kind and not one.guard(machine, state))


def rest_round(lockstep: Lockstep[Lag], rng: Random) -> Iterator[Action]:
    """A follower has everything, and rests for some ticks, until a record is appended."""
    follower = rng.randrange(lockstep.machine.count)
    yield Fetch(follower, lockstep.state.end, lockstep.state.start)
    yield BeginRest(follower)
    for _ in range(rng.randrange(4)):
        yield Tick()
        yield AskAgain(follower)
    for _ in range(rng.randrange(3)):
        yield Tick()
    yield Append()
    if rng.random() < 0.4:
        yield Restart(follower)
        yield Fetch(follower, max(lockstep.state.end - 1, lockstep.state.start), lockstep.state.start)
    yield Wake(follower)
    for _ in range(rng.randrange(3)):
        yield Tick()
    yield Shrink()


def busy_round(lockstep: Lockstep[Lag], rng: Random) -> Iterator[Action]:
    """Records are appended all the time, and a follower asks for what there was at its last fetch, or not quite."""
    follower, end = rng.randrange(lockstep.machine.count), lockstep.state.end
    for _ in range(4):
        yield Append()
        yield Fetch(follower, max(end - rng.choice((0, 0, 1)), lockstep.state.start), lockstep.state.start)
        end = lockstep.state.end
        yield Tick()
    yield Append()
    yield Shrink()


LAG_WALKS: Final = WalkPlan(
    large_machine,
    frozenset({Restart, Follow, Lead}),
    weights=(2, 4, 8),
    rounds=(rest_round, busy_round),
    round_shares=(0.05, 0.3),
    length=100,
    enabled=enabled,
)
