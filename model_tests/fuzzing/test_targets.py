"""Damaged input of every kind is refused in the way that is documented, in every target."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.model_tests.fuzzing.mutation import damaged
from tidegauge.model_tests.fuzzing.targets import TARGETS

EXAMPLES = {"frame": 600, "connection": 100, "records": 400, "segment": 100, "subscription": 200, "internal": 600}
FINDINGS = Path(__file__).parent / "findings"


@cache
def seeds_of(name: str) -> list[bytes]:
    return list(TARGETS[name].seeds())


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_taken(name: str) -> None:
    for seed in seeds_of(name):
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_seeds_are_taken_or_refused(name: str) -> None:
    rng = random.Random(f"damage/{name}")
    for _ in range(EXAMPLES[name]):
        TARGETS[name].run(damaged(rng.choice(seeds_of(name)), rng))


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_taken_or_refused(name: str) -> None:
    @settings(max_examples=50 if name in ("connection", "segment") else 200)
    @given(st.binary(max_size=300))
    def run(data: bytes) -> None:
        TARGETS[name].run(data)

    run()


@pytest.mark.deep
@pytest.mark.parametrize("name", TARGETS)
def test_many_more_damaged_seeds_are_taken_or_refused(name: str) -> None:
    rng = random.Random(f"deep damage/{name}")
    for _ in range(100 * EXAMPLES[name]):
        TARGETS[name].run(damaged(rng.choice(seeds_of(name)), rng))


@pytest.mark.parametrize("finding", sorted(FINDINGS.iterdir()), ids=lambda path: path.stem)
def test_what_was_found_once_is_taken_or_refused(finding: Path) -> None:
    TARGETS[finding.stem.partition("-")[0]].run(finding.read_bytes())
