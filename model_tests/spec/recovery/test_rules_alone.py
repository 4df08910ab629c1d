"""Rules of recovery asked alone, in states to which walks and small models seldom come."""

from __future__ import annotations

import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.actions import Append, Close, Crash, Flush, LoseSegment, Open, Roll, Spoil
from tidegauge.spec.recovery.elsewhere import LeaveOut
from tidegauge.spec.recovery.epoch_lies import Lie, SpoilEpochs, lie_guard
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.odd_epochs import are_told
from tidegauge.spec.recovery.opening import Taken
from tidegauge.spec.recovery.state import Batch, Gap, Rot, Segment, State

MACHINE = Recovery(max_appends=3, lies=True)


@pytest.mark.parametrize("is_later", [False, True])
def test_the_first_epoch_is_not_noted_as_the_one_before_if_there_is_none(is_later: bool) -> None:
    (state,) = MACHINE.initial()
    for action in (Open(False), Append(1, is_later), Close()):
        state = MACHINE.step(state, action)
    assert (lie_guard(state, Lie.SMALLER) == "") is is_later


@pytest.mark.parametrize(
    ("batches", "following", "is_made_up"),
    [
        ((Batch(0, 1, 0), Batch(3, 5, 0)), 5, True),
        ((Batch(3, 5, 0),), 5, False),
        ((Batch(0, 1, 0), Batch(3, 5, 0)), 6, False),
        ((Batch(0, 1, 0), Batch(3, 5, 0)), None, False),
        ((Batch(0, 1, 0), Batch(3, 5, 0), Batch(5, 6, 0)), 8, True),
        ((Batch(2, 3, 0), Batch(3, 5, 0)), None, True),
        ((Batch(4, 6, 0), Batch(6, 7, 0)), None, False),
    ],
)
def test_a_file_with_batches_is_made_up_where_the_one_before_it_reaches_over_it(
    batches: tuple[Batch, ...], following: int | None, is_made_up: bool
) -> None:
    """Its own first batch lies before; and it goes on behind, the batch over it follows another one, or ends well."""
    behind = Segment(4, (Batch(4, 5, 0),))
    assert MACHINE.is_made_up(Segment(0, batches), behind, following) is is_made_up


@pytest.mark.parametrize(
    ("left_out", "mark", "told"), [((), 2, 0), (((0, 1),), 2, 2), (((0, 1),), 3, 3), (((0, 1),), 4, 0)]
)
def test_a_cleaners_mark_counts_in_a_log_that_was_cleaned_and_up_to_its_last_file(
    left_out: tuple[Gap, ...], mark: int, told: int
) -> None:
    assert MACHINE.mark_of(State((Segment(0), Segment(3)), left_out=left_out, mark=mark)) == told


@pytest.mark.parametrize(("noted", "start", "believed"), [(0, 2, 0), (0, 1, 1), (1, 2, 2), (1, 3, 0), (-1, 2, 2)])
def test_leader_epochs_deny_a_log_start_beyond_the_offset_after_the_first_one(
    noted: int, start: int, believed: int
) -> None:
    assert MACHINE.start_not_denied(State(noted=noted, start=start)) == believed


@pytest.mark.parametrize(
    ("noted", "epoch", "is_clean", "are_behind"),
    [
        (1, 0, True, False),
        (2, 0, True, True),
        (2, 1, True, True),
        (1, 0, False, False),
        (2, 0, False, True),
        (2, 1, False, False),
    ],
)
def test_leader_epochs_do_not_begin_behind_the_end_unless_a_crash_has_taken_their_records(
    noted: int, epoch: int, is_clean: bool, are_behind: bool
) -> None:
    segment = Segment(0, (Batch(0, 1, 0), Batch(1, 2, 0, Rot.CONTENT), Batch(2, 3, epoch)))
    state = State((segment,), noted=noted, is_clean=is_clean)
    taken = Taken([Segment(0, segment.batches[:1])], [], set(), noted, end=1)
    assert MACHINE.begin_behind(state, taken) is are_behind
    taken.segments = []
    assert not MACHINE.begin_behind(state, taken), "without a file nothing contradicts them"


def test_a_damaged_batch_contradicts_no_leader_epoch_that_begins_behind_the_end() -> None:
    """Only the batches that are served do: the last of these is of an earlier epoch."""
    segment = Segment(0, (Batch(0, 1, 0), Batch(1, 2, 1, Rot.CONTENT), Batch(2, 3, 1), Batch(3, 4, 1)))
    taken = Taken([Segment(0, segment.batches[:3])], [(1, 3)], set(), 3, end=2)
    assert not MACHINE.begin_behind(State((segment,), noted=3), taken)


def test_nothing_is_damaged_after_which_no_recovery_point_tells_up_to_where_epochs_are_noted() -> None:
    """After a crash the point has to be borne out: else the epoch of a batch that it had refused is believed."""
    machine = Recovery(max_appends=4, max_damages=3, odd_epochs=True)
    (state,) = machine.initial()
    log = (Open(False), Append(1), Append(1), Roll(), Append(1), Close(), Spoil(0, 1, Rot.EPOCH), Open(True))
    for action in (*log, Append(1), Flush(True)):
        state = machine.step(state, action)
    crashed = machine.step(state, Crash(1, 0, False, False))
    lost = LoseSegment(2)
    assert machine.guard(crashed, lost) == "what tells that a leader epoch is damaged would be damaged as well"
    closed = machine.step(state, Close())
    after = machine.step(machine.step(closed, lost), Open(True))
    assert (after.was_rejected, after.gaps) == (False, ((1, 4),))


@pytest.mark.parametrize(
    ("appended", "left_out", "lost"),
    [
        ((Append(2, False), Roll(), Append(1, False), Roll(), Append(1, False)), True, 2),
        ((Append(2, False), Append(1, False), Roll(), Append(1, False), Roll()), False, 3),
    ],
    ids=["all that lies before the last batch", "the last batch, before a file without one"],
)
def test_what_contradicts_the_noted_leader_epochs_is_not_lost_as_well(
    appended: tuple[Action, ...], left_out: bool, lost: int
) -> None:
    """Of a batch that has nothing but damage beside it what is noted is believed: it would be taken for damaged."""
    machine = Recovery(max_appends=4, max_damages=3, lies=True, was_elsewhere=True)
    (state,) = machine.initial()
    actions = (Open(False), *appended, Close(), *[LeaveOut(0, 0)] * left_out, SpoilEpochs(Lie.LARGER))
    for action in actions:
        state = machine.step(state, action)
    assert "would be damaged as well" in machine.guard(state, LoseSegment(lost))


def test_the_epochs_tell_of_no_batch_that_begins_before_the_first_of_them() -> None:
    """A log start inside a batch has the first epoch begin there, though the batch's file is an older one."""
    lost, odd = Batch(0, 1, 0, rot=Rot.CONTENT), Batch(1, 3, 0, rot=Rot.EPOCH)
    state = State((Segment(0, (lost, odd)),), start=3, end=3, flushed=3, point=3, noted=2, is_clean=True)
    assert not are_told(state)
    assert are_told(evolve(state, noted=1))
