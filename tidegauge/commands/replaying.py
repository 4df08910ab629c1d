"""`tidegauge replay`: a saved counterexample again, on the specification, on the cores, on a whole cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import tidegauge
from tidegauge.commands.outputs import check_folder, check_page, write_text
from tidegauge.commands.showing import check_lane, narrated, with_turn
from tidegauge.exits import Status
from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Failure, load, replay_line
from tidegauge.model_tests.harness.counterexamples.replay import Level, Replayed, levels_of
from tidegauge.model_tests.harness.counterexamples.replay import replay as replay_at
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.report.page import write
from tidegauge.model_tests.harness.report.replayed import report_of, title_of
from tidegauge.model_tests.harness.report.state_space import Way
from tidegauge.screen import Screen
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import Machine

Flag = Annotated[bool, Parameter(negative="")]


def replay(
    file: Path,
    *,
    on: Literal["spec", "cores", "cluster", "all"] = "all",
    without_bug: Flag = False,
    out: Path | None = None,
    page: Path | None = None,
    lane: str | None = None,
    json: Flag = False,
) -> Status:
    """Replay a counterexample and show where it goes wrong.

    Parameters
    ----------
    file
        A counterexample, as verify, the tests and the simulation save them (model_tests/counterexamples has some).
    on
        The specification, the deterministic cores, a simulated cluster, or each in turn.
    without_bug
        Leave the file's bug switched off: then nothing may go wrong.
    out
        Write the sequence diagram to index.html in this folder.
    page
        Write an HTML page to walk by hand through the states of the specification, this trace and those near it.
    lane
        Tell of the trace what one party sees, such as "broker 1".
    json
        Print one JSON document and nothing else.
    """
    screen = Screen("replay", json=json)
    counterexample = load(file)
    if out is not None:
        check_folder("--out", out)
    if page is not None:
        check_page("--page", page)
    if lane is not None:
        check_lane(counterexample.machine, lane)
    bug = None if without_bug else counterexample.bug
    screen.header({"file": file, "bug": bug or "none", "on": on, "expected": counterexample.expected})
    if bug is not None:
        screen.say(f"{title_of(bug)}\n")
    levels = levels_of(counterexample.machine, bug) if on == "all" else [Level(on)]
    replayed = [replay_at(counterexample, level, with_bug=not without_bug) for level in levels]
    for number, one in enumerate(replayed):
        show(screen, counterexample, one, told=number == 0, lane=lane)
    if on == "all":
        show_left_out(screen, counterexample.machine, bug)
    if out is not None:
        again = replay_line(file) + (f" --on {on}" if on != "all" else "") + (" --without-bug" if without_bug else "")
        report = report_of(counterexample, replayed, again, tidegauge.__version__)
        screen.say(f"\nthe sequence diagram is in {write(report, out)}")
    if page is not None:
        again = f"{replay_line(file)} --page {page}" + (" --without-bug" if without_bug else "")
        write_text("--page", page, page_of(counterexample, bug, again))
        screen.say(f"\npage written to {page}: open it in a browser")
    failed = any(one.failed for one in replayed)
    return screen.finish(Status.VIOLATED if failed else Status.HOLDS, document(counterexample, bug, replayed))


def page_of(counterexample: Counterexample, bug: str | None, again: str) -> str:
    """The page to walk through, which begins with the trace of the specification; `again` writes it again."""
    from tidegauge.model_tests.harness.report.walk import walk_through

    specified = replay_at(counterexample, Level.SPEC, with_bug=bug is not None)
    machine = counterexample.machine if bug is None else counterexample.buggy_machine()
    name = "the trace of the file" if specified.failure is None else str(specified.failure)
    return walk_through(machine, [Way(name, specified.trace, specified.cycle)], bug=bug, reproduce=again)


def show_left_out(screen: Screen, machine: Machine[Any], bug: str | None) -> None:
    """The levels that the machine, or its bug, does not have."""
    levels = levels_of(machine, bug)
    left_out = [level.value for level in Level if level not in levels]
    if left_out:
        only_the_bug = bug is not None and levels_of(machine) != levels
        why = f"no implementation has the bug {bug}" if only_the_bug else why_unbound(machine)
        screen.say(f"not replayed on the {' and the '.join(left_out)}: {why}")


def why_unbound(machine: Machine[Any]) -> str:
    """Why the levels that are left out are not there, as the machine's registration says."""
    reasons = "; ".join(dict.fromkeys(HARNESS.of(machine).unbound.values()))
    return f"no implementation is bound to this machine{f': {reasons}' if reasons else ''}"


def show(
    screen: Screen, counterexample: Counterexample, replayed: Replayed, *, told: bool, lane: str | None = None
) -> None:
    """One level: every step with what it changed, where it is `told`; then what went wrong, if anything."""
    if told:
        stem = len(replayed.trace.steps) - replayed.cycle
        for line in with_turn(narrated(counterexample.machine, replayed.trace, lane), stem, replayed.cycle):
            screen.say(line)
        if replayed.cycle:
            screen.say(f"↻ all stands as after step {stem}")
        screen.say()
    outcome = f"step {replayed.at}: {replayed.words}" if replayed.failed else "nothing goes wrong"
    if replayed.failure is not None and replayed.failure.kind is Failure.GOAL:
        outcome = replayed.words
    screen.say(f"on the {replayed.level.value}: {outcome}", style="bold" if replayed.failed else None)
    if replayed.skipped:
        screen.say(f"  {len(replayed.skipped)} of {len(counterexample.actions)} actions were not enabled and skipped")


def document(counterexample: Counterexample, bug: str | None, replayed: Sequence[Replayed]) -> dict[str, Any]:
    return {
        "bug": bug,
        "expected": str(counterexample.expected),
        "levels": [
            {
                "level": one.level.value,
                "failed": one.failed,
                "at": one.at,
                "cycle": one.cycle,
                "failure": str(one.failure) if one.failure else None,
                "words": one.words,
                "actions": [plain(action) for action in one.trace.actions],
                "skipped": [plain(action) for action in one.skipped],
            }
            for one in replayed
        ],
    }
