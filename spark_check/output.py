"""The folder that a job writes. A killed job leaves no verdict twice and no file half-written.

    verdicts/   anomalies/   malformed/     Parquet, one file a unit, named by the unit
    _units/                                 a commit for each unit that is done, in JSON
    _manifest.json                          the input and the options; a resumed job must have the same
    summary.json                            written last: the job is complete

Each table of a unit is written to a temporary file and renamed; the unit's commit is written after all of them. A
resumed job checks a unit without a commit again, into files of the same names, so nothing is counted twice. Spark
does not read names that begin with an underscore.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegauge.linearizability.check import ANOMALY_SCHEMA
from tidegauge.linearizability.coverage import Totals
from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.spark_check.checking import MALFORMED_SCHEMA, VERDICT_SCHEMA, Checked
from tidegauge.spark_check.errors import BadOutput
from tidegauge.spark_check.planner import Unit

TABLES = {"verdicts": VERDICT_SCHEMA, "anomalies": ANOMALY_SCHEMA, "malformed": MALFORMED_SCHEMA}
MANIFEST = "_manifest.json"
UNITS = "_units"
SUMMARY = "summary.json"


@attrs.frozen
class Example:
    """An anomaly with its witness: the operations that prove it, and the reason as text."""

    history: int
    anomaly: str
    topic: str
    partition: int
    operations: tuple[int, ...]
    count: int
    witness: str


@attrs.frozen
class Commit:
    """The result of a unit: counts of histories by verdict, of anomalies by name, of malformed rows by reason."""

    unit: str
    histories: int
    operations: int
    verdicts: dict[str, int]
    anomalies: dict[str, int]
    malformed: dict[str, int]
    nameless: int
    examples: tuple[Example, ...]
    covered: Totals
    gaps: tuple[str, ...]
    seconds: float

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def read(cls, place: Path) -> Commit:
        """What `to_json` gave. Raises BadOutput for a file that is damaged."""
        fields = read_object(place)
        examples = tuple(Example(**{**one, "operations": tuple(one["operations"])}) for one in fields.pop("examples"))
        covered, gaps = Totals(**fields.pop("covered")), tuple(fields.pop("gaps"))
        return cls(**fields, examples=examples, covered=covered, gaps=gaps)


def examine(out: Path, manifest: dict[str, Any], resume: bool) -> None:
    """Raise BadOutput unless a job can begin in `out`, or resume there. Writes nothing."""
    if out.exists() and not out.is_dir():
        raise BadOutput(f"{out} is a file: give a folder that does not exist yet, or an empty one")
    if out.is_dir() and any(out.iterdir()):
        if not resume:
            raise BadOutput(
                f"{out} is not empty: give another folder, or --resume to continue the job that was begun in it"
            )
        _same_job(out, manifest)


def begin(out: Path, manifest: dict[str, Any]) -> None:
    """Make the folders, and remove half-written files of a killed job. Raises BadOutput."""
    if (out / MANIFEST).exists():
        _same_job(out, manifest)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / MANIFEST, lambda place: place.write_text(json.dumps(manifest, indent=1)))
        for name in (*TABLES, UNITS):
            (out / name).mkdir(exist_ok=True)
        for left in out.rglob(".*.partial"):
            left.unlink(missing_ok=True)
    except OSError as error:
        raise BadOutput(f"{out} cannot be written ({error.strerror or error}): give another folder") from error


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Make the folder `out` and lock it against every other job on this machine. Raises BadOutput.

    Without the lock two jobs that start together would both find the folder empty. The lock ends with the process.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = os.open(out, os.O_RDONLY)
    except OSError as error:
        raise BadOutput(f"{out} cannot be written ({error.strerror or error}): give another folder") from error
    try:
        _lock(out, folder)
        yield
    finally:
        os.close(folder)


def _lock(out: Path, folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BadOutput(f"another job is writing to {out}: wait until it is done, or give another folder") from error
    except OSError:
        # Some network file systems have no locks; there only the manifest distinguishes two jobs.
        return


def _same_job(out: Path, manifest: dict[str, Any]) -> None:
    try:
        begun = _object(out / MANIFEST)
    except (OSError, ValueError) as error:
        raise BadOutput(f"{out} holds no job to resume (no {MANIFEST} in it): give another folder") from error
    differs = [key for key in manifest if begun.get(key) != manifest[key]]
    if differs:
        raise BadOutput(
            f"the job in {out} cannot be resumed: its {' and its '.join(differs)} were different. "
            "Run again with the same files and options, or into another folder"
        )


def write_atomically(place: Path, write: Callable[[Path], object]) -> None:
    """Write to a temporary file in the same folder, then rename it to `place`."""
    beside = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        write(beside)
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def commit(out: Path, unit: Unit, checked: Checked, nameless: int, seconds: float) -> Commit:
    """Write a unit's tables, then its commit."""
    tables = {"verdicts": checked.verdicts, "anomalies": checked.anomalies, "malformed": checked.malformed}
    for name, table in tables.items():
        if len(table):
            place = out / name / f"{unit.name}.parquet"
            write_atomically(place, partial(pq.write_table, table, compression="zstd"))
    done = Commit(
        unit=unit.name,
        histories=len(checked.verdicts),
        operations=int(pc.sum(checked.verdicts.column("operations")).as_py() or 0),
        verdicts=dict(checked.counts),
        anomalies=dict(checked.kinds),
        malformed=by_kind(Counter(checked.malformed.column("reason").to_pylist())),
        nameless=nameless,
        examples=tuple(
            Example(one.history, one.name.value, one.topic, one.partition, one.operations, one.count, one.witness)
            for one in checked.examples
        ),
        covered=checked.covered,
        gaps=checked.gaps,
        seconds=seconds,
    )
    write_atomically(out / UNITS / f"{unit.name}.json", lambda beside: beside.write_text(done.to_json()))
    return done


def by_kind(reasons: Mapping[str, int]) -> dict[str, int]:
    """Add up the counts of reasons that differ only in the numbers in them, under the first of them."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for reason, count in reasons.items():
        counts[first.setdefault(re.sub(r"\d+", "0", reason), reason)] += count
    return dict(counts)


def commits(out: Path) -> dict[str, Commit]:
    """The commits of the units that are done, by the unit's name."""
    found = (Commit.read(file) for file in sorted((out / UNITS).glob("*.json")))
    return {one.unit: one for one in found}


def read_object(place: Path) -> dict[str, Any]:
    """A JSON object that a job wrote. Raises BadOutput for a file that is damaged."""
    try:
        return _object(place)
    except (OSError, ValueError) as error:
        raise BadOutput(f"{place} is damaged ({error}): run the job again into another folder") from error


def _object(place: Path) -> dict[str, Any]:
    fields = json.loads(place.read_text(), object_pairs_hook=each_name_once)
    if not isinstance(fields, dict):
        raise ValueError(f"{place} has no JSON object")
    return fields


def committed(out: Path) -> int:
    """Count the units that are done."""
    return sum(1 for _ in (out / UNITS).glob("unit-*.json"))
