"""What TLC 2.20 found in each of its runs on published models (tlc.json), and how our explorer is held against it.

A search of ours finds what a run of TLC's did if it counts the same states, on the same levels, and the same steps by
action; or where an invariant is violated, if that one is first, and its shortest trace has as many states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import Limits, Stop, explore
from tidegauge.spec.kernel.json_objects import each_name_once
from tidegauge.spec.kernel.machine import Machine


@attrs.frozen
class Run:
    """One run of TLC's."""

    spec: str
    """The TLA+ model."""
    constants: Mapping[str, int | str]
    """What the run has otherwise than the model's published configuration; what is no number is in TLA+."""
    symmetry: bool
    distinct: int
    """States; where an invariant is violated, those until then, which depends on the order."""
    generated: int
    """States with those that were known, and the initial ones."""
    depth: int
    """Levels; where the run was cut, up to which one, which was expanded too."""
    invariants: tuple[str, ...] = attrs.field(converter=tuple)
    levels: tuple[int, ...] = attrs.field(default=(), converter=tuple)
    """New states on each level, if they were noted."""
    actions_generated: Mapping[str, int] = attrs.field(factory=dict)
    """Steps by action, if they were noted; Init has the initial states."""
    violated: str | None = None
    """The invariant that is violated first, and how many states the shortest trace to it has."""
    trace_states: int | None = None
    changed: bool = False
    """A rule of the model is broken."""
    view_kept: bool = False
    """States that differ in what the model's view leaves out count as one."""


def runs_of(text: str) -> dict[str, Run]:
    """By name. Raises ValueError for a name that is there twice, TypeError for a field that no run has."""
    found: dict[str, dict[str, Any]] = json.loads(text, object_pairs_hook=each_name_once)
    return {name: Run(**run) for name, run in found.items()}


RUNS: Final[Mapping[str, Run]] = runs_of(Path(__file__).with_name("tlc.json").read_text("utf-8"))

OURS: Final[Mapping[str, Mapping[str, str]]] = {"txn01": {"CompleteInitPidRequest": "CommitTxnLogAppend"}}
"""What an action of a TLA+ model is called here, where a later model of the same author has it by another name."""


@attrs.frozen
class Search:
    """A search of ours that has to find what runs of TLC's have found."""

    machine: Machine[Any]
    names: tuple[str, ...]
    """The runs; more than one if TLC has done it again with other statistics."""
    converges: bool = False
    """What has to hold in the end is asked besides, which TLC was not."""
    deep: bool = False

    @property
    def cut(self) -> bool:
        """TLC's run was cut at a level: its name says at which."""
        return "_cap" in self.names[0]

    def agrees(self, engine: Engine) -> None:
        """Raises AssertionError where it finds something else."""
        runs = [RUNS[name] for name in self.names]
        first = runs[0]
        found = explore(
            self.machine,
            limits=Limits(depth=first.depth + 1) if self.cut else Limits(),
            symmetry=first.symmetry,
            stop=Stop.FIRST,
            converges=self.converges,
            engine=engine,
        )
        assert found.engine is engine
        for run in runs:
            if run.violated:
                assert [(one.invariant, len(one.trace)) for one in found.violations] == [
                    (run.violated, run.trace_states)
                ]
                # TLC has all states of the levels before the violation.
                assert sum(found.levels[: len(found.violations[0].trace) - 1]) < run.distinct
            else:
                self._counts_as_in(run, found)

    def _counts_as_in(self, run: Run, found: Exploration[Any]) -> None:
        assert found.holds
        assert found.complete or self.cut
        # A search that is cut at a depth does not expand its last level; TLC has.
        assert len(found.levels) == run.depth + self.cut
        assert sum(found.levels[: run.depth]) == run.distinct
        assert found.generated + found.levels[0] == run.generated
        if run.levels:
            assert found.levels[: run.depth] == run.levels
        if run.actions_generated:
            taken = {"Init": found.levels[0], **{one.action: one.taken for one in found.coverage}}
            ours = OURS.get(run.spec, {})
            assert {name: count for name, count in taken.items() if count} == {
                ours.get(name, name): count for name, count in run.actions_generated.items() if count
            }


def search(machine: Machine[Any], *names: str, **asked: bool) -> Search:
    """In the order of a table: the machine, and the runs of TLC's that it is held against."""
    return Search(machine, names, **asked)
