"""Runs of groups that tests of several files look at, each made once in a process."""

from __future__ import annotations

from functools import cache

from tidegauge.model_tests.harness.simulation.group_campaign import SimulatedGroup, simulate_group
from tidegauge.model_tests.harness.simulation.group_options import draw_group


@cache
def run_of(seed: int) -> SimulatedGroup:
    """The run of a seed as campaigns draw it."""
    return simulate_group(draw_group(seed))
