"""Three brokers, two records, two expired sessions: more states than anybody waits for, so the nearest of them.

Elections go by the order of the replica list, and two of them follow each other here: no two brokers are alike, and
symmetry saves nothing. The search is cut at `STATES`, and prints how far that is. Without it there were 12 million
states within 22 levels with one record, and 7.5 million within 18 with two, and each level had a quarter more than the
one before. With one expired session it comes to its end.
"""

from __future__ import annotations

import time
from typing import Final

import attrs
import pytest

from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.progress import Cut, Limits
from tidegauge.spec.replication.machine import Replication

MACHINE: Final = Replication(brokers=3, max_records=2, bounds=Bounds(ExpireSession=2))
STATES: Final = 3_000_000
"""1 GB of memory, and a minute of CPU, by the fast engine."""


@pytest.mark.deep
def test_the_states_nearest_to_the_beginning_hold(capsys: pytest.CaptureFixture[str]) -> None:
    found = explore(MACHINE, limits=Limits(states=STATES), clock=time.process_time)
    with capsys.disabled():
        print(f"\n{found.distinct} states, {found.depth} levels {found.levels}, {found.seconds:.0f} s of CPU")
    assert found.holds, str(found.violations[0])
    assert (found.cut, found.distinct) == (Cut.STATES, STATES)


@pytest.mark.deep
def test_one_expired_session_is_explored_to_the_end() -> None:
    found = explore(attrs.evolve(MACHINE, bounds=Bounds(ExpireSession=1)), converges=True)
    assert found.holds, str(found.violations[0])
    assert not found.unreached
    assert (found.complete, counted(found), found.depth) == (True, (1_404_875, 7_357_982), 43)


def test_the_first_levels_hold() -> None:
    found = explore(MACHINE, limits=Limits(depth=7))
    assert (found.holds, found.cut) == (True, Cut.DEPTH)
    assert found.levels == (1, 6, 31, 139, 519, 1588, 4155)
    assert MACHINE.interchangeable == 0
