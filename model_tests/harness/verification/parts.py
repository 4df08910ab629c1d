"""The parts that run in worker processes: each a function of plain values, returning plain values."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from tidegauge.model_tests.harness.counterexamples.explored import counterexample_in
from tidegauge.model_tests.harness.counterexamples.files import Counterexample, save
from tidegauge.model_tests.harness.counterexamples.replay import Level, replay
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.model_tests.harness.report.model import Catch, Coverage, Explored, Verdict
from tidegauge.model_tests.harness.report.model import Counterexample as Figure
from tidegauge.model_tests.harness.report.replayed import figure_of
from tidegauge.model_tests.harness.verification.campaigning import caught_by_simulation
from tidegauge.model_tests.harness.verification.plan import MACHINE
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.registry import REGISTRY

if TYPE_CHECKING:
    from tidegauge.model_tests.harness.lockstep.hypothesis_machine import LockstepRun

WALKS_TO_FIND = 400
"""Walks after which a bug counts as missed."""
EXAMPLES_TO_FIND = 60


@attrs.frozen
class ModelExplored:
    """One model: what was seen in it, and the violation, or the goal that is never reached, in words."""

    explored: Explored
    violation: str | None
    seconds: float
    """CPU seconds, as all times of this module."""


@attrs.frozen
class Driven:
    """A lockstep: how many examples, how many steps in them, and the difference, if there was one."""

    examples: int
    actions: Counter[str]
    difference: str | None
    seconds: float
    replay: str | None = None

    @property
    def steps(self) -> int:
        return self.actions.total()


@attrs.frozen
class Demonstrated:
    """A bug, switched on: how each level caught it, its minimised counterexample, and the line that replays it."""

    bug: str
    catches: tuple[Catch, ...]
    figure: Figure
    replay: str
    actions: int


FEW: Final = 80
"""States that the plain engine visits of a model first: of so many models only one waits for compiled code."""


def explored(name: str) -> ModelExplored:
    """Explore a model of `spec.registry` to its end, and check its goals in every bottom component."""
    model = REGISTRY.model(name)
    machine: Machine[Any] = model.machine
    found = explore(machine, converges=True, clock=time.process_time, trial=FEW)
    converged = found.convergence
    fails = {lasso.goal: f"not after {len(lasso.stem.steps)} actions" for lasso in found.lassos}
    responded = found.responses.names if found.responses else ()
    seconds = found.seconds or 0.0
    coverage = tuple(Coverage(c.action, c.enabled, c.taken, c.found) for c in found.coverage if c.taken)
    shown = Explored(
        machine=name,
        constants={"shows": model.shows, **constants_of(model.machine)},
        distinct=found.distinct,
        generated=found.generated,
        depth=found.depth,
        complete=found.complete,
        rate=found.rate,
        invariants=(*machine.invariants, *machine.step_invariants),
        coverage=coverage,
        reached={goal: len(trace) for goal, trace in found.reached.items()},
        unreached=found.unreached,
        components=converged.components if converged else None,
        for_good={goal: fails.get(goal, "") for goal in converged.goals} if converged else {},
        owed={name: fails.get(name, "") for name in responded},
    )
    violation = f"{found.violations[0].invariant} is violated" if found.violations else None
    violation = violation or next((f"not reached for good: {goal}" for goal in fails), None)
    return ModelExplored(shown, violation, seconds)


def constants_of(machine: Machine[Any]) -> dict[str, str]:
    """The constants that matter, as text: of the bounds those that let something happen."""
    fields = attrs.asdict(machine, recurse=False)  # type: ignore[arg-type]
    bounds = fields.pop("bounds", {})
    shown = {name: plain(value) for name, value in fields.items() if value not in (False, ())}
    return shown | {name: str(most) for name, most in bounds.items()}


def walked(seed: int, count: int) -> Driven:
    """Random walks of the cores beside the specification."""
    began = time.process_time()
    actions: Counter[str] = Counter()
    difference = None
    for walk in HARNESS[MACHINE].walks(seed, count):
        actions["steps"] += walk.steps
        if walk.failure is not None and difference is None:
            difference = f"walk {walk.number} of seed {seed}: {walk.failure.words}"
    return Driven(count, actions, difference, time.process_time() - began)


def driven(seed: int, examples: int, folder: Path) -> Driven:
    """Hypothesis drives a trio cluster beside the specification; a difference is minimised and saved in `folder`."""
    began = time.process_time()
    run = drive_cluster(None, seed, examples)
    line = None
    if run.counterexample is not None:
        line = save(run.counterexample, folder / f"lockstep-{seed}.json")
    return Driven(run.examples, run.actions, run.difference or None, time.process_time() - began, line)


def drive_cluster(bug: str | None, seed: int, examples: int) -> LockstepRun:
    from tidegauge.model_tests.harness.lockstep.hypothesis_machine import (
        drive,  # needs Hypothesis, which simulating and replaying don't
    )

    harness = HARNESS[MACHINE]
    bind = harness.bind(Side.CLUSTER, HARNESS.roles(bug))
    return drive(harness.hypothesis_rules(), bind, name="cluster lockstep", examples=examples, seed=seed, bug=bug)


def demonstrated(bug: str, seed: int, folder: Path) -> Demonstrated:
    """Switch `bug` on and have each level find it; the explorer's shortest trace is saved and replayed at each."""
    began = time.process_time()
    found = explore(REGISTRY.bug(bug).machine())
    if not found.violations:
        raise AssertionError(f"{bug} is not found among {found.distinct:,} states: the specification lost its teeth")
    violation = found.violations[0]
    explorer = Catch(
        level="explorer",
        verdict=Verdict.CAUGHT,
        how=f"{violation.invariant} is violated, {len(violation.trace)} states, {found.distinct:,} explored",
        seconds=time.process_time() - began,
    )
    counterexample = counterexample_in(found, REGISTRY.bug(bug).correct_machine(), bug)
    assert counterexample is not None, "it has a violation"
    line = save(counterexample, folder / f"{bug}.json")
    lockstep = (on_cores(bug, seed), on_cluster(bug, seed))
    catches = (explorer, *lockstep, *caught_by_simulation(bug, seed), *replays(counterexample))
    figure = figure_of(counterexample, replay(counterexample, Level.SPEC), line)
    return Demonstrated(bug, catches, figure, line, len(counterexample.actions))


