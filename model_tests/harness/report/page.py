"""The page: one HTML file that needs no network, readable in light and in dark, with or without script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from tidegauge.linearizability.report.document import definitions, document, row, section
from tidegauge.linearizability.report.document import pill as any_pill
from tidegauge.linearizability.report.document import table as any_table
from tidegauge.linearizability.report.markup import Html, element
from tidegauge.model_tests.harness.report.diagram import sequence_diagram
from tidegauge.model_tests.harness.report.model import (
    GOOD,
    CampaignRun,
    Catch,
    Counterexample,
    Coverage,
    Explored,
    Ownership,
    Recorded,
    Report,
    Stage,
    Verdict,
)
from tidegauge.model_tests.harness.report.ownership import ownership_figure


def write(report: Report, folder: Path) -> Path:
    """Write `folder`/index.html, whole or not at all, and return its path. Raises OSError, which names the file."""
    text = render(report)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "index.html"
    unfinished = folder / "index.html.part"
    try:
        unfinished.write_text(text, encoding="utf-8")
        return unfinished.replace(page)
    except OSError as error:
        # The system names no file when the disk is full.
        raise OSError(error.errno, error.strerror, str(page)) from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def render(report: Report) -> str:
    """The report as one HTML document."""
    sections = [
        stages(report),
        caught(report),
        life(report.recorded) if report.recorded else None,
        group(report.group) if report.group else None,
        campaign(report.campaign) if report.campaign else None,
        [exploration(each) for each in report.explored],
    ]
    script = element("script", Html(own_file("page.js")))
    return document(report.title, header(report), element("main", sections), script, styles=own_file("page.css"))


def own_file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def header(report: Report) -> Html:
    verdict = Verdict.HOLDS if report.holds else Verdict.VIOLATED
    facts = {} if report.seed is None else {"seed": str(report.seed)}
    facts |= {**report.options, "version": report.version}
    if report.started is not None:
        facts["started"] = report.started
    if report.seconds is not None:
        facts["took"] = duration(report.seconds)
    return element(
        "header",
        element("div", element("h1", report.title), pill(verdict), class_="title"),
        definitions(facts),
        element("p", "The same again: ", element("code", report.reproduce)),
    )


def pill(verdict: Verdict) -> Html:
    return any_pill(verdict.value, good=verdict in GOOD)


def spent(seconds: float | None) -> Html:
    return element("span", duration(seconds), class_="spent")


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


NUMBERS = frozenset({"operations", "unknown", "lost", "states with it enabled", "steps", "steps to a new state"})
"""Heads of columns of numbers."""


def table(head: Iterable[str], rows: Iterable[Html], *, class_: str | None = None) -> Html:
    return any_table(head, rows, class_=class_, numbers=NUMBERS)


def stages(report: Report) -> Html:
    timed = any(stage.seconds is not None for stage in report.stages)

    def line(stage: Stage) -> Html:
        time = [spent(stage.seconds)] if timed else []
        return row(stage.name, stage.what, stage.result, pill(stage.verdict), *time)

    head = ("part", "what was done", "result", "verdict", *(["time"] if timed else []))
    return section("Verdicts", table(head, [line(stage) for stage in report.stages]), anchor="verdicts")


def caught(report: Report) -> Html | None:
    """The bug that was switched on, where it was caught, and its counterexample."""
    if not report.catches and report.counterexample is None:
        return None

    def line(catch: Catch) -> Html:
        return row(catch.level, pill(catch.verdict), catch.how, spent(catch.seconds))

    rows = [line(catch) for catch in report.catches]
    return section(
        f"The bug: {report.bug}" if report.bug else "Counterexample",
        table(("level", "verdict", "how it showed", "time"), rows) if rows else None,
        counterexample(report.counterexample) if report.counterexample else None,
        anchor="bug",
    )


def counterexample(found: Counterexample) -> list[Html]:
    values = [row(element("code", name), element("code", value)) for name, value in found.values.items()]
    wrong = f"{found.invariant} is violated" if found.cycle is None else f"not reached for good: {found.invariant}"
    return [
        element("h3", found.title),
        element(
            "p",
            f"{len(found.steps) - 1} actions of {found.machine}, then: ",
            element("a", wrong, href="#violation"),
            ". Replay it: ",
            element("code", found.replay),
        ),
        sequence_diagram(found),
        element(
            "div",
            element("h3", wrong),
            element("p", found.explanation),
            table(("value", "after the last step"), values) if values else None,
            class_="violation",
            id="violation",
        ),
    ]


def life(recorded: Recorded) -> Html:
    """What a history tells of a transaction."""
    figure = Counterexample(recorded.title, "", "", "", {}, recorded.steps, recorded.replay)
    return section(
        "A transaction, as recorded",
        element("p", recorded.title, ". Record it again: ", element("code", recorded.replay)),
        sequence_diagram(figure),
        anchor="recorded",
    )


def group(owned: Ownership) -> Html:
    """Who of a group held which partition."""
    return section(
        "A group, and who owned what",
        element("p", "Record it again: ", element("code", owned.replay)),
        ownership_figure(owned),
        anchor="group",
    )


def campaign(runs: tuple[CampaignRun, ...]) -> Html:
    faults: Counter[str] = Counter()
    for run in runs:
        faults.update(run.faults)
    disagree = sum(run.spark_verdict not in (None, run.verdict) for run in runs)
    facts = {
        "runs": f"{len(runs):,}",
        "operations": f"{sum(run.operations for run in runs):,}",
        "unknown outcomes": f"{sum(run.unknown for run in runs):,}",
        "declared lost": f"{sum(run.declared_lost for run in runs):,}",
        "violated": f"{sum(run.verdict not in GOOD for run in runs):,}",
        "Spark disagrees": f"{disagree:,}" if any(run.spark_verdict for run in runs) else "not asked",
        **{f"fault: {kind}": f"{count:,}" for kind, count in sorted(faults.items())},
    }
    head = ("seed", "options", "faults", "operations", "unknown", "lost", "verdict", "Spark", "anomalies")
    only = element("label", element("input", type="checkbox", id="only-bad"), " only runs with anomalies", class_="js")
    return section(
        "Campaign",
        definitions(facts),
        only,
        table(head, [campaign_row(run) for run in runs], class_="tall campaign"),
        anchor="campaign",
    )


def campaign_row(run: CampaignRun) -> Html:
    faults = ", ".join(f"{kind} {count}" for kind, count in run.faults.items() if count)
    found = [element("p", element("b", anomaly.kind), f": {anomaly.witness}") for anomaly in run.anomalies]
    kinds = Counter(anomaly.kind for anomaly in run.anomalies)
    summary = ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in kinds.items())
    return row(
        str(run.seed),
        ", ".join(f"{name} {value}" for name, value in run.options.items()),
        faults,
        run.operations,
        run.unknown,
        run.declared_lost,
        pill(run.verdict),
        pill(run.spark_verdict) if run.spark_verdict else "",
        element("details", element("summary", summary), found) if found else "",
        class_="bad" if run.verdict not in GOOD else None,
    )


def exploration(explored: Explored) -> Html:
    facts = {
        "distinct states": f"{explored.distinct:,}",
        "steps": f"{explored.generated:,}",
        "depth": str(explored.depth),
        "complete": "yes" if explored.complete else "no: stopped by a limit",
        **explored.constants,
    }
    if explored.rate is not None:
        facts["states a second"] = f"{explored.rate:,.0f}"
    if explored.components is not None:
        facts["bottom components of fair steps"] = f"{explored.components:,}"
    for_good = [
        row(goal, fails or "reached", class_="bad" if fails else None) for goal, fails in explored.for_good.items()
    ]
    owed = [row(name, fails or "comes", class_="bad" if fails else None) for name, fails in explored.owed.items()]
    never = [each.action for each in explored.coverage if not each.enabled]
    most = max((each.taken for each in explored.coverage), default=0)
    goals = [row(goal, length) for goal, length in explored.reached.items()]
    goals += [row(goal, "not reached", class_="bad") for goal in explored.unreached]
    return section(
        f"Exploration: {explored.machine}",
        definitions(facts),
        element("p", "Invariants: ", [[element("code", name), " "] for name in explored.invariants]),
        element("p", f"Never enabled: {', '.join(never)}", class_="warning") if never else None,
        table(
            ("action", "steps, compared", "states with it enabled", "steps", "steps to a new state"),
            [coverage_row(each, most) for each in explored.coverage],
        ),
        table(("sometimes", "states in a shortest trace to it"), goals) if goals else None,
        table(("for good", "in every bottom component"), for_good) if for_good else None,
        table(("whenever it is owed", "though clients never rest"), owed) if owed else None,
        anchor=f"exploration-{explored.machine.lower()}",
    )


def coverage_row(each: Coverage, most: int) -> Html:
    share = 100 * each.taken / most if most else 0
    bar = element("span", element("i", style=f"width: {share:.1f}%"), class_="bar")
    name = element("code", each.action)
    return row(name, bar, each.enabled, each.taken, each.found, class_=None if each.enabled else "bad")
