"""What `tidegauge explore` and `replay` show of a trace: all of it, one lane, or a page to walk through by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from tidegauge.commands.outputs import check_page, check_page_size, write_text
from tidegauge.exits import Unusable
from tidegauge.model_tests.harness.report.state_space import STATES, Way
from tidegauge.spec.kernel.exploration import Exploration
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.narrating import narrate
from tidegauge.spec.kernel.simulation import walk
from tidegauge.spec.kernel.traces import Trace

MOST_STATES = 10_000
"""Of a page: so many states of a small model are 5 MB."""
WALKED = 60
"""Steps of the random walk that a page may begin with."""


@attrs.frozen
class Showing:
    """The options that say what is shown of a trace, and of the states near it."""

    lane: Annotated[str | None, Parameter(help='Tell of a trace what one party sees, such as "broker 1".')] = None
    page: Annotated[
        Path | None,
        Parameter(
            help="Write an HTML page to walk through the states by hand: counterexamples, a trace to each goal, and "
            "what is near."
        ),
    ] = None
    page_states: Annotated[
        int, Parameter(help=f"States of that page, at least those of its traces; at most {MOST_STATES}.")
    ] = STATES
    page_seed: Annotated[int | None, Parameter(help="Begin that page with a random walk of this seed.")] = None

    def check(self, machine: Machine[Any]) -> None:
        """Raises Unusable for a lane that the machine has not, or a page that cannot be written."""
        if self.lane is not None:
            check_lane(machine, self.lane)
        check_page_size("--page-states", self.page_states, MOST_STATES)
        if self.page is not None:
            check_page("--page", self.page)
            return
        for option, value, usual in (
            ("--page-seed", self.page_seed, None),
            ("--page-states", self.page_states, STATES),
        ):
            if value != usual:
                raise Unusable(f"{option} {value}: name the page, by --page FILE")

    @property
    def given(self) -> Mapping[str, object]:
        """The options of the page by their names."""
        return {"--page": self.page, "--page-states": self.page_states, "--page-seed": self.page_seed}


def check_lane(machine: Machine[Any], lane: str) -> None:
    """Raises Unusable, with the lanes that there are."""
    initial = next(iter(machine.initial()))
    try:
        list(narrated(machine, Trace(initial), lane))
    except ValueError as error:
        raise Unusable(f"--lane: {error}") from None


def narrated(machine: Machine[Any], trace: Trace[Any], lane: str | None) -> Iterator[str]:
    """A trace step by step, or what one lane of its diagram sees of it."""
    if lane is None:
        return narrate(trace)
    from tidegauge.model_tests.harness.registry import HARNESS
    from tidegauge.model_tests.harness.report import projection

    return projection.narrated(HARNESS.of(machine).steps(trace), lane)


def with_turn(lines: Iterator[str], stem: int, cycle: object) -> Iterator[str]:
    """The lines of a lasso, with a mark before the first step behind the `stem`, if there is a `cycle`."""
    is_marked = not cycle
    for line in lines:
        number = line.partition(". ")[0]
        if not is_marked and number.isdecimal() and int(number) > stem:
            is_marked = True
            yield "↻ from here on round and round:"
        yield line


def write_page(
    given: Showing, machine: Machine[Any], found: Exploration[Any], bug: str | None, words: Sequence[str]
) -> None:
    """Write the page to walk through; `words` are the command line that explores the same again."""
    from tidegauge.model_tests.harness.report.walk import walk_through

    assert given.page is not None, "else there is nothing to write"
    ways = [*walked(machine, given.page_seed), *ways_of(found)]
    again = join(["tidegauge", "explore", *words])
    write_text("--page", given.page, walk_through(machine, ways, bug=bug, reproduce=again, states=given.page_states))


def walked(machine: Machine[Any], seed: int | None) -> list[Way]:
    """A random walk of the specification, if there is a seed."""
    if seed is None:
        return []
    found = walk(machine, seed, length=WALKED)
    ended = "" if found.violation is None else f": {found.violation.invariant} is violated"
    return [Way(f"the walk of seed {seed}{ended}", found.trace)]


def ways_of(found: Exploration[Any]) -> list[Way]:
    """What a page shows first: the counterexamples, then a trace to each goal that was reached."""
    ways = [Way(f"{violation.invariant} is violated", violation.trace) for violation in found.violations]
    ways += [Way(f"not reached for good: {lasso.goal}", lasso.trace, len(lasso.cycle)) for lasso in found.lassos]
    return ways + [Way(f"reaches: {goal}", trace) for goal, trace in found.reached.items()]
