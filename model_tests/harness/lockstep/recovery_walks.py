"""Random walks beside a log: much is written, the log ends in one way or another, and the disk does its worst."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from tidegauge.model_tests.harness.cores.recovered_batches import EMPTY
from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery import actions as spec
from tidegauge.spec.recovery.actions import DAMAGE
from tidegauge.spec.recovery.elsewhere import BeginEpoch, LeaveOut
from tidegauge.spec.recovery.epoch_lies import SpoilEpochs
from tidegauge.spec.recovery.machine import Recovery, enabled_of_class, of_all_kinds
from tidegauge.spec.recovery.replacing import Interrupt
from tidegauge.spec.recovery.state import Rot

CHECKPOINTS: Final = (
    spec.LowerPoint,
    spec.LosePoint,
    spec.SpoilPoint,
    spec.SpoilStart,
    spec.LoseStart,
    spec.LoseEpochs,
)
"""Damage to what is written down beside a log."""


def drawn(rng: Random) -> Recovery:
    return of_all_kinds(max_appends=rng.choice((6, 24, 48)), max_crashes=24, max_damages=rng.choice((0, 20, 60)))


def _lives(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """A process writes, ends in one way or another, and the disk does its worst; the next one has to read that."""
    yield spec.Open(True)
    yield from _write(lockstep, rng)
    yield from _end(lockstep, rng)
    yield from _damage(lockstep, rng)
    yield spec.Open(rng.random() < 0.4)
    yield spec.Open(True)
    yield from _read_on(lockstep, rng)


def _write(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """A few segments, flushed now and then."""
    if rng.random() < 0.1:
        yield from _one_of(lockstep, rng, spec.StartAnew)
        yield from _one_of(lockstep, rng, spec.AppendAcross)
    rolls, flushes = rng.choice((0.0, 0.2, 0.5, 0.8)), rng.choice((0.1, 0.5))
    for _ in range(rng.randrange(2, 8)):
        yield spec.Append(rng.choice((1, 2)), rng.random() < 0.3)
        if rng.random() < rolls:
            yield spec.Roll()
        if rng.random() < flushes:
            yield spec.Flush(rng.random() < 0.7)
    for kind, share in ((spec.StartAnew, 0.05), (spec.StartAt, 0.15), (spec.Truncate, 0.05), (Interrupt, 0.1)):
        if rng.random() < share:
            yield from _one_of(lockstep, rng, kind)
    if rng.random() < 0.2:
        yield spec.NoteHighWatermark()


def _end(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """The log is closed or crashes, all of it deleted or not, and sometimes Kafka's brokers have it then."""
    if rng.random() < 0.1:
        yield spec.StartAt(lockstep.state.end)
    yield from _one_of(lockstep, rng, rng.choice((spec.Close, spec.Crash)))
    if rng.random() < 0.3:
        for _ in range(rng.randrange(1, 4)):
            yield from _one_of(lockstep, rng, LeaveOut)
    if rng.random() < 0.1:
        yield BeginEpoch()
    if rng.random() < 0.3:
        yield from _one_of(lockstep, rng, SpoilEpochs)


