"""How fast the explorer is, and whether it agrees with TLC on the large sizes of the published KIP-320 model.

    python -m benchmarks.explorer [--quick]

Rates are per CPU second of this process, with WeakIsr and StrongIsr checked in every state. TLC's, for the same model
on a like machine, are 4,000 to 11,000 distinct states per CPU second. Exit status 1 if any number differs from TLC's.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence

from benchmarks.options import parser
from tidegauge.model_tests.spec.published.found_by_tlc import (
    LARGE_SPACES,
    ONE_EPOCH_CHANGE,
    SMALL_SPACES,
    TWO_EPOCH_CHANGES,
    Shortest,
    Space,
)
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.progress import Stop
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip320.variants import CountedAsByTlc

QUICK_DISTINCT = 200_000
"""With --quick, spaces of up to so many states."""


def title(variant: type[Kip320], size: tuple[int, int, int]) -> str:
    name = Kip320.__name__ if variant is CountedAsByTlc else variant.__name__
    return f"{name} {','.join(map(str, size))}"


def spaces(quick: bool) -> bool:
    """Explore whole spaces; one line each."""
    columns = f"{'distinct':>11}{'generated':>11}{'depth':>6}{'CPU s':>8}{'distinct/s':>12}{'generated/s':>13}"
    print(f"{'state space':34}{columns}  TLC")
    agrees = True
    for space in (*SMALL_SPACES, *LARGE_SPACES):
        if not quick or space.distinct <= QUICK_DISTINCT:
            agrees &= explore_space(space)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak memory {peak:,} MiB\n")
    return agrees


def explore_space(space: Space) -> bool:
    found = explore(space.machine(), stop=Stop.EACH, symmetry=space.symmetric, clock=time.process_time)
    generated = found.generated + found.levels[0]
    agrees = (found.distinct, found.depth) == (space.distinct, space.depth) and space.generated in (None, generated)
    seconds = found.seconds or 1e-9
    name = title(space.variant, space.size) + (" symmetric" if space.symmetric else "")
    counts = f"{found.distinct:>11,}{generated:>11,}{found.depth:>6}"
    rates = f"{seconds:>8.1f}{found.distinct / seconds:>12,.0f}{generated / seconds:>13,.0f}"
    print(f"{name:34}{counts}{rates}  {verdict(agrees)}", flush=True)
    return agrees


def counterexamples(quick: bool) -> bool:
    """The shortest counterexamples of every variant; one line each."""
    print(f"{'shortest counterexample, states':46}{'WeakIsr':>8}{'StrongIsr':>10}{'distinct':>11}{'CPU s':>8}  TLC")
    cases = ONE_EPOCH_CHANGE if quick else (*ONE_EPOCH_CHANGE, *TWO_EPOCH_CHANGES)
    agreed = [find_counterexamples(case) for case in cases]
    return all(agreed)


def find_counterexamples(case: Shortest) -> bool:
    found = explore(case.machine(), stop=Stop.EACH, clock=time.process_time)
    weak, strong = (found.violation(name) for name in ("WeakIsr", "StrongIsr"))
    lengths = (len(weak.trace) if weak else None, len(strong.trace) if strong else None)
    agrees = lengths == (case.weak_isr, case.strong_isr)
    shown = [str(length or "–") for length in lengths]
    numbers = f"{shown[0]:>8}{shown[1]:>10}{found.distinct:>11,}{found.seconds or 0:>8.1f}"
    print(f"{title(case.variant, case.size):46}{numbers}  {verdict(agrees)}", flush=True)
    return agrees


def verdict(agrees: bool) -> str:
    return "agrees" if agrees else "DIFFERS"


def main(words: Sequence[str] | None = None) -> int:
    less = f"only up to {QUICK_DISTINCT:,} states, one epoch change"
    quick = parser("explorer", __doc__, quick=less).parse_args(words).quick
    agreed = [spaces(quick), counterexamples(quick)]
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
