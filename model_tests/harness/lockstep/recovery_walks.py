"""Random walks beside a log: much is written, the log ends in one way or another, and the disk does its worst."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery import actions as spec
from tidegauge.spec.recovery.actions import DAMAGE
from tidegauge.spec.recovery.epoch_lies import Lie, SpoilEpochs
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.replacing import Interrupt


def drawn(rng: Random) -> Recovery:
    return Recovery(
        max_appends=rng.choice((2, 6, 12, 24)),
        max_crashes=24,
        max_damages=rng.choice((0, 4, 16)),
        replaces=True,
        lies=True,
        starts_anew=True,
    )


def _write(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """A few segments, flushed now and then."""
    for _ in range(rng.randrange(2, 8)):
        yield spec.Append(rng.choice((1, 2)), rng.random() < 0.3)
        if rng.random() < 0.4:
            yield spec.Roll()
        if rng.random() < 0.3:
            yield spec.Flush(rng.random() < 0.7)
        if rng.random() < 0.1:
            yield spec.StartAnew(lockstep.state.end + 1, rng.random() < 0.5)


def _end_and_open(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """The log is closed or crashes, some of what lies on the disk is damaged, and the log is opened."""
    kind = rng.choice((spec.Close, spec.Close, spec.Crash, spec.Crash, Interrupt))
    ends = [action for action in lockstep.machine.actions(lockstep.state) if isinstance(action, kind)]
    if ends:
        yield rng.choice(ends)
    if rng.random() < 0.4:
        yield SpoilEpochs(rng.choice(list(Lie)))
    of_one_kind = rng.choice((spec.Spoil, DAMAGE, DAMAGE))
    for _ in range(rng.randrange(4)):
        damages = [action for action in lockstep.machine.actions(lockstep.state) if isinstance(action, of_one_kind)]
        if damages:
            kinds = sorted({type(action) for action in damages}, key=lambda one: one.__name__)
            chosen = rng.choice(kinds)
            yield rng.choice([action for action in damages if type(action) is chosen])
    yield spec.Open(rng.random() < 0.4)
    yield spec.Open(True)


RECOVERY_WALKS: Final = WalkPlan(
    drawn,
    perturbations=frozenset({*DAMAGE, Interrupt}),
    rounds=(_write, _end_and_open),
    round_shares=(0.4, 0.8),
    length=60,
)
