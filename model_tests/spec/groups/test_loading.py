"""Groups whose log is cleaned while it is loaded, explored; the wrong rules are in `loading_mutants`."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.kernel.explorer import explore


@pytest.mark.parametrize(
    ("machine", "counts"),
    [
        (GroupLoading(), (2_519, 7_033)),
        pytest.param(GroupLoading(max_changes=4, max_rounds=1), (10_071, 23_101), marks=pytest.mark.deep),
    ],
    ids=["three changes", "four changes"],
)
def test_every_load_ends_with_the_group_that_was_written(machine: GroupLoading, counts: tuple[int, int]) -> None:
    found = explore(machine, converges=True)
    assert found.complete
    assert found.holds, found.violations or found.convergence
    assert counted(found) == counts
    assert not found.unreached or machine.max_rounds == 1
    assert not found.never_enabled or machine.max_rounds == 1
