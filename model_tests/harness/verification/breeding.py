"""Breeding: runs that have reached something new are kept, and run again with another turn from there on.

Each generation has fresh seeds and children of the runs that are kept. A child is its parent up to a moment at which
that one has reached what nobody had before; from then on it draws other faults. What counts as reached is in
`simulation.coverage`. A parent is chosen the more often the more it was the first to reach, and the less the more
children it has. All is drawn from the first seed: a campaign is the same for any number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import attrs

from tidegauge.model_tests.harness.simulation.options import Options, draw
from tidegauge.spec.kernel.json_objects import each_name_once

GENERATION = 20
"""Runs of which none knows of the others."""
FRESH_SHARE = 0.3
"""Of a generation, once there are parents."""
MOMENTS_KEPT = 8
FIRST_CHILD = 1 << 40
"""Histories of children are numbered from here on."""
CORPUS = "corpus.jsonl"

Turns = tuple[tuple[float, int], ...]


@attrs.define
class Kept:
    """A run that was the first to reach something."""

    seed: int
    turns: Turns
    moments: tuple[float, ...]
    """When, in seconds."""
    new: int
    """How much."""
    children: int = 0

    @property
    def weight(self) -> float:
        return self.new / (1 + self.children) ** 2


@attrs.define
class Rate:
    """What some runs have added."""

    runs: int = 0
    new: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.runs} runs, {self.new} new, {self.new / max(self.seconds, 1e-9):.0f} a CPU second"


@attrs.define
class Corpus:
    """All that was reached, and the runs that are worth going on from."""

    seed: int
    bug: str | None = None
    covered: set[int] = attrs.field(factory=set)
    kept: list[Kept] = attrs.field(factory=list)
    fresh: Rate = attrs.field(factory=Rate)
    bred: Rate = attrs.field(factory=Rate)
    _drawn: int = 0

    def generation(self, size: int) -> list[Options]:
        """The runs to do next."""
        return [self._next() for _ in range(size)]

    def _next(self) -> Options:
        place, self._drawn = self._drawn, self._drawn + 1
        rng = Random(f"breeding/{self.seed}/{place}")
        if not self.kept or rng.random() < FRESH_SHARE:
            return draw(self.seed + place, bug=self.bug)
        (parent,) = rng.choices(self.kept, [one.weight for one in self.kept])
        parent.children += 1
        at = rng.choice(parent.moments)
        earlier = tuple(turn for turn in parent.turns if turn[0] < at)
        turns = (*earlier, (at, rng.randrange(1_000_000)))
        return attrs.evolve(draw(parent.seed, bug=self.bug), turns=turns, number=FIRST_CHILD + place)

    def take(self, options: Options, covered: Mapping[int, float], seconds: float) -> None:
        """Note what a run has reached, in the order of `generation`."""
        new = {point: at for point, at in covered.items() if point not in self.covered}
        self.covered.update(new)
        rate = self.bred if options.turns else self.fresh
        rate.runs, rate.new, rate.seconds = rate.runs + 1, rate.new + len(new), rate.seconds + seconds
        if moments := sorted({at for at in new.values() if at <= options.duration}):
            step = -(-len(moments) // MOMENTS_KEPT)
            self.kept.append(Kept(options.seed, options.turns, tuple(moments[::step]), len(new)))

    # --- on disk -----------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the runs that are kept, one a line."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / CORPUS).open("w") as lines:
            for one in self.kept:
                lines.write(json.dumps(attrs.asdict(one)) + "\n")

    def load(self, folder: Path) -> None:
        """Go on from the runs that were kept here, if any; what they have reached counts as new again."""
        self.kept += _kept_in(folder / CORPUS)


def _kept_in(path: Path) -> Iterator[Kept]:
    """Raises ValueError for a line that says of no run."""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                one = json.loads(line, object_pairs_hook=each_name_once)
                turns = tuple((float(at), int(number)) for at, number in one["turns"])
                yield Kept(int(one["seed"]), turns, tuple(map(float, one["moments"])), int(one["new"]))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"corpus {path}: {line!r} says of no run: {error!r}") from None
