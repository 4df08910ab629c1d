"""What happens in short lives of a log: a few small files, an end, a few damages of them, and an opening.

A walk is long, and its log grows: two damages that have to do with each other seldom lie in the same place of it. In a
short life they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final, Protocol

from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery import actions as spec
from tidegauge.spec.recovery.elsewhere import BeginEpoch, LeaveOut
from tidegauge.spec.recovery.epoch_lies import SpoilEpochs
from tidegauge.spec.recovery.machine import Recovery, enabled_of_class
from tidegauge.spec.recovery.replacing import Interrupt
from tidegauge.spec.recovery.state import Rot, State

_OF_CHECKPOINTS: Final[tuple[type[Action], ...]] = (
    spec.LosePoint,
    spec.LowerPoint,
    spec.LoseEpochs,
    spec.LoseStart,
    spec.SpoilPoint,
    spec.SpoilStart,
    spec.SpoilHighWatermark,
    spec.MakeUpSnapshot,
)


class Log(Protocol):
    """A log whose life it is, as the specification has it."""

    @property
    def machine(self) -> Recovery: ...
    @property
    def state(self) -> State: ...


def drawn(pair: Log, rng: Random) -> Iterator[Action]:
    """What happens in one life; what is not enabled in the state that the log is in then is left out."""
    yield spec.Open(True)
    yield from _write(pair, rng)
    if rng.random() < 0.1:
        yield from _any(pair, rng, Interrupt)
    yield from _any(pair, rng, spec.Close if rng.random() < 0.6 else spec.Crash)
    if rng.random() < 0.4:
        for _ in range(rng.randrange(1, 4)):
            yield from _any(pair, rng, LeaveOut)
    elif rng.random() < 0.1:
        yield from _inside_the_last_batch(pair, rng)
    yield from _some(pair, rng, {BeginEpoch: 0.1, SpoilEpochs: 0.2})
    for _ in range(rng.randrange(5)):
        yield from _damage(pair, rng)
    yield spec.Open(rng.random() < 0.3)
    yield spec.Open(True)
    yield from _some(pair, rng, {spec.Meet: 0.3, spec.Repair: 0.3, spec.StartAt: 0.3})
    yield spec.Append(1)
    yield from _any(pair, rng, spec.Close if rng.random() < 0.5 else spec.Crash)
    yield spec.Open(False)


def _write(pair: Log, rng: Random) -> Iterator[Action]:
    """Up to four files of up to three batches."""
    if rng.random() < 0.15:
        yield from _any(pair, rng, spec.StartAnew)
        yield from _any(pair, rng, spec.AppendAcross)
    for file in range(rng.randrange(1, 5)):
        if file:
            yield spec.Roll()
        for _ in range(rng.randrange(1, 4)):
            yield spec.Append(rng.choice((1, 1, 2)), rng.random() < 0.3)
            if rng.random() < 0.15:
                yield spec.Flush(rng.random() < 0.7)
    if rng.random() < 0.15:
        yield spec.Roll()
    yield from _some(pair, rng, {spec.NoteHighWatermark: 0.25, spec.StartAt: 0.25, spec.Truncate: 0.05})


def _damage(pair: Log, rng: Random) -> Iterator[Action]:
    """One batch, all of a file or from a batch on, a file, one that is made up, or what is written down."""
    state = pair.state
    manner = rng.randrange(8)
    if manner < 2:
        yield from _any(pair, rng, spec.Spoil)
    elif manner < 4 and state.segments:
        segment = rng.choice(state.segments)
        rot, first = rng.choice((Rot.CONTENT, Rot.LENGTH, Rot.FAR)), rng.choice((0, 0, 1))
        yield from (spec.Spoil(segment.base, number, rot) for number in range(first, len(segment.batches)))
    elif manner == 4:
        yield from _any(pair, rng, spec.LoseSegment)
    elif manner == 5:
        near = [segment.end - 1 for segment in state.segments if segment.end] + [state.end, state.end + 1]
        yield spec.MakeUp(rng.choice(near), rng.random() < 0.5)
    else:
        yield from _any(pair, rng, rng.choice(_OF_CHECKPOINTS))


def _inside_the_last_batch(pair: Log, rng: Random) -> Iterator[Action]:
    """A file begins in the last batch of another one, of which a cleaner has left out the batch before it."""
    behind = [one for one in pair.state.segments[:-1] if len(one.batches) > 1]
    if behind:
        segment = rng.choice(behind)
        yield LeaveOut(segment.base, len(segment.batches) - 2)
        yield spec.MakeUp(segment.end - 1, rng.random() < 0.5)


def _some(pair: Log, rng: Random, shares: Mapping[type[Action], float]) -> Iterator[Action]:
    """One action of each class, by its share, if any is enabled."""
    for kind, share in shares.items():
        if rng.random() < share:
            yield from _any(pair, rng, kind)


def _any(pair: Log, rng: Random, kind: type[Action]) -> Iterator[Action]:
    """One action of a class, if any is enabled."""
    enabled = list(enabled_of_class(pair.machine, pair.state, kind))
    yield from [rng.choice(enabled)] if enabled else []
