"""`tidegauge simulate`: whole clusters under faults, a seed each; a failure comes with the line that repeats it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from tidegauge.commands.outputs import check_folder
from tidegauge.commands.run_page import RunPage
from tidegauge.commands.workers import check_workers
from tidegauge.exits import Status, Unusable
from tidegauge.model_tests.harness.report.model import CampaignRun, Verdict
from tidegauge.model_tests.harness.simulation.options import Options, read_turns, with_turns
from tidegauge.model_tests.harness.verification.breeding import Corpus
from tidegauge.model_tests.harness.verification.bugs_of_campaigns import check_bug_of
from tidegauge.model_tests.harness.verification.campaigning import (
    OF_GROUPS,
    Campaign,
    Clients,
    campaign,
    drawn,
    gathered,
    ran_with,
)
from tidegauge.model_tests.harness.verification.campaigning import breed as bred
from tidegauge.model_tests.harness.verification.plan import check_seeds
from tidegauge.model_tests.harness.verification.run import check_twice, with_verdicts
from tidegauge.screen import Screen

Flag = Annotated[bool, Parameter(negative="")]


def simulate(
    *,
    seed: int = 1,
    seeds: int = 1,
    bug: str | None = None,
    transactions: Flag = False,
    groups: Flag = False,
    turns: str | None = None,
    breed: Flag = False,
    corpus: Path | None = None,
    workers: int = 2,
    out: Path | None = None,
    showing: Annotated[RunPage, Parameter(name="*")] = RunPage(),  # noqa: B008 - it is frozen
    json: Flag = False,
) -> Status:
    """Run simulated clusters with clients under faults; check what the clients saw and what the brokers decided.

    Parameters
    ----------
    seed
        The first seed; a seed decides everything: options, faults and their times.
    seeds
        How many seeds to run.
    bug
        A historical bug to switch on.
    transactions
        Let clients consume, transform and produce in transactions, with zombies, under faults.
    groups
        Let clients be members of a group, who join, leave, crash and pause; with --transactions they process what
        they consume in transactions, exactly once.
    turns
        Repeat the seed up to a time, and draw other faults from there on: times and numbers, as 0.35:1,0.8:2.
    breed
        Do so many runs as there are seeds, most of them turns of runs that have reached something new.
    corpus
        With --breed: go on from the runs that are kept in this folder, and keep those that are worth it.
    workers
        Processes; the results do not depend on it.
    out
        Keep the histories in this folder, as Parquet for tidegauge check and spark_check.
    json
        Print one JSON document and nothing else.
    """
    screen = Screen("simulate", json=json)
    clients = clients_of(transactions=transactions, groups=groups)
    check_together(seeds, turns, bug, breed=breed, corpus=corpus, clients=clients)
    showing.check(seeds=seeds, has_groups=groups, breeds=breed)
    options, kept = drawn_with(seed, seeds, bug, turns, corpus, clients)
    check_means(workers, out)
    tell_options(screen, options, {"seed": seed, "seeds": seeds, "bug": bug or "none", "workers": workers})
    with TemporaryDirectory() as scratch, screen.progress("simulating") as advance:
        folder = out or Path(scratch)
        tell = screen.warn if seeds > 1 else lambda words: None  # of a single one the result says it at once
        if breed:
            ran = bred(kept, seeds, folder, advance, workers=workers, on_failure=tell)
        elif turns is not None:
            ran = gathered([ran_with(options)], folder, bug)
        else:
            run = partial(campaign, workers=workers, bug=bug, clients=clients, on_failure=tell)
            ran = run(range(seed, seed + seeds), folder, advance)
        runs, undecided = checked(ran, folder)
    if breed:
        tell_kept(screen, kept, corpus)
    show(screen, ran, runs, bug)
    if (page := showing.write(options, clients, bug)) is not None:
        screen.say(f"\npage written to {page}: open it in a browser")
    good = all(is_good(run, undecided) for run in runs) and not ran.unmet
    return screen.finish(Status.HOLDS if good else Status.VIOLATED, document(ran, runs))


def drawn_with(
    seed: int, seeds: int, bug: str | None, turns: str | None, corpus: Path | None, clients: Clients
) -> tuple[Options, Corpus]:
    """The options of the first seed, and what breeding goes on from. Raises Unusable."""
    try:
        check_seeds(seed, seeds)
        check_bug_of(clients, bug)
        return turned(drawn(seed, bug, clients), turns), begun(Corpus(seed, bug), corpus)
    except ValueError as error:
        raise Unusable(f"--{error}") from None


def is_good(run: CampaignRun, undecided: frozenset[int]) -> bool:
    """Whether nothing is wrong with a run: as in `verify`, an undecided history is no failure, and a trace is one."""
    return run.verdict is Verdict.HOLDS or (run.verdict is Verdict.UNKNOWN and run.seed in undecided)


def check_means(workers: int, out: Path | None) -> None:
    """Raises Unusable for processes or a folder that cannot be had."""
    check_workers(workers)
    if out is not None:
        check_folder("--out", out)


def tell_kept(screen: Screen, kept: Corpus, folder: Path | None) -> None:
    """What breeding has kept, which is saved if there is a folder for it."""
    screen.say(f"fresh: {kept.fresh}; bred: {kept.bred}; {len(kept.kept)} runs are kept\n")
    if folder is not None:
        kept.save(folder)


def clients_of(*, transactions: bool, groups: bool) -> Clients:
    """What the clients do."""
    if groups and transactions:
        return Clients.EXACTLY_ONCE
    return Clients.GROUPS if groups else Clients.TRANSACTIONS if transactions else Clients.PLAIN


def checked(ran: Campaign, folder: Path) -> tuple[tuple[CampaignRun, ...], frozenset[int]]:
    """The rows with their verdicts, and the seeds whose history an unclean election leaves undecided: no failure."""
    twice, _ = check_twice([ran.histories], folder, None)
    return with_verdicts(ran.runs, twice), twice.undecided


def tell_options(screen: Screen, options: Options, asked: Mapping[str, object]) -> None:
    """What was asked, and of a single seed its options."""
    screen.header(asked)
    if asked["seeds"] == 1:
        screen.say("  ".join(f"{name}={value}" for name, value in options.described().items()) + "\n")


def turned(options: Options, turns: str | None) -> Options:
    """Raises ValueError."""
    return options if turns is None else with_turns(options, read_turns(turns))


def begun(kept: Corpus, folder: Path | None) -> Corpus:
    """Raises ValueError."""
    if folder is not None:
        kept.load(folder)
    return kept


def check_together(
    seeds: int, turns: str | None, bug: str | None, *, breed: bool, corpus: Path | None, clients: Clients
) -> None:
    """Raises Unusable for options that do not go together."""
    if turns is not None and (seeds > 1 or breed):
        raise Unusable(f"--turns {turns}: they are those of one seed: leave --seeds and --breed out")
    if clients is not Clients.PLAIN and breed:
        raise Unusable(f"{clients.option.strip()}: these runs are drawn from their seeds alone: leave --breed out")
    if clients in OF_GROUPS and turns is not None:
        raise Unusable(f"{clients.option.strip()}: these runs are drawn from their seeds alone: leave --turns out")
    if corpus is not None and not breed:
        raise Unusable(f"--corpus {corpus}: --breed keeps it: give that, too")


def show(screen: Screen, ran: Campaign, runs: tuple[CampaignRun, ...], bug: str | None) -> None:
    screen.table(
        ("seed", "operations", "unknown", "faults", "records lost to unclean elections", "verdict"),
        (
            (run.seed, run.operations, run.unknown, sum(run.faults.values()), run.declared_lost, run.verdict.value)
            for run in runs
        ),
    )
    for run in runs:
        for anomaly in run.anomalies:
            screen.say(f"\nseed {run.seed}: {anomaly.kind}: {anomaly.witness}")
        if run.anomalies:
            screen.say(f"again: {ran.reproduced[run.seed]}")
    for unmet in ran.unmet:
        screen.say(f"\n{unmet}")
    if len(runs) > 1 and ran.never_seen and not ran.unmet:
        screen.say(f"\nnot exercised: {', '.join(ran.never_seen)}")


def document(ran: Campaign, runs: tuple[CampaignRun, ...]) -> dict[str, Any]:
    return {
        "runs": [
            attrs.asdict(run, value_serializer=lambda _, __, value: getattr(value, "value", value)) for run in runs
        ],
        "sometimes": dict(ran.sometimes),
        "unmet": list(ran.unmet),
        "decisions": ran.events,
    }


def plain_value(_: object, __: object, value: Any) -> Any:
    """Enums by their value, all else as it is: for `attrs.asdict`."""
    return value.value if isinstance(value, Enum) else value
