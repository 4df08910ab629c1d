"""Short lives of logs lead where they ever led: what each step changes, what is false, and what may happen to files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.observed import checksum, lives
from tidegauge.model_tests.spec.walked import NAMES

LED: Final[Mapping[str, str]] = {
    "recovery": "810216fb",
    "recovery of logs of all kinds": "7109c6ed",
}


@pytest.mark.parametrize("name", LED)
def test_short_lives_of_logs_lead_where_they_ever_led(name: str) -> None:
    assert LED[name] == checksum(lives(name)), "if a rule of recovery is meant to have changed, this is the checksum"


def test_other_machines_have_no_logs_that_live() -> None:
    assert {name for name in NAMES if next(lives(name), None) is not None} == set(LED)
