"""The page of what a check has found: counts, then each anomaly as a timeline and the log at that moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from typing import Final

import attrs

from tidegauge.linearizability.history import Outcome
from tidegauge.linearizability.plurals import say
from tidegauge.linearizability.report.document import definitions, document, pill, row, section, table
from tidegauge.linearizability.report.markup import Html, classes, element
from tidegauge.linearizability.report.timeline import Line, LogView, Offset, Timeline

WORDS: Final = 1_000
"""Characters of a witness: it may list a million records."""
LEGEND: Final = (
    "Below, operations are in the order in which they were called; those that prove an anomaly are red. Time goes "
    "right, a step for each call and return of what is shown. A broken bar never returned."
)
UNITS: Final = ((10**10, 10**9, "s"), (10**7, 10**6, "ms"), (10**4, 10**3, "µs"))


@attrs.frozen
class Shown:
    """A timeline, the file of its history, and the command that looks at this history alone."""

    timeline: Timeline
    file: str
    command: str


@attrs.frozen
class Page:
    """What a page says. `facts` head it; `anomalies` counts all of them by name, those that are not shown as well."""

    title: str
    facts: Mapping[str, str]
    verdict: str
    holds: bool
    anomalies: Counter[str]
    shown: Sequence[Shown]
    more: str
    """How to see those that are not shown."""
    remarks: Sequence[str] = ()


def render(page: Page) -> str:
    """The page as one HTML document."""
    head = element(
        "header",
        element("div", element("h1", page.title), pill(page.verdict, good=page.holds), class_="title"),
        definitions(page.facts),
        [element("p", remark) for remark in page.remarks],
    )
    left = page.anomalies.total() - len(page.shown)
    drawn = Counter(one.timeline.anomaly.name.value for one in page.shown)
    counts = section(
        "Anomalies",
        table(
            ("anomaly", "found", "shown here"),
            [row(element("code", name), count, drawn[name]) for name, count in sorted(page.anomalies.items())],
            numbers=("found", "shown here"),
        )
        if page.anomalies
        else element("p", "None was found."),
        element("p", f"{_left_out(left, page.anomalies.total())} not shown here: {page.more}", class_="warning")
        if left
        else None,
        element("p", LEGEND) if page.shown else None,
        anchor="counts",
    )
    parts = [_anomaly(one, number) for number, one in enumerate(page.shown, 1)]
    styles = (files(__package__) / "timeline.css").read_text(encoding="utf-8")
    return document(page.title, head, element("main", counts, parts), styles=styles)


def _left_out(left: int, found: int) -> str:
    return f"{left:,} of {say(found, 'anomaly', 'anomalies')} {'is' if left == 1 else 'are'}"


def _anomaly(one: Shown, number: int) -> Html:
    found = one.timeline.anomaly
    where = f"{found.topic}-{found.partition}"
    often = "once" if found.count == 1 else f"{found.count:,} times"
    reason = found.witness
    if len(reason) > WORDS:
        reason = f"{reason[:WORDS]}… ({len(reason):,} characters)"
    return section(
        [element("code", found.name.value), f" in {where}, history {found.history} of {one.file}"],
        element("p", reason, class_="witness"),
        element("p", f"It occurs {often} there; this is the first. This history alone: ", element("code", one.command)),
        _times(one.timeline),
        _log(one.timeline.log) if one.timeline.log is not None else None,
        anchor=f"anomaly-{number}",
    )


def _times(timeline: Timeline) -> list[Html]:
    """Who did what when: an operation a line, in order of invocation."""
    operations = [line.operation for line in timeline.lines]
    moments = sorted({time for one in operations for time in (one.call, one.returned) if time is not None})
    steps = {time: 100 * at / max(len(moments) - 1, 1) for at, time in enumerate(moments)}
    rows: list[Html] = []
    for line in timeline.lines:
        if line.passed_over and rows:
            many = f"… {line.passed_over:,} more on the partition between"
            rows.append(element("tr", element("td", many, colspan=6), class_="over"))
        rows.append(_line(line, steps))
    unseen = timeline.witnesses - sum(line.is_witness for line in timeline.lines)
    return [
        element("p", f"{unseen:,} more operations prove it.") if unseen else Html(""),
        table(("operation", "process", "called", "returned", "what", ""), rows, class_="when"),
    ]


def _line(line: Line, steps: Mapping[int, float]) -> Html:
    one = line.operation
    until = 100.0 if one.returned is None else steps[one.returned]
    begins = steps[one.call]
    bar = element(
        "i",
        class_=classes("span", one.returned is None and "open", one.outcome is Outcome.FAIL and "fail"),
        style=f"left: {begins:.2f}%; width: {max(until - begins, 0):.2f}%",
    )
    return row(
        f"#{one.index}",
        str(one.process) if one.process >= 0 else "–",
        time_in_words(one.call),
        "never" if one.returned is None else time_in_words(one.returned),
        _what(line),
        element("span", bar, class_="lane"),
        class_="bad" if line.is_witness else None,
    )


def _what(line: Line) -> Html:
    one = line.operation
    more = f" … {line.records:,} in all" if line.records > len(one.values) else ""
    outcome = "" if one.outcome is Outcome.OK else f" ({OUTCOMES[one.outcome]})"
    return element("span", f"{one.words}{more}{outcome}", class_="what")


OUTCOMES: Final = {Outcome.FAIL: "failed", Outcome.INFO: "outcome unknown"}


def time_in_words(nanoseconds: int) -> str:
    """Nanoseconds in a unit in which they have few digits; none is lost that tells two times of a history apart."""
    for least, unit, name in UNITS:
        if nanoseconds >= least:
            return f"{nanoseconds / unit:,.6f}".rstrip("0").rstrip(".") + f" {name}"
    return f"{nanoseconds:,} ns"


def _log(log: LogView) -> list[Html]:
    """The log at a moment: what was known by then, and what each operation of the anomaly says of it."""
    known = "" if log.length is None else f" It was known to be at least {log.length[0]:,} long, by #{log.length[1]}."
    rows: list[Html] = []
    for before, one in pairwise([None, *log.offsets]):
        assert one is not None
        if before is not None and one.offset > before.offset + 1:
            apart = f"… {one.offset - before.offset - 1:,} offsets"
            rows.append(element("tr", element("td", apart, colspan=2 + len(log.columns)), class_="apart"))
        rows.append(_offset(one))
    said = [f"#{index} says" for index in log.columns]
    return [
        element("h3", "The log at that moment"),
        element(
            "p",
            f"As known when #{log.before} was called, at {time_in_words(log.at)}, by what had returned before.{known}",
        ),
        table(("offset", f"known before #{log.before}", *said), rows, class_="log"),
    ]


def _offset(one: Offset) -> Html:
    """One offset; it is marked where more than one value is said to be there."""
    values = {f"record {value}" for value, _ in one.known} | set(_records(one.said))
    known = "; ".join(f"record {value} by #{by}" for value, by in one.known)
    return row(f"{one.offset:,}", known, *one.said, class_="bad" if len(values) > 1 else None)


def _records(said: Iterable[str]) -> Iterator[str]:
    for words in said:
        yield from (word for word in words.split(", ") if word.startswith("record "))


def most_telling(kinds: Iterable[str]) -> list[int]:
    """An order of anomalies by their names in which the first of each name come first."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int]] = []
    for number, kind in enumerate(kinds):
        ranked.append((seen[kind], number))
        seen[kind] += 1
    return [number for _, number in sorted(ranked)]
