"""Results: a file with one line for each mutant that was tried, and the score that they come to.

The explorer's mutants of the specification's rules may stand in the same file, in rooms of their own: what tries one
appends a `Result`, and the table has them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import attrs

from tidegauge.model_tests.mutants.patching import ROOT
from tidegauge.model_tests.mutants.rings import Ring

TREES: Final = ("impl", "spec", "linearizability", "compilation", "model_tests")
FORMAL: Final = (Ring.CORES, Ring.CLUSTER, Ring.SIMULATION, Ring.OBSERVED, Ring.SPEC)


@attrs.frozen
class Result:
    """What became of one mutant."""

    mutant: str
    room: str
    ring: str | None
    """The first that killed it; None: it survives."""
    part: str = ""
    why: str = ""
    seconds: float = 0.0
    """Of real time."""
    by: str = ""
    """The digest of all code and tests."""
    of: str = ""
    """The digest of the file that was changed."""

    @property
    def is_killed(self) -> bool:
        return self.ring is not None


def digest(files: Iterable[Path]) -> str:
    """Of the contents of files."""
    total = sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def digest_of_everything() -> str:
    """Of all code that a trial runs; the files of equivalent mutants are none of it."""
    equivalents = set((ROOT / "model_tests" / "mutants").glob("equivalents*.py"))
    return digest(file for tree in TREES for file in sorted((ROOT / tree).rglob("*.py")) if file not in equivalents)


def append(file: Path, result: Result) -> None:
    """Add a line to the file of results."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(attrs.asdict(result)) + "\n")


Known = Mapping[str, Mapping[str, Result]]
"""Mutant -> what it was tried by (`Result.by`: the tree and the terms) -> the latest result of that, latest last."""


def read(file: Path) -> Known:
    """What a file says of each mutant; nothing if there is no file. A line that was cut short counts not."""
    found: dict[str, dict[str, Result]] = {}
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        try:
            result = Result(**json.loads(line))
        except (json.JSONDecodeError, TypeError):
            continue
        of = found.setdefault(result.mutant, {})
        of.pop(result.by, None)
        of[result.by] = result
    return found


@attrs.frozen
class Score:
    """Of one room."""

    room: str
    mutants: int
    killed: Mapping[str, int]
    """By each ring."""
    survivors: tuple[str, ...]
    equivalent: int

    @property
    def percent(self) -> float:
        """Of the mutants that are not equivalent, those that are killed."""
        return _percent(sum(self.killed.values()), self.mutants - self.equivalent)

    @property
    def formal_percent(self) -> float:
        """Of the mutants that are not equivalent, those that lockstep or simulation kill, or the explorer."""
        return _percent(sum(self.killed.get(ring.value, 0) for ring in FORMAL), self.mutants - self.equivalent)


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 100.0


def scores(results: Iterable[Result], equivalent: Collection[str]) -> list[Score]:
    """The score of each room, in the order in which the rooms appear."""
    rooms: dict[str, list[Result]] = {}
    for one in results:
        rooms.setdefault(one.room, []).append(one)
    return [
        Score(
            room,
            len(tried),
            Counter(one.ring for one in tried if one.ring is not None),
            tuple(one.mutant for one in tried if not one.is_killed and one.mutant not in equivalent),
            sum(not one.is_killed and one.mutant in equivalent for one in tried),
        )
        for room, tried in rooms.items()
    ]


def table(results: Collection[Result], equivalent: Collection[str]) -> str:
    """The scores for a reader, and the survivors by name."""
    found = scores(results, equivalent)
    rings = [ring.value for ring in Ring if any(ring.value in score.killed for score in found)]
    heads = ("room", "mutants", *rings, "survive", "equivalent", "killed", "by lockstep, simulation, explorer")
    rows = [
        (
            score.room,
            *map(str, (score.mutants, *(score.killed.get(ring, 0) for ring in rings))),
            *map(str, (len(score.survivors), score.equivalent)),
            f"{score.percent:.1f} %",
            f"{score.formal_percent:.1f} %",
        )
        for score in found
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
    survivors = [f"survives: {name}" for score in found for name in score.survivors]
    return "\n".join([*survivors, *(line.rstrip() for line in lines)])
