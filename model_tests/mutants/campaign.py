"""A campaign: the mutants that are due, each tried in the parts that call what it changes."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Final

import attrs

from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.mutants.equivalents import refuse_gone, refuse_killed
from tidegauge.model_tests.mutants.kept import Played, Replaced, played, replaced
from tidegauge.model_tests.mutants.measurements import Measurements
from tidegauge.model_tests.mutants.operators import Mutant
from tidegauge.model_tests.mutants.patching import ROOT, Patcher, patcher_of
from tidegauge.model_tests.mutants.results import Known, Result, append, digest, digest_of_everything, read
from tidegauge.model_tests.mutants.rings import Part, Ring
from tidegauge.model_tests.mutants.rooms import ROOMS, mutants
from tidegauge.model_tests.mutants.trials import Measured, running_all, trial
from tidegauge.model_tests.mutants.workers import in_workers

CLASSES: Final = "classes that play a part"
"""The room of the kept mutants that are no change of a file."""

_ROOMS: Final = {room.name: room for room in ROOMS}
AnyMutant = Mutant | Replaced | Played


@attrs.frozen
class Wanted:
    """Which mutants a campaign tries, and for how long."""

    rooms: tuple[str, ...] = ()
    """All, if it names none."""
    words: str = ""
    """Only mutants whose name has them."""
    share: int = 100
    """Percent of the mutants, drawn by the seed."""
    seed: int = 1
    rounds: int = 2
    """How often walks and seeds are drawn."""
    seconds: float = float("inf")
    """When so many have gone, the campaign stops; the next one goes on."""
    workers: int = 1
    """Processes that try them."""
    unit_tests_first: bool = False
    """Whether only counts that a mutant is killed, and not by which ring: unit tests take a tenth of a second."""
    only_survivors: bool = False
    """Whether what earlier tests killed counts as killed, if its file is the same."""

    rings: tuple[Ring, ...] = ()
    """The rings that may kill a mutant: all of its room, if it names none."""

    def asks(self, ring: Ring) -> bool:
        """Whether a ring may kill a mutant."""
        return not self.rings or ring in self.rings

    def wants(self, room: str) -> bool:
        """Whether it tries mutants of the room."""
        return not self.rooms or room in self.rooms


@cache
def all_mutants() -> tuple[tuple[str, AnyMutant], ...]:
    """Every mutant with its room."""
    found: list[tuple[str, AnyMutant]] = [(CLASSES, one) for one in played()]
    for room in ROOMS:
        found += [(room.name, kept) for kept in replaced(room.files) if room.changes(kept.function)]
        found += [(room.name, mutant) for mutant in mutants(room)]
    return tuple(found)


def drawn(everything: Sequence[tuple[str, AnyMutant]], wanted: Wanted) -> list[tuple[str, AnyMutant]]:
    """Those that a campaign tries. Each is drawn by its own name, so that others may come and go."""
    return [
        (room, mutant)
        for room, mutant in everything
        if wanted.wants(room) and wanted.words in mutant.name and _lot(mutant, wanted.seed) * 100 < wanted.share
    ]


def _lot(mutant: AnyMutant, seed: int) -> float:
    return Random(f"{seed}/{mutant.name}").random()


def _terms(wanted: Wanted) -> Iterator[str]:
    """What else than the code and the tests decides what kills a mutant."""
    yield str(wanted.rounds)
    if wanted.unit_tests_first:
        yield "unit tests first"
    yield from sorted(ring.value for ring in wanted.rings)


def _digest_of(mutant: AnyMutant) -> str:
    """Of the file that a mutant changes."""
    return "" if isinstance(mutant, Played) else digest([ROOT / mutant.function.module.path])


class Campaign:
    """Tries the mutants that are wanted and have no result yet."""

    def __init__(self, wanted: Wanted, folder: Path, parts: Sequence[Part], tell: Callable[[str], None]) -> None:
        """`folder` keeps the results and what was measured; `tell` gets a line for each mutant."""
        self._wanted = wanted
        self._tell = tell
        self._parts = parts
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "results.jsonl"
        self._measurements = Measurements(folder / "measured.jsonl", digest_of_everything(), wanted.workers, tell)
        self._kills = Counter[tuple[str, str]]()
        self._by = "/".join([self._measurements.tree, *_terms(wanted)])

    def run(self) -> list[Result]:
        """Try them; returns the results of all that are wanted, former ones included."""
        everything = all_mutants()
        refuse_gone(mutant.name for _, mutant in everything)
        due = drawn(everything, self._wanted)
        known = read(self._file)
        waiting = [(room, mutant) for room, mutant in due if self._counting(known, mutant) is None]
        waiting.sort(key=lambda one: _lot(one[1], self._wanted.seed))  # so what is tried before a stop is a fair sample
        functions = [one.function for _, one in everything if not isinstance(one, Played)]
        patcher = patcher_of(function.module for function in functions)
        self._try_in_workers(waiting, patcher)
        known = read(self._file)
        results = [result for _, mutant in due if (result := self._counting(known, mutant)) is not None]
        for result in results:
            if result.is_killed:
                refuse_killed(result.mutant, result.part)
        left = len(due) - len(results)
        if left:
            self._tell(f"{left} of {len(due)} mutants are left: the next run goes on with them")
        others = {room for room, _ in everything}
        latest = [list(of.values())[-1] for of in known.values()]
        return [*results, *(one for one in latest if one.room not in others)]

    def _try_in_workers(self, waiting: Sequence[tuple[str, AnyMutant]], patcher: Patcher) -> None:
        """Measure the parts; then each worker is a process, takes every so many-th mutant, and appends its results."""
        workers = self._wanted.workers
        deadline = time.monotonic() + self._wanted.seconds

        def goes_on() -> bool:
            return time.monotonic() < deadline

        parts = [part for part in self._parts if any(_may_kill(part, room, mutant) for room, mutant in waiting)]
        paths = {mutant.function.module.path for _, mutant in waiting if not isinstance(mutant, Played)}
        unknown = [part for part in parts if part.runs is None]
        found = self._measurements.of(unknown, paths, patcher, goes_on)
        if found is None:
            return
        without = {**found, **{part.name: running_all(part) for part in parts if part.runs is not None}}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        in_workers(workers, lambda number: self._try(waiting[number::workers], parts, patcher, without, goes_on))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        tried = read(self._file).keys() & {mutant.name for _, mutant in waiting}
        if tried:
            self._tell(
                f"{len(tried)} mutants in {time.monotonic() - began:.0f} s, {seconds / len(tried):.2f} s of CPU each"
            )

    def _try(
        self,
        waiting: Sequence[tuple[str, AnyMutant]],
        parts: Sequence[Part],
        patcher: Patcher,
        without: Mapping[str, Measured],
        goes_on: Callable[[], bool],
    ) -> None:
        for room, mutant in waiting:
            if not goes_on():
                return
            result = self._tried(room, mutant, parts, patcher, without)
            result = attrs.evolve(result, by=self._by, of=_digest_of(mutant))
            append(self._file, result)
            self._tell(f"{result.ring or 'SURVIVES'}, {result.seconds:.1f} s: {mutant.name}")

    def _counting(self, known: Known, mutant: AnyMutant) -> Result | None:
        """The result of a mutant that need not be tried again: one under the same terms, or a former kill if asked."""
        of = known.get(mutant.name, {})
        if self._by in of or not self._wanted.only_survivors:
            return of.get(self._by)
        digest_now = _digest_of(mutant)
        return next((one for one in reversed(list(of.values())) if one.is_killed and one.of == digest_now), None)

    def _tried(
        self,
        room: str,
        mutant: AnyMutant,
        among: Sequence[Part],
        patcher: Patcher,
        without: Mapping[str, Measured],
    ) -> Result:
        began = time.monotonic()
        parts = list(parts_for(room, mutant, among, without, self._kills))
        if self._wanted.unit_tests_first:
            parts.sort(key=lambda one: one[0].ring is not Ring.UNIT)
        killed = trial(installer(mutant, patcher), parts) if parts else None
        seconds = round(time.monotonic() - began, 2)
        if killed is None:
            return Result(mutant.name, room, None, why="" if parts else "nothing runs it", seconds=seconds)
        if not isinstance(mutant, Played):
            self._kills[mutant.function.module.path, killed.part] += 1
        return Result(mutant.name, room, killed.ring.value, killed.part, killed.why, seconds)


def installer(mutant: AnyMutant, patcher: Patcher) -> Callable[[], Roles | None]:
    """What puts a mutant in place in a process, and returns the classes to play the parts."""
    if isinstance(mutant, Played):
        return lambda: mutant.roles
    code = mutant.code()

    def install() -> None:
        patcher.install(mutant.function, code)

    return install


def parts_for(
    room: str,
    mutant: AnyMutant,
    parts: Sequence[Part],
    without: Mapping[str, Measured],
    kills: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> Iterator[tuple[Part, float]]:
    """The parts that may kill a mutant, each with its seconds: those that run one of its lines, the rings in order.

    In a ring, first what has killed most of this file (`kills`: path and part -> how many), then what is quickest.
    """
    if isinstance(mutant, Played):
        yield from ((part, without[part.name].seconds) for part in parts if _may_kill(part, room, mutant))
        return
    path, lines = mutant.function.module.path, mutant.lines
    for ring in _ROOMS[room].rings:
        running = [
            (part, without[part.name].seconds)
            for part in parts
            if part.ring is ring and _may_kill(part, room, mutant) and without[part.name].runs(path, lines)
        ]
        yield from sorted(running, key=lambda one: (-kills.get((path, one[0].name), 0), one[1]))


def _may_kill(part: Part, room: str, mutant: AnyMutant) -> bool:
    """Whether a part is of a ring and of tests that try mutants of the room."""
    if isinstance(mutant, Played):
        return part.machine == mutant.machine
    of = _ROOMS[room]
    return part.ring in of.rings and of.has(part.tests_of)
