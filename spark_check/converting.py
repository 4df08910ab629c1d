"""Convert JSON lines and Jepsen's EDN to Parquet, once, before a job is planned: one task for each split of a file.

A split is a range of bytes; it has the lines that begin in it. A task holds its split in memory, about a kilobyte for
each operation. Events are pairs of lines, so a file that has some is one split. A line that is no operation becomes a
row of nulls with the reason. It is counted and set aside like a malformed row of any other file, and so is its history.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.linearizability import edn, jsonl
from tidegauge.linearizability.arrow import HistoryError, to_arrow
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.jsonl import MalformedLine
from tidegauge.linearizability.malformed import REASON
from tidegauge.spark_check.footers import EDN, PARQUET
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.reading import SOURCE

FOLDER = "_converted"
SPLIT = 64 << 20
"""Bytes of a split: some 300,000 operations."""
_AHEAD = 1 << 16
"""Bytes that are read at a time to find the end of a split's last line."""
_AN_EVENT = b'"type"'


@attrs.frozen
class Failed:
    """A failure that a retry does not help: the input is wrong."""

    message: str


@attrs.frozen
class Split:
    """The lines of `file` that begin in the bytes `start` to `stop`; None is the end. `before`: lines that end there
    before `start`."""

    file: Place
    number: int = 0
    start: int = 0
    stop: int | None = None
    before: int = 0

    @property
    def whole(self) -> bool:
        """Whether it is the whole file."""
        return self.start == 0 and self.stop is None


@attrs.frozen
class Counted:
    """How many lines end in a split, and whether there may be an event among them."""

    split: Split
    lines: int
    events: bool


def split(file: Place, size: int = SPLIT) -> list[Split]:
    """Divide a file by its size; a small one is one split, and so is one of EDN, which may be a single vector."""
    length = file.info().size if file.size is None else file.size
    if length <= size or file.suffix == EDN:
        return [Split(file)]
    starts = range(0, length, size)
    return [Split(file, number, start, min(start + size, length)) for number, start in enumerate(starts)]


def count(piece: Split) -> Counted | Failed:
    """Count the lines of a split. It takes a hundredth of the time of reading them."""
    try:
        content = piece.file.read(piece.start, piece.stop)
    except OSError as error:
        return Failed(f"{piece.file}: cannot be read ({error})")
    return Counted(piece, content.count(b"\n"), _AN_EVENT in content)


def numbered(counts: Sequence[Counted]) -> Iterator[Split]:
    """The splits of files, each with the number of lines before it; a file with events is one split."""
    by_file: dict[Place, list[Counted]] = {}
    for one in counts:
        by_file.setdefault(one.split.file, []).append(one)
    for file, parts in by_file.items():
        if any(part.events for part in parts):
            yield Split(file)
            continue
        before = 0
        for part in sorted(parts, key=lambda part: part.split.number):
            yield attrs.evolve(part.split, before=before)
            before += part.lines


def converted(piece: Split, out: Place) -> Place:
    """Where the Parquet of a split goes. A hash of the path distinguishes files of the same name."""
    path_hash = hashlib.sha256(piece.file.uri.encode()).hexdigest()[:8]
    number = "" if piece.whole else f"-{piece.number:05d}"
    return out / FOLDER / f"{piece.file.stem}-{path_hash}{number}{PARQUET}"


def convert(piece: Split, out: Place) -> Failed | None:
    """Write the Parquet of a split, unless an earlier run of the job has done so."""
    place = converted(piece, out)
    if place.exists():
        return None
    try:
        operations, malformed = _read(piece)
    except HistoryError as error:
        return Failed(str(error))
    except OSError as error:
        return Failed(f"{piece.file}: cannot be read ({error})")
    table = to_arrow(operations)
    if malformed:
        table = with_malformed(table, malformed, piece.file)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), SOURCE: str(piece.file)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    (out / FOLDER).make_folder()
    place.put(sink.getvalue())
    return None


def _read(piece: Split) -> tuple[Operations, Sequence[MalformedLine]]:
    """The operations of a split, and the lines that are none. Raises HistoryError."""
    content, first = lines_of(piece)
    if piece.file.suffix == EDN:
        try:
            return edn.parse(content.decode("utf-8"), str(piece.file)), ()
        except UnicodeDecodeError as error:
            raise HistoryError(f"{piece.file}: not readable as UTF-8 text ({error}); write it again") from error
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")
    return jsonl.sift_lines(text, str(piece.file), first, events=piece.whole)


def lines_of(piece: Split) -> tuple[bytes, int]:
    """The lines that begin in a split, and the number of the first of them."""
    if piece.whole:
        return piece.file.read(), 1
    assert piece.stop is not None
    content = piece.file.read(max(piece.start - 1, 0), piece.stop)
    first = 1
    if piece.start:
        first = piece.before + (1 if content.startswith(b"\n") else 2)
        content = content.partition(b"\n")[2]
        if not content:  # no line begins here
            return b"", first
    size = piece.file.size if piece.file.size is not None else piece.file.info().size
    at = piece.stop
    parts = [content]
    while at < size and not parts[-1].endswith(b"\n"):
        ahead = piece.file.read(at, min(at + _AHEAD, size))
        end = ahead.find(b"\n")
        parts.append(ahead if end < 0 else ahead[: end + 1])
        at += len(ahead)
    return b"".join(parts), first


def with_malformed(table: pa.Table, malformed: Sequence[MalformedLine], file: Place) -> pa.Table:
    """Append to `table` a row for each malformed line: its history if it names one, the reason, and its text."""
    nullable = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    rows = [
        {"history": line.history, "meta": line.text, REASON: f"{file.name}, line {line.number}: {line.reason}"}
        for line in malformed
    ]
    extended = nullable.append(pa.field(REASON, pa.string()))
    sound = table.cast(nullable).append_column(extended.field(REASON), pa.nulls(len(table), pa.string()))
    return pa.concat_tables([sound, pa.Table.from_pylist(rows, schema=extended)])
