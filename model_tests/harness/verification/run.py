"""All parts of a verification in their order, and the stages of the report that they make."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdict as HistoryVerdict
from tidegauge.model_tests.harness.report.model import Anomaly, CampaignRun, Stage, Verdict
from tidegauge.model_tests.harness.verification import parts
from tidegauge.model_tests.harness.verification.comparison import CheckedTwice, checked_here, compared
from tidegauge.model_tests.harness.verification.plan import Plan
from tidegauge.model_tests.harness.verification.pool import Task, run
from tidegauge.spec.replication.machine import Replication

Advance = Callable[[str, int, int], None]
"""Called with what is being done, how many tasks are done, and how many there are."""
CheckInSpark = Callable[[Sequence[Path], Path], str]
"""Checks the histories in these files and writes the tables to that folder; returns what was done, as text."""

WALKS_A_TASK = 250
EXAMPLES_A_TASK = 25

EXPLORE, CORES, CLUSTER, BREAK = "explore", "lockstep on the cores", "lockstep on the cluster", "break on purpose"


@attrs.frozen
class Checked:
    """The results of the parts that need no history: models, locksteps, and the bug switched on."""

    models: tuple[parts.ModelExplored, ...]
    cores: tuple[parts.Driven, ...]
    cluster: tuple[parts.Driven, ...]
    bug: parts.Demonstrated


def check_protocol(plan: Plan, folder: Path, advance: Advance) -> Checked:
    """Explore, drive and break, over the plan's workers; counterexamples are saved in `folder`.

    What takes longest begins, and models end it: so no worker is left alone for long.
    """
    tasks = [
        Task(BREAK, parts.demonstrated, (plan.bug, plan.seed, folder)),
        *(Task(CLUSTER, parts.driven, (s, n, folder)) for s, n in shares(plan.seed, plan.examples, EXAMPLES_A_TASK)),
        *(Task(CORES, parts.walked, (seed, n)) for seed, n in shares(plan.seed, plan.walks, WALKS_A_TASK)),
        *(Task(EXPLORE, parts.explored, (name,)) for name in plan.models),
    ]
    results: dict[int, Any] = {}
    for index, result in run(tasks, plan.workers):
        results[index] = result
        advance(tasks[index].part, len(results), len(tasks))
    by_part: defaultdict[str, list[Any]] = defaultdict(list)
    for index, task in enumerate(tasks):
        by_part[task.part].append(results[index])
    return Checked(tuple(by_part[EXPLORE]), tuple(by_part[CORES]), tuple(by_part[CLUSTER]), by_part[BREAK][0])


def shares(seed: int, amount: int, most: int) -> list[tuple[int, int]]:
    """`amount` cut into shares of at most `most`, each with a seed of its own."""
    return [(seed * 1000 + n, min(most, amount - first)) for n, first in enumerate(range(0, amount, most))]


def stages_of(checked: Checked) -> tuple[Stage, ...]:
    """A line of the table for each part."""
    return (
        explore_stage(checked.models),
        driven_stage(CORES, "random walks", checked.cores),
        driven_stage(CLUSTER, "Hypothesis examples", checked.cluster),
        break_stage(checked.bug),
    )


def explore_stage(models: Sequence[parts.ModelExplored]) -> Stage:
    distinct = sum(model.explored.distinct for model in models)
    seconds = sum(model.seconds for model in models)
    violated = [f"{model.explored.machine}: {model.violation}" for model in models if model.violation]
    missed = [f"{model.explored.machine}: {goal}" for model in models for goal in model.explored.unreached]
    idle = never_enabled(models)
    components = sum(model.explored.components or 0 for model in models)
    good = f"all invariants hold; all goals reached for good in {components:,} bottom components"
    result = "; ".join(violated) or ("not reached: " + "; ".join(missed) if missed else good)
    result += f"; actions that only other models take: {', '.join(idle)}" if idle else "; every action taken"
    return Stage(
        name=EXPLORE,
        what=f"{len(models)} models to their end, {distinct:,} states, {distinct / max(seconds, 0.001):,.0f} a second",
        result=result,
        verdict=Verdict.VIOLATED if violated or missed else Verdict.HOLDS,
        seconds=seconds,
    )


def never_enabled(models: Sequence[parts.ModelExplored]) -> list[str]:
    """Actions that happen in none of the models, since each has only some perturbations on."""
    taken = {each.action for model in models for each in model.explored.coverage}
    return [kind.__name__ for kind in Replication.action_types if kind.__name__ not in taken]


def driven_stage(name: str, unit: str, runs: Sequence[parts.Driven]) -> Stage:
    examples, steps = sum(one.examples for one in runs), sum(one.steps for one in runs)
    found = next((one for one in runs if one.difference), None)
    result = "no difference in any field"
    if found is not None:
        result = f"{found.difference}" + (f" ({found.replay})" if found.replay else "")
    return Stage(
        name=name,
        what=f"{examples:,} {unit}, {steps:,} steps, every field compared after each",
        result=result,
        verdict=Verdict.HOLDS if found is None else Verdict.VIOLATED,
        seconds=sum(one.seconds for one in runs),
    )


def break_stage(bug: parts.Demonstrated) -> Stage:
    caught = [each for each in bug.catches if each.verdict is Verdict.CAUGHT]
    missed = [each for each in bug.catches if each.verdict is Verdict.MISSED]
    return Stage(
        name=BREAK,
        what=f"{bug.bug} switched on",
        result=f"caught at {len(caught)} of {len(bug.catches)} levels, {bug.actions} actions",
        verdict=Verdict.MISSED if missed else Verdict.CAUGHT,
        seconds=sum(each.seconds or 0.0 for each in bug.catches),
    )


def check_twice(
    histories: Sequence[Path], out: Path, in_spark: CheckInSpark | None
) -> tuple[CheckedTwice, tuple[Stage, ...]]:
    """The checker's verdicts, then Spark's on the same files, if it is there."""
    began = time.perf_counter()
    here, elected = checked_here(histories)
    operations = int(here.operations.sum())
    doubted = {one.history for one in here.anomalies if one.name is not Name.UNDECIDED}
    unknown = here.histories[here.verdicts == HistoryVerdict.UNKNOWN].tolist()
    undecided = frozenset(one for one in unknown if one in elected and one not in doubted)
    bad = int((here.verdicts != HistoryVerdict.VALID).sum()) - len(undecided)
    excused = f"{len(undecided)} undecided: an unclean election is declared"
    checker = Stage(
        name="check",
        what=f"{len(here.histories):,} histories, {operations:,} operations",
        result=f"{bad} not valid" if bad else f"all others valid; {excused}" if undecided else "all valid",
        verdict=Verdict.VIOLATED if bad else Verdict.HOLDS,
        seconds=time.perf_counter() - began,
    )
    if in_spark is None:
        skipped = Stage("check in Spark", "left out", "", Verdict.SKIPPED)
        return CheckedTwice(here, (), (), undecided), (checker, skipped)
    began = time.perf_counter()
    what = in_spark(histories, out)
    twice = attrs.evolve(compared(here, out), undecided=undecided)
    spark = Stage(
        name="check in Spark",
        what=what,
        result="agrees row by row" if twice.agree else f"{len(twice.differing)} rows differ: {twice.differing[0]}",
        verdict=Verdict.HOLDS if twice.agree else Verdict.VIOLATED,
        seconds=time.perf_counter() - began,
    )
    return twice, (checker, spark)


def with_verdicts(runs: Sequence[CampaignRun], twice: CheckedTwice) -> tuple[CampaignRun, ...]:
    """The campaign's rows with both verdicts and the witnesses; the id of a run's history is its seed."""
    words = {
        HistoryVerdict.VALID: Verdict.HOLDS,
        HistoryVerdict.VIOLATED: Verdict.VIOLATED,
        HistoryVerdict.UNKNOWN: Verdict.UNKNOWN,
    }
    found: defaultdict[int, list[Anomaly]] = defaultdict(list)
    for anomaly in twice.here.anomalies:
        found[anomaly.history].append(Anomaly(anomaly.name.value, anomaly.witness))
    rows = []
    for each in runs:
        spark = twice.spark_verdict(each.seed)
        own = words[twice.here.of(each.seed)] if each.verdict is Verdict.HOLDS else each.verdict
        told = (*each.anomalies, *found[each.seed])
        rows.append(
            attrs.evolve(each, verdict=own, spark_verdict=words[spark] if spark is not None else None, anomalies=told)
        )
    return tuple(rows)
