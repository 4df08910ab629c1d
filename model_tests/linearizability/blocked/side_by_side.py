"""Many histories as one: each is a partition, or several, and their rows lie side by side in the same blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from tidegauge.linearizability.blocked.flow import Cut
from tidegauge.linearizability.blocked.judging import NotForBlocks, judge
from tidegauge.linearizability.blocked.whole import Sizes
from tidegauge.linearizability.check import Verdicts, check
from tidegauge.linearizability.history import Operation, Operations
from tidegauge.linearizability.log import Level


def side_by_side(histories: Iterable[Sequence[Operation]], size: int) -> Cut:
    """One history of all, in blocks that hold `size` rows of each, and fewer of those that have ended."""
    rows = [
        (at, number, attrs.evolve(row, topic=f"{number:05d}.{row.topic}"))
        for number, history in enumerate(histories)
        for at, row in enumerate(history)
    ]
    rows.sort(key=lambda one: one[:2])
    begins = [index for index, (at, _, _) in enumerate(rows) if not index or at // size > rows[index - 1][0] // size]
    ordered = (attrs.evolve(row, index=index, history=7) for index, (_, _, row) in enumerate(rows))
    return Cut(Operations.of(ordered), tuple(begins))


def facts(verdicts: Verdicts) -> dict[str, Any]:
    """All that a verdict says."""
    covered = verdicts.coverage
    return {
        "verdicts": verdicts.table().to_pylist(),
        "anomalies": sorted(map(str, verdicts.anomalies)),
        "operations": sorted((str(one), one.operations) for one in verdicts.anomalies),
        "gaps": [str(gap) for gap in covered.gaps],
        "partitions": covered.partitions,
    }


def compare(cut: Cut, level: Level, sizes: Sizes, of: str) -> Verdicts:
    """Judge in blocks and by the single pass: the same. `of` says in a failure how to make the history again."""
    expected = check(cut.operations, level, named=20)
    judged = judge(cut, 7, level, sizes)
    assert not isinstance(judged, NotForBlocks), f"{of}: {judged}"
    mine, theirs = facts(judged), facts(expected)
    for what, said in theirs.items():
        if isinstance(said, list):
            # Whichever of them it is, the first is enough to look at.
            differ = [one for one in mine[what] if one not in said] + [one for one in said if one not in mine[what]]
            assert not differ, f"{of}, {level}: {what}: {differ[0]}\n{shown(cut, str(differ[0]))}"
        assert mine[what] == said, f"{of}, {level}: {what}"
    return expected


def shown(cut: Cut, text: str) -> str:
    """The rows of the partition that a text is about, with the number of the block of each."""
    rows = list(cut.operations)
    topics = {row.topic for row in rows if row.topic in text}
    blocks = [sum(begin <= row.index for begin in cut.begins) - 1 for row in rows]
    return "\n".join(f"block {block}: {row}" for block, row in zip(blocks, rows, strict=True) if row.topic in topics)
