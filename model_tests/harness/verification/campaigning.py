"""The campaign: a simulated cluster for each seed, its trace validated against the specification, its history kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

import attrs

from tidegauge.linearizability.check import check
from tidegauge.linearizability.files import HistoryWriter
from tidegauge.linearizability.history import Operations, Outcome
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.report.model import Anomaly, CampaignRun, Catch, Stage, Verdict
from tidegauge.model_tests.harness.simulation.group_campaign import simulate_group
from tidegauge.model_tests.harness.simulation.group_options import GroupOptions, draw_group
from tidegauge.model_tests.harness.simulation.options import Options, draw, with_many_elections
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate
from tidegauge.model_tests.harness.simulation.transacting_options import draw_transacting
from tidegauge.model_tests.harness.verification.breeding import GENERATION, Corpus
from tidegauge.model_tests.harness.verification.pool import Task, run

SEEDS_A_TASK = 2
"""Few, so that in the end no worker waits long for the other."""
SEEDS_TO_SEE = 60
"""Seeds after which a goal that was not reached once fails the campaign."""
SEEDS_TO_FIND = 30
"""Seeds after which a bug counts as missed."""
HISTORIES = "histories.parquet"
PROTOCOLS: Mapping[str, bool] = {"classic-groups": False, "consumer-groups": True, "group-loading": True}
"""Of machines that are of one protocol of groups: whether it is that of KIP-848."""


class Clients(Enum):
    """What the clients of a campaign do; the value is the folder of its histories."""

    PLAIN = ""
    """They produce and consume."""
    TRANSACTIONS = "transactions"
    """They do so in transactions (`simulation.transacting`)."""
    GROUPS = "groups"
    """They are members of a group (`simulation.group_campaign`)."""
    EXACTLY_ONCE = "exactly-once"
    """They are members of a group who process in transactions (`simulation.processors`)."""

    @property
    def option(self) -> str:
        """As it is on the command line."""
        if self is Clients.EXACTLY_ONCE:
            return f"{Clients.GROUPS.option}{Clients.TRANSACTIONS.option}"
        return f" --{self.value}" if self.value else ""


OF_GROUPS = (Clients.GROUPS, Clients.EXACTLY_ONCE)
"""Those whose clients are members."""
HOLDS = {
    Clients.PLAIN: "every trace is a behaviour of the specification, every cluster healed",
    Clients.TRANSACTIONS: "every trace is a behaviour of the specification, every cluster healed, no transaction hangs",
    Clients.GROUPS: "every group came together, and lasted, and what coordinators decided is the specification's",
    Clients.EXACTLY_ONCE: "every record has one committed output, and what coordinators decided is the specification's",
}

Advance = Callable[[str, int, int], None]


@attrs.frozen(eq=False)
class Ran:
    """One seed: its row of the report, its history (whose id is the seed), and what it saw."""

    run: CampaignRun
    operations: Operations
    failures: tuple[str, ...]
    reproduce: str
    sometimes: Mapping[str, int]
    events: int
    seconds: float
    covered: Mapping[int, float] = attrs.field(factory=dict)
    """As in `Simulated`."""


@attrs.frozen(eq=False)
class Campaign:
    """The results of all seeds: their rows in the order of the seeds, the file of their histories, and a summary."""

    runs: tuple[CampaignRun, ...]
    histories: Path
    sometimes: Mapping[str, int]
    """Rare things that a campaign should have seen → times seen."""
    failures: tuple[str, ...]
    """What went wrong, each with the line that reproduces it."""
    events: int
    seconds: float
    """CPU seconds."""
    bug: str | None = None
    reproduced: Mapping[int, str] = attrs.field(factory=dict)
    """The number of a run's history -> the command that runs it again."""
    clients: Clients = Clients.PLAIN
    bred: str | None = None
    """How a campaign whose runs are bred from one another is run again; "" where it began with runs of others."""

    @property
    def never_seen(self) -> tuple[str, ...]:
        return tuple(goal for goal, times in self.sometimes.items() if times == 0)

    @property
    def unmet(self) -> tuple[str, ...]:
        """What fails the campaign though no run fails: goals that it is large enough to have reached, and has not.

        A run with a bug has fewer faults, and need reach none.
        """
        if self.bug is not None or len(self.runs) < SEEDS_TO_SEE:
            return ()
        count, what = len(self.runs), "seeds" if self.bred is None else "runs"
        again = f"tidegauge simulate --seed {self.runs[0].seed} --seeds {count}{self.clients.option}"
        again = again if self.bred is None else self.bred
        told = f" (again: {again})" if again else ""
        return tuple(f"not seen in {count} {what}: {goal}{told}" for goal in self.never_seen)

    @property
    def stage(self) -> Stage:
        """The line of the table."""
        operations = sum(each.operations for each in self.runs)
        faults: Counter[str] = Counter()
        for each in self.runs:
            faults.update(each.faults)
        unseen = f"; not exercised: {', '.join(self.never_seen)}" if self.never_seen and not self.unmet else ""
        result = HOLDS[self.clients]
        if self.unmet:
            result = "; ".join(self.unmet)
        if self.failures:
            result = f"{len(self.failures)} runs fail, the first: {self.failures[0]}"
        what = f"{len(self.runs):,} clusters, {faults.total():,} faults, {operations:,} operations"
        return Stage(
            name=f"simulate {self.clients.value}".rstrip(),
            what=what + (f", {self.events:,} decisions" if self.events else ""),
            result=result + unseen,
            verdict=Verdict.VIOLATED if self.failures or self.unmet else Verdict.HOLDS,
            seconds=self.seconds,
        )


