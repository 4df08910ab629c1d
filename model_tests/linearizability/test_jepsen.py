"""docs/jepsen.md: each of its histories has the anomalies that it names, in Jepsen and here, and its twin has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tidegauge.linearizability import edn
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import find
from tidegauge.linearizability.measures import measure
from tidegauge.model_tests.linearizability import jepsen_rules

PAGE = Path(__file__).resolve().parents[2] / "docs" / "jepsen.md"
SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```edn\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"^Jepsen: (.+?)\. Here: (.+?)\.(?: At `strict`: (.+?)\.)?$", re.MULTILINE)
INDEX = re.compile(r":index (\d+)")
OF_JEPSEN = {
    "duplicate", "inconsistent-offsets", "lost-write", "G1a", "precommitted-read", "int-poll-skip", "poll-skip",
    "int-nonmonotonic-poll", "nonmonotonic-poll", "int-send-skip", "int-nonmonotonic-send", "nonmonotonic-send",
    "unseen", "G0", "G0-process", "G0-realtime", "G1c", "G1c-process", "G1c-realtime",
}  # fmt: skip
"""What its workload calls an error, but for what Elle says of a component without a cycle."""


ELLES = ("where Elle names no cycle", "a named cycle", "a named cycle")
"""What the table says of the section that has no history."""
OUT_OF_REACH = "What a file of Jepsen's has no rows of"
"""The section that has a table of its own."""


def names(text: str | None) -> set[str]:
    return set(re.findall(r"`(.+?)`", text or ""))


@attrs.frozen
class Section:
    """A section of the page."""

    title: str
    jepsen: set[str]
    here: set[str]
    strict: set[str]
    lines: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def twin(self) -> tuple[str, ...]:
        """The lines, but for those that are changed, in order of time."""
        by_index = {int(INDEX.findall(line)[0]): line for line in (*self.lines, *self.changed)}
        return tuple(sorted(by_index.values(), key=lambda line: int(re.findall(r":time (\d+)", line)[0])))


def sections() -> Iterator[Section]:
    for title, text in SECTION.findall(PAGE.read_text(encoding="utf-8")):
        said = SAID.search(text)
        if said is None:
            continue
        lines, changed = (tuple(block.splitlines()) for block in BLOCK.findall(text))
        strict = names(said[3]) if said[3] else names(said[2])
        yield Section(title, names(said[1]), names(said[2]), strict, lines, changed)


def row(title: str, text: str) -> str:
    """The line of the page's table for a section; each says what it is called there and here."""
    said = SAID.search(text)
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    told = (said[1], said[2], said[3] or said[2]) if said else ELLES
    return f"| [{title}](#{anchor}) | {' | '.join(told)} |"


SECTIONS = tuple(sections())
every_section = pytest.mark.parametrize("section", SECTIONS, ids=[section.title for section in SECTIONS])


def operations(lines: tuple[str, ...]) -> Operations:
    read = edn.parse("\n".join(lines))
    assert not find(read)
    return read


def found(lines: tuple[str, ...], level: Level) -> set[str]:
    return {one.name.value for one in check(operations(lines), level).anomalies}


def reported(lines: tuple[str, ...]) -> set[str]:
    events: list[dict[str, Any]] = list(edn.forms("\n".join(lines)))
    try:
        return jepsen_rules.report(events)
    except jepsen_rules.NoWriter:
        return {"no-writer-of-value"}


@every_section
def test_the_history_has_what_the_page_says_in_jepsen_and_here(section: Section) -> None:
    left_out = {"unseen"} - section.jepsen
    assert reported(section.lines) - left_out == section.jepsen
    assert found(section.lines, Level.KAFKA) == section.here
    assert found(section.lines, Level.STRICT) == section.strict


@every_section
def test_its_twin_is_valid(section: Section) -> None:
    assert len(section.twin) >= len(section.lines)
    assert reported(section.twin) - {"unseen"} == set()
    assert found(section.twin, Level.KAFKA) == set()
    assert found(section.twin, Level.STRICT) == set()


def test_every_anomaly_of_jepsen_and_every_one_here_is_on_the_page() -> None:
    assert set().union(*(section.jepsen for section in SECTIONS)) >= OF_JEPSEN
    page = names(PAGE.read_text(encoding="utf-8"))
    cycles = re.compile(r"G0|G1c(-ww)?|G-single|G2")
    ours = {name.value for name in Name if name.violates}
    assert {name for name in ours if cycles.match(name) is None} <= page


def test_the_table_has_a_line_for_each_section() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = re.findall(r"^\| \[.*\|$", page, re.MULTILINE)
    assert written == [row(*section) for section in SECTION.findall(page) if section[0] != OUT_OF_REACH]


def test_the_figures_are_measured() -> None:
    by_title = {section.title: section for section in SECTIONS}
    unseen, lag = by_title["`unseen`"], by_title["`worst-realtime-lag`"]
    for lines, figure in ((unseen.lines, 1), (unseen.twin, 0)):
        assert sum(one.unseen for one in measure(operations(lines))) == figure
    for lines, figure in ((lag.lines, 3), (lag.twin, 0)):
        assert max(one.worst_realtime_lag for one in measure(operations(lines))) == figure
