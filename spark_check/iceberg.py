"""Which files an Iceberg table has at a snapshot, by its metadata: no jar, no other library, wherever `places` reads.

A table's metadata is a file of JSON, a new one with each change. Which of them is the current one a catalog knows, or
`version-hint.text` where there is no catalog; so a table is named by its folder if that says it, else by the file. The
snapshot names a list of manifests, and these the data files. (iceberg.apache.org/spec: Table Metadata, Manifests.)

Columns are known by their numbers there, and by their names here. Tables in which a column has had two names or a name
two columns, with deleted rows in files of their own, or with values that no file has, are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from tidegauge.linearizability.arrow import REQUIRED, SCHEMA
from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.linearizability.plurals import say
from tidegauge.spark_check.avro import NotAvroError, records
from tidegauge.spark_check.delta import WAY_OUT
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.places import Place

METADATA = "metadata"
"""The folder in a table's folder that has its metadata."""
SUFFIX = ".metadata.json"
HINT = "version-hint.text"
_VERSIONS = (1, 2, 3)
_DELETED = 2
"""The status of an entry of a manifest about a file that is in the table no more."""

Json = Mapping[str, Any]


def iceberg_files(table: Place, snapshot: int | None, metadata: Place | None = None) -> tuple[int | None, list[Place]]:
    """The snapshot of a table that is read, its current one unless another is named, and its data files then.

    `metadata` is the file that the catalog says is current. Raises BadInput.
    """
    metadata = _current(table) if metadata is None else metadata
    try:
        about = json.loads(metadata.read(), object_pairs_hook=each_name_once)
        _refuse_what_files_do_not_say(metadata, about)
        wanted = about.get("current-snapshot-id") if snapshot is None else snapshot
        if snapshot is None and wanted in (None, -1):
            return None, []
        chosen = next((one for one in about.get("snapshots", ()) if one["snapshot-id"] == wanted), None)
        if chosen is None:
            known = ", ".join(str(one["snapshot-id"]) for one in about.get("snapshots", ())) or "none"
            raise BadInput(f"{metadata} has no snapshot {wanted}: it has {known}")
        files = sorted(_files(_Table(table, about["location"], metadata), chosen))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{metadata} cannot be read as an Iceberg table ({error!r})") from error
    return wanted, files


def _current(table: Place) -> Place:
    """The metadata that is current by what lies in the folder."""
    folder = table / METADATA
    there = {file.name: file for file in folder.files()}
    if HINT in there:
        hint = there[HINT].read().decode(errors="replace").strip()
        for name in (f"v{hint}{SUFFIX}", f"{hint}{SUFFIX}", hint):
            if name in there:
                return there[name]
        raise BadInput(f"{folder}/{HINT} says {hint}, and there is no such metadata")
    named = sorted(name for name in there if name.endswith(SUFFIX))
    if len(named) != 1:
        raise BadInput(
            f"{table} is an Iceberg table with {len(named)} files of metadata, and its catalog knows which is the "
            f"current one: name that file, such as {folder}/{named[-1] if named else ''}"
        )
    return there[named[0]]


@attrs.frozen
class _Table:
    """A table's folder, what its metadata calls it, and the metadata."""

    place: Place
    location: str
    metadata: Place

    def file(self, path: str) -> Place:
        """A path of the metadata: below the table's folder, wherever that has been moved, or anywhere else."""
        relative = path.removeprefix(self.location.rstrip("/") + "/")
        place = self.place
        for name in relative.split("/"):
            place = place / name
        return Place.of(path) if relative == path else place


def _refuse_what_files_do_not_say(metadata: Place, about: Json) -> None:
    """Raise BadInput for a table whose data files are not all that there is to its rows."""
    if about["format-version"] not in _VERSIONS:
        raise BadInput(f"{metadata}: format version {about['format-version']} of Iceberg is not known here: {WAY_OUT}")
    schemas = about.get("schemas") or [about["schema"]]
    names: dict[int, set[str]] = {}
    numbers: dict[str, set[int]] = {}
    for field in (field for schema in schemas for field in schema["fields"]):
        names.setdefault(field["id"], set()).add(field["name"])
        numbers.setdefault(field["name"], set()).add(field["id"])
        if field.get("initial-default") is not None and field["name"] in SCHEMA.names:
            raise BadInput(f"{metadata}: column {field['name']} has a value in files that lack it: {WAY_OUT}")
    renamed = sorted(", ".join(sorted(several)) for several in names.values() if len(several) > 1)
    renamed += sorted(name for name, several in numbers.items() if len(several) > 1)
    if renamed:
        raise BadInput(
            f"{metadata}: columns were renamed, or dropped and added again ({'; '.join(renamed)}): {WAY_OUT}"
        )
    left_out = set(SCHEMA.names).difference(REQUIRED)
    specs = about.get("partition-specs") or [{"fields": about.get("partition-spec") or ()}]
    for part in (part for spec in specs for part in spec["fields"]):
        name = min(names.get(part["source-id"], {""}))
        if part["transform"] == "identity" and name in left_out:
            raise BadInput(f"{metadata}: it is partitioned by {name}, which its files need not have: {WAY_OUT}")


def _files(table: _Table, snapshot: Json) -> Iterator[Place]:
    """The data files of a snapshot."""
    deletes: list[str] = []
    for manifest in _manifests(table, snapshot):
        for entry in _entries(table.file(manifest)):
            file = entry["data_file"]
            if entry["status"] == _DELETED:
                continue
            if file.get("content", 0):
                deletes.append(file["file_path"])
                continue
            if file["file_format"].upper() != "PARQUET":
                raise BadInput(f"{file['file_path']} of {table.metadata} is no Parquet file: {WAY_OUT}")
            if not isinstance(size := file["file_size_in_bytes"], int):
                raise ValueError(f"{file['file_path']} has {size!r} bytes")
            yield attrs.evolve(table.file(file["file_path"]), size=size, table=str(table.place))
    if deletes:
        raise BadInput(
            f"{table.metadata}: {say(len(deletes), 'file')} such as {min(deletes)} say which rows are deleted, and "
            f"these are still in the data files. Compaction (rewrite_data_files) leaves them out; or {WAY_OUT}"
        )


def _manifests(table: _Table, snapshot: Json) -> Iterable[str]:
    listed = snapshot.get("manifest-list")
    if listed is None:
        paths: list[str] = snapshot["manifests"]  # of version 1
        return paths
    return [entry["manifest_path"] for entry in _entries(table.file(listed))]


def _entries(file: Place) -> Iterator[Any]:
    try:
        yield from records(file.read())
    except (OSError, NotAvroError) as error:
        raise BadInput(f"{file} cannot be read ({error})") from error
