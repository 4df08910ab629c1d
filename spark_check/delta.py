"""Which files a Delta table has at a version, by its log: without a jar, on every file system that `places` reads.

A table's folder keeps files that a later version has removed, until somebody vacuums it. So what is in the folder is
not what is in the table: the log says it. A commit is a file of JSON lines, `_delta_log/00000000000000000012.json`; a
checkpoint sums up all of them until its version. (github.com/delta-io/delta, PROTOCOL.md: Action Reconciliation.)

What is not in the data files themselves cannot be had by reading them. Tables with deletion vectors, with mapped
columns, partitioned by a column of histories, or with a reader feature that this reader does not know, are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import attrs
import pyarrow as pa

from tidegauge.linearizability.arrow import SCHEMA
from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.linearizability.plurals import say
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.places import Place

LOG = "_delta_log"
"""The folder in a table's folder by which it is one."""
WAY_OUT = "read it with Spark's connector, and give the DataFrame to `judge`"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_HARMLESS = frozenset(
    {
        "columnMapping",  # where its mode is not none, the table is refused for that
        "deletionVectors",  # where a file has one, likewise
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "vacuumProtocolCheck",
    }
)
"""Reader features of tables whose data files say it all."""
_COLUMNS = ("add.path", "add.size", "add.modificationTime", "add.deletionVector", "protocol", "metaData")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")

Action = Mapping[str, Any]
"""A line of a commit: one field, named after what is done, with what it is done to."""


class DeltaFile(NamedTuple):
    """A data file of a table: where it is, its size, and when it was written, in milliseconds since 1970."""

    path: str
    size: int | None
    modified: int | None


@attrs.define
class _Replay:
    """What holds after the actions so far."""

    table: Place
    live: dict[str, DeltaFile] = attrs.field(factory=dict)
    protocol: Action | None = None
    about: Action | None = None
    vectors: set[str] = attrs.field(factory=set)
    """Files of which some rows are deleted."""

    def take(self, actions: Iterable[Action]) -> None:
        """The actions of one version, in whatever order: none is about a file that another one of them is about, but
        for one that removes it with the deletion vector that it had."""
        added: list[Action] = []
        for action in actions:
            if (removed := action.get("remove")) is not None:
                self.live.pop(removed["path"], None)
                self.vectors.discard(removed["path"])
            if action.get("add") is not None:
                added.append(action["add"])
            self.protocol = action.get("protocol") or self.protocol
            self.about = action.get("metaData") or self.about
        for file in added:
            self.live[file["path"]] = _file_of(file)
            if file.get("deletionVector") is not None:
                self.vectors.add(file["path"])


def _file_of(added: Action) -> DeltaFile:
    file = DeltaFile(added["path"], added.get("size"), added.get("modificationTime"))
    are_numbers = all(one is None or isinstance(one, int) for one in (file.size, file.modified))
    if not (isinstance(file.path, str) and file.path and are_numbers):
        raise ValueError(f"{file} is no file")
    return file


def delta_files(table: Place, version: int | None = None) -> tuple[int, list[Place]]:
    """The version of a table that is read, its newest one unless another is named, and its data files then.

    Raises BadInput.
    """
    commits, checkpoints = _log_of(table)
    if not commits and not checkpoints:
        raise BadInput(f"{table} is no Delta table: there is no version in its {LOG}")
    newest = max([*commits, *checkpoints])
    wanted = newest if version is None else version
    if not 0 <= wanted <= newest:
        raise BadInput(f"{table} has no version {version}: its newest one is {newest}")
    replay = _Replay(table)
    try:
        _replay(replay, commits, checkpoints, wanted)
        _refuse_what_files_do_not_say(replay)
        files = sorted(_place_of(table, file) for file in replay.live.values())
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{table}: its {LOG} cannot be read ({error!r})") from error
    return wanted, files


def _log_of(table: Place) -> tuple[dict[int, Place], dict[int, list[Place]]]:
    """The commits by version, and the parts of each checkpoint that has all of them."""
    commits: dict[int, Place] = {}
    parts: dict[tuple[int, int], list[Place]] = {}
    for file in (table / LOG).files():
        if found := _COMMIT.fullmatch(file.name):
            commits[int(found[1])] = file
        elif found := _CHECKPOINT.fullmatch(file.name):
            parts.setdefault((int(found[1]), int(found[3] or 1)), []).append(file)
    return commits, {version: files for (version, all_of_them), files in parts.items() if len(files) == all_of_them}


def _replay(replay: _Replay, commits: Mapping[int, Place], checkpoints: Mapping[int, list[Place]], wanted: int) -> None:
    begins = max((version for version in checkpoints if version <= wanted), default=-1)
    for file in checkpoints.get(begins, ()):
        replay.take(_rows(file))
    for version in range(begins + 1, wanted + 1):
        if version not in commits:
            raise BadInput(
                f"{replay.table}: version {version} is not in its {LOG}, and no checkpoint makes up for it: "
                f"version {wanted} cannot be had any more"
            )
        replay.take(_lines(commits[version]))
    if replay.protocol is None or replay.about is None:
        raise BadInput(f"{replay.table}: its {LOG} has no protocol or no metadata until version {wanted}")


def _lines(file: Place) -> Iterator[Action]:
    for line in file.read().splitlines():
        if line.strip():
            yield json.loads(line, object_pairs_hook=each_name_once)


def _rows(file: Place) -> Iterator[Action]:
    with file.open_parquet() as opened:
        there = [name for name in _COLUMNS if name.partition(".")[0] in opened.names]
        for group in range(opened.groups):
            yield from opened.read([group], there).to_pylist()


def _refuse_what_files_do_not_say(replay: _Replay) -> None:
    """Raise BadInput for a table whose data files are not all that there is to its rows."""
    assert replay.protocol is not None
    assert replay.about is not None
    features = {*(replay.protocol.get("readerFeatures") or ())} - _HARMLESS
    reader = replay.protocol["minReaderVersion"]
    if features or reader not in (1, 2, 3):
        needed = ", ".join(sorted(features)) or f"reader version {reader}"
        raise BadInput(f"{replay.table} is a Delta table that needs {needed}, which is not known here: {WAY_OUT}")
    settings = replay.about.get("configuration") or {}
    mode = dict(settings).get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise BadInput(
            f"{replay.table} is a Delta table with column mapping ({mode}), so that its files have other names of "
            f"columns: {WAY_OUT}"
        )
    if replay.vectors:
        raise BadInput(
            f"{replay.table} is a Delta table with deletion vectors, of {say(len(replay.vectors), 'file')} such as "
            f"{min(replay.vectors)}: deleted rows are still in them. REORG TABLE … APPLY (PURGE) rewrites them; "
            f"or {WAY_OUT}"
        )
    partitioned = [name for name in replay.about.get("partitionColumns") or () if name in SCHEMA.names]
    if partitioned:
        raise BadInput(
            f"{replay.table} is a Delta table partitioned by {', '.join(partitioned)}, which its files do not have: "
            f"{WAY_OUT}"
        )


def _place_of(table: Place, file: DeltaFile) -> Place:
    """A path in a log is relative to the table or a URI, and percent-encoded."""
    path = unquote(file.path)
    place = Place.of(path) if _URI.match(path) else _below(table, path)
    modified = None if file.modified is None else file.modified * 1_000_000
    return attrs.evolve(place, size=file.size, modified=modified, table=str(table))


def _below(table: Place, path: str) -> Place:
    place = table
    for name in path.split("/"):
        place = place / name
    return place
