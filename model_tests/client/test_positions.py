"""Positions of a consumer: what is asked before it fetches, and what of late responses is taken."""

from __future__ import annotations

from tidegauge.impl.client.positions import (
    EARLIEST,
    LATEST,
    Fetching,
    Position,
    Positions,
    Resetting,
    Truncation,
    Undetermined,
    Validating,
)

P, Q = ("t", 0), ("t", 1)


def reading_from(position: Position) -> Positions:
    positions = Positions()
    positions.assign([P])
    positions.seek(P, position)
    return positions


def test_what_stays_assigned_goes_on_and_what_is_new_has_to_be_determined() -> None:
    positions = reading_from(Position(5))
    positions.pause(P)
    positions.assign([P, Q])
    assert (positions.stage(P), positions.stage(Q)) == (Fetching(Position(5)), Undetermined())
    assert positions.fetchable() == {}
    positions.resume(P)
    assert positions.fetchable() == {P: Position(5)}
    positions.assign([Q])
    assert (positions.stage(P), positions.consumed()) == (None, {})


def test_where_nothing_is_committed_an_offset_is_looked_up_or_the_application_asked() -> None:
    positions = Positions()
    positions.assign([P, Q])
    assert positions.determined(P, None, EARLIEST)
    assert not positions.determined(Q, None, None)
    assert (positions.stage(P), positions.stage(Q)) == (Resetting(EARLIEST), Undetermined())
    positions.seek(Q, Position(3))
    assert positions.determined(Q, Position(1), EARLIEST), "the application was first"
    assert positions.position(Q) == Position(3)


def test_a_lookup_that_is_overtaken_changes_nothing() -> None:
    positions = reading_from(Position(5))
    positions.reset(P, LATEST)
    positions.looked_up(P, Resetting(EARLIEST), 0, 1)
    assert positions.stage(P) == Resetting(LATEST)
    positions.looked_up(P, Resetting(LATEST), 9, 1)
    assert positions.position(P) == Position(9, leader_epoch=1)


def test_records_from_where_nobody_reads_any_more_are_dropped() -> None:
    positions = reading_from(Position(5))
    assert positions.advance(P, 5, Position(7, 2, 2))
    assert not positions.advance(P, 5, Position(6, 2, 2))
    assert positions.advance(P, 7, Position(8, 2, 1))
    assert positions.position(P) == Position(8, 2, 2), "the epoch of a leader never goes back"
    positions.reset(P, EARLIEST)
    assert not positions.advance(P, 8, Position(9, 2, 2))


def test_a_leader_of_a_later_epoch_is_asked_what_it_has_of_what_was_read() -> None:
    positions = reading_from(Position(5, 1, 1))
    positions.led(P, 1)
    assert positions.position(P) == Position(5, 1, 1)
    positions.led(P, 3)
    asked = Validating(Position(5, 1, 1), 3)
    assert (positions.stage(P), positions.fetchable()) == (asked, {})
    assert positions.validated(P, asked, 1, 5, EARLIEST) is None
    assert positions.fetchable() == {P: Position(5, 1, 3)}
    positions.led(P, 2)
    assert positions.fetchable() == {P: Position(5, 1, 3)}, "that was an earlier leader"
    never_read = reading_from(Position(5))
    never_read.led(P, 3)
    assert never_read.fetchable() == {P: Position(5, leader_epoch=3)}, "there is nothing to ask about"


def test_a_truncation_goes_on_where_the_log_diverges() -> None:
    asked = Validating(Position(5, 1, 1), 3)
    positions = reading_from(asked.position)
    positions.led(P, 3)
    assert positions.validated(P, asked, 1, 4, EARLIEST) == Truncation(P, 5, 4)
    assert positions.position(P) == Position(4, 1, 3)
    assert positions.validated(P, asked, 1, 3, EARLIEST) is None, "a late response"


def test_a_truncation_that_nobody_can_place_is_a_reset_or_stays_for_the_application() -> None:
    asked = Validating(Position(5, 1, 1), 3)
    for end, otherwise, stage in (
        ((-1, -1), EARLIEST, Resetting(EARLIEST)),
        ((-1, -1), None, asked),
        ((1, 4), None, asked),
    ):
        positions = reading_from(asked.position)
        positions.led(P, 3)
        found = positions.validated(P, asked, *end, otherwise)
        assert found == Truncation(P, 5, None if end == (-1, -1) else 4)
        assert positions.stage(P) == stage


def test_an_offset_out_of_range_is_looked_up_anew_or_told() -> None:
    positions = reading_from(Position(5))
    assert positions.out_of_range(P, 4, None), "nobody reads there any more"
    assert not positions.out_of_range(P, 5, None)
    assert positions.out_of_range(P, 5, LATEST)
    assert positions.stage(P) == Resetting(LATEST)
