"""Rules of batches whose leader epoch has changed, asked alone: when the noted leader epochs tell of them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.actions import LoseEpochs, LoseSegment, MakeUp, Spoil, StartAt
from tidegauge.spec.recovery.epoch_lies import Lie, SpoilEpochs, lie_guard
from tidegauge.spec.recovery.machine import Recovery, of_all_kinds
from tidegauge.spec.recovery.odd_epochs import (
    are_told,
    are_told_to_readers,
    epochs_guard,
    forgets_an_epoch,
    is_told_by_two,
    low_guard,
)
from tidegauge.spec.recovery.replacing import Replacements
from tidegauge.spec.recovery.state import NO_EPOCHS, NO_FILE, Batch, Rot, Segment, Stage, State


def closed(*segments: Segment, **fields: Any) -> State:
    """A log that was closed in order, all of it below the recovery point, whose first epoch begins with it."""
    end = max((segment.end for segment in segments), default=0)
    given = {"end": end, "flushed": end, "point": end, "is_clean": True, "noted": 0, **fields}
    return State(segments, **given)


def batch(start: int, epoch: int = 0, rot: Rot | None = None) -> Batch:
    return Batch(start, start + 1, epoch, rot)


ODD = batch(1, 1, Rot.EPOCH)
"""The last batch of its file."""
FIRST = Segment(0, (batch(0), ODD))
BEHIND = Segment(2, (batch(2, 1),))


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (closed(), True),
        (closed(Segment(0, (batch(0),)), BEHIND), True),
        (closed(FIRST, BEHIND), True),
        (closed(FIRST, BEHIND, noted=NO_FILE), False),
        (closed(FIRST, BEHIND, is_contradicted=True), False),
        (closed(FIRST, BEHIND, noted=2), False),
        (closed(FIRST, BEHIND, noted=1), False),
        (closed(FIRST, BEHIND, flushed=4), False),
        (closed(FIRST, BEHIND, is_clean=False, flushed=4), True),
        (closed(FIRST, BEHIND, is_clean=False, start=4), False),
        (closed(FIRST, BEHIND, is_clean=False, mark=4), False),
        (closed(FIRST, BEHIND, point=1, flushed=1), False),
        (closed(FIRST, Segment(2, (batch(2, 1, Rot.LOW),))), False),
        (closed(FIRST, Segment(2, (batch(2, 1, Rot.EPOCH),))), False),
    ],
)
def test_leader_epochs_tell_of_a_batch_that_is_odd_alone_and_noted_below_the_recovery_point(
    state: State, *, told: bool
) -> None:
    assert are_told(state) is told


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (closed(FIRST), False),
        (closed(Segment(0, (batch(0, 1), ODD))), True),
        (closed(FIRST, point=3, flushed=3), True),
        (closed(FIRST, point=3, flushed=3, left_out=((5, 6),)), False),
        (closed(FIRST, Segment(2, (batch(2, 1, Rot.CONTENT),))), True),
        (closed(FIRST, Segment(2, (batch(2, 1, Rot.CONTENT),)), point=2, flushed=2), False),
        (closed(FIRST, Segment(2, (batch(2, 1, Rot.OFFSET),))), False),
        (closed(FIRST, Segment(2, (batch(2, 1, Rot.CONTENT), batch(3, 1)))), True),
        (closed(FIRST, Segment(2, (batch(2, 1, Rot.CONTENT), batch(3, 1), batch(4, 1)))), True),
        (closed(FIRST, Segment(2, (batch(2, 1, Rot.CONTENT), batch(3, 1), batch(5, 1)))), False),
        (closed(FIRST, BEHIND, point=2, flushed=2), False),
        (closed(Segment(0, (batch(0, 1), ODD)), BEHIND, point=2, flushed=2), True),
    ],
)
def test_what_lies_behind_a_batch_is_intact_or_so_damaged_that_nobody_denies_its_epoch(
    state: State, *, told: bool
) -> None:
    assert are_told(state) is told


OF_ANOTHER = Segment(3, (batch(3),))


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ((batch(2, 0, Rot.EPOCH),), True),
        ((batch(2, 1, Rot.EPOCH),), False),
        ((batch(1, 0, Rot.CONTENT), batch(2, 1, Rot.EPOCH)), True),
        ((batch(0), batch(1, 0, Rot.CONTENT), batch(2, 1, Rot.EPOCH)), True),
        ((batch(0, 0, Rot.CONTENT), batch(1), batch(2, 1, Rot.EPOCH)), True),
        ((batch(0, 0, Rot.CONTENT), batch(1), batch(3, 1, Rot.EPOCH)), False),
        ((batch(0, 0, Rot.CONTENT), batch(1), batch(2, 1, Rot.CONTENT), batch(3, 1, Rot.EPOCH)), False),
    ],
)
def test_what_lies_before_a_batch_is_intact_and_believed_or_damaged(batches: tuple[Batch, ...], *, told: bool) -> None:
    last = batches[-1].end
    state = closed(Segment(batches[0].start, batches), Segment(last, (batch(last),)))
    assert are_told(evolve(state, noted=batches[0].start)) is told


@pytest.mark.parametrize(("epoch", "told"), [(0, True), (1, False)])
def test_where_only_damage_lies_between_a_batch_and_the_one_before_in_another_file_its_epoch_is_asked(
    epoch: int, *, told: bool
) -> None:
    """Nothing is behind it. In its own file damage before it leaves it without a witness against it."""
    apart = closed(Segment(0, (batch(0), batch(1, 0, Rot.CONTENT))), Segment(2, (batch(2, epoch, Rot.EPOCH),)))
    assert are_told(apart) is told
    assert are_told(closed(Segment(0, (batch(0), batch(1, 0, Rot.CONTENT), batch(2, epoch, Rot.EPOCH)))))


@pytest.mark.parametrize(
    ("action", "may"),
    [
        (Spoil(2, 0, Rot.CONTENT), True),
        (Spoil(2, 0, Rot.LENGTH), True),
        (Spoil(2, 0, Rot.OFFSET), False),
        (LoseSegment(2), True),
        (MakeUp(2, True), False),
        (MakeUp(3, True), True),
        (MakeUp(4, False), True),
        (LoseEpochs(True), False),
    ],
)
def test_nothing_is_damaged_that_tells_of_a_leader_epoch(action: Action, *, may: bool) -> None:
    state = closed(FIRST, BEHIND)
    nothing = closed(Segment(0, (batch(0), batch(1))), BEHIND)
    assert (epochs_guard(state, action, state, lambda: False) == "") is may
    assert epochs_guard(state, action, state, lambda: True)
    assert not epochs_guard(nothing, action, state, lambda: True)
    is_far = isinstance(action, MakeUp) and action.base >= state.end
    for damaged in (nothing, evolve(state, noted=NO_FILE)):
        assert (epochs_guard(state, action, damaged, lambda: False) == "") is is_far
    cleaned = evolve(state, left_out=((5, 6),))
    is_lost = isinstance(action, LoseSegment)
    assert (epochs_guard(cleaned, action, cleaned, lambda: False) == "") is (may and not is_lost)


@pytest.mark.parametrize(
    ("changes", "number", "told"),
    [
        ({}, 2, True),
        ({}, 1, False),
        ({}, 0, False),
        ({"left_out": ((0, 1),)}, 2, False),
        ({"start": 2}, 2, True),
        ({"start": 3}, 2, False),
        ({"segments": (Segment(0, (batch(0), batch(1, 0, Rot.CONTENT), batch(2, 1))),)}, 2, False),
        ({"segments": (Segment(0, (batch(0, 0, Rot.CONTENT), batch(1), batch(2, 1))),)}, 2, False),
        ({"segments": (Segment(0, (batch(0), batch(1), batch(2, 1))), Segment(3, (batch(3, 1, Rot.LOW),)))}, 2, False),
        (
            {"segments": (Segment(0, (batch(0), batch(1), batch(2, 1))), Segment(3, (batch(3, 1, Rot.EPOCH),)))},
            2,
            False,
        ),
    ],
)
def test_two_intact_batches_before_one_tell_that_its_epoch_has_become_smaller(
    changes: dict[str, Any], number: int, *, told: bool
) -> None:
    state = evolve(closed(Segment(0, (batch(0), batch(1), batch(2, 1)))), **changes)
    assert is_told_by_two(state, state.segments[0], number) is told
    machine = of_all_kinds(max_appends=3, max_crashes=3, max_damages=3)
    spoil = Spoil(0, number, Rot.LOW)
    assert (machine.guard(state, spoil) == "") is told
    assert attrs.evolve(machine, odd_epochs=False).guard(state, spoil)


@pytest.mark.parametrize(
    ("action", "may"),
    [
        (LoseSegment(0), False),
        (LoseSegment(3), True),
        (MakeUp(2, True), False),
        (MakeUp(3, True), True),
        (Spoil(0, 1, Rot.CONTENT), False),
        (Spoil(3, 0, Rot.CONTENT), True),
        (Spoil(3, 0, Rot.EPOCH), False),
        (StartAt(1), False),
        (LoseEpochs(True), True),
    ],
)
def test_what_tells_of_a_smaller_epoch_is_neither_damaged_nor_given_up(action: Action, *, may: bool) -> None:
    batches = (batch(0), batch(1), batch(2, 1, Rot.LOW))
    state = closed(Segment(0, batches), Segment(3, (batch(3, 1),)))
    assert (low_guard(state, action) == "") is may
    assert not low_guard(closed(Segment(0, batches[:2]), Segment(3, (batch(3, 1),))), action)


@pytest.mark.parametrize(
    ("action", "changes", "forgets"),
    [
        (Spoil(0, 1, Rot.CONTENT), {"noted": NO_FILE}, True),
        (Spoil(0, 1, Rot.CONTENT), {"is_contradicted": True}, True),
        (Spoil(0, 1, Rot.CONTENT), {}, False),
        (Spoil(0, 1, Rot.LENGTH), {"noted": NO_FILE}, False),
        (Spoil(0, 0, Rot.CONTENT), {"noted": NO_FILE}, False),
        (Spoil(0, 1, Rot.CONTENT), {"noted": NO_FILE, "start": 3}, False),
        (LoseEpochs(True), {}, False),
        (SpoilEpochs(Lie.BEYOND), {}, False),
    ],
)
def test_leader_epochs_are_not_made_anew_without_that_of_the_last_record_before_the_start(
    action: Action, changes: dict[str, Any], *, forgets: bool
) -> None:
    state = closed(Segment(0, (batch(0), batch(1, 1), batch(2, 1))), **{"start": 2, **changes})
    assert forgets_an_epoch(state, action) is forgets
    same = evolve(state, segments=(Segment(0, (batch(0, 1), batch(1, 1), batch(2, 1))),))
    assert not forgets_an_epoch(same, action)
    damaged = evolve(state, segments=(Segment(0, (batch(0), batch(1, 1, Rot.CONTENT), batch(2, 1))),))
    is_lost = damaged.noted < 0 or damaged.is_contradicted or not isinstance(action, Spoil)
    assert forgets_an_epoch(damaged, action) is (is_lost and damaged.start == 2 and action != Spoil(0, 0, Rot.CONTENT))


@pytest.mark.parametrize(("before", "told"), [(0, False), (1, True)])
def test_of_an_open_log_nothing_is_lost_behind_its_last_file(before: int, *, told: bool) -> None:
    """A closed one whose last file ends before the recovery point has lost what was there, which denies nothing."""
    last = Segment(0, (batch(0, before), ODD))
    state = State((last,), is_open=True, end=3, first_epoch=0)
    assert are_told_to_readers(state) is told
    assert are_told(closed(last, point=3, flushed=3))
    assert are_told_to_readers(State(is_open=True))


@pytest.mark.parametrize(
    ("left_out", "epoch", "may"),
    [((), 0, True), ((), 1, False), (((1, 2),), 0, True), (((2, 3),), 0, False), (((0, 1), (2, 3)), 0, False)],
)
def test_another_epoch_begins_with_the_last_batch_that_there_was(
    left_out: tuple[tuple[int, int], ...], epoch: int, *, may: bool
) -> None:
    state = closed(Segment(0, (batch(0), batch(1, epoch))), left_out=left_out)
    assert (lie_guard(state, Lie.LARGER) == "") is may
    assert lie_guard(evolve(state, has_begun=True), Lie.LARGER)
    assert lie_guard(evolve(state, noted=NO_FILE), Lie.LARGER)
    assert lie_guard(evolve(state, is_clean=False), Lie.LARGER)
    assert lie_guard(evolve(state, has_note=True), Lie.LARGER)


# --- beside them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "first", "unknown"),
    [
        ({"noted": 1}, 3, False),
        ({"noted": 2}, 3, False),
        ({"noted": 2, "is_clean": True}, 3, True),
        ({"noted": 2, "is_clean": True, "start_is_lost": True}, 3, False),
        ({"noted": 1, "is_clean": True}, 3, False),
        ({"noted": NO_EPOCHS}, 3, True),
        ({"noted": NO_FILE}, 3, True),
        ({"noted": 1, "has_note": True}, 3, False),
        ({"noted": 0, "has_note": True}, 3, False),
        ({"noted": 3, "has_note": True}, 3, True),
        ({"noted": 4, "has_note": True}, 3, True),
        ({"noted": 4}, 3, False),
        ({"noted": 1, "is_contradicted": True}, 3, True),
    ],
)
def test_what_lay_before_the_first_file_was_deleted_as_leader_epochs_say(
    fields: dict[str, Any], first: int, *, unknown: bool
) -> None:
    assert Recovery().is_start_unknown(State(**fields), first) is unknown


def test_a_new_segment_stands_for_the_old_ones_once_its_second_name_is_there() -> None:
    decided = [stage for stage in Stage if Replacements().is_decided(stage)]
    assert decided == [Stage.DECIDED, Stage.BEGUN, Stage.CLEARED, Stage.PLACED]


def test_the_machine_of_logs_of_all_kinds_has_every_switch_on() -> None:
    machine = of_all_kinds(max_appends=4, max_crashes=5, max_damages=6)
    values = {field.name: getattr(machine, field.name) for field in attrs.fields(Recovery)}
    assert {name: value for name, value in values.items() if value is not True} == {
        "max_appends": 4,
        "max_crashes": 5,
        "max_damages": 6,
    }
