"""`tidegauge verify`: the main job, from the specification to Spark's verdict and a page that shows it all."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter

import tidegauge
from tidegauge.commands.outputs import check_folder
from tidegauge.commands.simulating import plain_value
from tidegauge.exits import Status, Unusable
from tidegauge.linearizability.files import read
from tidegauge.linearizability.history import Operation
from tidegauge.linearizability.plurals import say
from tidegauge.model_tests.harness.report.model import Explored, Ownership, Recorded, Report
from tidegauge.model_tests.harness.report.ownership import owned_in
from tidegauge.model_tests.harness.report.page import write
from tidegauge.model_tests.harness.report.recorded import drawn
from tidegauge.model_tests.harness.verification.campaigning import Campaign, Clients, campaigns
from tidegauge.model_tests.harness.verification.plan import BUG, PLAIN_SEEDS, Plan, plan
from tidegauge.model_tests.harness.verification.run import (
    check_protocol,
    check_twice,
    stages_of,
    with_verdicts,
)
from tidegauge.screen import Screen
from tidegauge.spark_check.errors import CannotRun
from tidegauge.spark_check.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Flag = Annotated[bool, Parameter(negative="")]

MARK = ".tidegauge"
"""In a folder that verify wrote, and may empty."""


def verify(
    *,
    quick: Flag = False,
    seed: int = 1,
    seeds: int | None = None,
    walks: int | None = None,
    examples: int | None = None,
    bug: str = BUG,
    no_spark: Flag = False,
    out: Path = Path("report"),
    json: Flag = False,
) -> Status:
    """Explore the specification, drive the cluster with it, simulate, check every history twice, break it on purpose.

    Parameters
    ----------
    quick
        Fewer walks, examples and seeds: half of the time.
    seed
        Where all random parts begin; the same seed does the same again.
    seeds
        How many simulated clusters the campaign runs.
    walks
        How many random walks of the cores run beside the specification.
    examples
        How many Hypothesis examples of a cluster run beside the specification; a few more are drawn.
    bug
        The historical bug that is switched on to show that it is caught.
    no_spark
        Leave Spark's verdicts out.
    out
        The folder for index.html, the histories, the verdict tables and the counterexample.
    json
        Print one JSON document and nothing else.
    """
    screen = Screen("verify", json=json)
    try:
        wanted = plan(seed=seed, quick=quick, bug=bug, walks=walks, examples=examples, seeds=seeds)
    except ValueError as error:
        raise Unusable(f"--{error}") from None
    need("hypothesis", *([] if no_spark else ["pyspark", "pandas"]))
    in_spark = None if no_spark else InSpark()
    folder = own_folder(out)
    screen.header({"seed": wanted.seed, **shown(wanted)})
    report = run(screen, wanted, in_spark, folder)
    screen.table(
        ("part", "what", "result", "verdict", "seconds"),
        ((each.name, each.what, each.result, each.verdict.value, each.seconds) for each in report.stages),
    )
    screen.say()
    screen.table(("model", "states", "bottom components", "goals reached for good"), map(converged, report.explored))
    page = write(report, folder)
    screen.say(f"\n{'everything holds' if report.holds else 'NOT everything holds'}, in {report.seconds:.0f} s")
    screen.say(f"{'the report:':<20}{page}")
    if report.counterexample is not None:
        screen.say(f"{wanted.bug + ' again:':<19} {report.counterexample.replay}")
    return screen.finish(Status.HOLDS if report.holds else Status.VIOLATED, {"report": str(page), **document(report)})


def converged(model: Explored) -> tuple[str, int, int, str]:
    """A model's line: how many of its goals are reached for good, and which are not."""
    failed = [goal for goal, fails in model.for_good.items() if fails]
    reached = f"{len(model.for_good) - len(failed)} of {len(model.for_good)}"
    told = f"{reached}; not: {'; '.join(failed)}" if failed else reached
    return model.machine, model.distinct, model.components or 0, told


def own_folder(out: Path) -> Path:
    """`out`, emptied of what an earlier verification left there. Raises Unusable for a folder that is not ours."""
    check_folder("--out", out)
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).exists():
        raise Unusable(f"--out {out} has files that no verification wrote: name another folder, or an empty one")
    if out.is_dir():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / MARK).write_text("This folder is overwritten by `tidegauge verify`.\n", encoding="utf-8")
    return out


def need(*packages: str) -> None:
    """Raises Unusable, naming those that are not installed: an embedder has only what a cluster needs."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise Unusable(f"verify needs {listed(missing)}, not installed here: pip install '.[verify]' in a clone")


def listed(names: Sequence[str]) -> str:
    """One or more names in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


