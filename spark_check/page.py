"""The page of a job: counts, examples of each anomaly, and how to look at one history alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

from tidegauge.linearizability.report.document import definitions, document, pill, row, section, table
from tidegauge.linearizability.report.markup import Html, element
from tidegauge.spark_check.footers import PARQUET
from tidegauge.spark_check.output import Example
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.summary import Summary

WORDS: Final = 600
"""Characters of a witness."""
VERDICTS: Final = {0: "holds", 1: "violated", 2: "not all checked"}


def render(summary: Summary) -> str:
    """One HTML document about a job, as small for millions of histories as for one."""
    head = element(
        "header",
        element(
            "div",
            element("h1", "Histories checked"),
            pill(VERDICTS[summary.exit_status], good=not summary.exit_status),
            class_="title",
        ),
        definitions(_facts(summary)),
        element("p", summary.covered.words(summary.gaps)),
        [element("p", f"note: {note}") for note in summary.notes],
    )
    return document("Histories checked", head, element("main", _anomalies(summary), _malformed(summary)))


def _facts(summary: Summary) -> dict[str, str]:
    return {
        "files": f"{summary.files:,}",
        "histories": f"{summary.histories:,}",
        "operations": f"{summary.operations:,}",
        "level": summary.level,
        **{name: f"{count:,}" for name, count in summary.verdicts.items()},
        "wall time": f"{summary.seconds:,.1f} s",
        "units": f"{summary.units:,}",
    }


def _anomalies(summary: Summary) -> list[Html]:
    if not summary.anomalies:
        return [section("Anomalies", element("p", "None was found."), anchor="anomalies")]
    counts = [row(element("code", name), count) for name, count in sorted(summary.anomalies.items())]
    every = f'spark.read.parquet("{Place.of(summary.out).for_spark}/anomalies")'
    parts = [
        section(
            "Anomalies",
            table(("anomaly", "partitions that have it"), counts, numbers=("partitions that have it",)),
            element("p", "Below are the first examples of each. All of them: ", element("code", every)),
            anchor="anomalies",
        )
    ]
    for name in sorted(summary.anomalies):
        examples = [one for one in summary.examples if one.anomaly == name]
        parts.append(section(element("code", name), [_example(one) for one in examples], anchor=name))
    return parts


def _example(one: Example) -> list[Html]:
    witness = one.witness
    if len(witness) > WORDS:
        witness = f"{witness[:WORDS]}… ({len(witness):,} characters)"
    of = "" if one.file is None else f" of {one.file}"
    return [
        element("h3", f"history {one.history}{of}, {one.topic}-{one.partition}"),
        element("p", witness),
        element("p", "This history alone, as a timeline: ", [[element("code", step), " "] for step in pulled_out(one)]),
    ]


def pulled_out(one: Example) -> Iterable[str]:
    """The commands that take one history out of the input and draw it."""
    draw = f"--history {one.history} --html history-{one.history}.html"
    if one.file is None:
        yield f"tidegauge check FILE {draw}"
        return
    place = Place.of(one.file)
    if place.local:
        yield f"tidegauge check {shlex.quote(one.file)} {draw}"
    elif place.suffix == PARQUET:
        alone = f'where("history = {one.history}").coalesce(1).sortWithinPartitions("index")'
        yield f'spark.read.parquet("{place.for_spark}").{alone}.write.parquet("history-{one.history}")'
        yield f"tidegauge check history-{one.history} {draw}"
    else:
        yield f"tidegauge check {shlex.quote(place.name)} {draw}"


def _malformed(summary: Summary) -> Html | None:
    if not summary.malformed:
        return None
    rows = [row(reason, count) for reason, count in sorted(summary.malformed.items(), key=lambda item: -item[1])]
    where = element("code", f"{summary.out}/malformed")
    said = element("p", "They are in ", where, ", and their histories are not checked.")
    return section("Malformed rows", table(("as", "rows"), rows, numbers=("rows",)), said, anchor="malformed")
