"""A log on a simulated disk beside the machine of its recovery: random walks, and what they meet."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.log_recovery import RecoveryCores
from tidegauge.model_tests.harness.cores.recovered_lines import opening
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, failure_of
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.actions import (
    Append,
    Close,
    Crash,
    Flush,
    LoseEpochs,
    LosePoint,
    LoseSegment,
    LoseStart,
    LowerPoint,
    MakeUp,
    MakeUpSnapshot,
    Meet,
    NoteHighWatermark,
    Open,
    Roll,
    Spoil,
    SpoilPoint,
    SpoilStart,
    StartAnew,
    StartAt,
    Truncate,
)
from tidegauge.spec.recovery.elsewhere import LeaveOut
from tidegauge.spec.recovery.epoch_lies import Lie, SpoilEpochs
from tidegauge.spec.recovery.machine import Recovery, of_all_kinds
from tidegauge.spec.recovery.state import Rot

HARNESSED = HARNESS["recovery"]
WALKS = amount(10, deep=20)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Most openings tell of damage, and to format that takes longer than to find it."""
    caplog.set_level(logging.CRITICAL, "tidegauge.impl.storage")


def test_walks_find_no_difference_and_meet_all_kinds_of_damage() -> None:
    taken = Counter[str]()
    for walk in HARNESSED.walks(5, WALKS):
        assert walk.failure is None, walk.failure.words
        taken.update(action.name for action in walk.actions)
    assert set(taken) == {kind.__name__ for kind in walk.machine.action_types}
    assert taken[Open.__name__] > 8 * WALKS
    assert taken[Spoil.__name__] + taken[LoseSegment.__name__] > WALKS


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_last_batch_of_a_file_behind_damage_is_refused_whether_or_not_the_recovery_point_is_lost(
    is_lost: bool,
) -> None:
    """Nothing tells that it ends where the log went on: the file that did is gone (walk 97 of seed 1000)."""
    log = (Open(True), Append(1), Append(1), Append(1), Roll(), Append(1), Roll(), Append(1), Close())
    damage = (Spoil(0, 0, Rot.LENGTH), Spoil(0, 1, Rot.LENGTH), LoseSegment(3))
    actions = (*log, *damage, *((LosePoint(),) if is_lost else ()), Open(True))
    pair = CheckedLockstep(Recovery(max_appends=5, max_damages=4), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert tuple(pair.actions) == actions
    assert (pair.state.gaps, pair.state.has_note) == (((0, 4),), True)


def test_a_log_start_that_no_log_has_puts_no_end_in_doubt() -> None:
    """The leader epochs that would deny it are lost (walk 60 of seed 5000)."""
    actions = (Open(False), Append(1), Flush(True), Close(), SpoilStart(), LoseEpochs(False), Open(False))
    pair = CheckedLockstep(Recovery(max_appends=5, max_damages=4), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.ends_in_damage) == (actions, False)


@pytest.mark.parametrize("reads_all", [False, True])
def test_an_epoch_that_begins_behind_the_end_denies_the_epochs_whether_or_not_all_is_read(reads_all: bool) -> None:
    """Then nothing tells whether records before the first file were deleted (walk 381 of seed 5000)."""
    log = (Open(True), Append(1), Append(2), Roll(), Append(1), Append(1, True), StartAt(5), Close())
    actions = (*log, SpoilEpochs(Lie.BEYOND), SpoilStart(), Open(reads_all))
    pair = CheckedLockstep(Recovery(max_appends=5, max_damages=4, lies=True), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.start_in_doubt) == (actions, True)


@pytest.mark.parametrize(
    ("log", "is_rejected"),
    [
        ((Append(1), Append(1), Append(1), Append(1), StartAt(3), Crash(0, 0, False, False)), True),
        ((Append(1), Append(1), Append(1, True), Append(1), StartAt(3), Crash(0, 0, False, False)), False),
        ((Append(1), Append(1), Append(1), Append(1), StartAt(4), Close(), LosePoint()), True),
        ((Append(1), Append(1), Append(1), Append(1, True), StartAt(4), Close(), LosePoint()), True),
    ],
    ids=["a crash", "a crash, and a later epoch", "a clean stop", "a clean stop, and a later epoch"],
)
@pytest.mark.parametrize("reads_all", [False, True])
def test_leader_epochs_that_begin_behind_what_damage_has_left_of_a_log_are_rejected(
    log: Sequence[Action], is_rejected: bool, reads_all: bool
) -> None:
    """A crash may have taken the records of a later epoch. A clean stop has none taken."""
    spoilt = partial(Spoil, 0, rot=Rot.CONTENT)
    actions = (Open(False), *log, LoseStart(), *map(spoilt, range(1, 4)), Open(reads_all))
    pair = CheckedLockstep(Recovery(max_appends=4, max_damages=5), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert tuple(pair.actions) == actions
    (state,) = pair.machine.initial()
    for action in actions[:-1]:
        state = pair.machine.step(state, action)
    assert opening(pair.machine, state, Open(reads_all)).rejects_epochs is is_rejected


@pytest.mark.parametrize(
    ("log", "damage"),
    [
        ((Append(1), StartAt(1), Close()), (LosePoint(), LoseStart(), LoseSegment(0))),
        ((Append(2), Roll(), StartAt(2), Close(), Open(False), Close()), (LoseStart(), LowerPoint(1), MakeUp(1, True))),
    ],
    ids=["it has no file", "a stray file at a recovery point that is too low"],
)
def test_a_closed_log_that_three_damages_have_made_shorter_says_so(
    log: Sequence[Action], damage: Sequence[Action]
) -> None:
    actions = (Open(False), *log, *damage, Open(False))
    pair = CheckedLockstep(Recovery(max_damages=3), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.ends_in_damage) == (actions, True)


@pytest.mark.parametrize(
    ("log", "damage", "end"),
    [
        (
            (Append(2), NoteHighWatermark(), StartAt(2), Close()),
            (LoseStart(), LowerPoint(1), LoseSegment(0)),
            1,
        ),
        (
            (Append(2), StartAt(2), Close(), LoseEpochs(True), Spoil(0, 0, Rot.CONTENT), Open(False), Close()),
            (LowerPoint(1),),
            2,
        ),
        (
            (Append(2), Roll(), StartAt(2), Close(), Open(False), Close()),
            (LoseEpochs(False), LowerPoint(1), MakeUp(0, True)),
            2,
        ),
        (
            (Append(1), Roll(), StartAt(1), Close(), Open(False), Close()),
            (LoseEpochs(False), LosePoint(), MakeUp(0, True)),
            1,
        ),
    ],
    ids=["no file", "a damaged file", "a stray file, and a low point", "a stray file, and no point"],
)
def test_three_damages_do_not_have_a_closed_log_give_an_offset_twice(
    log: Sequence[Action], damage: Sequence[Action], end: int
) -> None:
    """Its recovery point and its log start bear each other out, or its start stands alone."""
    actions = (Open(False), *log, *damage, Open(True))
    pair = CheckedLockstep(Recovery(max_damages=3), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.end) == (actions, end)


def test_a_log_of_which_all_was_lost_does_not_start_where_the_epochs_of_the_former_one_do() -> None:
    """A stray file at 1 would be its first one: the epochs of a log that started at 2 say that nothing lies before."""
    log = (Open(False), Append(2), StartAt(2), Close(), LoseStart(), LoseSegment(0), Open(False))
    actions = (*log, Crash(0, 0, False, False), MakeUp(1, False), Open(False))
    pair = CheckedLockstep(Recovery(max_damages=3), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.start, pair.state.end) == (actions, 0, 0)


def test_what_did_not_follow_a_log_by_a_rejected_recovery_point_follows_it_without_that() -> None:
    """It was renamed when the log was read by that point, and missing when it was read again (walk 255 of seed 14)."""
    log = (Open(False), Append(2), StartAt(2), Roll(), Close(), Open(False), Close())
    actions = (*log, Spoil(0, 0, Rot.LENGTH), LoseStart(), LowerPoint(1), Open(True))
    pair = CheckedLockstep(Recovery(max_appends=1, max_damages=3), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.was_rejected, pair.state.gaps) == (actions, True, ((0, 2),))


def test_an_empty_file_at_a_recovery_point_that_is_too_low_does_not_bear_it_out() -> None:
    """The segment from 1 to 3 is lost. A snapshot says that the log ended at 3, and a stray file that it ended at 2."""
    log = (Open(False), Append(1), Roll(), Append(2), Close())
    actions = (*log, LowerPoint(2), LoseSegment(1), MakeUp(2, True), Open(False))
    pair = CheckedLockstep(Recovery(max_appends=2, max_damages=3), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.gaps, pair.state.end) == (actions, ((1, 3),), 3)


def test_a_recovery_point_that_is_too_low_is_not_borne_out_by_a_file_before_the_last_one() -> None:
    """The segment from 1 to 2 is lost, and the last one is empty."""
    log = (Open(False), Append(1), Roll(), Append(1), Roll(), Close())
    actions = (*log, LowerPoint(1), LoseSegment(1), Open(False))
    pair = CheckedLockstep(Recovery(max_appends=2, max_damages=2), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.gaps, pair.state.end) == (actions, ((1, 2),), 2)


def test_a_start_without_leader_epochs_is_not_denied_by_their_empty_list() -> None:
    """A stray file and a recovery point that is too low had the log end before it (walk 33 of seed 3)."""
    log = (Open(False), StartAnew(2, False), Close(), LowerPoint(1), MakeUp(0, False))
    pair = CheckedLockstep(
        Recovery(max_appends=1, max_damages=2, starts_anew=True), RecoveryCores(Recovery(starts_anew=True))
    )
    failure = failure_of(pair, (*log, Open(False)))
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.end) == ((*log, Open(False)), 2)


def test_an_empty_list_of_leader_epochs_does_not_tell_where_a_log_starts() -> None:
    """The log was cut to its beginning, and a crash came before the next flush; then its first segment was lost."""
    log = (Open(False), Append(1), Truncate(0), Append(1), Roll(), Crash(0, 0, False, False))
    actions = (*log, LoseSegment(0), Open(False))
    pair = CheckedLockstep(Recovery(max_appends=2), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.start, pair.state.start_in_doubt) == (actions, 1, True)


@pytest.mark.parametrize("knows_epoch", [False, True])
def test_a_log_that_starts_where_its_leaders_does_is_not_in_doubt_after_any_crash(knows_epoch: bool) -> None:
    """Nor when a checkpoint was written since, and all that was appended there is cut."""
    crash = (Crash(0, 0, False, False), Open(False))
    anew = (StartAnew(1, knows_epoch), *crash, Flush(True), *crash)
    actions = (Open(False), *anew, Append(1), Flush(True), *crash, Truncate(1), *crash)
    pair = CheckedLockstep(Recovery(max_appends=2, max_crashes=4, starts_anew=True), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.start, pair.state.start_in_doubt) == (actions, 1, False)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_file_of_a_log_that_is_read_without_its_recovery_point_is_not_said_to_end_in_damage(is_written: bool) -> None:
    """By a point that no log has, the epoch of a last batch that was not flushed was said to be damaged."""
    log = (Open(False), Append(1), *((NoteHighWatermark(),) if is_written else ()), Flush(True), Append(1, True))
    actions = (*log, Crash(0, 1, False, False), SpoilPoint(), Open(True))
    pair = CheckedLockstep(Recovery(max_damages=1), RecoveryCores(Recovery()))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.was_rejected, pair.state.ends_in_damage) == (actions, True, False)


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_empty_file_that_was_taken_for_the_first_one_goes_without_doubt(is_closed: bool) -> None:
    """Nobody could tell that it was made up; leader epochs that begin behind it can (walk 75 of seed 5)."""
    log = (Open(False), Append(2), Roll(), Append(1), Append(1), Roll(), StartAt(2), Append(1), Flush(True))
    damage = (Crash(1, 0, False, False), LeaveOut(2, 1), MakeUp(1, True), LoseEpochs(True), Open(True))
    end = (Close(),) if is_closed else (Flush(True), Crash(1, 0, False, False))
    actions = (*log, *damage, Truncate(2), Append(1), *end, Open(True))
    machine = Recovery(max_appends=9, max_crashes=2, max_damages=2, was_elsewhere=True)
    pair = CheckedLockstep(machine, RecoveryCores(machine))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert (tuple(pair.actions), pair.state.start, pair.state.start_in_doubt) == (actions, 2, False)


