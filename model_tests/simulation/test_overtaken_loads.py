"""Coordinators load logs that the cleaner takes from meanwhile: none may fail at that, and who does is found."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.harness.simulation.group_options import draw_group
from tidegauge.model_tests.harness.verification.campaigning import ran_group

SEED = 5
"""A load has read of a partition's former owner when the cleaner takes what that has given back."""


@pytest.mark.parametrize(
    ("bug", "refused"),
    [
        ("kafka_19862", "a partition of two members"),
        pytest.param("kafka_17306", "which is not there", marks=pytest.mark.deep),
    ],
)
def test_a_load_that_refuses_what_the_cleaner_has_left_is_found(bug: str, refused: str) -> None:
    assert draw_group(SEED).loads_slowly
    (first, *_) = ran_group(SEED, bug).failures
    assert "has no coordinator in leader epoch" in first
    assert first.endswith(refused)


@pytest.mark.deep
def test_all_is_read_that_the_cleaner_has_left() -> None:
    assert not ran_group(SEED).failures
