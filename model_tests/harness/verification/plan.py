"""How much of each part a verification does: everything that a run depends on, so that it can be had again."""

from __future__ import annotations

import attrs

from spec.bugs import BUGS
from spec.models import MODELS
from spec.models import QUICK as QUICK_MODELS

BUG = "kafka_1211"
"""Switched on unless another is named: it shows at every level, in what clients see as well."""


@attrs.frozen
class Plan:
    """The amounts, and the seed that all random parts begin from."""

    seed: int
    quick: bool
    models: tuple[str, ...]
    walks: int
    """Random walks of cores beside the specification."""
    examples: int
    """Hypothesis examples of a trio cluster beside the specification."""
    seeds: int
    """Simulated clusters under faults."""
    bug: str
    workers: int = 2


def plan(*, seed: int = 1, quick: bool = False, bug: str = BUG, seeds: int | None = None) -> Plan:
    """The full plan fits in 3 minutes on 2 cores, the quick one in 30 s. Raises ValueError for an unknown bug."""
    if bug not in BUGS:
        raise ValueError(f"there is no bug {bug!r}: choose one of {', '.join(BUGS)}")
    if quick:
        return Plan(seed, True, QUICK_MODELS, walks=100, examples=20, seeds=seeds or 24, bug=bug)
    return Plan(seed, False, tuple(MODELS), walks=2000, examples=400, seeds=seeds or 300, bug=bug)