CLEANED_AT_ITS_FRONT = (Open(False), Append(1), Append(1), Append(2), Roll(), Append(1), Close(), LeaveOut(0, 0))
OVER_ITS_POINT = (
    Open(False),
    Append(1),
    Flush(True),
    *[Append(1)] * 2,
    Roll(),
    Flush(False),
    Crash(1, 0, False, False),
)
ODD_EPOCH = (Open(False), Append(1), Append(1), Roll(), Close(), MakeUpSnapshot(), Spoil(0, 1, Rot.EPOCH))


@pytest.mark.parametrize(
    ("log", "gaps", "starts", "is_rejected"),
    [
        ((*OVER_ITS_POINT, LeaveOut(0, 0), LeaveOut(0, 0), LoseSegment(3)), (), [], True),
        ((*CLEANED_AT_ITS_FRONT, LoseSegment(4), MakeUp(3, True)), ((4, 5),), [1, 2], False),
        (ODD_EPOCH, ((1, 2),), [0], False),
    ],
    ids=["a leap over the recovery point", "a file within a batch that follows another one", "an odd last epoch"],
)
def test_what_walks_of_other_seeds_have_found(
    log: Sequence[Action], gaps: Sequence[tuple[int, int]], starts: Sequence[int], is_rejected: bool
) -> None:
    """A leap over the recovery point of a cleaned log is borne out or refused; a batch that follows another is served.

    And an epoch that only the noted ones tell denies no recovery point beside a snapshot that is made up.
    """
    machine = of_all_kinds(max_appends=5, max_crashes=1, max_damages=4)
    pair = CheckedLockstep(machine, RecoveryCores(machine))
    failure = failure_of(pair, (*log, Open(True)))
    assert failure is None, failure.words
    assert tuple(pair.actions) == (*log, Open(True))
    assert (pair.state.gaps, pair.state.was_rejected) == (gaps, is_rejected)
    assert [batch.start for batch in pair.state.served] == starts


