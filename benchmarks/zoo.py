"""How long each historical bug takes to find: by comparison of states, by invariant, and by exhaustive search.

    python -m benchmarks.zoo [--quick] [--differences] [BUG ...]

* difference: random walks of about 100 actions until buggy cores differ from the correct specification; median over the
  seeds;
* invariant: the same with the bug on both sides, so that only an invariant can tell;
* explorer: states visited until the first violation in the smallest model that shows the bug, and the length of the
  shortest counterexample in states.

A bug that no core has is looked for in the specification alone: *invariant* are walks of its model there. All bugs take
hours, most of them for invariants that few walks violate: `--differences` leaves these out, and takes minutes.

"> N" means that more than half of the seeds found nothing in N walks. Times are of this process's CPU. Exit status 1 if
a bug is found by nothing, or if the same walks find something without any bug.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from statistics import median_low
from typing import Any, Final

import attrs

from benchmarks.options import parser
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.registry import HARNESS, Registration
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.simulation import Walk, walk
from tidegauge.spec.registry import REGISTRY

ZOO: Final[Mapping[str, tuple[Registration, CoreBug[Any]]]] = {
    bug.name: (registration, bug) for registration in HARNESS for bug in registration.bugs if bug.on_cores
}
"""The bugs of the cores, each with what the harness has for its machine."""
SPECIFIED: Final[Mapping[str, Bug[Any]]] = {name: bug for name, bug in REGISTRY.bugs.items() if name not in ZOO}
"""The bugs that are in no core."""
SEEDS = 20
QUICK_SEEDS = 3
LIMIT = 1_000
"""Walks after which a difference is given up."""
INVARIANT_LIMIT = 200
CLEAN_WALKS = 200
"""Walks a seed, of each machine whose bugs were looked for, without any bug."""


@attrs.frozen
class Effort:
    """Walks that each seed needed (one more than the limit when they were not enough), and the CPU time of them all."""

    walks: tuple[int, ...]
    limit: int
    seconds: float

    @property
    def found(self) -> int:
        return sum(count <= self.limit for count in self.walks)

    def __str__(self) -> str:
        middle = median_low(self.walks)
        return f"> {self.limit:,}" if middle > self.limit else f"{middle:,}"


FirstFailure = Callable[[int, int], Any]
"""(seed, limit) -> the first walk that fails, with its number; or None."""


def effort(first: FirstFailure, seeds: int, limit: int) -> Effort:
    """How many walks each of the first `seeds` seeds takes to a failure."""
    started = time.process_time()
    counts = []
    for seed in range(seeds):
        found = first(seed, limit)
        counts.append(limit + 1 if found is None else found.number + 1)
    return Effort(tuple(counts), limit, time.process_time() - started)


def measure(registration: Registration, bug: CoreBug[Any], seeds: int, *, invariants: bool) -> bool:
    """One line of the table; False when nothing found the bug.

    Walks have the bug in the cores alone, and then, for `invariants`, in the specification as well.
    """
    in_cores = partial(registration.first_failure, roles=bug.roles)
    difference = effort(in_cores, seeds, LIMIT)
    both = partial(in_cores, wrong=bug.twin.buggy)
    invariant = effort(both, seeds, INVARIANT_LIMIT) if invariants else None
    by_walks = f"{difference!s:>12}{f'{difference.found}/{seeds}':>8}{difference.seconds / seeds:>8.2f}"
    return bool(show(bug.twin, by_walks, invariant, seeds) and difference.found)


def measure_specified(bug: Bug[Any], seeds: int) -> bool:
    """One line of the table for a bug that is in no core; False when the explorer does not find it."""
    machine = bug.machine()

    def first(seed: int, limit: int) -> Walk[Any] | None:
        taken = (walk(machine, seed, number) for number in range(limit))
        return next((one for one in taken if one.violation is not None), None)

    invariant = effort(first, seeds, INVARIANT_LIMIT)
    return show(bug, f"{'–':>12}{'–':>8}{invariant.seconds / seeds:>8.2f}", invariant, seeds)


def show(bug: Bug[Any], by_walks: str, invariant: Effort | None, seeds: int) -> bool:
    """Explore, and print the line; False when the explorer finds nothing."""
    explored = explore(bug.machine(), clock=time.process_time)
    if not explored.violations:  # it breaks a goal
        explored = explore(bug.machine(), clock=time.process_time, converges=True)
    shown = [*(one.trace for one in explored.violations), *(one.stem for one in explored.lassos)]
    by_explorer = f"{explored.distinct:>10,}{len(shown[0]) if shown else '–':>8}"
    by_invariant = f"{'–':>12}{'–':>8}" if invariant is None else f"{invariant!s:>12}{f'{invariant.found}/{seeds}':>8}"
    print(f"{bug.name:31}{by_walks}{by_invariant}{by_explorer}{explored.seconds or 0:>8.1f}", flush=True)
    return bool(shown)


def is_clean(seeds: int, machines: Collection[str]) -> bool:
    """Whether walks of these machines without any bug find nothing; prints their rate."""
    if not machines:
        return True
    started = time.process_time()
    steps, failures = 0, []
    for seed in range(seeds):
        for machine in machines:
            for taken in HARNESS[machine].walks(seed, CLEAN_WALKS):
                steps += taken.steps
                if taken.failure is not None:
                    failures.append(f"seed {seed}, walk {taken.number} of {machine}: {taken.failure.words}")
    rate = steps / (time.process_time() - started)
    walks = len(machines) * seeds * CLEAN_WALKS
    print(f"without any bug: {walks:,} walks, {steps:,} actions at {rate:,.0f} a CPU second; ", end="")
    print("nothing found" if not failures else "\n".join(["FOUND:", *failures]))
    return not failures


def main(words: Sequence[str] | None = None) -> int:
    known = parser("zoo", __doc__, quick=f"{QUICK_SEEDS} seeds in place of {SEEDS}")
    names = (*ZOO, *SPECIFIED)
    known.add_argument("bugs", metavar="BUG", nargs="*", help=f"of {', '.join(names)}; all of them by default")
    known.add_argument("--differences", action="store_true", help="no walks until an invariant is violated")
    options = known.parse_args(words)
    unknown = [name for name in options.bugs if name not in names]
    if unknown:
        known.error(f"no such bug: {', '.join(unknown)}; the zoo has {', '.join(names)}")
    seeds = QUICK_SEEDS if options.quick else SEEDS
    print(f"{'':31}{'difference':>28}{'invariant':>20}{'explorer':>26}")
    search = f"{'walks':>12}{'seeds':>8}"
    print(f"{'bug':31}{search}{'CPU s':>8}{search}{'states':>10}{'length':>8}{'CPU s':>8}")
    chosen, invariants = options.bugs or names, not options.differences
    found = [
        measure(*ZOO[name], seeds, invariants=invariants) if name in ZOO else measure_specified(SPECIFIED[name], seeds)
        for name in chosen
    ]
    driven = dict.fromkeys(ZOO[name][0].machine for name in chosen if name in ZOO)
    return 0 if is_clean(seeds, driven) and all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
