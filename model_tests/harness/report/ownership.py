"""Who of a group held which partition, and when: a lane for each partition, bars for assignments, marks for commits.

A member owns a partition from the response that assigns it until it gives it back, loses it, or is assigned it anew.
Where two bars lie over each other, two processes believed that they owned it; the commits of one alone are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidegauge.linearizability.history import DECLARED, Kind, Operation, Outcome
from tidegauge.linearizability.report.markup import Html, classes, element
from tidegauge.linearizability.transactional import NONE
from tidegauge.model_tests.harness.report.model import Committed, Ownership, Stretch

HUES: Final = 8
"""Colours of members; they repeat after that many."""
LEFT: Final = 90
"""Where time begins, in the figure's units."""
WIDTH: Final = 1_000
LANE: Final = 64
BAR: Final = 20
TOP: Final = 8
NARROW: Final = 26
"""A bar that is narrower has no room for its words."""


# --- what is drawn ---------------------------------------------------------------------------------------------------


def owned_in(history: Sequence[Operation], replay: str) -> Ownership:
    """The figure of a history of one group on one topic. `replay`: what records it again."""
    rows = [row for row in history if row.group is not None]
    first = min((row.call for row in rows), default=0)
    last = max((at for row in rows if (at := _done(row)) is not None), default=first)

    def seconds(at: int) -> float:
        return (at - first) / 1e9

    stretches = tuple(
        Stretch(partition, member, generation, seconds(began), seconds(ended))
        for partition, member, generation, began, ended in _stretches(rows, last)
    )
    commits = tuple(
        Committed(
            row.partition,
            seconds(_until(row, last)),
            row.offset,
            {Outcome.OK: "ok", Outcome.FAIL: "failed", Outcome.INFO: "nobody knows"}[row.outcome],
        )
        for row in rows
        if row.kind is Kind.COMMIT_OFFSETS
    )
    known = [row.partition for row in rows] + [partition for row in rows for partition in _shared(row)]
    return Ownership(1 + max(known, default=NONE), seconds(last), stretches, commits, replay)


def _done(row: Operation) -> int | None:
    return row.call if row.kind in DECLARED else row.returned


def _until(row: Operation, last: int) -> int:
    done = _done(row)
    return last if done is None else min(done, last)


def _shared(row: Operation) -> tuple[int, ...]:
    """The partitions that the row assigns or gives back."""
    return row.values if row.kind in (Kind.ASSIGN, Kind.RELEASE) else ()


def _stretches(rows: Sequence[Operation], last: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(partition, member, generation, began, ended), in the order in which they ended."""
    held: dict[tuple[int, int], tuple[int, int, int]] = {}
    for row in sorted(rows, key=lambda row: (_until(row, last), row.index)):
        at = _until(row, last)
        for partition in _shared(row):
            place = row.process, partition
            if place in held:
                member, generation, began = held.pop(place)
                yield partition, member, generation, began, at
            if row.kind is Kind.ASSIGN:
                member = row.process if row.member is None else row.member
                held[place] = member, NONE if row.generation is None else row.generation, at
    for place, (member, generation, began) in held.items():
        yield place[1], member, generation, began, last


# --- the figure ------------------------------------------------------------------------------------------------------


def ownership_figure(owned: Ownership) -> Html:
    """An SVG with its legend."""
    members = {member: f"e{place % HUES}" for place, member in enumerate(sorted({s.member for s in owned.stretches}))}
    height = TOP + LANE * owned.partitions + 28
    lanes = [_lane(owned, partition, members) for partition in range(owned.partitions)]
    figure = element(
        "svg",
        lanes,
        _axis(owned, height),
        viewBox=f"0 0 {LEFT + WIDTH + 20} {height}",
        role="img",
        aria_label="who owned which partition, and when",
        class_="ownership",
    )
    names = [element("span", element("i", class_=f"record {hue}"), _name(one)) for one, hue in members.items()]
    marks = [
        element("span", element("i", class_=f"tick {kind}"), words)
        for kind, words in (("ok", "committed"), ("failed", "commit refused"), ("unknown", "outcome unknown"))
    ]
    told = element("span", "in a bar: the generation")
    return element(
        "div", element("div", names, told, marks, class_="legend"), element("div", figure, class_="sequence")
    )


def _name(member: int) -> str:
    return f"static member {member % 1_000_000}" if member >= 1_000_000 else f"member {member}"


def _x(owned: Ownership, at: float) -> float:
    return LEFT + WIDTH * at / (owned.duration or 1)


def _lane(owned: Ownership, partition: int, members: dict[int, str]) -> Html:
    top = TOP + LANE * partition
    bars = [
        _bar(owned, one, members[one.member], top + 2 + 22 * row)
        for row, one in _rows(sorted((s for s in owned.stretches if s.partition == partition), key=lambda s: s.began))
    ]
    marks = [_mark(owned, one, top + LANE - 14) for one in owned.commits if one.partition == partition]
    name = element("text", f"partition {partition}", x=4, y=top + 17)
    line = element("line", x1=LEFT, x2=LEFT + WIDTH, y1=top + LANE - 1, y2=top + LANE - 1, class_="lane")
    return element("g", line, name, bars, marks)


def _rows(stretches: list[Stretch]) -> Iterator[tuple[int, Stretch]]:
    """Each with its row: the second one where the first is taken."""
    until = 0.0
    for one in stretches:
        yield int(one.began < until), one
        until = max(until, one.ended) if one.began >= until else until


def _bar(owned: Ownership, one: Stretch, hue: str, top: int) -> Html:
    left, width = _x(owned, one.began), max(1.5, _x(owned, one.ended) - _x(owned, one.began))
    words = f"{_name(one.member)}, generation {one.generation}, {one.began:.2f} to {one.ended:.2f} s"
    box = element("rect", x=f"{left:.1f}", y=top, width=f"{width:.1f}", height=BAR, rx=3, class_=f"held {hue}")
    label = element("text", str(one.generation), x=f"{left + 5:.1f}", y=top + 14) if width >= NARROW else None
    return element("g", element("title", words), box, label)


def _mark(owned: Ownership, one: Committed, top: int) -> Html:
    kind = {"ok": "ok", "failed": "failed"}.get(one.outcome, "unknown")
    at = f"{_x(owned, one.at):.1f}"
    words = f"offset {one.offset} committed at {one.at:.2f} s: {one.outcome}"
    line = element("line", x1=at, x2=at, y1=top, y2=top + 10, class_=classes("tick", kind))
    return element("g", element("title", words), line)


def _axis(owned: Ownership, height: int) -> Html:
    step = max(1, round(owned.duration / 10))
    times = range(0, int(owned.duration) + 1, step)
    return element(
        "g", [element("text", f"{at} s", x=f"{_x(owned, at):.1f}", y=height - 8, class_="axis") for at in times]
    )
