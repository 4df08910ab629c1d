"""`tidegauge explore`: every reachable state of a specification, within its bounds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
from cyclopts import Parameter

from tidegauge.commands.outputs import check_file, write_text
from tidegauge.commands.showing import Showing, narrated, with_turn, write_page
from tidegauge.commands.specs import model
from tidegauge.commands.storing import Storing, chosen_engine, storage_for
from tidegauge.exits import Status, Unusable
from tidegauge.model_tests.harness.counterexamples.explored import counterexample_in
from tidegauge.model_tests.harness.counterexamples.files import Counterexample, dumps, replay_line
from tidegauge.screen import Screen
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.codec import trace_lines
from tidegauge.spec.kernel.constants import settable
from tidegauge.spec.kernel.convergence import Convergence
from tidegauge.spec.kernel.explaining import told
from tidegauge.spec.kernel.explorer import Exploration
from tidegauge.spec.kernel.explorer import explore as search
from tidegauge.spec.kernel.lasso import Lasso
from tidegauge.spec.kernel.leads_to import Responses
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.meaning import property_meaning
from tidegauge.spec.kernel.progress import Limits, Progress, Stop
from tidegauge.spec.kernel.traces import Violation
from tidegauge.spec.registry import REGISTRY

NAMES = "A machine, or a model of one: tidegauge list tells which there are."
Flag = Annotated[bool, Parameter(negative="")]


@attrs.frozen
class Ending:
    """The options that end a search before it has seen all states."""

    max_states: Annotated[int | None, Parameter(help="Stop after so many distinct states.")] = None
    max_depth: Annotated[int | None, Parameter(help="Stop after so many levels.")] = None
    max_seconds: Annotated[
        float | None,
        Parameter(
            help="Stop after so many CPU seconds; with workers, so many seconds. What the fast engine takes to "
            "compile, some 20 seconds the first time, is told apart, and does not count."
        ),
    ] = None

    @property
    def limits(self) -> Limits:
        """Raises Unusable for a limit that leaves nothing to search."""
        try:
            return Limits(self.max_states, self.max_depth, self.max_seconds)
        except ValueError as error:
            raise Unusable(f"--max-{error}") from None

    @property
    def given(self) -> dict[str, int | float | None]:
        """The limits by their options."""
        return {"--max-states": self.max_states, "--max-depth": self.max_depth, "--max-seconds": self.max_seconds}


def explore(
    spec: Annotated[str, Parameter(help=NAMES)],
    *constants: str,
    bug: str | None = None,
    symmetry: Flag = False,
    liveness: Annotated[bool, Parameter(negative="--no-liveness")] = True,
    ending: Annotated[Ending, Parameter(name="*")] = Ending(),
    stop: Literal["first", "each", "never"] = "first",
    engine: Literal["auto", "plain", "fast"] = "auto",
    workers: int = 1,
    storing: Annotated[Storing, Parameter(name="*")] = Storing(),  # noqa: B008 - it is frozen
    trace: Path | None = None,
    counterexample: Path | None = None,
    showing: Annotated[Showing, Parameter(name="*")] = Showing(),  # noqa: B008 - it is frozen
    json: Flag = False,
) -> Status:
    """Explore a specification exhaustively, breadth first: its invariants in every state, its goals in the end.

    Parameters
    ----------
    constants
        Constants and bounds as NAME=VALUE, for example brokers=2 max_records=2 Crash=1.
    bug
        A historical bug to switch on.
    symmetry
        Explore one state of those that differ only in the brokers' names.
    liveness
        Look for what is not reached for good, and for what is owed and never comes. Without it no steps are kept:
        they take more memory than states.
    stop
        When a violation ends the search: at the first, once each invariant is violated, or never.
    engine
        `fast` needs numba (`pip install '.[fast]'` in a clone), `auto` takes it for large searches; the same is found.
    workers
        Spread states over so many processes of the plain engine, or threads of the fast one; the same is found.
    trace
        Write the first counterexample to this file, as JSON lines with every state.
    counterexample
        Write the first counterexample to this file, for `tidegauge replay`.
    json
        Print one JSON document and nothing else.
    """
    screen = Screen("explore", json=json)
    machine = model(spec, bug, constants)
    list(machine.initial())  # constants that fit no initial state are refused here
    limits = ending.limits
    check_outputs(trace, counterexample)
    showing.check(machine)
    chosen = chosen_engine(storing, engine, workers)
    how = {"symmetry": symmetry, "liveness": liveness, "stop": stop}
    screen.header({"spec": spec, "bug": bug, **settable(machine), **how})
    with storage_for(machine, storing, **how) as storage:
        options: dict[str, Any] = {"limits": limits, "stop": Stop(stop), "symmetry": symmetry, "converges": liveness}
        found = searched(screen, machine, **options, storage=storage, engine=chosen, workers=workers)
    show(screen, machine, found, showing.lane)
    if not liveness:
        screen.say("not looked for: what is reached for good, and what comes whenever it is owed (--no-liveness)")
    write_counterexample(screen, machine, found, bug, trace, counterexample)
    if showing.page is not None:
        given = {"--bug": bug, **ending.given, "--stop": stop, **showing.given}
        write_page(
            showing, machine, found, bug, again_by([spec, *constants], given, symmetry=symmetry, liveness=liveness)
        )
        screen.say(f"page written to {showing.page}: open it in a browser")
    return screen.finish(Status.HOLDS if found.holds else Status.VIOLATED, document(found))


def searched(screen: Screen, machine: Machine[Any], **options: Any) -> Exploration[Any]:
    """Explore, and show how far it is."""
    with screen.progress(f"exploring {machine.name}") as advance:

        def on_progress(at: Progress) -> None:
            advance(" ".join(filter(None, (words_of(at), estimate_of(at)))))

        clock = time.process_time if options.get("workers", 1) == 1 else time.monotonic
        return search(machine, clock=clock, progress=on_progress, **options)


def words_of(at: Progress) -> str:
    """How far a search is."""
    rate = f" {at.rate:,.0f}/s" if at.rate else ""
    return f"{at.distinct:,} states, depth {at.depth}, {at.frontier:,} to expand{rate}"


def estimate_of(at: Progress) -> str:
    """How far it is to the end, as the growth of the levels so far has it; empty where that does not say."""
    if at.estimated is None or at.seconds_left is None:
        return ""
    minutes, seconds = divmod(round(at.seconds_left), 60)
    left = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {seconds} s"
    return f"(if levels go on as they grow: about {at.estimated:,} states, {left} left)"


def again_by(words: Sequence[str], given: Mapping[str, object], *, symmetry: bool, liveness: bool) -> list[str]:
    """The words of the command line that explores the same again."""
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return [*words, *options, *["--symmetry"] * symmetry, *["--no-liveness"] * (not liveness)]


def check_outputs(trace: Path | None, counterexample: Path | None) -> None:
    """Raise Unusable for a file that cannot be written to, before the search."""
    for option, file in (("--trace", trace), ("--counterexample", counterexample)):
        if file is not None:
            check_file(option, file)


def write_counterexample(
    screen: Screen,
    machine: Machine[Any],
    found: Exploration[Any],
    bug: str | None,
    trace: Path | None,
    counterexample: Path | None,
) -> None:
    """Write the first counterexample, if there is one, in the forms that were asked for."""
    if trace is not None and (lines := told_by_line(machine, found)):
        write_text("--trace", trace, "".join(f"{line}\n" for line in lines))
        screen.say(f"counterexample written to {trace}")
    if counterexample is not None and (saved := to_replay(machine, bug, found)) is not None:
        write_text("--counterexample", counterexample, dumps(saved, replay_line(counterexample)))
        screen.say(f"counterexample written: {replay_line(counterexample)}")


def told_by_line(machine: Machine[Any], found: Exploration[Any]) -> list[str]:
    """The first counterexample, state by state; of a lasso the stem and the cycle once."""
    if found.violations:
        return list(trace_lines(machine, found.violations[0].trace, found.violations[0]))
    return [line for lasso in found.lassos[:1] for line in trace_lines(machine, lasso.trace)]


def to_replay(machine: Machine[Any], bug: str | None, found: Exploration[Any]) -> Counterexample | None:
    """The first counterexample as the file has it: of the correct machine, with the name of its bug."""
    correct = machine
    if bug is not None:
        known = REGISTRY.bug(bug)
        correct = machine.exchanged(known.buggy, known.replaced)
    return counterexample_in(found, correct, bug)


def show(screen: Screen, machine: Machine[Any], found: Exploration[Any], lane: str | None = None) -> None:
    """The tables of one exploration, and what it found."""
    ended = "every reachable state" if found.complete else f"stopped by: {found.cut.value if found.cut else ''}"
    seconds, by = "CPU s", f"{found.engine.value} engine"
    if found.workers > 1:
        seconds, by = "s", f"{by}, {found.workers} workers"
    screen.say(
        f"{found.distinct:,} distinct states, {found.generated:,} steps, depth {found.depth}, "
        f"{found.seconds or 0:.1f} {seconds}, {found.rate or 0:,.0f} states/s ({ended}, {by})"
    )
    if found.compiling:
        screen.say(f"the engine was compiled in {found.compiling:.1f} {seconds} more; what has been compiled is kept")
    if found.orbits is not None:
        screen.say(f"the orbits hold {found.orbits:,} states: so many has the search without symmetry")
    screen.say()
    rows = [(row.action, row.enabled, row.taken, row.found) for row in found.coverage]
    screen.table(("action", "states with it enabled", "steps", "to a new state"), rows)
    screen.say()
    show_statistics(screen, found)
    if found.never_enabled:
        screen.say(f"never enabled: {', '.join(found.never_enabled)}")
    if found.reached:
        screen.say(f"reached: {', '.join(f'{goal} ({len(trace)})' for goal, trace in found.reached.items())}")
    if found.unreached:
        screen.say(f"not reached: {', '.join(found.unreached)}")
    violated = {violation.invariant for violation in found.violations}
    screen.say(
        f"hold: {', '.join(name for name in (*machine.invariants, *machine.step_invariants) if name not in violated)}"
    )
    if found.convergence is not None:
        show_convergence(screen, found.convergence, complete=found.complete)
    for violation in found.violations:
        show_violation(screen, machine, violation, lane)
    if found.responses is not None:
        failed = {lasso.goal for lasso in found.responses.lassos}
        if good := [name for name in found.responses.names if name not in failed]:
            screen.say(f"comes whenever it is owed: {'; '.join(good)}")
    for lasso in found.lassos:
        show_lasso(screen, machine, lasso, lane)


def show_statistics(screen: Screen, found: Exploration[Any]) -> None:
    """What the state space looks like."""
    told = found.statistics
    screen.say(f"states by depth: {', '.join(f'{level:,}' for level in found.levels)}")
    if degrees := told.out_degrees:
        screen.say(
            f"steps out of a state: {min(degrees)} to {max(degrees)}, {told.mean_out_degree:.2f} on the average, "
            f"at most {told.out_degree_of(0.95)} out of 95 % of them"
        )
    if told.symmetric_share is not None:
        sizes = ", ".join(f"{count:,} of {size}" for size, count in sorted(told.orbit_sizes.items()))
        screen.say(f"orbits by their states: {sizes}; {told.symmetric_share:.1%} have a symmetry of their own")


def show_convergence(screen: Screen, found: Convergence[Any], *, complete: bool) -> None:
    """Which goals are reached for good, and where that was looked for."""
    failed = {lasso.goal for lasso in found.lassos}
    whole = "" if complete else " that the search has seen whole"
    components = f"{found.components:,} bottom component{'s' * (found.components != 1)}"
    screen.say(f"{components} of fair steps{whole}, with {found.states:,} states")
    if good := [goal for goal in found.goals if goal not in failed]:
        screen.say(f"reached for good: {'; '.join(good)}")


def show_lasso(screen: Screen, machine: Machine[Any], lasso: Lasso[Any], lane: str | None) -> None:
    """The way into a failure, and how it goes on for ever."""
    screen.say()
    screen.say(f"not reached for good: {lasso.goal}", style="bold red")
    count = len(lasso.stem.steps)
    screen.say(f"after {count} action{'' if count == 1 else 's'} {lasso.words}:")
    for line in with_turn(narrated(machine, lasso.trace, lane), len(lasso.stem.steps), lasso.cycle):
        screen.say(line)
    if lasso.cycle:
        screen.say(f"↻ all stands as after step {len(lasso.stem.steps)}")
    for line in told(lasso.values):
        screen.say(f"     {line}")


def show_violation(screen: Screen, machine: Machine[Any], violation: Violation[Any], lane: str | None) -> None:
    screen.say()
    screen.say(f"{violation.invariant} is violated, in a trace of {len(violation.trace)} states:", style="bold red")
    for line in narrated(machine, violation.trace, lane):
        screen.say(line)
    for line in filter(None, (property_meaning(machine, violation.invariant), *told(violation.values))):
        screen.say(f"     {line}")


def document(found: Exploration[Any]) -> dict[str, Any]:
    """An exploration for machines."""
    return {
        "machine": found.machine,
        "engine": found.engine.value,
        "workers": found.workers,
        "holds": found.holds,
        "complete": found.complete,
        "cut": found.cut.value if found.cut else None,
        "distinct": found.distinct,
        "generated": found.generated,
        "depth": found.depth,
        "levels": list(found.levels),
        "orbits": found.orbits,
        "terminal": found.terminal,
        "seconds": found.seconds,
        "compiling": found.compiling,
        "rate": found.rate,
        "coverage": [
            {"action": row.action, "enabled": row.enabled, "taken": row.taken, "found": row.found}
            for row in found.coverage
        ],
        "statistics": {
            "out_degrees": {str(steps): states for steps, states in sorted(found.statistics.out_degrees.items())},
            "mean_out_degree": found.statistics.mean_out_degree,
            "found_by_depth": [dict(row) for row in found.statistics.found_by_depth],
            "orbit_sizes": {str(size): orbits for size, orbits in sorted(found.statistics.orbit_sizes.items())},
            "symmetric_share": found.statistics.symmetric_share,
        },
        "never_enabled": list(found.never_enabled),
        "reached": {goal: len(trace) for goal, trace in found.reached.items()},
        "unreached": list(found.unreached),
        "convergence": None if found.convergence is None else convergence_document(found.convergence),
        "leads_to": None if found.responses is None else responses_document(found.responses),
        "violations": [violation_document(violation) for violation in found.violations],
    }


def responses_document(found: Responses[Any]) -> dict[str, Any]:
    lassos = [{**lasso_document(lasso), "since": lasso.since} for lasso in found.lassos]
    return {"names": list(found.names), "lassos": lassos}


def convergence_document(found: Convergence[Any]) -> dict[str, Any]:
    return {
        "goals": list(found.goals),
        "components": found.components,
        "states": found.states,
        "lassos": [lasso_document(lasso) for lasso in found.lassos],
    }


def lasso_document(lasso: Lasso[Any]) -> dict[str, Any]:
    return {
        "goal": lasso.goal,
        "values": {name: plain(value) for name, value in lasso.values.items()},
        "words": lasso.words,
        "component": lasso.component,
        "false_in": lasso.false_in,
        "actions": [plain(action) for action in lasso.stem.actions],
        "cycle": [plain(step.action) for step in lasso.cycle],
    }


def violation_document(violation: Violation[Any]) -> dict[str, Any]:
    return {
        "invariant": violation.invariant,
        "values": {name: plain(value) for name, value in violation.values.items()},
        "states": len(violation.trace),
        "count": violation.count,
        "actions": [plain(action) for action in violation.trace.actions],
    }
