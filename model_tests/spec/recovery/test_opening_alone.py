"""Rules by which a log is opened, asked alone: what tells where it ended, and which files are its own."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.recovery.actions import LowerPoint, Open, Repair
from tidegauge.spec.recovery.elsewhere import LeaveOut, elsewhere_guard
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.opening import Taken
from tidegauge.spec.recovery.replacing import Interrupt, interruption_guard
from tidegauge.spec.recovery.state import NO_FILE, REACH, Batch, Rot, Segment, Stage, State

MACHINE = Recovery()
EMPTY = Segment(0)


def batches(*starts: int, rot: Rot | None = None) -> tuple[Batch, ...]:
    """Batches of one record each."""
    return tuple(Batch(start, start + 1, 0, rot) for start in starts)


def taken(*segments: Segment, end: int) -> Taken:
    return Taken(list(segments), [], set(), NO_FILE, end)


# --- where a log ended -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "point", "told"),
    [
        ({}, 0, False),
        ({}, 2, False),
        ({}, 3, True),
        ({"snapshots": frozenset({2})}, 0, False),
        ({"snapshots": frozenset({3})}, 0, True),
        ({"snapshots": frozenset({REACH})}, 0, True),
        ({"snapshots": frozenset({REACH + 1})}, 0, False),
        ({"high_watermark": 3}, 0, True),
        ({"high_watermark": 2}, 0, False),
        ({"start": 3}, 0, True),
        ({"start": 3, "noted": 1}, 0, False),
        ({"segments": (EMPTY, Segment(3, batches(3)))}, 0, True),
        ({"segments": (EMPTY, Segment(3))}, 0, False),
        ({"segments": (EMPTY, Segment(4, batches(4)))}, 0, False),
        ({"segments": (EMPTY, Segment(3, batches(3, rot=Rot.CONTENT)))}, 0, False),
    ],
)
def test_what_tells_that_a_log_went_as_far_as_a_file_is_named_after(
    fields: dict[str, Any], point: int, *, told: bool
) -> None:
    assert MACHINE.is_end_told(State(**fields), 0, 3, point) is told


@pytest.mark.parametrize(
    ("end", "limit", "is_clean", "flushed", "known"),
    [
        (2, 2, True, 2, False),
        (3, 3, False, 0, True),
        (3, 4, False, 3, False),
        (3, None, True, 3, True),
        (3, None, False, 3, False),
        (3, 4, True, 4, False),
    ],
)
def test_a_file_that_ends_in_damage_held_nothing_behind_where_the_next_one_begins_or_a_clean_stop_was(
    end: int, limit: int | None, flushed: int, *, is_clean: bool, known: bool
) -> None:
    assert MACHINE.is_known_end(State(is_clean=is_clean), Segment(2), end, limit, flushed) is known


@pytest.mark.parametrize(
    ("start", "end", "believed"), [(2, 0, 2), (REACH + 3, 3, REACH + 3), (REACH + 3, 2, 0), (REACH, 0, REACH)]
)
def test_a_log_start_that_is_farther_away_than_a_file_reaches_is_none(start: int, end: int, believed: int) -> None:
    assert MACHINE.start_from(State(start=start), end) == believed


@pytest.mark.parametrize(
    ("fields", "point", "end", "expected"),
    [
        ({"is_clean": True, "start": 4}, 0, 3, 4),
        ({"is_clean": True, "start": 4}, 0, None, 4),
        ({"start": 4}, 0, 3, 0),
        ({"is_clean": True, "start": 4}, 3, 3, 3),
        ({"is_clean": True, "start": 4}, 4, 3, 4),
        ({"is_clean": True, "start": 4}, 5, 3, 0),
        ({"start": REACH + 9}, REACH + 3, 3, REACH + 3),
        ({"start": REACH + 9}, REACH + 4, 3, 0),
    ],
)
def test_a_log_start_bears_out_a_recovery_point_before_it_and_itself_without_one(
    fields: dict[str, Any], point: int, end: int | None, expected: int
) -> None:
    assert MACHINE.borne_out(State(**fields), point, end) == expected


@pytest.mark.parametrize(
    ("is_clean", "point", "base", "ended"),
    [(True, 0, 0, 5), (True, 2, 0, 2), (False, 0, 0, 0), (True, 0, 6, REACH + 6), (False, 4, 0, 4)],
)
def test_without_the_recovery_point_of_a_clean_stop_the_newest_snapshot_within_reach_stands_for_it(
    point: int, base: int, ended: int, *, is_clean: bool
) -> None:
    state = State(is_clean=is_clean, snapshots=frozenset({3, 5, REACH + 6, REACH + 13}))
    assert MACHINE.ended(state, point, base) == ended


@pytest.mark.parametrize(
    ("fields", "point", "end", "known"),
    [
        ({}, 0, 2, 0),
        ({"high_watermark": 3}, 0, 2, 0),
        ({"high_watermark": 3}, 2, 2, 2),
        ({"high_watermark": 3, "is_clean": True}, 0, 2, 3),
        ({"high_watermark": REACH + 3, "is_clean": True}, 0, 2, 0),
        ({"high_watermark": 3, "is_clean": True}, 2, 2, 2),
        ({"snapshots": frozenset({4}), "is_clean": True}, 0, 2, 4),
        ({"snapshots": frozenset({4}), "is_clean": True}, 3, 2, 0),
        ({"snapshots": frozenset({4}), "is_clean": True}, 4, 2, 4),
        ({"snapshots": frozenset({REACH + 2}), "is_clean": True}, 0, 2, REACH + 2),
        ({"snapshots": frozenset({4})}, 0, 2, 0),
        ({"segments": (EMPTY, Segment(4))}, 4, 2, 4),
        ({"segments": (EMPTY, Segment(4))}, 3, 2, 0),
        ({"start": 4}, 4, 2, 4),
        ({"start": 4, "noted": 3}, 0, 2, 4),
        ({"start": REACH + 2}, REACH + 2, 2, REACH + 2),
        ({"start": REACH + 2}, REACH + 5, 2, REACH + 2),
        ({"start": REACH + 3}, REACH + 5, 2, 0),
    ],
)
def test_what_is_known_of_a_lost_end(fields: dict[str, Any], point: int, end: int, known: int) -> None:
    assert MACHINE.known_end(State(**fields), point, end) == known


@pytest.mark.parametrize(
    ("segments", "offset", "ends"),
    [
        ((Segment(0, batches(0, 1)),), 2, True),
        ((Segment(0, batches(0, 1)),), 1, False),
        ((Segment(0, batches(0, 1), torn=True),), 2, False),
        ((Segment(0, batches(0, 1)), Segment(2)), 2, True),
        ((Segment(0, batches(0)), Segment(2)), 2, False),
        ((Segment(0, batches(0, 1)), Segment(2, torn=True)), 2, False),
        ((Segment(0, (*batches(0), *batches(1, rot=Rot.CONTENT))),), 2, False),
        ((Segment(0, (*batches(0), *batches(1, rot=Rot.EPOCH))),), 2, True),
        ((Segment(0, (*batches(0, rot=Rot.EPOCH), *batches(1))),), 2, False),
        ((Segment(0, (*batches(0, rot=Rot.LOW), *batches(1))),), 2, True),
        ((Segment(0, (*batches(0), *batches(1, rot=Rot.LOW))),), 2, False),
        ((), 0, False),
    ],
)
def test_a_log_ends_at_an_offset_where_its_last_file_is_whole_and_ends(
    segments: tuple[Segment, ...], offset: int, *, ends: bool
) -> None:
    assert MACHINE.ends_at(State(segments), offset) is ends


@pytest.mark.parametrize(
    ("fields", "believed"),
    [
        ({}, 2),
        ({"start": 3}, 0),
        ({"start": REACH + 2}, 0),
        ({"start": REACH + 3}, 2),
        ({"start": 3, "is_clean": False}, 2),
        ({"start": 2}, 2),
        ({"left_out": ((0, 1),), "mark": 3, "segments": (Segment(3),)}, 0),
        ({"snapshots": frozenset({3}), "segments": (Segment(0, batches(0, 1, 2)),)}, 0),
        ({"snapshots": frozenset({3}), "segments": (Segment(0, batches(0, 1)),)}, 2),
        ({"snapshots": frozenset({2}), "segments": (Segment(0, batches(0)),)}, 2),
        ({"snapshots": frozenset({REACH}), "segments": (Segment(0, batches(0)),)}, 0),
        ({"snapshots": frozenset({REACH + 1}), "segments": (Segment(0, batches(0)),)}, 2),
    ],
)
def test_a_recovery_point_of_a_clean_stop_that_something_says_is_too_low_is_as_good_as_lost(
    fields: dict[str, Any], believed: int
) -> None:
    assert MACHINE.believed_point(State(**{"point": 2, "is_clean": True, **fields})) == believed


# --- which files are the log's ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("segment", "belongs", "gaps"),
    [
        (Segment(2), True, []),
        (Segment(1, batches(1)), False, []),
        (Segment(3, batches(3)), True, [(2, 3)]),
        (Segment(4, batches(4)), True, [(2, 4)]),
        (Segment(5, batches(5)), False, []),
        (Segment(3), False, []),
        (Segment(3, batches(3, rot=Rot.CONTENT)), False, []),
    ],
)
def test_a_file_behind_a_gap_is_the_logs_if_it_was_flushed_and_holds_a_batch(
    segment: Segment, gaps: list[tuple[int, int]], *, belongs: bool
) -> None:
    before = taken(Segment(0, batches(0, 1)), end=2)
    assert MACHINE.belongs(before, segment, flushed=4) is belongs
    assert before.gaps == gaps
    assert MACHINE.belongs(taken(end=0), segment, flushed=0)


@pytest.mark.parametrize(
    ("fields", "segment", "limit", "point", "trusted"),
    [
        ({}, Segment(0, batches(0, 1)), 2, 2, True),
        ({}, Segment(0, batches(0, 1)), 2, 1, False),
        ({"is_clean": True}, Segment(0, batches(0, 1)), 2, 1, True),
        ({}, Segment(0, batches(0, 1), torn=True), 2, 2, False),
        ({}, Segment(0, batches(0, 1, 2)), 2, 2, False),
        ({}, Segment(0, batches(0)), 2, 2, False),
        ({"left_out": ((1, 2),)}, Segment(0, batches(0)), 2, 2, True),
        ({"is_clean": True}, Segment(0, batches(0, 1)), None, 2, True),
        ({"is_clean": True}, Segment(0, batches(0, 1)), None, 3, False),
        ({}, Segment(0, batches(0, 1)), None, 2, False),
    ],
)
def test_a_file_is_believed_unread_below_the_recovery_point_or_after_a_clean_stop(
    fields: dict[str, Any], segment: Segment, limit: int | None, point: int, *, trusted: bool
) -> None:
    state = State(**fields)
    assert MACHINE.is_trusted(state, segment, limit, point, reads_all=False) is trusted
    assert not MACHINE.is_trusted(state, segment, limit, point, reads_all=True)


@pytest.mark.parametrize(
    ("left_out", "limit", "point", "is_left_out"),
    [
        (((1, 2),), 3, 3, True),
        ((), 3, 3, False),
        (((1, 2),), 3, 2, False),
        (((1, 2),), REACH + 1, REACH + 1, True),
        (((1, 2),), REACH + 2, REACH + 2, False),
    ],
)
def test_a_cleaner_leaves_out_what_was_flushed_and_is_within_reach(
    left_out: tuple[tuple[int, int], ...], limit: int, point: int, *, is_left_out: bool
) -> None:
    assert MACHINE.is_left_out(State(left_out=left_out), 0, limit, point) is is_left_out


@pytest.mark.parametrize(
    ("clean", "snapshots", "cut_at", "later", "point", "unsure"),
    [
        (True, (), [], (), 2, False),
        (True, (), [], (), 1, True),
        (True, (2,), [], (), 1, False),
        (True, (), [2], (), 2, True),
        (True, (2,), [2], (), 2, False),
        (True, (3,), [], (), 2, True),
        (True, (), [2], (), 0, False),
        (True, (), [], (Segment(3, batches(3)),), 2, True),
        (True, (), [], (Segment(3),), 2, False),
        (False, (3,), [2], (), 1, False),
    ],
)
def test_a_log_that_was_closed_may_have_gone_on_where_something_is_named_after_a_later_offset(
    snapshots: tuple[int, ...], cut_at: list[int], later: tuple[Segment, ...], point: int, *, clean: bool, unsure: bool
) -> None:
    state = State((Segment(0, batches(0, 1)), *later), is_clean=clean, snapshots=frozenset(snapshots))
    found = taken(state.segments[0], end=2)
    found.cut_at = cut_at
    assert MACHINE.is_end_unsure(state, found, point) is unsure


@pytest.mark.parametrize(
    ("noted", "clean", "missing"), [(NO_FILE, False, False), (0, False, True), (NO_FILE, True, True)]
)
def test_a_log_without_a_file_has_had_one_if_it_was_closed_or_has_leader_epochs(
    noted: int, *, clean: bool, missing: bool
) -> None:
    assert MACHINE.is_end_unsure(State(noted=noted, is_clean=clean), taken(end=0), 0) is missing


@pytest.mark.parametrize(
    ("noted", "start", "first", "end", "believed"),
    [
        (-1, 3, 0, 5, 3),
        (-1, 6, 0, 5, 0),
        (2, 3, 0, 5, 3),
        (1, 3, 0, 5, 0),
        (1, 3, 3, 5, 3),
        (-1, 0, 2, 5, 2),
        (-1, 3, 0, 3, 3),
        (9, 6, 2, 5, 2),
    ],
)
def test_a_log_starts_no_later_than_leader_epochs_and_its_end_say(
    noted: int, start: int, first: int, end: int, believed: int
) -> None:
    assert MACHINE.believed_start(State(noted=noted, start=start), first, end) == believed


def test_snapshots_are_kept_at_the_beginning_of_files_and_the_last_one() -> None:
    state = State(snapshots=frozenset({1, 2, 3, 4, 5, 7}))
    segments = [Segment(0), Segment(2), Segment(3)]
    assert MACHINE.kept_snapshots(state, segments, 1, 5) == {2, 3, 5}
    assert MACHINE.kept_snapshots(state, segments, 2, 4) == {3, 4}
    assert MACHINE.kept_snapshots(State(), segments, 0, 5) == frozenset()


def test_a_file_is_made_up_though_the_batch_before_it_ends_where_it_begins() -> None:
    behind = Segment(4, batches(4))
    assert MACHINE.is_made_up(Segment(0, (Batch(3, 4, 0), Batch(5, 7, 0))), behind, 7)
    assert not MACHINE.is_made_up(Segment(0, (Batch(3, 4, 0), Batch(5, 7, 0))), behind, 8)


# --- how a file is read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("segment", "known_end", "followed"),
    [
        (Segment(0, batches(0, 1)), None, True),
        (Segment(0, batches(0, 2)), None, False),
        (Segment(0, (*batches(0), *batches(1, rot=Rot.CONTENT))), None, False),
        (Segment(0, (*batches(0), *batches(1, rot=Rot.OFFSET))), None, False),
        (Segment(0, (*batches(0), *batches(1, rot=Rot.EPOCH))), None, True),
        (Segment(0, batches(0)), None, True),
        (Segment(0, batches(0)), 1, True),
        (Segment(0, batches(0)), 2, False),
        (Segment(0, batches(0), torn=True), None, False),
    ],
)
def test_a_batch_is_followed_by_one_that_begins_where_it_ends_or_by_the_end_of_the_file(
    segment: Segment, known_end: int | None, *, followed: bool
) -> None:
    assert MACHINE.is_followed(segment, 0, known_end) is followed


@pytest.mark.parametrize(
    ("segment", "following", "borne_out"),
    [
        (Segment(0, batches(0, 2)), None, True),
        (Segment(0, (*batches(0), *batches(1, rot=Rot.CONTENT))), None, False),
        (Segment(0, (*batches(0), *batches(1, rot=Rot.LENGTH))), None, False),
        (Segment(0, (*batches(0), *batches(1, rot=Rot.FAR))), None, True),
        (Segment(0, batches(0)), 1, True),
        (Segment(0, batches(0)), 2, False),
        (Segment(0, batches(0), torn=True), 1, False),
    ],
)
def test_the_next_batch_or_the_next_file_bears_out_where_a_batch_ends(
    segment: Segment, following: int | None, *, borne_out: bool
) -> None:
    assert MACHINE.is_borne_out(segment, 0, following) is borne_out


@pytest.mark.parametrize(
    ("point", "following", "believed"),
    [(0, None, 2), (1, None, 2), (2, None, 1), (2, 4, 2), (3, None, 2)],
)
def test_a_batch_that_leaps_over_where_the_log_ended_is_not_believed_in_the_last_file(
    point: int, following: int | None, believed: int
) -> None:
    """A cleaner has left out offsets 1 and 2; where another file follows, it may have been there later."""
    assert len(MACHINE.read(Segment(0, batches(0, 3)), point, following).believed) == believed


# --- what happens to a closed log ------------------------------------------------------------------------------------

CLOSED = State(
    (Segment(0, batches(0, 1), 2), Segment(2, batches(2), 1)),
    end=3,
    flushed=3,
    point=3,
    is_clean=True,
    first_epoch=0,
    noted=0,
)


@pytest.mark.parametrize(("number", "may"), [(0, True), (1, True), (2, False)])
def test_a_cleaner_leaves_out_a_batch_that_is_there_and_not_of_the_last_file(number: int, *, may: bool) -> None:
    assert (elsewhere_guard(CLOSED, LeaveOut(0, number)) == "") is may
    assert elsewhere_guard(CLOSED, LeaveOut(2, 0))
    assert elsewhere_guard(CLOSED, LeaveOut(7, 0))
    assert elsewhere_guard(evolve(CLOSED, has_note=True), LeaveOut(0, number))


@pytest.mark.parametrize(("offset", "may"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_recovery_point_is_lowered_to_an_earlier_offset_that_is_one(offset: int, *, may: bool) -> None:
    assert (MACHINE.guard(CLOSED, LowerPoint(offset)) == "") is may


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"gaps": ((0, 1),)}, False),
        ({"damages": 1}, False),
        ({"left_out": ((0, 1),)}, False),
        ({"segments": (Segment(0, batches(0)), Segment(1), Segment(1, batches(1)))}, False),
    ],
)
def test_segments_are_replaced_that_are_whole_and_hold_something(changes: dict[str, Any], *, may: bool) -> None:
    state = State((Segment(0, batches(0)), Segment(1, batches(1)), Segment(2)), is_open=True, end=2)
    assert (interruption_guard(evolve(state, **changes), Interrupt(0, 1, Stage.DECIDED)) == "") is may


# --- properties ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snapshot", "after", "holds"),
    [
        (2, {}, False),
        (1, {}, True),
        (4, {}, True),
        (2, {"gaps": ((2, 3),)}, True),
        (2, {"gap_in_doubt": True}, True),
        (2, {"was_rejected": True}, True),
        (2, {"ends_in_damage": True}, True),
        (2, {"segments": (Segment(2, batches(2)),)}, True),
    ],
)
def test_a_log_that_lacks_a_file_whose_snapshot_is_there_says_so(
    snapshot: int, after: dict[str, Any], *, holds: bool
) -> None:
    before = State(is_clean=True, snapshots=frozenset({snapshot}))
    later = evolve(State(start=1, end=4), **after)
    assert MACHINE.missing_is_told(before, Open(True), later) is holds
    assert MACHINE.missing_is_told(evolve(before, is_clean=False), Open(True), later)
    assert MACHINE.missing_is_told(evolve(before, segments=(Segment(snapshot),)), Open(True), later)
    assert MACHINE.missing_is_told(evolve(before, left_out=((snapshot, snapshot + 1),)), Open(True), later)
    assert MACHINE.missing_is_told(before, LowerPoint(1), later)


FIRST, SECOND = Segment(0, batches(0, 1)), Segment(2, batches(2))
CUT = State((FIRST, SECOND), is_clean=True, noted=0)


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        ({}, {}, False),
        ({}, {"gaps": ((0, 2),)}, True),
        ({}, {"start_in_doubt": True}, True),
        ({"start_is_lost": True}, {}, True),
        ({"noted": 1}, {}, False),
        ({"noted": 1, "is_clean": False}, {}, True),
        ({"noted": 2}, {}, True),
        ({"noted": 2, "has_note": True}, {}, False),
        ({"began": 2}, {}, True),
        ({"left_out": ((0, 2),)}, {}, True),
        ({"left_out": ((0, 1),)}, {}, False),
        ({"left_out": ((1, 2),)}, {}, False),
        ({"left_out": ((5, 6),), "segments": (Segment(0), SECOND)}, {}, True),
        ({"segments": (Segment(0), SECOND)}, {}, False),
        ({"left_out": ((5, 6),), "segments": (Segment(0), Segment(1, batches(1)), SECOND)}, {}, False),
        ({"left_out": ((5, 6),), "segments": (Segment(1), SECOND)}, {}, False),
        ({"left_out": ((5, 6),), "segments": (SECOND,)}, {}, False),
    ],
)
def test_a_log_that_starts_later_says_so_or_a_cleaner_was_there(
    before: dict[str, Any], after: dict[str, Any], *, holds: bool
) -> None:
    later = State((SECOND,), start=2, **after)
    assert MACHINE.start_is_told(evolve(CUT, **before), Open(True), later) is holds
    assert MACHINE.start_is_told(evolve(CUT, **before), LowerPoint(1), later)


@pytest.mark.parametrize(
    ("held", "gaps", "hidden", "holds"),
    [
        (batches(0, 1), (), (), True),
        (batches(0, 1), ((0, 2),), (), False),
        (batches(0, 1), ((1, 2),), (), False),
        (batches(0, 2), ((0, 3),), (), True),
        ((*batches(0), *batches(1, rot=Rot.CONTENT)), ((0, 2),), (), True),
        ((*batches(0, rot=Rot.CONTENT), *batches(1)), ((0, 2),), (), True),
        (batches(0, 1), (), (0, 1), False),
        (batches(0, 1), (), (1,), True),
        (batches(0, 1), ((5, 6),), (), True),
    ],
)
def test_of_two_intact_batches_that_follow_each_other_none_is_refused(
    held: tuple[Batch, ...], gaps: tuple[tuple[int, int], ...], hidden: tuple[int, ...], *, holds: bool
) -> None:
    after = State((Segment(0, held),), gaps=gaps, hidden=frozenset(hidden))
    assert MACHINE.followed_is_served(State((Segment(0, held),)), Open(True), after) is holds
    assert MACHINE.followed_is_served(State((Segment(0, held),)), LowerPoint(1), after)


@pytest.mark.parametrize(
    ("start", "kept", "holds"),
    [(0, (0, 1), True), (0, (0,), False), (0, (1,), False), (1, (1,), True), (0, (0, 1, 3), True)],
)
def test_a_repair_keeps_what_is_intact_before_the_first_damage(
    start: int, kept: tuple[int, ...], *, holds: bool
) -> None:
    held = (*batches(0, 1), *batches(2, rot=Rot.CONTENT), *batches(3))
    before = State((Segment(0, held),), start=start, end=4, gaps=((2, 3),), is_open=True)
    after = State((Segment(0, batches(*kept)),))
    assert MACHINE.repair_keeps_what_is_before(before, Repair(), after) is holds
    assert MACHINE.repair_keeps_what_is_before(before, Open(True), after)
    assert MACHINE.repair_keeps_what_is_before(evolve(before, segments=(Segment(3, held[3:]),)), Repair(), after)
    below = evolve(before, gaps=((0, start), *before.gaps))
    assert MACHINE.repair_keeps_what_is_before(below, Repair(), after) is holds


@pytest.mark.parametrize(
    ("held", "left_out", "holds"),
    [
        (batches(0, 1, 2), (), True),
        (batches(0, 2), (), False),
        (batches(0, 2), ((1, 2),), True),
        (batches(0, 1), (), False),
        ((Batch(0, 2, 0), Batch(1, 3, 0)), (), False),
    ],
)
def test_an_open_log_without_damage_has_all_but_what_a_cleaner_left_out(
    held: tuple[Batch, ...], left_out: tuple[tuple[int, int], ...], *, holds: bool
) -> None:
    state = State((Segment(0, held),), is_open=True, end=3, left_out=left_out)
    assert MACHINE.flushed_is_kept(state) is holds
    assert MACHINE.flushed_is_kept(evolve(state, damages=1))
    assert MACHINE.flushed_is_kept(evolve(state, is_open=False))
    assert not MACHINE.flushed_is_kept(evolve(state, point=4))
