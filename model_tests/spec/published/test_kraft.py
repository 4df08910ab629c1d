"""What the published KRaft model is made of; TLC's counts of it are in `test_tlc`."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.published.kraft import variants
from tidegauge.spec.published.kraft.machine import Kraft
from tidegauge.spec.published.kraft.state import Entry, Position


def test_a_log_is_truncated_behind_the_last_entry_that_is_not_behind_the_leaders() -> None:
    log = (Entry(2, 0), Entry(2, 1), Entry(4, 2))
    cut = {
        end: len(Kraft().truncated(log, end)) for end in (Position(), Position(1, 2), Position(5, 2), Position(1, 3))
    }
    assert cut == {Position(): 0, Position(1, 2): 1, Position(5, 2): 2, Position(1, 3): 2}
    assert Kraft().truncated(log, Position(3, 4)) == log


@pytest.mark.parametrize("constant", ["servers", "values"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(Kraft(**{constant: 0}).initial()))


def test_a_violation_shows_who_leads_and_the_logs() -> None:
    found = explore(variants.CommitsWithoutMajority(), symmetry=True)
    values: dict[str, Any] = dict(found.violations[0].values)
    assert sorted(values["high watermarks"]) == [0, 0, 1]
    assert sorted(map(len, values["logs"])) == [0, 0, 1]
