"""Three brokers, two records, two expired sessions: more states than anybody waits for, so the nearest of them.

Elections go by the order of the replica list, and two of them follow each other here: no two brokers are alike, and
symmetry saves nothing. The search is cut at `STATES`, and prints how far that is. Without it there were 12 million
states within 22 levels with one record, and 13,008,411 within the first 20 with two, of which the last had 1.4 times as
many as the one before. With one expired session it comes to its end.

How many there are is a guess. Without an expired session there are 709, with one 1,404,875, 1,981 times as many. With
two brokers a second one multiplies the states by 0.45 (two records: 37, 6,472, 505,567) or 0.55 (one: 17, 1,830,
107,335) of what the first does. That would be 1.2 to 1.5 thousand million states here; the growth of the levels says
950 million. It is two to three and a half CPU hours at the 124,000 states a CPU second of these levels, and 40 to 75 GB
of files. `make three-brokers` goes on with it night by night (`make nightly`), and says how far it is; nobody has seen
its end.
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
