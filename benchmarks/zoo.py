"""How long each historical bug takes to find: by comparison of states, by invariant, and by exhaustive search.

    python -m benchmarks.zoo [--quick] [BUG ...]

* difference: random walks of about 100 actions until buggy cores differ from the correct specification; median over the
  seeds;
* invariant: the same with the bug on both sides, so that only an invariant can tell;
* explorer: states visited until the first violation in the smallest model that shows the bug, and the length of the
  shortest counterexample in states.

"> N" means that more than half of the seeds found nothing in N walks. Times are of this process's CPU. Exit status 1 if
a bug is found by nothing, or if the same walks find something without any bug.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from statistics import median_low

import attrs

from model_tests.bugs import BUGS, CoreBug
from model_tests.lockstep.cores import CORRECT, Roles
from model_tests.lockstep.walks import first_failure, walks
from spec.explorer import explore
from spec.replication import Replication

SEEDS = 20
QUICK_SEEDS = 3
LIMIT = 1_000
"""Walks after which a difference is given up."""
INVARIANT_LIMIT = 200
CLEAN_WALKS = 200
"""Walks a seed without any bug."""


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


def effort(machine: type[Replication], roles: Roles, seeds: int, limit: int) -> Effort:
    """How many walks each of the first `seeds` seeds takes to a failure."""
    started = time.process_time()
    counts = []
    for seed in range(seeds):
        found = first_failure(seed, limit, machine=machine, roles=roles)
        counts.append(limit + 1 if found is None else found.number + 1)
    return Effort(tuple(counts), limit, time.process_time() - started)


def measure(bug: CoreBug, seeds: int) -> bool:
    """One line of the table; False when nothing found the bug."""
    difference = effort(Replication, bug.roles, seeds, LIMIT)
    invariant = effort(bug.twin.buggy, bug.roles, seeds, INVARIANT_LIMIT)
    explored = explore(bug.twin.machine(), clock=time.process_time)
    by_explorer = f"{explored.distinct:>10,}{'–':>8}"
    if explored.violations:
        by_explorer = f"{explored.distinct:>10,}{len(explored.violations[0].trace):>8}"
    print(
        f"{bug.name:31}{difference!s:>12}{f'{difference.found}/{seeds}':>8}{difference.seconds / seeds:>8.2f}"
        f"{invariant!s:>12}{f'{invariant.found}/{seeds}':>8}{by_explorer}{explored.seconds or 0:>8.1f}",
        flush=True,
    )
    return bool(difference.found and explored.violations)


def is_clean(seeds: int) -> bool:
    """Whether walks without any bug find nothing; prints their rate."""
    started = time.process_time()
    steps, failures = 0, []
    for seed in range(seeds):
        for taken in walks(seed, CLEAN_WALKS, roles=CORRECT):
            steps += taken.steps
            if taken.failure is not None:
                failures.append(f"seed {seed}, walk {taken.number}: {taken.failure.words}")
    rate = steps / (time.process_time() - started)
    print(f"without any bug: {seeds * CLEAN_WALKS:,} walks, {steps:,} actions at {rate:,.0f} a CPU second; ", end="")
    print("nothing found" if not failures else "\n".join(["FOUND:", *failures]))
    return not failures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How long each historical bug takes to find.")
    parser.add_argument("bugs", metavar="BUG", nargs="*", help=f"of {', '.join(BUGS)}; all of them by default")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds in place of {SEEDS}")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.bugs if name not in BUGS]
    if unknown:
        parser.error(f"no such bug: {', '.join(unknown)}; the zoo has {', '.join(BUGS)}")
    seeds = QUICK_SEEDS if options.quick else SEEDS
    print(f"{'':31}{'difference':>28}{'invariant':>20}{'explorer':>26}")
    search = f"{'walks':>12}{'seeds':>8}"
    print(f"{'bug':31}{search}{'CPU s':>8}{search}{'states':>10}{'length':>8}{'CPU s':>8}")
    found = [measure(BUGS[name], seeds) for name in options.bugs or BUGS]
    return 0 if is_clean(seeds) and all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
