"""Short lives of a log (`drawn_lives`) beside the log of the implementation."""

from __future__ import annotations

from random import Random

from tidegauge.model_tests.harness.cores.recovery_windows import recovery_cores
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, Outcome, failure_of
from tidegauge.model_tests.harness.lockstep.drawn_lives import drawn
from tidegauge.spec.recovery.machine import of_all_kinds


def live(seed: int, number: int) -> Outcome | None:
    """The failure of a life, if it has one; two in three are seen through small windows."""
    rng = Random(f"life of a log/{seed}/{number}")
    machine = of_all_kinds(max_appends=rng.choice((6, 24, 48)), max_crashes=9, max_damages=60)
    pair = CheckedLockstep(machine, recovery_cores(machine))
    return failure_of(pair, drawn(pair, rng))