def campaign(
    seeds: Sequence[int],
    folder: Path,
    advance: Advance,
    *,
    workers: int = 2,
    bug: str | None = None,
    clients: Clients = Clients.PLAIN,
    on_failure: Callable[[str], None] = lambda words: None,
) -> Campaign:
    """Run every seed; histories go to `folder`. The result is the same for any number of workers.

    on_failure: called with each run that fails as soon as it is over; an interrupted campaign returns no result.
    """
    shares = [tuple(seeds[first : first + SEEDS_A_TASK]) for first in range(0, len(seeds), SEEDS_A_TASK)]
    tasks = [Task("simulate", ran_all, (share, bug, clients)) for share in shares]
    results: dict[int, list[Ran]] = {}
    for index, ran in run(tasks, workers):
        results[index] = ran
        for one in ran:
            if one.failures:
                on_failure(f"{one.failures[0].splitlines()[0].removesuffix(':')} (again: {one.reproduce})")
        advance("simulate", sum(map(len, results.values())), len(seeds))
    ordered = [one for index in range(len(tasks)) for one in results[index]]
    return gathered(ordered, folder, bug, clients)


def campaigns(
    seeds: Mapping[Clients, Sequence[int]], folder: Path, advance: Advance, *, workers: int = 2
) -> tuple[Campaign, ...]:
    """One for each kind of clients, with histories in a folder of its own; no seed is in two of them.

    Runs with transactions and groups take longest: those begin, so that no worker is left alone with one in the end.
    """
    order = sorted(seeds, key=[Clients.TRANSACTIONS, Clients.EXACTLY_ONCE, Clients.GROUPS, Clients.PLAIN].index)
    shares = [
        (clients, tuple(seeds[clients][first : first + size]))
        for clients in order
        for size in (SEEDS_A_TASK if clients is Clients.PLAIN else 1,)
        for first in range(0, len(seeds[clients]), size)
    ]
    tasks = [Task("simulate", ran_all, (share, None, clients)) for clients, share in shares]
    results: dict[int, list[Ran]] = {}
    for index, done in run(tasks, workers):
        results[index] = done
        advance("simulate", sum(map(len, results.values())), sum(map(len, seeds.values())))
    of_kind: dict[Clients, list[Ran]] = {clients: [] for clients in seeds}
    for index, (clients, _) in enumerate(shares):
        of_kind[clients] += results[index]
    return tuple(gathered(ran, folder / clients.value, None, clients) for clients, ran in of_kind.items())


def breed(
    corpus: Corpus,
    runs: int,
    folder: Path,
    advance: Advance,
    *,
    workers: int = 2,
    on_failure: Callable[[str], None] = lambda words: None,
) -> Campaign:
    """So many runs, generation by generation; `corpus` keeps those that are worth going on from."""
    done: list[Ran] = []
    again = "" if corpus.kept else f"tidegauge simulate --seed {corpus.seed} --seeds {runs} --breed"
    while len(done) < runs:
        generation = corpus.generation(min(GENERATION, runs - len(done)))
        results = dict(run([Task("simulate", ran_with, (options, True)) for options in generation], workers))
        for place, options in enumerate(generation):
            one: Ran = results[place]
            corpus.take(options, one.covered, one.seconds)
            done.append(attrs.evolve(one, covered={}))
            if one.failures:
                on_failure(f"{one.failures[0].splitlines()[0].removesuffix(':')} (again: {one.reproduce})")
        advance("simulate", len(done), runs)
    return attrs.evolve(gathered(done, folder, corpus.bug), bred=again)


def gathered(ordered: Sequence[Ran], folder: Path, bug: str | None, clients: Clients = Clients.PLAIN) -> Campaign:
    """The campaign of these runs; their histories go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with HistoryWriter(folder / HISTORIES) as writer:
        for one in ordered:
            writer.write(one.operations)
    return Campaign(
        tuple(one.run for one in ordered),
        folder / HISTORIES,
        summed(one.sometimes for one in ordered),
        tuple(f"{one.failures[0]} ({one.reproduce})" for one in ordered if one.failures),
        sum(one.events for one in ordered),
        sum(one.seconds for one in ordered),
        bug,
        {one.run.seed: one.reproduce for one in ordered},
        clients,
    )


def summed(counts: Iterator[Mapping[str, int]] | Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Counts added up; what was never seen stays, at zero."""
    total: dict[str, int] = {}
    for each in counts:
        for name, times in each.items():
            total[name] = total.get(name, 0) + times
    return total