def on_cores(bug: str, seed: int) -> Catch:
    """Random walks of the cores with the bug, beside the correct specification."""
    began = time.process_time()
    failing = HARNESS[MACHINE].first_failure(seed, WALKS_TO_FIND, roles=HARNESS.roles(bug))
    if failing is None or failing.failure is None:
        return Catch("lockstep on the cores", Verdict.MISSED, f"not in {WALKS_TO_FIND} walks")
    how = f"{failing.failure.expected} in walk {failing.number + 1}"
    return Catch("lockstep on the cores", Verdict.CAUGHT, how, time.process_time() - began)


def on_cluster(bug: str, seed: int) -> Catch:
    """Hypothesis and a trio cluster with the bug, beside the correct specification; what it finds is minimised."""
    began = time.process_time()
    run = drive_cluster(bug, seed, EXAMPLES_TO_FIND)
    if run.counterexample is None:
        return Catch("lockstep on the cluster", Verdict.MISSED, f"not in {EXAMPLES_TO_FIND} examples")
    left = len(run.counterexample.actions)
    how = f"{run.counterexample.expected} in example {run.walks_to_failure}, minimised to {left} actions"
    return Catch("lockstep on the cluster", Verdict.CAUGHT, how, time.process_time() - began)


def replays(counterexample: Counterexample) -> tuple[Catch, ...]:
    """The saved counterexample at each level, with its bug and without."""
    catches = []
    for level in Level:
        began = time.process_time()
        caught = replay(counterexample, level)
        harmless = not replay(counterexample, level, with_bug=False).failed
        how = f"{caught.failure} in step {caught.at}; " if caught.failed else "nothing goes wrong; "
        how += "without the bug nothing does" if harmless else "but without the bug something does, too"
        verdict = Verdict.CAUGHT if caught.failed and harmless else Verdict.MISSED
        catches.append(Catch(f"replay on the {level.value}", verdict, how, time.process_time() - began))
    return tuple(catches)
