"""The mutation score: `python -m tidegauge.model_tests.mutants [--room NAME] [--share PERCENT --seed N]`.

Prints each mutant with the ring that kills it, then the score of each room and the survivors. What was tried is kept in
a file, so that a run that was stopped goes on. The exit status is 1 when a room's score is below `--least`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tidegauge.model_tests.mutants.campaign import CLASSES, Campaign, Wanted
from tidegauge.model_tests.mutants.equivalents import EQUIVALENT, StaleError
from tidegauge.model_tests.mutants.patching import ROOT
from tidegauge.model_tests.mutants.results import scores, table
from tidegauge.model_tests.mutants.rings import (
    LOCKSTEP_TESTS,
    Ring,
    lockstep_parts,
    observed_parts,
    simulation_parts,
    test_parts,
)
from tidegauge.model_tests.mutants.rooms import ROOMS
from tidegauge.model_tests.mutants.trials import UnsoundError


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tidegauge.model_tests.mutants", description=(__doc__ or "").splitlines()[0]
    )
    rooms = [CLASSES, *(room.name for room in ROOMS)]
    parser.add_argument("--room", action="append", choices=rooms, help="only mutants of this room")
    parser.add_argument("--only", default="", metavar="WORDS", help="only mutants whose name has these words")
    parser.add_argument("--share", type=int, default=100, help="percent of the mutants, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1, help="by which they are drawn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="how often lockstep and simulation try (%(default)s)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop then; the next run goes on")
    parser.add_argument("--workers", type=int, default=1, help="processes that try mutants (default: %(default)s)")
    parser.add_argument(
        "--unit-tests-first", action="store_true", help="quick: whether it is killed, not by which ring"
    )
    parser.add_argument(
        "--ring", action="append", choices=[ring.value for ring in Ring], help="only what these rings kill"
    )
    parser.add_argument("--survivors", action="store_true", help="what earlier tests killed counts as killed")
    parser.add_argument("--fresh", action="store_true", help="forget former results")
    parser.add_argument("--out", type=Path, default=Path("mutants"), help="folder for results (default: %(default)s)")
    parser.add_argument("--least", type=float, default=100.0, help="exit with 1 below so many percent (%(default)s)")
    options = parser.parse_args(words)
    if not 1 <= options.share <= 100:
        parser.error(f"--share {options.share}: give a percentage from 1 to 100")
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: give at least 1")
    if options.fresh:
        shutil.rmtree(options.out, ignore_errors=True)
    wanted = Wanted(
        tuple(options.room or ()),
        options.only,
        options.share,
        options.seed,
        options.rounds,
        options.minutes * 60,
        max(1, options.workers),
        unit_tests_first=options.unit_tests_first,
        only_survivors=options.survivors,
        rings=tuple(map(Ring, options.ring or ())),
    )
    return run(wanted, options.out.resolve(), options.least)


def run(wanted: Wanted, folder: Path, least: float) -> int:
    """Collect the tests, then let the campaign take the place of their run."""
    plugin = _Plugin(wanted, folder, least)
    asked = {test for room in ROOMS if wanted.wants(room.name) for test in room.tests}
    tests = sorted(asked) if wanted.asks(Ring.UNIT) or wanted.asks(Ring.SPEC) else []
    files = [path for test in tests for path in (sorted(ROOT.glob(f"{test}*.py")) if test.endswith("_") else [test])]
    paths = [str(ROOT / path) for path in (*files, *LOCKSTEP_TESTS)]
    options = [
        "--deep",  # the tests marked so are left out; of the others each searches as much as it can
        "-s",
        "-qq",
        "--disable-warnings",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(ROOT),
    ]
    status = pytest.main([*options, *paths], plugins=[plugin])
    return plugin.status if plugin.has_run else int(status) or 1


class _Plugin:
    """Runs a campaign with the collected tests in place of the tests."""

    def __init__(self, wanted: Wanted, folder: Path, least: float) -> None:
        self.wanted = wanted
        self.folder = folder
        self.least = least
        self.has_run = False
        self.status = 1

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = [item for item in session.items if item.get_closest_marker("deep") is None]
        rings = {ring for room in ROOMS if self.wanted.wants(room.name) for ring in room.rings} or {Ring.CORES}
        rounds = self.wanted.rounds
        parts = [*lockstep_parts(rounds), *test_parts(items), *simulation_parts(rounds)]
        if Ring.OBSERVED in rings and self.wanted.asks(Ring.OBSERVED):
            files = {file for room in ROOMS if self.wanted.wants(room.name) for file in room.files}
            parts += observed_parts(rounds, files)
        parts = [part for part in parts if part.ring in rings and self.wanted.asks(part.ring)]
        parts.sort(key=lambda part: list(type(part.ring)).index(part.ring))
        self.has_run = True
        try:
            results = Campaign(self.wanted, self.folder, parts, lambda line: print(line, flush=True)).run()
        except (StaleError, UnsoundError) as error:
            print(f"mutants: {error}", file=sys.stderr)
            return True
        print(table(results, EQUIVALENT))
        self.status = int(any(score.percent < self.least for score in scores(results, EQUIVALENT)))
        return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
