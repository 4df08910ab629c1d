"""The table of TLC's runs in docs/published.md, of what the tests hold. Run it as a program to write it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tidegauge.model_tests.harness.published import STEPS
from tidegauge.model_tests.spec.published.searches import NOT_SEARCHED, SEARCHES
from tidegauge.model_tests.spec.published.tlc import RUNS, Search
from tidegauge.spec.kernel.machine import Machine, constants_of
from tidegauge.spec.registry import REGISTRY

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "published.md"
HEAD: Final = (
    "| run of TLC's | explored as | states | levels | violated, and in a trace of | held |",
    "|---|---|---|---|---|---|",
)


def rows() -> list[str]:
    """A row for each run, in the order of `tlc.json`."""
    return [row(name) for name in RUNS]


def row(name: str) -> str:
    run, search = RUNS[name], SEARCHES.get(name)
    violated = f"{run.violated}, {run.trace_states} states" if run.violated else "–"
    states = "–" if run.violated else f"{run.distinct:,}"
    if search is None:
        return f"| `{name}` | – | {states} | {run.depth} | {violated} | no: {NOT_SEARCHED[name]} |"
    levels = f"the first {run.depth}" if search.cut else f"{run.depth}"
    held = "by the deep tests" if search.deep else "by every run of the tests"
    return f"| `{name}` | {told(search)} | {states} | {levels} | {violated} | {held} |"


def told(search: Search) -> str:
    """The search as a command has it, and the rule that is another one."""
    machine = search.machine
    name = registered(machine)
    constants = constants_of(REGISTRY.machine(name))
    changed = [f"{key}={value}" for key, value in constants_of(machine).items() if value != constants[key]]
    symmetry = ["--symmetry"] * RUNS[search.names[0]].symmetry
    variant = type(machine).__name__
    rule = "" if variant in (type(REGISTRY.machine(name)).__name__, "CountedAsByTlc") else f", {variant}"
    return f"`{' '.join([name, *changed, *symmetry])}`{rule}"


def registered(machine: Machine[Any]) -> str:
    """The published machine that it is, or that it is a variant of."""
    kinds = {type(REGISTRY.machine(name)): name for name in STEPS}
    return next(kinds[kind] for kind in type(machine).__mro__ if kind in kinds)


def page() -> str:
    """The page with this table in place of the one that it has."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition(HEAD[0])
    rest = after.splitlines()[2:]
    behind = next((number for number, line in enumerate(rest) if not line.startswith("|")), len(rest))
    return before + "\n".join((*HEAD, *rows(), *rest[behind:])) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