def _damage(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """Of any kind, of one file, or all that tells where a log without files has ended; perhaps of a checkpoint, too."""
    if rng.random() < 0.4:
        yield from _one_of(lockstep, rng, rng.choice(CHECKPOINTS))
    manner = rng.randrange(16)
    bases = [segment.base for segment in lockstep.state.segments]
    if manner == 0:
        yield from (spec.LoseEpochs(False) if rng.random() < 0.7 else spec.LoseStart(), *map(spec.LoseSegment, bases))
        return
    if manner == 1 and bases and bases[0]:
        yield spec.MakeUp(rng.randrange(bases[0]), rng.random() < 0.5)
    if manner == 2:
        told = [one for one in enabled_of_class(lockstep.machine, lockstep.state, spec.Spoil) if _is_told(one)]
        yield from rng.sample(told, min(len(told), 2))
        yield spec.LoseEpochs(rng.random() < 0.5)
    if 2 < manner < 7:
        yield from _spoil_neighbours(lockstep, rng)
    if manner == 8:
        yield from _lose_what_tells_the_end(lockstep, rng)
    if manner == 9:
        yield from _hide_an_empty_batch(lockstep, rng)
    if manner == 10:
        yield from _lower_an_epoch(lockstep, rng)
    if manner == 12:
        yield from _make_up_inside(lockstep, rng)
    if manner == 13:
        yield from _lose_behind(lockstep, rng)
    if manner == 14:
        yield from _change_epochs(lockstep, rng)
    file = rng.choice(bases) if bases and manner < 8 else None
    for _ in range(rng.randrange(4)):
        damages = [
            action
            for action in lockstep.machine.actions(lockstep.state)
            if isinstance(action, DAMAGE) and (file is None or getattr(action, "base", None) == file)
        ]
        if damages:
            kinds = sorted({type(action).__name__ for action in damages})
            chosen = spec.Spoil.__name__ if spec.Spoil.__name__ in kinds and rng.random() < 0.5 else rng.choice(kinds)
            yield rng.choice([action for action in damages if type(action).__name__ == chosen])


def _is_told(action: Action) -> bool:
    """Whether it is damage that only the batches beside it tell, or leader epochs that are noted."""
    return isinstance(action, spec.Spoil) and not action.rot.is_seen_alone


def _spoil_neighbours(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """A few batches in a row, perhaps about the recovery point: what lies behind them has less to bear it out."""
    state = lockstep.state
    places = [(one.base, number, batch.end) for one in state.segments for number, batch in enumerate(one.batches)]
    if not places:
        return
    about = [place for place in places if place[2] == state.point]
    base, number, _ = rng.choice(about if about and rng.random() < 0.5 else places)
    for further in range(rng.randrange(1, 4)):
        yield spec.Spoil(base, number + further, rng.choice((Rot.CONTENT, Rot.LENGTH, Rot.FAR)))


def _make_up_inside(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """A file that begins within a batch, perhaps the last one of a file of which a cleaner has left out another one."""
    segments = lockstep.state.segments
    lasts = [one for one in segments if one.batches and one.batches[-1].end - one.batches[-1].start > 1]
    inside = [batch.end - 1 for one in segments for batch in one.batches if batch.end - batch.start > 1]
    if lasts and rng.random() < 0.7:
        segment = rng.choice(lasts)
        before = len(segment.batches) - 2
        if before >= 0:  # without the batch before it only the file behind tells of the last one
            yield LeaveOut(segment.base, before if rng.random() < 0.5 else rng.randrange(before + 1))
        yield spec.MakeUp(segment.end - 1, rng.random() < 0.5)
    elif inside:
        yield spec.MakeUp(rng.choice(inside), rng.random() < 0.5)


def _lose_behind(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """The end of a file that has damage is the end of all files, and perhaps no recovery point tells of more."""
    if rng.random() < 0.5:
        yield spec.LosePoint()
    segments = lockstep.state.segments
    damageable = [number for number, segment in enumerate(segments) if len(segment.batches) > 1]
    if damageable:
        number = rng.choice(damageable)
        spoilt = rng.randrange(len(segments[number].batches) - 1)
        yield spec.Spoil(segments[number].base, spoilt, rng.choice((Rot.CONTENT, Rot.LENGTH)))
        yield from (spec.LoseSegment(segment.base) for segment in segments[number + 1 :])


def _lose_what_tells_the_end(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """Most of what tells where a log ends, or starts, is lost, and the last file is not what it was."""
    yield from rng.sample((spec.LoseEpochs(rng.random() < 0.5), spec.LoseStart()), rng.randrange(3))
    if rng.random() < 0.8:
        yield from _one_of(lockstep, rng, rng.choice((spec.LosePoint, spec.LowerPoint)))
    bases = [segment.base for segment in lockstep.state.segments]
    yield spec.MakeUp(rng.choice([0, *bases, *(base - 1 for base in bases if base)]), rng.random() < 0.5)
    if bases:
        yield spec.Spoil(bases[-1], 0, Rot.LENGTH) if rng.random() < 0.5 else spec.LoseSegment(bases[-1])


def _hide_an_empty_batch(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """The length of the batch before one without records is damaged, at the end of a file."""
    lasts = [(one.base, len(one.batches) - 1, one.batches[-1].start) for one in lockstep.state.segments if one.batches]
    empty = [(base, number - 1) for base, number, start in lasts if number and start % 8 == EMPTY]
    if empty:
        yield spec.Spoil(*rng.choice(empty), Rot.LENGTH)


def _change_epochs(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """The last batch of a file has another leader epoch, and those behind it are damaged or lost, or some are."""
    segments = lockstep.state.segments
    lasts = [spec.Spoil(one.base, len(one.batches) - 1, Rot.EPOCH) for one in segments if one.batches]
    odd = [one for one in lasts if not lockstep.machine.guard(lockstep.state, one)]
    if not odd:
        return
    chosen = rng.choice(odd[:-1] or odd)
    yield chosen
    share, are_lost = rng.choice((0.5, 1.0, 1.0)), rng.random() < 0.3
    for segment in segments:
        if segment.base > chosen.base and are_lost:
            yield spec.LoseSegment(segment.base)
        elif segment.base > chosen.base:
            for number in range(len(segment.batches)):
                if rng.random() < share:
                    yield spec.Spoil(segment.base, number, rng.choice((Rot.CONTENT, Rot.LENGTH)))


def _lower_an_epoch(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """A batch has a smaller epoch, more often the first one of a file; perhaps none is noted."""
    if rng.random() < 0.4:
        yield spec.LoseEpochs(rng.random() < 0.5)
    low = [spec.Spoil(one.base, n, Rot.LOW) for one in lockstep.state.segments for n in range(len(one.batches))]
    low = [one for one in low if not lockstep.machine.guard(lockstep.state, one)]
    firsts = [one for one in low if not one.number]
    yield from [rng.choice(firsts if firsts and rng.random() < 0.7 else low)] if low else []


def _read_on(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """Readers meet damage in what is open, and then the log is repaired, or is not."""
    if rng.random() < 0.4:
        for _ in range(rng.randrange(1, 4)):
            yield from _one_of(lockstep, rng, spec.Meet)
    if rng.random() < 0.2:
        yield from _one_of(lockstep, rng, spec.StartAt)
    if rng.random() < 0.6:
        yield spec.Repair()
    if rng.random() < 0.15:
        yield from _do_again(lockstep, rng)


def _do_again(lockstep: Lockstep[Recovery], rng: Random) -> Iterator[Action]:
    """The same is appended, damaged and repaired again: what is set aside has its name already."""
    for _ in range(2):
        end, base = lockstep.state.end, lockstep.state.segments[-1].base
        number = len(lockstep.state.segments[-1].batches)
        yield from (spec.Append(1), spec.Append(1), spec.Roll(), spec.Append(1))
        yield spec.Meet(base, number, Rot.CONTENT)
        yield spec.Repair()
        if lockstep.state.end != end:
            return


def _one_of(lockstep: Lockstep[Recovery], rng: Random, kind: type[Action]) -> Iterator[Action]:
    """One action of a class, if any is enabled."""
    enabled = list(enabled_of_class(lockstep.machine, lockstep.state, kind))
    yield from [rng.choice(enabled)] if enabled else []


RECOVERY_WALKS: Final = WalkPlan(
    drawn,
    perturbations=frozenset({*DAMAGE, spec.Meet, Interrupt, LeaveOut, BeginEpoch}),
    rounds=(_lives,),
    round_shares=(0.8, 1.0),
    length=100,
    enabled=enabled_of_class,
)