def ran_all(seeds: Sequence[int], bug: str | None, clients: Clients) -> list[Ran]:
    """Some seeds, in a worker."""
    if clients in OF_GROUPS:
        return [ran_group(seed, bug, clients) for seed in seeds]
    return [ran_with(drawn(seed, bug, clients)) for seed in seeds]


def drawn(seed: int, bug: str | None, clients: Clients) -> Options:
    """The options of a seed's cluster."""
    if clients in OF_GROUPS:
        return draw_group_with(seed, bug, clients).cluster
    return draw(seed, bug=bug) if clients is Clients.PLAIN else draw_transacting(seed, bug)


def draw_group_with(seed: int, bug: str | None, clients: Clients = Clients.GROUPS) -> GroupOptions:
    """The options of a seed whose clients are members of a group; with a bug they speak the protocol that it is of."""
    owner = None if bug is None else HARNESS.machine_of(bug)
    exactly_once = clients is Clients.EXACTLY_ONCE
    return draw_group(seed, is_consumer=PROTOCOLS.get(owner or ""), exactly_once=exactly_once)


def ran_group(seed: int, bug: str | None = None, clients: Clients = Clients.GROUPS) -> Ran:
    """One seed whose clients are members of a group."""
    began = time.process_time()
    options = draw_group_with(seed, bug, clients)
    simulated = simulate_group(options) if bug is None else simulate_group(options, HARNESS.bug(bug).roles)
    failures = simulated.of_the_run
    run = CampaignRun(
        seed=seed,
        options={**shown(options.cluster), **options.described()},
        faults=simulated.faults,
        operations=len(simulated.operations),
        unknown=int((simulated.operations.outcome == Outcome.INFO).sum()),
        declared_lost=0,
        verdict=Verdict.VIOLATED if failures else Verdict.HOLDS,
        spark_verdict=None,
        anomalies=tuple(Anomaly("group", words) for words in failures),
    )
    again = f"tidegauge simulate --seed {seed}{clients.option}" + ("" if bug is None else f" --bug {bug}")
    seconds = time.process_time() - began
    seen = simulated.sometimes
    return Ran(run, simulated.operations, failures, again, seen, simulated.coordinated.events, seconds)


def ran_with(options: Options, measured: bool = False) -> Ran:
    """One run, and what it has covered if that is asked."""
    began = time.process_time()
    simulated = simulate(options, measured=measured)
    return Ran(
        row_of(simulated),
        simulated.operations,
        simulated.failures,
        simulated.reproduce,
        simulated.sometimes,
        simulated.events,
        time.process_time() - began,
        simulated.covered,
    )


def row_of(simulated: Simulated) -> CampaignRun:
    """The run's row; its history's verdict is yet to come."""
    operations = simulated.operations
    return CampaignRun(
        seed=simulated.seed,
        options=shown(simulated.options),
        faults=simulated.faults,
        operations=len(operations),
        unknown=int((operations.outcome == Outcome.INFO).sum()),
        declared_lost=simulated.declared_lost,
        verdict=Verdict.HOLDS if simulated.holds else Verdict.VIOLATED,
        spark_verdict=None,
        anomalies=tuple(Anomaly("trace", words) for words in simulated.failures),
    )


def shown(options: Options) -> dict[str, str]:
    """The options that a row has no other place for, and only those that are set."""
    told = options.described()
    return {name: value for name, value in told.items() if name != "seed" and value not in ("None", "False", "0.0")}


def caught_by_simulation(bug: str, seed: int) -> tuple[Catch, Catch]:
    """Whole clusters with the bug, until its trace leaves the specification and until its history is violated.

    The history is that of runs with many elections: a history shows less than a trace.
    """
    return _caught_by_trace(bug, seed), _caught_by_history(bug, seed)


def _caught_by_trace(bug: str, seed: int) -> Catch:
    level, began = "simulation, by its trace", time.process_time()
    for number in range(seed, seed + SEEDS_TO_FIND):
        simulated = simulate(draw(number, bug=bug))
        if not simulated.holds:
            how = f"seed {number}: {simulated.failures[0].splitlines()[0].removesuffix(':')}"
            return Catch(level, Verdict.CAUGHT, how, time.process_time() - began)
    return Catch(level, Verdict.UNKNOWN, f"not in {SEEDS_TO_FIND} seeds", time.process_time() - began)


def _caught_by_history(bug: str, seed: int) -> Catch:
    level, began = "simulation, by its history", time.process_time()
    for number in range(seed, seed + SEEDS_TO_FIND):
        simulated = simulate(with_many_elections(draw(number, bug=bug)), validated=False)
        if anomalies := check(simulated.operations).anomalies:
            how = f"seed {number} with many elections: {anomalies[0].name.value}"
            return Catch(level, Verdict.CAUGHT, how, time.process_time() - began)
    missed = f"no client saw it in {SEEDS_TO_FIND} seeds with many elections"
    return Catch(level, Verdict.UNKNOWN, missed, time.process_time() - began)
