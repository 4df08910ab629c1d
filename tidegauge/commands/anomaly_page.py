"""The page of `tidegauge check --html`: timelines are drawn file by file, so that no file's operations are kept."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.report.anomalies import Page, Shown, most_telling, render
from tidegauge.linearizability.report.timeline import Timelines


@attrs.define
class AnomalyPage:
    """Gathers what the page shows: at most `limit` timelines, of each anomaly's name the first ones first."""

    limit: int
    level: str
    found: Counter[str] = attrs.field(factory=Counter)
    shown: list[Shown] = attrs.field(factory=list)

    def add(self, path: str, operations: Operations, anomalies: Sequence[Anomaly]) -> None:
        """The anomalies of one file, in which `operations` were checked."""
        self.found.update(one.name.value for one in anomalies)
        timelines = Timelines(operations)
        order = most_telling(one.name.value for one in anomalies)
        for number in order[: self.limit - len(self.shown)]:
            one = anomalies[number]
            self.shown.append(Shown(timelines.of(one), path, self.command(path, one.history)))

    def command(self, path: str, history: int) -> str:
        """What checks one history of a file alone."""
        level = "" if self.level == "kafka" else f" --level {self.level}"
        return f"tidegauge check {shlex.quote(path)} --history {history}{level} --html history-{history}.html"

    def text(self, facts: Mapping[str, str], verdict: str, *, holds: bool, remarks: Sequence[str]) -> str:
        """The whole page."""
        more = f"--limit {max(self.found.total(), 1)} shows all of them, --out DIR writes them to a table."
        return render(Page("What the histories show", facts, verdict, holds, self.found, self.shown, more, remarks))


def shown_path(path: Path) -> str:
    """The path as text; bytes that are no UTF-8 are shown as they are in the shell."""
    return str(path).encode(errors="surrogateescape").decode(errors="backslashreplace")
