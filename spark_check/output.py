"""The folder that a job writes. A killed job leaves no verdict twice and no file half-written.

    verdicts/   anomalies/   malformed/     Parquet, one file a unit, named by the unit and the job
    _units/                                 a commit for each unit that is done, in JSON
    _attempts/                              a note of each run that began here, of whatever job
    _manifest.json                          the input and the options; a resumed job must have the same
    summary.json                            written last: the job is complete

No file system has to lock or to append. Each file is put as a whole (places); a unit's commit is put after its tables.
The *job* in a name is a digest of the manifest, and a unit's tables follow from the manifest. So whatever else runs the
same unit of the same job (a run that resumes it, a second task that Spark starts, an executor that was given up for
dead) puts the same bytes in the same place, and nothing is counted twice.

Two different jobs may find a folder empty at the same moment. Each puts its note first and looks at all notes then, so
at least one of them sees the other, and one that sees another job withdraws. The last thing before the summary is to
delete tables of other jobs. Spark does not read names that begin with an underscore.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegauge.linearizability.check import ANOMALY_SCHEMA
from tidegauge.linearizability.coverage import Totals
from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.spark_check.checking import FILE, MALFORMED_SCHEMA, VERDICT_SCHEMA, Checked
from tidegauge.spark_check.errors import BadOutput
from tidegauge.spark_check.places import PARTIAL, Place
from tidegauge.spark_check.planner import Unit

TABLES = {"verdicts": VERDICT_SCHEMA, "anomalies": ANOMALY_SCHEMA, "malformed": MALFORMED_SCHEMA}
JOB_TABLES = TABLES | {name: TABLES[name].append(FILE) for name in ("verdicts", "anomalies")}
"""The same of a job over files."""
MANIFEST = "_manifest.json"
UNITS = "_units"
ATTEMPTS = "_attempts"
SUMMARY = "summary.json"


@attrs.frozen
class Example:
    """An anomaly with its witness: the operations that prove it, and the reason as text."""

    history: int
    """Its id in the file."""
    file: str | None
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
    def read(cls, place: Place) -> Commit:
        """What `to_json` gave. Raises BadOutput for a file that is damaged."""
        fields = read_object(place)
        examples = tuple(Example(**{**one, "operations": tuple(one["operations"])}) for one in fields.pop("examples"))
        covered, gaps = Totals(**fields.pop("covered")), tuple(fields.pop("gaps"))
        return cls(**fields, examples=examples, covered=covered, gaps=gaps)


def job_of(manifest: dict[str, Any]) -> str:
    """The name of the job: a digest of its manifest."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:12]


def examine(out: Place, manifest: dict[str, Any], resume: bool) -> None:
    """Raise BadOutput unless a job can begin in `out`, or resume there. Writes nothing."""
    if out.exists() and not out.is_folder():
        raise BadOutput(f"{out} is a file: give a folder that does not exist yet, or an empty one")
    if not out.is_empty():
        if not resume:
            raise BadOutput(
                f"{out} is not empty: give another folder, or --resume to continue the job that was begun in it"
            )
        _same_job(out, manifest)


def begin(out: Place, manifest: dict[str, Any]) -> None:
    """Make the folders, put a note of this run, and the manifest. Raises BadOutput, also if another job is here."""
    if (out / MANIFEST).exists():
        _same_job(out, manifest)
    job = job_of(manifest)
    run = {"job": job, "host": socket.gethostname(), "process": os.getpid(), "began": time.time()}
    note = out / ATTEMPTS / f"{job}-{uuid4().hex[:12]}.json"
    try:
        for name in (*TABLES, UNITS, ATTEMPTS):
            (out / name).make_folder()
        note.put(json.dumps(run).encode())
        notes = (other.name for other in (out / ATTEMPTS).files() if not other.name.endswith(PARTIAL))
        if not all(name.startswith(job) for name in notes):
            note.delete()
            raise BadOutput(f"another job has begun in {out}: give another folder")
        if not (out / MANIFEST).exists():
            (out / MANIFEST).put(json.dumps(manifest, indent=1).encode())
    except OSError as error:
        raise BadOutput(f"{out} cannot be written ({error.strerror or error}): give another folder") from error


def sweep(out: Place, job: str) -> None:
    """Delete what no reader should take for a table of `job`: files of other jobs, and half-written ones."""
    for name in TABLES:
        for file in (out / name).files():
            if file.name.endswith(PARTIAL) or not file.stem.endswith(f"-{job}"):
                file.delete()


def _same_job(out: Place, manifest: dict[str, Any]) -> None:
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


def put_table(place: Place, table: pa.Table) -> None:
    """Put a Parquet file whose pages have checksums."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    place.put(sink.getvalue())


def commit(out: Place, job: str, unit: Unit, checked: Checked, nameless: int, seconds: float) -> Commit:
    """Write a unit's tables, then its commit."""
    tables = {"verdicts": checked.verdicts, "anomalies": checked.anomalies, "malformed": checked.malformed}
    for name, table in tables.items():
        if len(table):
            put_table(out / name / table_file(unit, job), table)
    done = Commit(
        unit=unit.name,
        histories=len(checked.verdicts),
        operations=int(pc.sum(checked.verdicts.column("operations")).as_py() or 0),
        verdicts=dict(checked.counts),
        anomalies=dict(checked.kinds),
        malformed=by_kind(Counter(checked.malformed.column("reason").to_pylist())),
        nameless=nameless,
        examples=tuple(
            Example(
                unit.origins.id(one.history),
                unit.origins.file(one.history),
                one.name.value,
                one.topic,
                one.partition,
                one.operations,
                one.count,
                one.witness,
            )
            for one in checked.examples
        ),
        covered=checked.covered,
        gaps=checked.gaps,
        seconds=seconds,
    )
    (out / UNITS / f"{unit.name}.json").put(done.to_json().encode())
    return done


def table_file(unit: Unit, job: str) -> str:
    """The name of each of the unit's tables."""
    return f"{unit.name}-{job}.parquet"


def by_kind(reasons: Mapping[str, int]) -> dict[str, int]:
    """Add up the counts of reasons that differ only in the numbers in them, under the first of them."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for reason, count in reasons.items():
        counts[first.setdefault(re.sub(r"\d+", "0", reason), reason)] += count
    return dict(counts)


def commits(out: Place) -> dict[str, Commit]:
    """The commits of the units that are done, by the unit's name."""
    found = (Commit.read(file) for file in sorted((out / UNITS).files()) if file.suffix == ".json")
    return {one.unit: one for one in found}


def read_object(place: Place) -> dict[str, Any]:
    """A JSON object that a job wrote. Raises BadOutput for a file that is damaged."""
    try:
        return _object(place)
    except (OSError, ValueError) as error:
        raise BadOutput(f"{place} is damaged ({error}): run the job again into another folder") from error


def _object(place: Place) -> dict[str, Any]:
    fields = json.loads(place.read(), object_pairs_hook=each_name_once)
    if not isinstance(fields, dict):
        raise ValueError(f"{place} has no JSON object")
    return fields


def committed(out: Place) -> int:
    """Count the units that are done."""
    return sum(file.suffix == ".json" for file in (out / UNITS).files())
