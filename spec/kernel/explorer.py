"""The explorer: every reachable state of a machine, level by level.

Breadth first, so that the first trace to a violation is a shortest one. Two engines find the same states in the same
order, and tell the same of them: the plain one (`spec.kernel.plain`) runs the machine in each of them; the fast one
(`spec.kernel.fast`) runs it once for each combination of what it reads, and looks up the rest.

Nothing here knows a protocol, a clock or a file: limits on time need a clock from the caller, progress goes to a
callback, and traces are values.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TypeVar

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.plain import PlainSearch
from tidegauge.spec.kernel.progress import MOST_WORKERS, UNLIMITED, Clock, Cut, Limits, OnProgress, Progress, Stop
from tidegauge.spec.kernel.storage import Storage
from tidegauge.spec.kernel.symmetry import AsymmetryError, Orbits
from tidegauge.spec.kernel.walking import random_of_walk

__all__ = [
    "AsymmetryError",
    "Clock",
    "Cut",
    "Engine",
    "Exploration",
    "Limits",
    "OnProgress",
    "Progress",
    "Stop",
    "check_symmetry",
    "explore",
]

S = TypeVar("S")


def explore(
    machine: Machine[S],
    *,
    limits: Limits = UNLIMITED,
    stop: Stop = Stop.FIRST,
    symmetry: bool = False,
    converges: bool = False,
    clock: Clock | None = None,
    progress: OnProgress | None = None,
    engine: Engine | None = None,
    workers: int = 1,
    storage: Storage | None = None,
    trial: int | None = None,
) -> Exploration[S]:
    """Visit the reachable states of `machine`, breadth first, checking every invariant in every one of them.

    `symmetry` keeps one state per orbit (see spec.kernel.symmetry). With `converges` the machine's goals are checked in
    all bottom components (see spec.kernel.convergence); a search that was cut checks those that it has seen whole.
    `progress` is called every few thousand states. Without an `engine` the fast one is taken for what has more than
    `trial` states (TRIAL), where numba is installed and the machine can be followed; where it asks the machine so
    often that the plain one is faster, that takes over. More than one of `workers` are so
    many processes, forked from this one, over which the states are spread (see spec.kernel.shared); they run the plain
    engine. With the fast one, which has to be named then, workers are threads of this process (see
    spec.kernel.fast.phases). A clock is read in this process: one of CPU time sees nothing of other processes.
    `storage` keeps the states of the fast engine, beyond a limit of memory and beyond the end of the process (see
    spec.kernel.storage).
    Raises ValueError for a limit on seconds without a clock, for symmetry that the machine does not declare, or for
    the fast engine, workers or a storage where they cannot be; DiedError for a worker that is gone; StorageError for
    states that cannot be kept, CheckpointError for a checkpoint of something else.
    """
    if not isinstance(machine, Machine):
        raise TypeError(f"explore takes a machine, not {machine!r}: for example tidegauge.Replication(brokers=3)")
    if limits.seconds is not None and clock is None:
        raise ValueError(f"a limit of {limits.seconds} seconds needs a clock: pass clock=time.process_time")
    if not 1 <= workers <= MOST_WORKERS:
        raise ValueError(f"workers={workers}: a search takes at least one, and at most {MOST_WORKERS}")
    trial = TRIAL if trial is None else trial
    if storage is not None:
        if engine is Engine.PLAIN:
            raise ValueError("limits of memory and checkpoints are the fast engine's: leave out the engine")
        engine = Engine.FAST
    if engine is Engine.FAST and not _fast_is_there():
        raise ValueError("the fast engine needs numba: pip install '.[fast]' in a clone, or take the plain engine")
    with _collector_paused():
        if workers > 1 and engine is not Engine.FAST:
            return _by_workers(machine, workers, limits, stop, clock, progress, symmetry, converges)
        if engine is Engine.FAST:
            samples = _samples(machine, limits, symmetry)
            found = _fast(
                machine, samples, limits, stop, clock, progress, symmetry, converges, storage=storage, workers=workers
            )
            if isinstance(found, Exploration):
                return found
            raise ValueError(f"the fast engine cannot follow {machine.name}, take the plain one: {found}") from found
        may_be_fast = engine is None and _fast_is_there()
        is_trial = may_be_fast and (limits.states is None or limits.states > trial)
        bounds = evolve(limits, states=trial) if is_trial else limits
        plain = PlainSearch(machine, bounds, stop, clock, progress, symmetry=symmetry, converges=converges)
        tried = plain.run()
        if not is_trial or tried.cut is not Cut.STATES:
            return tried
        samples = plain.states[:SAMPLES]
        how = machine, samples, limits, stop, clock, progress, symmetry, converges, plain.started
        found = _fast(*how, is_patient=False)
        if isinstance(found, Exploration):
            return found
        return PlainSearch(machine, limits, stop, clock, progress, symmetry=symmetry, converges=converges).run()


TRIAL = 10_000
"""States that the plain engine visits first: what has no more is found before the compiled code is loaded."""

SAMPLES = 250
"""States by which the fast engine sees the shape of all. Where it meets another shape it begins again: more samples
would be visited more slowly than the same states are by it."""

WALKS, WALK_LENGTH = 8, 40
"""Walks by which the fast engine sees more shapes, where states have fields that are taken apart by their marks."""


def _fast_is_there() -> bool:
    try:
        from tidegauge.spec.kernel.fast import search
    except ImportError:
        return False
    return bool(search)


def _by_workers(
    machine: Machine[S],
    workers: int,
    limits: Limits,
    stop: Stop,
    clock: Clock | None,
    progress: OnProgress | None,
    symmetry: bool,
    converges: bool,
) -> Exploration[S]:
    from tidegauge.spec.kernel.shared.processes import Processes
    from tidegauge.spec.kernel.shared.search import SharedSearch
    from tidegauge.spec.kernel.shared.share import Share, kept_steps

    if symmetry:
        Orbits(machine)  # refuses a machine that declares none
    keeps = kept_steps(machine, converges=converges, symmetry=symmetry)

    def make(index: int, at: MutableSequence[int]) -> Share[S]:
        return Share(machine, index, workers, symmetry=symmetry, keeps=keeps, at=at)

    with Processes(workers, make) as crew:
        search = SharedSearch(machine, limits, stop, clock, progress, crew, symmetry=symmetry, converges=converges)
        return search.run()


def _samples(machine: Machine[S], limits: Limits, symmetry: bool) -> Sequence[S]:
    """Some states of the machine, up to where it makes a mistake."""
    most = min(limits.states or SAMPLES, SAMPLES)
    search = PlainSearch(machine, Limits(states=most), Stop.NEVER, None, None, symmetry=symmetry)
    with suppress(Exception):
        search.run()
    return search.states


def _walked(machine: Machine[S]) -> list[S]:
    """States of a few walks, which see longer tuples and more classes than the first states have; up to a mistake."""
    states: list[S] = []
    with suppress(Exception):
        for number in range(WALKS):
            rng = random_of_walk(0, number)
            state = next(iter(machine.initial()))
            for _ in range(WALK_LENGTH):
                reached = [after for _, after in machine.successors(state)]
                if not reached:
                    break
                state = rng.choice(reached)
                states.append(state)
    return states


def _fast(
    machine: Machine[S],
    samples: Sequence[S],
    limits: Limits,
    stop: Stop,
    clock: Clock | None,
    progress: OnProgress | None,
    symmetry: bool,
    converges: bool,
    started: float | None = None,
    storage: Storage | None = None,
    workers: int = 1,
    is_patient: bool = True,
) -> Exploration[S] | Exception:
    """What the fast engine finds, or why it cannot follow the machine; or that it asks it too often to be faster.

    The clock stands still while the engine is compiled.
    """
    from tidegauge.compilation.compiling import Compiling
    from tidegauge.spec.kernel.fast.layout import Layout, ShapeError
    from tidegauge.spec.kernel.fast.programs import FollowError
    from tidegauge.spec.kernel.fast.search import FastSearch
    from tidegauge.spec.kernel.fast.tries import UnsteadyError

    if not samples:
        return FollowError("it has no initial state")
    saved = None if storage is None else storage.saved()
    layout = Layout(samples, in_parts=not symmetry)
    if layout.has_parts:
        layout = Layout([*samples, *_walked(machine)])
    if saved is not None:
        layout = layout.resumed(saved["layout"])
    compiling = None if clock is None else Compiling(clock)
    while True:
        try:
            with nullcontext() if compiling is None else compiling.noticed():
                search = FastSearch(
                    machine, limits, stop, compiling.clock if compiling else None, progress,
                    layout=layout, samples=samples, symmetry=symmetry, converges=converges, started=started,
                    storage=storage, workers=workers, is_patient=is_patient,
                )  # fmt: skip
                return evolve(search.run(), compiling=compiling.seconds if compiling else None)
        except ShapeError as error:
            layout = layout.reshaped(error)
            if storage is not None:
                storage.begin()
        except (FollowError, UnsteadyError) as error:
            return error


def check_symmetry(machine: Machine[S], *, limits: Limits = UNLIMITED) -> int:
    """Search with and without symmetry, and hold the orbits' sizes against the number of states, which is returned.

    A limit on depth keeps the comparison exact; any other raises ValueError. Raises AsymmetryError when they differ.
    """
    if evolve(limits, depth=None) != UNLIMITED:
        raise ValueError(f"{limits} may cut the two searches at different places: only a limit on depth compares")
    whole = explore(machine, limits=limits, stop=Stop.NEVER)
    reduced = explore(machine, limits=limits, stop=Stop.NEVER, symmetry=True)
    if reduced.orbits != whole.distinct:
        raise AsymmetryError(
            f"{machine.name} has {whole.distinct} states, but its {reduced.distinct} orbits hold {reduced.orbits}: "
            "it treats processes unlike, so explore it without symmetry"
        )
    return whole.distinct


@contextmanager
def _collector_paused() -> Iterator[None]:
    """States hold no cycles, so looking for cycles among millions of them is time lost."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
