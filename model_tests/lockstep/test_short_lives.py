"""Short lives of a log beside the machine of its recovery, all of a kind: of these things walks seldom have all."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from itertools import product
from random import Random

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.log_recovery import RecoveryCores
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, failure_of
from tidegauge.model_tests.harness.lockstep.recovery_lives import live
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.actions import (
    Append,
    AppendAcross,
    Close,
    Crash,
    Flush,
    LoseEpochs,
    LoseSegment,
    NoteHighWatermark,
    Open,
    Roll,
    Spoil,
    StartAnew,
    StartAt,
    Truncate,
)
from tidegauge.spec.recovery.elsewhere import LeaveOut
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.state import Rot, State

FILES = ((0, 2), (2, 1), (3, 2))
"""Where each file begins, and how many batches it has, each with one record."""
MACHINE = Recovery(
    max_appends=6,
    max_damages=6,
    was_elsewhere=True,
    goes_far=True,
    odd_epochs=True,
    starts_anew=True,
    starts_inside=True,
)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "tidegauge.impl.storage")


def lived(actions: Sequence[Action]) -> State | None:
    """The state at the end of a life that holds beside the implementation; None if the specification has it not."""
    end = next(number for number, action in enumerate(actions) if isinstance(action, (Close, Crash))) + 1
    pair = deepcopy(begun(tuple(actions[:end])))
    failure = failure_of(pair, actions[end:])
    assert failure is None, failure.words
    return pair.state if tuple(pair.actions) == tuple(actions) else None


@cache
def begun(actions: Sequence[Action]) -> CheckedLockstep[Recovery]:
    """A log as its first process leaves it, which many lives have alike."""
    pair = CheckedLockstep(MACHINE, RecoveryCores(MACHINE))
    for action in actions:
        pair.perform(action)
    return pair


def written(epochs: Sequence[bool]) -> Iterator[Action]:
    """A log that was closed; each batch is of a new leader or is not."""
    yield Open(False)
    for base, count in FILES:
        if base:
            yield Roll()
        yield from (Append(1, new) for new in epochs[base : base + count])
    yield Close()


def behind(file: int, rot: Rot | None, *, is_lost: bool) -> Iterator[Action]:
    """What is behind a file is lost, or each batch of it is damaged so, or nothing is."""
    for base, count in FILES[file + 1 :]:
        if is_lost:
            yield LoseSegment(base)
        elif rot is not None:
            yield from (Spoil(base, number, rot) for number in range(count))


def test_the_last_batch_of_a_file_with_another_leader_epoch_is_refused_whatever_is_behind_it() -> None:
    told = [0, 0, 0]
    shapes = ((None, False), (Rot.CONTENT, False), (Rot.LENGTH, False), (None, True))
    for file, epochs, (rot, is_lost) in product(range(3), product((False, True), repeat=5), shapes):
        base, count = FILES[file]
        damage = (Spoil(base, count - 1, Rot.EPOCH), *behind(file, rot, is_lost=is_lost))
        state = lived((*written(epochs), *damage, Open(True)))
        if state is not None:
            told[file] += 1
            assert (base + count - 1) in [start for start, _ in state.gaps]
    assert told == [128, 128, 64], "of the log's last batch they tell it if the one before it is of the same epoch"


def test_the_same_where_a_cleaner_has_left_out_what_is_between_and_all_that_follows_is_damaged() -> None:
    for rot, epochs in product((Rot.CONTENT, Rot.LENGTH), product((False, True), repeat=5)):
        damage = (LeaveOut(2, 0), Spoil(0, 1, Rot.EPOCH), Spoil(3, 0, rot), Spoil(3, 1, rot))
        state = lived((*written(epochs), *damage, Open(True)))
        assert state is not None
        assert 1 in [start for start, _ in state.gaps]


def test_the_only_batch_of_a_file_is_told_by_the_one_before_what_a_cleaner_has_left_out() -> None:
    told = 0
    for epochs in product((False, True), repeat=5):
        state = lived((*written(epochs), LeaveOut(0, 1), Spoil(2, 0, Rot.EPOCH), Open(True)))
        if state is not None:
            told += 1
            assert 2 in [start for start, _ in state.gaps]
    assert told == 32


def test_a_leader_epoch_that_has_become_smaller_is_told_by_the_two_batches_before_it() -> None:
    """Whether or not the noted ones are lost."""
    bases, losses = (2, 3), ((), (LoseEpochs(False),))
    for epochs, base, lost in product(product((False, True), repeat=5), bases, losses):
        state = lived((*written(epochs), *lost, Spoil(base, 0, Rot.LOW), Open(True)))
        assert state is not None
        assert base in [start for start, _ in state.gaps]


def test_a_batch_behind_damage_with_the_recovery_point_in_it_is_served_where_another_one_follows() -> None:
    served = 0
    for point, first, last, rot in product(range(1, 6), range(6), range(6), (Rot.CONTENT, Rot.LENGTH)):
        if not first < point <= last:
            continue
        log = (
            Open(False),
            *[Append(1)] * point,
            Flush(True),
            *[Append(1)] * (6 - point),
            Crash(0, 6 - point, False, False),
        )
        state = lived((*log, *(Spoil(0, number, rot) for number in range(first, last + 1)), Open(True)))
        assert state is not None
        served += len(state.served) > first
    assert served


def test_a_batch_that_was_left_behind_the_damaged_end_of_a_file_is_not_believed_where_the_log_goes_on() -> None:
    """The log goes on in another file, with the same offsets, and the one behind begins where the old batch ends."""
    machine = Recovery(max_appends=10, max_crashes=2, max_damages=6, was_elsewhere=True)
    left = 0
    for records, at_end in product((1, 2), (Rot.CONTENT, Rot.LENGTH)):
        again = Append(1, False), Append(records, False)
        pair = CheckedLockstep(machine, RecoveryCores(machine))
        actions = [
            *(Open(False), Append(1, False), Append(1, True), Flush(True), *again, NoteHighWatermark()),
            *(Crash(0, 2, False, False), Spoil(0, 1, at_end), Spoil(0, 2, Rot.LENGTH), Open(True)),
        ]
        failure = failure_of(pair, [*actions, *again, Roll(), Crash(2, 0, False, False), Open(True)])
        assert failure is None, failure.words
        left += [segment.base for segment in pair.state.segments] == [0, 2, 3 + records]
    assert left == 4


def test_the_last_batch_of_a_file_with_another_leader_epoch_is_told_though_any_others_are_damaged() -> None:
    """Wherever the noted epochs tell it: what is damaged or lost on one side of it denies nothing."""
    told = 0
    for file, others in product(range(3), product((False, True), repeat=4)):
        base, count = FILES[file]
        places = [(start, number) for start, batches in FILES for number in range(batches)]
        places.remove((base, count - 1))
        rng = Random(f"{file} {others}")
        for rot, is_first in product((Rot.CONTENT, Rot.LENGTH), (False, True)):
            odd = [Spoil(base, count - 1, Rot.EPOCH)]
            damage = [Spoil(*place, rot) for place, is_spoilt in zip(places, others, strict=True) if is_spoilt]
            epochs = [rng.random() < 0.5 for _ in range(5)]
            damage = odd + damage if is_first else damage + odd
            state = lived((*written(epochs), *damage, Open(True)))
            if state is not None:
                told += 1
                gaps = [(start, end) for start, end in state.gaps if start <= base + count - 1 < end]
                assert gaps or state.ends_in_damage
    assert told > 100


def test_a_log_that_starts_inside_a_batch_has_it_whatever_is_known_of_its_start() -> None:
    """Its first batch begins before its file, at 0 too, with the epoch that is noted or another one."""
    served = 0
    rots = (None, Rot.CONTENT, Rot.LENGTH, Rot.FAR)
    logs = product((False, True), (False, True), (False, True), (False, True), rots)
    for is_first, knows_epoch, by_new_leader, is_closed, rot in logs:
        base = 1 if is_first else 3
        anew = () if is_first else (Append(2),)
        log = (*anew, StartAnew(base, knows_epoch), AppendAcross(by_new_leader), Flush(True), Append(1), Append(1))
        end = Close() if is_closed else Crash(0, 1, False, False)
        damage = () if rot is None else (Spoil(base, 0, rot),)
        state = lived((Open(False), *log, end, *damage, Open(True)))
        if state is not None:
            served += state.served[:1] == state.segments[0].batches[:1]
            assert state.segments[0].batches[0].start == base - 1
            assert (rot is not None) == bool(state.gaps)
    assert served == 16


def test_a_batch_that_leaps_over_the_recovery_point_is_borne_out_by_an_intact_one_alone() -> None:
    """A cleaner has left out where the point lies, in a file that is the last one since the one behind it is lost."""
    rejected = 0
    rots = (None, Rot.CONTENT, Rot.LENGTH, Rot.FAR)
    for point, (second, third), reads_all in product((1, 2), product(rots, repeat=2), (False, True)):
        log = (Open(False), *[Append(1)] * point, Flush(True), *[Append(1)] * (5 - point), Roll(), Flush(False))
        damage = [Spoil(0, number, rot) for number, rot in ((1, second), (2, third)) if rot is not None]
        left_out = (Crash(1, 0, False, False), *[LeaveOut(0, 0)] * (point + 1), LoseSegment(5))
        state = lived((*log, *left_out, *damage[: 4 - point], Open(reads_all)))
        rejected += state is not None and state.was_rejected
    assert rejected


def test_a_gap_in_doubt_is_none_any_more_where_the_log_starts_behind_it_or_ends_before() -> None:
    for action in (StartAt(4), Truncate(0)):
        log = (*written([False] * 5), LeaveOut(0, 1), LoseSegment(2), Open(False))
        state = lived((*log, action))
        assert state is not None
        assert state.gap_in_doubt


def test_lives_of_all_kinds_find_no_difference() -> None:
    for number in range(amount(60, deep=700)):
        failure = live(1, number)
        assert failure is None, failure.words
