"""Rules of a log with transactions that is compacted, asked alone, in states that the small models do not reach."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.compaction.machine import NEVER
from tidegauge.spec.compaction.transactional import Entry, Kind, Map, State, TransactionalCompaction

MACHINE = TransactionalCompaction(retention=2)
MARKER = Entry(1, 0, 0, kind=Kind.COMMIT, producer=0)


@pytest.mark.parametrize(("horizon", "after"), [(NEVER, 5), (4, 4)], ids=["met first", "met before"])
def test_the_time_of_a_marker_begins_once(horizon: int, after: int) -> None:
    state, map_ = State(now=3), Map((), end=2)
    assert MACHINE.horizon(state, map_, attrs.evolve(MARKER, horizon=horizon), needed=False) == after


def test_a_batch_that_has_lost_its_record_supersedes_nothing() -> None:
    record = Entry(0, 0, value=1, producer=0)
    assert MACHINE.supersedes(State(), record)
    assert not MACHINE.supersedes(State(), record.emptied)


def test_a_map_without_room_ends_with_the_segments_before_the_record_that_has_no_place() -> None:
    log = (Entry(0, 0, value=1), Entry(3, 1, value=1))
    state = State(log=log, segments=(0, 3, 4), history=log)
    assert MACHINE.mapped(attrs.evolve(state, history=(*log, *log)), keys=1) == Map(((0, 0),), end=3)
