"""Simulated clusters of three with one disk that damages logs: nothing acknowledged is lost, and every trace is one."""

from __future__ import annotations

from collections import Counter

import pytest

from tidegauge.linearizability.check import check
from tidegauge.model_tests.harness.simulation.options import Fault, Options
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate

FAULTS = {Fault.DAMAGE: 3, Fault.PAUSE: 1, Fault.ISOLATE: 1, Fault.EXPIRY: 1, Fault.PREFERRED: 1}


def run(seed: int) -> Simulated:
    return simulate(
        Options(
            seed=seed,
            retention_bytes=None if seed % 2 else 100_000,  # with it segments are short
            flush_interval_ms=200,
            faults=FAULTS,
            fault_interval=0.5,
            duration=4.0,
        )
    )


def hold(seed: int) -> Counter[str]:
    """Check one run; returns the actions that its traces were taken for."""
    simulated = run(seed)
    assert simulated.holds, simulated.failures
    assert check(simulated.operations).valid
    assert simulated.declared_lost == 0
    return sum((validated.actions for validated in simulated.validated), Counter())


def test_one_damaged_disk_of_three_costs_no_acknowledged_record() -> None:
    seen = hold(1) + hold(2)
    assert seen["DamageLog"] and seen["RepairLog"] and seen["EndLost"], seen  # noqa: PT018


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3, 150))
def test_one_damaged_disk_of_three_costs_no_acknowledged_record_with_any_seed(seed: int) -> None:
    hold(seed)
