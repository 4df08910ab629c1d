"""`python -m tidegauge.spark_check.explore MODEL --out DIR`: explore a specification with Spark."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from tidegauge.spark_check.errors import CannotRun
from tidegauge.spark_check.exploring import LevelDone, explore_by_spark
from tidegauge.spark_check.options import add_session_options, check_session, parsed, positive, session_of
from tidegauge.spark_check.session import check_pyspark
from tidegauge.spark_check.state_rows import named_machine
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.exploration import Exploration
from tidegauge.spec.kernel.narrating import narrate
from tidegauge.spec.kernel.progress import Stop

NAME = "tidegauge explore"


def main(arguments: Sequence[str] | None = None) -> int:
    """0: what was visited holds; 1: an invariant is violated; 2: the search could not run."""
    options = parsed(_parser, arguments)
    make = partial(named_machine, options.spec, options.bug, options.constants)
    try:
        check_session(options)
        list(make().initial())
        check_pyspark()
        found = explore_by_spark(
            session_of(options, NAME),
            make,
            options.out,
            stop=Stop(options.stop),
            max_depth=options.max_depth,
            symmetry=options.symmetry,
            resume=options.resume,
            on_level=_show_progress,
        )
    except (CannotRun, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted; whole levels are kept: --resume goes on behind them", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(_document(found)))
    else:
        _show(found)
    return 0 if found.holds else 1


def _show_progress(levels: Sequence[LevelDone]) -> None:
    states = sum(level.states for level in levels)
    print(f"level {len(levels)}: {levels[-1].states:,} new states, {states:,} in all", file=sys.stderr, flush=True)


def _show(found: Exploration[Any]) -> None:
    ended = "every reachable state" if found.cut is None else f"stopped by: {found.cut.value}"
    print(f"{found.distinct:,} distinct states, {found.generated:,} steps, depth {found.depth} ({ended})")
    if found.orbits is not None:
        print(f"the orbits hold {found.orbits:,} states: so many has the search without symmetry")
    for row in found.coverage:
        print(f"  {row.action}: enabled in {row.enabled:,} states, {row.taken:,} steps, {row.found:,} to a new state")
    if found.reached:
        print(f"reached: {', '.join(f'{goal} ({len(trace)})' for goal, trace in found.reached.items())}")
    if found.unreached:
        print(f"not reached: {', '.join(found.unreached)}")
    for violation in found.violations:
        print(f"{violation.invariant} is violated, in a trace of {len(violation.trace)} states:")
        for line in narrate(violation.trace):
            print(line)


def _document(found: Exploration[Any]) -> dict[str, Any]:
    return {
        "machine": found.machine,
        "holds": found.holds,
        "cut": found.cut.value if found.cut else None,
        "distinct": found.distinct,
        "generated": found.generated,
        "levels": list(found.levels),
        "orbits": found.orbits,
        "terminal": found.terminal,
        "coverage": [
            {"action": row.action, "enabled": row.enabled, "taken": row.taken, "found": row.found}
            for row in found.coverage
        ],
        "reached": {goal: len(trace) for goal, trace in found.reached.items()},
        "unreached": list(found.unreached),
        "violations": [
            {"invariant": each.invariant, "count": each.count, "actions": [*map(plain, each.trace.actions)]}
            for each in found.violations
        ],
    }


def _parser(is_lenient: bool = False) -> argparse.ArgumentParser:
    """The options; a lenient parser misses nothing that is not there."""
    parser = argparse.ArgumentParser(
        prog="python -m tidegauge.spark_check.explore", description="Explore a specification with Spark."
    )
    one = "?" if is_lenient else None
    parser.add_argument("spec", nargs=one, metavar="MODEL", help="a machine or a model of one, as of tidegauge list")
    parser.add_argument("constants", nargs="*", default=[], metavar="NAME=VALUE", help="constants and bounds")
    parser.add_argument(
        "--out", required=not is_lenient, metavar="DIR", help="where the levels go: a new or empty folder, or a URI"
    )
    parser.add_argument("--bug", help="a historical bug to switch on")
    parser.add_argument("--symmetry", action="store_true", help="one state of those that differ only in names")
    parser.add_argument(
        "--stop",
        choices=[stop.value for stop in Stop],
        default=Stop.FIRST.value,
        help="when a violation ends the search, behind its level",
    )
    parser.add_argument("--max-depth", type=positive, metavar="N", help="stop after so many levels")
    parser.add_argument("--resume", action="store_true", help="go on with the search that was begun in DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_session_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
