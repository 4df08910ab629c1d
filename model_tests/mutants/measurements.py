"""Measurements: what each part takes and runs without a mutant, kept in a file as it comes.

Walks are measured one by one and tests a few at a time, so a measurement that was stopped goes on where it was. All of
them hold for one state of the tree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tidegauge.model_tests.mutants.patching import Patcher
from tidegauge.model_tests.mutants.rings import Part
from tidegauge.model_tests.mutants.trials import Measured, UnsoundError, measured
from tidegauge.model_tests.mutants.workers import in_workers

AT_ONCE: Final = 25
"""Tests that are run in one process: half a second goes by before the lines of the first one are noted."""
NOTHING: Final = Measured(0.0, {})
"""Of a part that was not run, since the first of its walks runs nothing of what is changed."""


class Measurements:
    """What was measured with one tree."""

    def __init__(self, file: Path, tree: str, workers: int, tell: Callable[[str], None]) -> None:
        """`tree` is the digest of all code and tests; `tell` gets a line now and then."""
        self.tree = tree
        self._file = file
        self._workers = workers
        self._tell = tell

    def of(
        self, parts: Sequence[Part], paths: Collection[str], patcher: Patcher, goes_on: Callable[[], bool]
    ) -> Mapping[str, Measured] | None:
        """The measurements by the names of these parts; of walks only as far as they run one of the files `paths`.

        None if `goes_on` says False before all are measured: the next call goes on. Raises UnsoundError, when all have
        been run, with the words of those that fail.
        """
        known = self.known()
        first = [part for part in parts if part.after is None and part.name not in known]
        self._measure(first, patcher, goes_on)
        known = self.known()
        later = [
            part
            for part in parts
            if part.after is not None
            and part.name not in known
            and (part.after not in known or known[part.after].runs_any(paths))
        ]
        self._measure(later, patcher, goes_on)
        known = self.known()
        if any(part.name not in known for part in [*first, *later]):
            return None
        return {part.name: known.get(part.name, NOTHING) for part in parts}

    def known(self) -> dict[str, Measured]:
        """What is measured, by the name of the part."""
        return {one["part"]: Measured(one["seconds"], one["lines"]) for one in self._read() if "seconds" in one}

    def _measure(self, parts: Sequence[Part], patcher: Patcher, goes_on: Callable[[], bool]) -> None:
        if not parts:
            return
        self._tell(f"{len(parts)} parts are run without a mutant")

        def work(number: int) -> None:
            mine = parts[number :: self._workers]
            done = 0
            while done < len(mine) and goes_on():
                alone = mine[done].tests_of is None
                found = measured(mine[done : done + (1 if alone else AT_ONCE)], patcher)
                self._append(found)
                done += len(found)
                self._tell(f"{done} of {len(mine)} parts are measured")

        before = len(list(self._read()))
        in_workers(self._workers, work)
        failed = [one["failed"] for one in list(self._read())[before:] if "failed" in one]
        if failed:
            raise UnsoundError("; ".join(failed))

    def _append(self, found: Mapping[str, Measured | str]) -> None:
        with self._file.open("a", encoding="utf-8") as lines:
            for part, one in found.items():
                what = {"failed": one} if isinstance(one, str) else {"seconds": one.seconds, "lines": one.lines}
                lines.write(json.dumps({"tree": self.tree, "part": part, **what}) + "\n")

    def _read(self) -> Iterator[dict[str, Any]]:
        """The lines of this tree; one that was cut short counts not."""
        for line in self._file.read_text("utf-8").splitlines() if self._file.exists() else ():
            try:
                one = json.loads(line)
            except json.JSONDecodeError:
                continue
            if one["tree"] == self.tree:
                yield one
