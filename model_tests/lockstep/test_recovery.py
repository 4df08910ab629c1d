"""A log on a simulated disk beside the machine of its recovery: random walks, and what they meet."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.recovery.machine import LoseSegment, Open, Spoil

HARNESSED = HARNESS["recovery"]
WALKS = 20


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Most openings tell of damage, and to format that takes longer than to find it."""
    caplog.set_level(logging.CRITICAL, "tidegauge.impl.storage")


def test_walks_find_no_difference_and_meet_all_kinds_of_damage() -> None:
    taken = Counter[str]()
    for walk in HARNESSED.walks(3, WALKS):
        assert walk.failure is None, walk.failure.words
        taken.update(action.name for action in walk.actions)
    assert set(taken) == {kind.__name__ for kind in walk.machine.action_types}
    assert taken[Open.__name__] > 8 * WALKS
    assert taken[Spoil.__name__] + taken[LoseSegment.__name__] > WALKS


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for walk in HARNESSED.walks(1_000, 2_000):
        assert walk.failure is None, walk.failure.words
