"""A replayed counterexample as a report: what became of it at each level, and its steps as a sequence diagram."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Failure
from tidegauge.model_tests.harness.counterexamples.replay import Replayed
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.report.model import Counterexample as Figure
from tidegauge.model_tests.harness.report.model import Report, Stage, Verdict
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.meaning import property_meaning
from tidegauge.spec.registry import REGISTRY


def figure_of(counterexample: Counterexample, replayed: Replayed, replay: str) -> Figure:
    """The steps that were taken, and what was wrong in the end; `replay` is the command that shows it again."""
    name = replayed.failure.name if replayed.failure else counterexample.expected.name
    machine = counterexample.buggy_machine() if replayed.bug else counterexample.machine
    of_a_goal = replayed.failure is not None and replayed.failure.kind is Failure.GOAL
    return Figure(
        title=title_of(counterexample.bug),
        machine=machine.name,
        invariant=name if replayed.failed else "",
        explanation=property_meaning(machine, name) or replayed.words,
        values={key: plain(value) for key, value in replayed.values.items()},
        steps=HARNESS.of(machine).steps(replayed.trace),
        replay=replay,
        cycle=replayed.cycle if of_a_goal else None,
    )


def title_of(bug: str | None) -> str:
    if bug is None:
        return "a difference between specification and implementation"
    known = REGISTRY.bug(bug)
    return f"{known.title} ({known.reference})"


def report_of(counterexample: Counterexample, replayed: Sequence[Replayed], replay: str, version: str) -> Report:
    """The report of one replay, with the diagram of the first level at which something went wrong."""
    shown = next((one for one in replayed if one.failed), replayed[0])
    stages = tuple(
        Stage(
            name=f"replay on the {one.level.value}",
            what=f"{len(one.trace.steps)} actions",
            result=f"{one.failure} in step {one.at}" if one.failed else "nothing goes wrong",
            verdict=Verdict.VIOLATED if one.failed else Verdict.HOLDS,
        )
        for one in replayed
    )
    return Report(
        title=title_of(counterexample.bug),
        version=version,
        started=None,
        seed=counterexample.found.seed,
        options={"bug": counterexample.bug or "none"},
        stages=stages,
        reproduce=replay,
        bug=counterexample.bug or "",
        counterexample=figure_of(counterexample, shown, replay),
    )
