"""Explore a specification with Spark, level by level: the states of the plain engine, by the same numbers.

A level is a DataFrame. Tasks expand its states (`steps`); of what they reach, each state is kept once, by the first
step to it, and those that are known are left out by an anti-join on hash partitions. What is new gets its number by the
order of those steps, which is the order in which one process would have met it: the numbers that one process gives.

A level that is whole has a note in JSON, with what was counted. A search that was killed goes on behind the last.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import accumulate, islice
from operator import add
from typing import TYPE_CHECKING, Any

import attrs

from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.spark_check.errors import BadOutput, CannotRun
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.shipping import EXPLORING, ship
from tidegauge.spark_check.state_rows import (
    JUDGED,
    PLACES,
    STEPS,
    Explored,
    Explorer,
    MakeMachine,
    expand,
    judge,
)
from tidegauge.spark_check.tasks import first_line
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.coverage import ActionCoverage
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.machine import Machine, constants_of
from tidegauge.spec.kernel.progress import Cut, Stop
from tidegauge.spec.kernel.statistics import Statistics, by_depth
from tidegauge.spec.kernel.traces import Step, Trace, Violation, violation_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LevelDone", "OnLevel", "explore_by_spark"]

MANIFEST = "_manifest.json"
_NOTES = "_levels"
TOGETHER = 1_000_000
"""States that one task numbers."""


@attrs.frozen
class LevelDone:
    """What was counted up to a level: of the steps out of the level before, and of the states in this one."""

    depth: int
    states: int
    enabled: list[int]
    taken: list[int]
    found: list[int]
    """By class of action."""
    out_degrees: dict[str, int]
    orbit_sizes: dict[str, int]
    violated: list[list[int]]
    """For each invariant, then each step invariant, that is violated: its place, how often, and the first step."""
    goals: list[list[int]]
    """For each goal that is reached in this level: its place, and the first number of a state."""


OnLevel = Callable[[Sequence[LevelDone]], None]


def explore_by_spark(
    spark: SparkSession,
    make: MakeMachine,
    out: str | Place,
    *,
    stop: Stop = Stop.NEVER,
    max_depth: int | None = None,
    symmetry: bool = False,
    resume: bool = False,
    together: int = TOGETHER,
    on_level: OnLevel | None = None,
) -> Exploration[Any]:
    """Visit the reachable states of the machine that `make` makes, which is called in the executors as well.

    Its levels are kept in the folder `out`, which all executors reach. With `Stop.FIRST` a violation ends the search
    behind its level, and with `Stop.EACH` once every invariant is violated. Neither `converges` nor `leads_to` is
    checked. `together`: of so many states one task gives the numbers. Raises BadOutput for a folder that has something
    else, and CannotRun.
    """
    search = _Search(spark, make, Place.of(out), symmetry, together)
    _told(partial(search.open, resume))
    cut: Cut | None = None
    while search.levels[-1].states:
        if len(search.levels) == max_depth:
            cut = Cut.DEPTH
            break
        if search.is_over(stop):
            cut = Cut.VIOLATION
            break
        _told(search.advance)
        if on_level is not None:
            on_level(search.levels)
    return search.told(cut)


def _told(do: Callable[[], None]) -> None:
    """Do it. Raises CannotRun for what Spark raises, which carries the tracebacks of two languages."""
    try:
        do()
    except CannotRun:
        raise
    except Exception as error:
        raise CannotRun(
            f"Spark failed: {first_line(error)}. Levels that are whole are kept: --resume goes on behind them"
        ) from error


@contextmanager
def _as_bad_output(out: Place) -> Iterator[None]:
    """Raise BadOutput for a folder that is a file, or cannot be made or written."""
    try:
        yield
    except OSError as error:
        raise BadOutput(f"{out} cannot be written ({first_line(error)}): name another folder") from error


class _Search:
    def __init__(self, spark: SparkSession, make: MakeMachine, out: Place, symmetry: bool, together: int) -> None:
        self.spark, self.out, self.together = spark, out, together
        self.machine: Machine[Any] = make()
        constants = {name: plain(value) for name, value in constants_of(self.machine).items()}
        kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in self.machine.kinds]
        self.identity = {"machine": kinds, "constants": constants, "symmetry": symmetry, "source": _source()}
        self.of = Explored(json.dumps(self.identity, sort_keys=True), make, symmetry)
        self.explorer: Explorer[Any] = Explorer(self.machine, symmetry=symmetry)
        self.levels: list[LevelDone] = []
        self.symmetry = symmetry
        self.invariants = [*self.machine.invariants, *self.machine.step_invariants]

    def open(self, resume: bool) -> None:
        """Begin in an empty folder, or go on where there is a search of the same."""
        manifest = self.out / MANIFEST
        if resume and not manifest.exists():
            raise BadOutput(f"{self.out} has no search to go on with: name its folder, or leave out --resume")
        with _as_bad_output(self.out):
            self.out.make_folder()
        if not manifest.exists():
            if not self.out.is_empty():
                raise BadOutput(f"{self.out} is not empty: name another folder")
            with _as_bad_output(self.out):
                manifest.put(json.dumps(self.identity, indent=1).encode())
        elif not resume:
            raise BadOutput(f"{self.out} has a search: --resume goes on with it, or name another folder")
        elif (there := _read(manifest)) != self.identity:
            differing = [name for name in self.identity if there.get(name) != self.identity[name]]
            raise BadOutput(f"{self.out} has a search of something else: {', '.join(differing)} differ")
        (self.out / _NOTES).make_folder()
        while (note := self._note(len(self.levels))).exists():
            self.levels.append(LevelDone(**_read(note)))
        ship(self.spark, EXPLORING)
        if not self.levels:
            self._begin()

    def _begin(self) -> None:
        rows: dict[bytes, tuple[Any, ...]] = {}
        for place, state in enumerate(self.machine.initial()):
            packed = self.explorer.packed(state)
            key, size = self.explorer.known_as(state, packed)
            rows.setdefault(key, (key, place - PLACES, -1, size, packed, None))
        steps = self.spark.createDataFrame([*rows.values()], STEPS)
        self._keep(steps, 0, {"enabled": Counter(), "taken": Counter(), "out_degrees": Counter()}, [])

    def advance(self) -> None:
        """Find the next level."""
        frontier = self._level(len(self.levels) - 1).select("number", "state")
        place = self._place_of("steps")
        frontier.mapInArrow(partial(expand, self.of), STEPS).write.mode("overwrite").parquet(place)
        written = self.spark.read.schema(STEPS).parquet(place)
        tallies = {name: Counter[int]() for name in ("enabled", "taken", "out_degrees", "reached")}
        violated = dict[int, list[int]]()
        for row in written.where("told is not null").select("told").toLocalIterator():
            told = json.loads(row.told, object_pairs_hook=each_name_once)
            for name, tally in tallies.items():
                tally.update(dict(told[name]))
            first = dict(told["first_violated"])
            for number, count in told["violated"]:
                before = violated.setdefault(number, [0, first[number]])
                before[0], before[1] = before[0] + count, min(before[1], first[number])
        offset = len(self.machine.invariants)
        rows = [[offset + number, *counted] for number, counted in sorted(violated.items())]
        self._keep(written.where("told is null"), tallies.pop("reached").total(), tallies, rows)

    def _keep(self, steps: DataFrame, reached: int, tallies: Mapping[str, Counter[int]], violated: Any) -> None:
        """Number the new states, of at most `reached`, and note what was counted."""
        from pyspark.sql import Window
        from pyspark.sql import functions as sql

        new = steps.groupBy("key").agg(sql.min(sql.struct("step", "action", "size", "state")).alias("first"))
        new = new.select("key", "first.*")
        if self.levels:
            new = new.join(self._known(), "key", "left_anti")
        parts = 1 + reached // self.together
        known = sum(level.states for level in self.levels)
        begins = [known]
        if parts > 1:
            last = self.levels[-1].states
            share = f"least((step div {PLACES} - {known - last}) * {parts} div {last}, {parts - 1})"
            place = self._place_of("new")
            new.withColumn("part", sql.expr(f"cast({share} as int)")).write.mode("overwrite").parquet(place)
            new = self.spark.read.parquet(place)
            counts = Counter({row[0]: row[1] for row in new.groupBy("part").count().collect()})
            for part in range(parts - 1):
                begins.append(begins[-1] + counts[part])
        else:
            new = new.withColumn("part", sql.lit(0))
        within = sql.row_number().over(Window.partitionBy("part").orderBy("step")) - 1
        begin = sql.element_at(sql.lit(begins), sql.col("part") + 1)
        numbered = new.withColumn("number", (begin + within).cast("long")).drop("part")
        depth = len(self.levels)
        numbered.mapInArrow(partial(judge, self.of), JUDGED).write.mode("overwrite").parquet(self._place(depth))
        self._note_level(depth, tallies, violated)

    def _note_level(self, depth: int, tallies: Mapping[str, Counter[int]], violated: list[list[int]]) -> None:
        from pyspark.sql import functions as sql

        kinds, goals, invariants = range(len(self.explorer.kinds)), self._pending(), range(len(self.machine.invariants))
        asked = [sql.count("*")]
        for place in invariants:
            step = sql.when(sql.col("violated").bitwiseAND(1 << place) != 0, sql.col("step"))
            asked += [sql.count(step), sql.min(step)]
        asked += [sql.min(sql.when(sql.col("goals").bitwiseAND(1 << place) != 0, sql.col("number"))) for place in goals]
        found, sizes = Counter[int](), Counter[int]()
        rows = self._level(depth).groupBy("action", "size").agg(*asked).collect()
        for row in rows:
            found[row[0]] += row[2]
            sizes[row[1]] += row[2]
        counts = [[place, sum(row[3 + 2 * place] for row in rows)] for place in invariants]
        firsts = [min((row[4 + 2 * place] for row in rows if row[3 + 2 * place]), default=0) for place in invariants]
        begin = 3 + 2 * len(invariants)
        reached = [
            [place, min(numbers)]
            for at, place in enumerate(goals, begin)
            if (numbers := [row[at] for row in rows if row[at] is not None])
        ]
        done = LevelDone(
            depth=depth,
            states=found.total(),
            enabled=[tallies["enabled"][kind] for kind in kinds],
            taken=[tallies["taken"][kind] for kind in kinds],
            found=[found[kind] for kind in kinds],
            out_degrees={str(steps): count for steps, count in sorted(tallies["out_degrees"].items())},
            orbit_sizes={str(size): count for size, count in sorted(sizes.items())} if self.symmetry else {},
            violated=[*[[*count, first] for count, first in zip(counts, firsts, strict=True) if count[1]], *violated],
            goals=reached,
        )
        self._note(depth).put(json.dumps(attrs.asdict(done)).encode())
        self.levels.append(done)

    def _pending(self) -> list[int]:
        """The goals that no level has reached yet."""
        reached = {place for level in self.levels for place, _ in level.goals}
        return [place for place in range(len(self.machine.sometimes)) if place not in reached]

    def _known(self) -> DataFrame:
        return self.spark.read.parquet(*[self._place(depth) for depth in range(len(self.levels))]).select("key")

    def _level(self, depth: int) -> DataFrame:
        return self.spark.read.schema(JUDGED).parquet(self._place(depth))

    def _place(self, depth: int) -> str:
        return (self.out / f"level-{depth:05}").for_spark

    def _place_of(self, name: str) -> str:
        return (self.out / name).for_spark

    def _note(self, depth: int) -> Place:
        return self.out / _NOTES / f"{depth:05}.json"

    # --- what it has found -------------------------------------------------------------------------------------------

    def is_over(self, stop: Stop) -> bool:
        violated = {place for level in self.levels for place, _, _ in level.violated}
        return stop is not Stop.NEVER and len(violated) >= (1 if stop is Stop.FIRST else len(self.invariants))

    def told(self, cut: Cut | None) -> Exploration[Any]:
        levels, machine = self.levels, self.machine
        names = [kind.__name__ for kind in self.explorer.kinds]
        enabled, taken, found = (
            [sum(column) for column in zip(*[getattr(level, name) for level in levels], strict=True)]
            for name in ("enabled", "taken", "found")
        )
        degrees, sizes = Counter[int](), Counter[int]()
        for level in levels:
            degrees.update({int(steps): count for steps, count in level.out_degrees.items()})
            sizes.update({int(size): count for size, count in level.orbit_sizes.items()})
        cumulated = accumulate(([*level.found] for level in levels), lambda one, other: [*map(add, one, other)])
        traces = self._traces(levels)
        goals = sorted((number, place) for level in levels for place, number in level.goals)
        sometimes = [*machine.sometimes]
        reached = {sometimes[place]: traces.to(number) for number, place in goals}
        return Exploration(
            machine=machine.name,
            engine=Engine.PLAIN,
            cut=cut,
            distinct=sum(level.states for level in levels),
            generated=sum(taken),
            levels=tuple(level.states for level in levels if level.states),
            terminal=degrees[0],
            coverage=tuple(map(ActionCoverage, names, enabled, taken, found)),
            violations=tuple(self._violations(traces)),
            reached=reached,
            unreached=tuple(goal for goal in sometimes if goal not in reached),
            orbits=sum(size * count for size, count in sizes.items()) if self.symmetry else None,
            convergence=None,
            responses=None,
            statistics=Statistics(dict(degrees), by_depth(names, cumulated), dict(sizes)),
            seconds=None,
        )

    def _violations(self, traces: _Traces) -> Iterator[Violation[Any]]:
        counts, first = Counter[int](), dict[int, tuple[int, bool]]()
        of_states = len(self.machine.invariants)
        for level in self.levels:
            for place, count, step in level.violated:
                counts[place] += count
                first.setdefault(place, (step, place < of_states))
        for place, (step, _) in sorted(first.items(), key=lambda pair: (pair[1], pair[0])):
            name = self.invariants[place]
            yield attrs.evolve(violation_by(self.machine, name, traces.by(step)), count=counts[place])

    def _traces(self, levels: Sequence[LevelDone]) -> _Traces:
        wanted = {number for level in levels for _, number in level.goals}
        steps = {step for level in levels for _, _, step in level.violated}
        wanted |= {step // PLACES for step in steps if step >= 0}
        first, known = sum(level.states for level in levels), dict[int, int]()
        for depth in range(len(levels) - 1, -1, -1):
            first -= levels[depth].states
            here = [number for number in wanted if number >= first and number not in known]
            if here:
                rows = self._level(depth).where(f"number in ({', '.join(map(str, here))})").select("number", "step")
                known.update({row[0]: row[1] for row in rows.collect()})
                wanted |= {known[number] // PLACES for number in here if known[number] >= 0}
        return _Traces(self.machine, known)


@attrs.frozen(eq=False)
class _Traces:
    """Ways to states, by the first step to each state on them."""

    machine: Machine[Any]
    steps: Mapping[int, int]

    def to(self, number: int) -> Trace[Any]:
        return self.by(self.steps[number])

    def by(self, step: int) -> Trace[Any]:
        path = [step]
        while path[-1] >= 0:
            path.append(self.steps[path[-1] // PLACES])
        path.reverse()
        initial = at = next(islice(self.machine.initial(), path[0] % PLACES, None))
        steps = []
        for taken in path[1:]:
            found = next(islice(self.machine.successors(at), taken % PLACES, None), None)
            if found is None:
                raise CannotRun(f"{self.machine.name} gives the steps of equal states in different orders")
            steps.append(Step(*found))
            at = found[1]
        return Trace(initial, tuple(steps))


def _read(place: Place) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(place.read(), object_pairs_hook=each_name_once)
    except (OSError, ValueError) as error:
        raise BadOutput(f"{place} cannot be read: {error}") from error
    return read


def _source() -> str:
    """A hash of the specifications' source."""
    hashed = hashlib.sha256()
    for name, file in sorted(_modules(files("tidegauge.spec"), "spec")):
        hashed.update(name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return hashed.hexdigest()


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry
