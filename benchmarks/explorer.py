"""How fast the explorer is by both engines, and whether it agrees with TLC on the large sizes of the published KIP-320.

    python -m benchmarks.explorer [--quick] [--workers N]
    python -m benchmarks.explorer --all [MODEL ...]

Rates are per CPU second of this process, with WeakIsr and StrongIsr checked in every state. TLC's, for the same model
on a like machine, are 4,000 to 11,000 distinct states per CPU second. The last table has our own models: how much
faster the fast engine is than the plain one in the same run, how often it asks the machine, which share of its look-ups
are hits (no run of the machine follows), and the bytes that it keeps of a state. Then a space with limits of memory, in
files beyond them: by how much the peak of a process's memory is above that of a small space, and the rate as a part of
that without a limit. Then searches by one process and by N workers (2): seconds of each, and the CPU seconds of all
processes together as a multiple of one's: what workers cost, however loaded the machine is; and what idle cores would
take, by the CPU seconds of the searching process and of the longest worker in each turn. At last models by the fast
engine, alone and with N threads: the CPU seconds of all, of the search's own thread, and what that and the longest
thread of each phase take, which is what idle cores would take. With --all there is one table instead, of every model,
or of those named: the goals of convergence are checked as well, and it is counted how many are how much faster. Exit
status 1 if any number differs from TLC's, or between the engines.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from benchmarks.beside.phases import Phases
from benchmarks.beside.turns import Turns
from benchmarks.options import parser
from tidegauge.model_tests.harness.storage.folder import passing
from tidegauge.model_tests.spec.published.found_by_tlc import (
    LARGE_SPACES,
    ONE_EPOCH_CHANGE,
    SMALL_SPACES,
    TWO_EPOCH_CHANGES,
    Shortest,
    Space,
)
from tidegauge.spec.kernel.each import parts_of
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.fast.programs import asking
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.progress import Limits, Stop
from tidegauge.spec.kernel.walking import random_of_walk
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip320.variants import CountedAsByTlc
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.registry import REGISTRY

QUICK_DISTINCT = 200_000
"""With --quick, spaces of up to so many states."""


def title(variant: type[Kip320], size: tuple[int, int, int]) -> str:
    name = Kip320.__name__ if variant is CountedAsByTlc else variant.__name__
    return f"{name} {','.join(map(str, size))}"


def spaces(quick: bool) -> bool:
    """Explore whole spaces; one line each."""
    columns = f"{'distinct':>11}{'generated':>11}{'depth':>6}{'CPU s':>8}{'distinct/s':>12}{'generated/s':>13}"
    print(f"{'state space':34}{'engine':7}{columns}  TLC")
    agrees = True
    for space in (*SMALL_SPACES, *LARGE_SPACES):
        if not quick or space.distinct <= QUICK_DISTINCT:
            for engine in Engine:
                agrees &= explore_space(space, engine)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak memory {peak:,} MiB\n")
    return agrees


def explore_space(space: Space, engine: Engine) -> bool:
    found = explore(space.machine(), stop=Stop.EACH, symmetry=space.symmetric, clock=time.process_time, engine=engine)
    generated = found.generated + found.levels[0]
    agrees = (found.distinct, found.depth) == (space.distinct, space.depth) and space.generated in (None, generated)
    seconds = found.seconds or 1e-9
    name = title(space.variant, space.size) + (" symmetric" if space.symmetric else "")
    counts = f"{found.distinct:>11,}{generated:>11,}{found.depth:>6}"
    rates = f"{seconds:>8.1f}{found.distinct / seconds:>12,.0f}{generated / seconds:>13,.0f}"
    print(f"{name:34}{engine.value:7}{counts}{rates}  {verdict(agrees)}", flush=True)
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


MODELS = (
    "elections",
    "network",
    "shrink",
    "reassignment",
    "idempotence-two-producers",
    "transactions-coordinator",
    "groups-leaving",
    "consumers-leaving",
    "recovery",
)
"""One of each kind, by name; those that declare a symmetry are explored with it as well."""

MOST_STATES = 60_000
QUICK_STATES = 15_000


ALL_STATES = 20_000

COLUMNS = (
    f"{'states':>10}{'plain CPU s':>13}{'fast CPU s':>12}{'ratio':>7}{'asked a state':>15}{'hits %':>9}{'a CPU s':>10}"
    f"{'bytes a state':>15}"
)

WALKS, WALK_LENGTH = 20, 40
"""Random walks in whose states it is counted how many programs are looked up."""


def engines(quick: bool) -> bool:
    """Explore models by both engines; one line each."""
    print(f"\n{'model':34}{COLUMNS}")
    agreed = []
    limits = Limits(states=QUICK_STATES if quick else MOST_STATES)
    for name in (name for name in MODELS if name in REGISTRY.names):
        for symmetry in (False, True) if REGISTRY.machine(name).interchangeable > 1 else (False,):
            agreed.append(compared(name, limits=limits, symmetry=symmetry)[0])
    return all(agreed)


def all_engines(names: Sequence[str]) -> bool:
    """Explore all models by both engines; one line each, and how many are faster by which."""
    print(f"\n{'model':34}{COLUMNS}")
    found = [compared(name, limits=Limits(states=ALL_STATES), converges=True, stop=Stop.EACH) for name in names]
    ratios = sorted(ratio for _, ratio in found)
    for least in (20, 5, 1, 0):
        print(f"{sum(ratio >= least for ratio in ratios):>5} of {len(ratios)} models at least {least} times as fast")
    print(f"load {os.getloadavg()[0]:.1f}")
    return all(agrees for agrees, _ in found)


def compared(name: str, *, symmetry: bool = False, **how: Any) -> tuple[bool, float]:
    """Explore a model by both engines and print what they took: whether they agree, and the ratio of CPU seconds."""
    machine = REGISTRY.machine(name)
    plain, fast = (
        explore(machine, engine=engine, symmetry=symmetry, clock=time.process_time, **how) for engine in Engine
    )
    slow, quick = plain.seconds or 1e-9, fast.seconds or 1e-9
    asked, kept = (fast.asked or 0) / fast.distinct, (fast.bytes or 0) / fast.distinct
    times = f"{slow:>13.2f}{quick:>12.2f}{slow / quick:>7.1f}"
    shown = name + " symmetric" * symmetry
    hits = 100 * (1 - asked / looked_up(machine))
    rates = f"{asked:>15.2f}{hits:>9.1f}{fast.distinct / quick:>10,.0f}"
    print(f"{shown:34}{plain.distinct:>10,}{times}{rates}{kept:>15.0f}", flush=True)
    agrees = (plain.levels, plain.coverage, plain.orbits) == (fast.levels, fast.coverage, fast.orbits)
    return agrees, slow / quick


def looked_up(machine: Machine[Any]) -> float:
    """How many programs the fast engine looks up in a state, in the mean of some random walks: rules that say what is
    worth asking, the actions that they name, and invariants. A look-up that needs no run is a hit."""
    ask = asking(machine)
    bases = ask.bases if ask is not None else (machine.successors,)
    states = actions = 0
    for number in range(WALKS):
        rng, reached = random_of_walk(0, number), [*machine.initial()][:1]
        for _ in range(WALK_LENGTH):
            if not reached:
                break
            state = rng.choice(reached)
            states += 1
            actions += sum(len([*base(state)]) for base in bases)
            reached = [after for _, after in machine.successors(state)]
    judges = sum(len(parts_of(holds)) for holds in machine.invariants.values())
    return len(bases) + judges + actions / states


LIMITS_MIB = (None, 64, 16, 4)


def limits_of_memory(quick: bool) -> bool:
    """Explore one space with less and less memory; one line each, from a process of its own."""
    space = LARGE_SPACES[0] if quick else max(LARGE_SPACES, key=lambda each: each.distinct)
    print(f"\n{title(space.variant, space.size):34}{'limit MiB':>10}{'peak MiB':>10}{'bytes a state':>15}", end="")
    print(f"{'CPU s':>8}{'distinct/s':>12}{'of unlimited':>14}")
    agrees, unlimited = True, 0.0
    for limit in LIMITS_MIB:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            distinct, seconds, peak = process.submit(limited, space, limit).result()
        rate = distinct / seconds
        unlimited = unlimited or rate
        agrees &= distinct == space.distinct
        numbers = f"{limit or '–':>10}{peak / 2**20:>10.1f}{peak / distinct:>15.0f}{seconds:>8.1f}{rate:>12,.0f}"
        print(f"{'':34}{numbers}{rate / unlimited:>14.2f}", flush=True)
    return agrees


def limited(space: Space, limit_mib: int | None) -> tuple[int, float, int]:
    """Distinct states, CPU seconds, and by how many bytes the peak of memory is above that of a small space."""
    explore(Kip320(max_leader_epoch=0), engine=Engine.FAST, stop=Stop.EACH)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    how: dict[str, Any] = {"stop": Stop.EACH, "symmetry": space.symmetric, "clock": time.process_time}
    if limit_mib is None:
        found = explore(space.machine(), engine=Engine.FAST, **how)
    else:
        with passing(limit_mib << 20) as storage:
            found = explore(space.machine(), storage=storage, **how)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return found.distinct, found.seconds or 1e-9, peak << 10


SHARED: tuple[tuple[str, Machine[Any], Limits], ...] = (
    ("network", REGISTRY.machine("network"), Limits()),
    ("idempotence-two-producers", REGISTRY.machine("idempotence-two-producers"), Limits()),
    ("groups-three", REGISTRY.machine("groups-three"), Limits()),
    ("recovery, four appends, a limit", Recovery(max_appends=4), Limits(states=100_000)),
    ("recovery, four appends, two damages", Recovery(max_appends=4, max_damages=2), Limits(states=300_000)),
    ("transactions-coordinator", REGISTRY.machine("transactions-coordinator"), Limits()),
    ("recovery", REGISTRY.machine("recovery"), Limits()),
)
"""Searches by workers. A limit ends one early in a level that leads to eight times as many states as there were."""


def workers(quick: bool, count: int) -> bool:
    """Explore models by one process and by workers; one line each.

    What idle cores would take is the CPU time of the searching process and of the longest worker in each turn.
    """
    columns = (
        f"{'states':>10}{'s':>8}{f'{count} workers':>12}{'speed-up':>10}{'CPU s':>8}{'of workers':>12}{'ratio':>7}"
        f"{'on idle cores':>15}{'speed-up':>10}"
    )
    print(f"\n{'search, plain engine':36}{columns}  load")
    agrees = True
    for name, machine, limits in SHARED[-2:] if quick else SHARED:
        one, seconds, cpu, _ = timed(machine, limits, 1)
        shared, seconds_shared, cpu_shared, idle = timed(machine, limits, count)
        agrees &= one == shared
        walls = f"{seconds:>8.1f}{seconds_shared:>12.1f}{seconds / seconds_shared:>10.2f}"
        cpus = f"{cpu:>8.1f}{cpu_shared:>12.1f}{cpu_shared / cpu:>7.2f}{idle:>15.2f}{cpu / idle:>10.2f}"
        print(f"{name:36}{one.distinct:>10,}{walls}{cpus}  {os.getloadavg()[0]:.1f}", flush=True)
    return agrees


THREADS = ("elections", "shrink", "idempotence-leader-change")
"""Models that threads explore for the fast engine, beside the published one."""


def threads(quick: bool, count: int) -> bool:
    """Explore models by the fast engine, alone and with threads; one line each.

    What idle cores would take is the CPU time of the search's own thread and of the longest one in each phase.
    """
    columns = f"{'states':>10}{'CPU s':>8}{f'{count} threads':>12}{'own':>8}{'on idle cores':>15}{'speed-up':>10}"
    print(f"\n{'model, fast engine':34}{columns}  load")
    agrees = True
    large = LARGE_SPACES[0] if quick else max(LARGE_SPACES, key=lambda each: each.distinct)
    models = [(name, REGISTRY.machine(name), True) for name in (THREADS[1:] if quick else THREADS)]
    for name, machine, converges in (*models, (title(large.variant, large.size), large.machine(), False)):
        one, cpu, *_ = spent(machine, converges, 1)
        shared, cpu_shared, own, idle = spent(machine, converges, count)
        agrees &= one == shared
        cpus = f"{cpu:>8.2f}{cpu_shared:>12.2f}{own:>8.2f}{idle:>15.2f}{cpu / idle:>10.2f}"
        print(f"{name:34}{one.distinct:>10,}{cpus}  {os.getloadavg()[0]:.1f}", flush=True)
    return agrees


def spent(machine: Machine[Any], converges: bool, count: int) -> tuple[Exploration[Any], float, float, float]:
    """An exploration with so many threads; the CPU seconds of all, of its own thread, and of it with each phase's
    longest."""
    phases, cpu, own = Phases(), time.process_time(), time.thread_time()
    with phases.measured():
        found = explore(machine, stop=Stop.EACH, converges=converges, engine=Engine.FAST, workers=count)
    cpu, own = time.process_time() - cpu, time.thread_time() - own
    return found, cpu, own, own - phases.meanwhile_s + phases.longest_s


def timed(machine: Machine[Any], limits: Limits, count: int) -> tuple[Exploration[Any], float, float, float]:
    """An exploration by so many workers, its seconds, the CPU seconds of all its processes, and of it with each turn's
    longest worker."""
    turns, began, cpu, own = Turns(), time.monotonic(), cpu_of_all(), time.process_time()
    engine = Engine.PLAIN if count == 1 else None
    with turns.measured():
        found = explore(machine, limits=limits, stop=Stop.EACH, converges=True, engine=engine, workers=count)
    own = time.process_time() - own
    return found, time.monotonic() - began, cpu_of_all() - cpu, own + turns.longest_s


def cpu_of_all() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def verdict(agrees: bool) -> str:
    return "agrees" if agrees else "DIFFERS"


def main(words: Sequence[str] | None = None) -> int:
    less = f"only up to {QUICK_DISTINCT:,} states, one epoch change"
    asked = parser("explorer", __doc__, quick=less)
    asked.add_argument("--workers", type=int, default=2, help="processes and threads of the last two tables")
    asked.add_argument("--all", nargs="*", metavar="MODEL", help="only the engines, on every model or on these")
    given = asked.parse_args(words)
    quick = given.quick
    print(f"load {os.getloadavg()[0]:.1f}; the fast engine's code is compiled before it is timed")
    explore(Kip320(max_leader_epoch=0), engine=Engine.FAST)
    explore(REGISTRY.machine("network"), engine=Engine.FAST, converges=True, workers=2)
    if given.all is not None:
        return 0 if all_engines(given.all or REGISTRY.names) else 1
    agreed = [
        spaces(quick),
        counterexamples(quick),
        engines(quick),
        limits_of_memory(quick),
        workers(quick, given.workers),
        threads(quick, given.workers),
    ]
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
