"""JSON lines become Parquet once, before anything is planned: a task a file, in the folder of the job.

A file with a line that is no operation is refused as a whole, by name and line: what the lines after it mean may depend
on it. A task holds its whole file in memory, about a kilobyte an operation: split what has more than a million lines.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs

from linearizability import files, jsonl
from linearizability.arrow import HistoryError
from spark_check.footers import PARQUET

FOLDER = "_converted"


@attrs.frozen
class Failed:
    """What cannot be done, however often it is tried: the input is not what it should be."""

    message: str


def converted(file: Path, out: Path) -> Path:
    """Where the Parquet of `file` goes; files of the same name in two folders are told apart."""
    told_apart = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    return out / FOLDER / f"{file.stem}-{told_apart}{PARQUET}"


def convert(file: Path, out: Path) -> Failed | None:
    """Write the Parquet of `file`, unless a job that was begun before has done so."""
    place = converted(file, out)
    if place.exists():
        return None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.write(place, jsonl.read(file))
    except HistoryError as error:
        return Failed(str(error))
    return None