def test_a_first_file_that_holds_nothing_but_a_batch_that_the_next_one_has_anew_is_a_stray() -> None:
    """The batch lay behind the damaged end of the file, where the log went on in another one; it is kept with it."""
    log = (Open(False), Append(2), Append(1, True), Append(2), Flush(True), Meet(0, 1, Rot.CONTENT), Append(1, True))
    crash = (Append(2), StartAt(6), Crash(0, 0, False, False), Spoil(0, 0, Rot.CONTENT), Spoil(0, 3, Rot.LENGTH))
    actions = (*log, *crash, Open(True), Append(2), Close(), LoseEpochs(True), Open(True), Close(), Open(True))
    machine = of_all_kinds(max_appends=7, max_crashes=1, max_damages=4)
    pair = CheckedLockstep(machine, RecoveryCores(machine))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert tuple(pair.actions) == actions
    assert [segment.base for segment in pair.state.segments] == [6]


def test_a_batch_without_records_is_found_behind_damage_though_its_epoch_looks_like_where_another_one_begins() -> None:
    """One byte before its magic byte lies the last one of its leader epoch, which is the same number."""
    log = (Open(False), Append(1, True), Append(1, True), Append(2), Append(1), Close())
    actions = (*log, Spoil(0, 2, Rot.LENGTH), Open(True))
    pair = CheckedLockstep(Recovery(max_appends=4), RecoveryCores(Recovery(max_appends=4)))
    failure = failure_of(pair, actions)
    assert failure is None, failure.words
    assert tuple(pair.actions) == actions
    assert (pair.state.gaps, [batch.start for batch in pair.state.served]) == (((2, 4),), [0, 1, 4])


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for walk in HARNESSED.walks(1_000, 2_000):
        assert walk.failure is None, walk.failure.words