class InSpark:
    """The Spark job. Its JVM takes seconds to start, and may do so while clusters are simulated."""

    def __init__(self) -> None:
        """Raises Unusable now, not in three minutes, where there is no Spark or no Java."""
        try:
            from tidegauge.spark_check.job import open_job
            from tidegauge.spark_check.session import local_session

            java_home()
        except (ImportError, CannotRun) as error:
            raise Unusable(no_spark_for(error)) from None
        self._open_job, self._local_session = open_job, local_session
        self._session: Future[SparkSession] | None = None

    def start(self) -> None:
        """Start the JVM; `__call__` waits for it."""
        if self._session is None:
            starter = ThreadPoolExecutor(1)
            self._session = starter.submit(self._local_session)
            starter.shutdown(wait=False)

    def __call__(self, histories: Sequence[Path], tables: Path) -> str:
        """Check the histories, and say how much that was. Raises Unusable where Spark does not start or ends."""
        self.start()
        assert self._session is not None, "it was started"
        try:
            summary = self._open_job(histories, tables).run(self._session.result())
        except CannotRun as error:
            raise Unusable(no_spark_for(error)) from None
        many = say(summary.histories, "history", "histories")
        return f"{many}, {say(summary.operations, 'operation')} in {tables}"


def no_spark_for(error: Exception) -> str:
    """What to say where Spark can't run."""
    return f"Spark can't run: {error} (or leave it out: --no-spark)"


def run(screen: Screen, wanted: Plan, in_spark: InSpark | None, folder: Path) -> Report:
    """Every part in turn; the report says how each ended."""
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    with screen.progress("checking the protocol") as advance:
        checked = check_protocol(wanted, folder / "counterexamples", lambda part, n, of: advance(part, n, of))
    if in_spark is not None:
        in_spark.start()
    with screen.progress("simulating") as advance:
        ran = campaigns(seeds_of(wanted), folder, lambda part, n, of: advance(part, n, of), workers=wanted.workers)
    with screen.progress("checking") as advance:
        advance("in this process, then in Spark")
        histories = [one.histories for one in ran]
        twice, checking = check_twice(histories, folder / "spark", in_spark)
    return Report(
        title="tidegauge verify" + (" --quick" if wanted.quick else ""),
        version=tidegauge.__version__,
        started=started,
        seed=wanted.seed,
        options=shown(wanted),
        stages=(*stages_of(checked), *(one.stage for one in ran), *checking),
        reproduce=wanted.command,
        explored=tuple(model.explored for model in checked.models),
        campaign=with_verdicts([run for one in ran for run in one.runs], twice),
        bug=wanted.bug,
        catches=checked.bug.catches,
        counterexample=checked.bug.figure,
        recorded=life_in(ran),
        group=group_in(ran),
        seconds=screen.seconds,
    )


def seeds_of(wanted: Plan) -> dict[Clients, range]:
    """The seeds of each kind of campaign; those of the others are the same for any number of plain ones up to 200."""
    beside = wanted.seed + max(wanted.seeds, PLAIN_SEEDS)
    grouped = beside + wanted.transactional_seeds
    return {
        Clients.PLAIN: range(wanted.seed, wanted.seed + wanted.seeds),
        Clients.TRANSACTIONS: range(beside, grouped),
        Clients.GROUPS: range(grouped, grouped + wanted.group_seeds),
    }


def group_in(ran: Sequence[Campaign]) -> Ownership | None:
    """A group of the simulated clusters that had some: the one with most to see."""
    held = rows_of(ran, Clients.GROUPS)
    figures = [owned_in(rows, f"tidegauge simulate --groups --seed {seed}") for seed, rows in held.items()]
    return max(figures, key=lambda figure: len(figure.stretches), default=None)


def life_in(ran: Sequence[Campaign]) -> Recorded | None:
    """A transaction of the simulated clusters that had some: the one with most to see."""
    held = rows_of(ran, Clients.TRANSACTIONS)
    figures = [drawn(rows, f"tidegauge simulate --transactions --seed {seed}") for seed, rows in held.items()]
    return max(filter(None, figures), key=lambda figure: figure.worth, default=None)


def rows_of(ran: Sequence[Campaign], clients: Clients) -> dict[int, list[Operation]]:
    """The histories of the campaigns with such clients, by their seeds."""
    held: dict[int, list[Operation]] = {}
    for campaign in ran:
        for row in read(campaign.histories) if campaign.clients is clients else ():
            held.setdefault(row.history, []).append(row)
    return held


def shown(wanted: Plan) -> dict[str, str]:
    """The plan as text, without the seed, which a report has apart."""
    amounts = {**attrs.asdict(wanted, filter=lambda field, _: field.name != "seed"), "models": ", ".join(wanted.models)}
    return {name: str(value) for name, value in amounts.items()}


def document(report: Report) -> dict[str, Any]:
    """A report for machines, without the pictures."""
    told = attrs.asdict(
        attrs.evolve(report, counterexample=None, recorded=None, group=None), value_serializer=plain_value
    )
    replay = report.counterexample.replay if report.counterexample else None
    return {**told, "holds": report.holds, "counterexample": replay}
