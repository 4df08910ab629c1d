"""Folders that are tables of Delta or Iceberg: what is in such a folder is not what is in the table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidegauge.spark_check.delta import LOG, delta_files
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.iceberg import METADATA, SUFFIX, iceberg_files
from tidegauge.spark_check.places import Place

DATA = "data"
"""The folder in that of an Iceberg table in which its data files are, unless it says another."""
_ICEBERG = re.compile(rf"(.*/)?{METADATA}/[^/]+\.metadata\.json")
_DELTA = re.compile(rf"(.*/)?{LOG}/[^/]+\.(?:json|parquet)")


class Table(NamedTuple):
    """A table at a version, which is a snapshot of Iceberg's (None where there is none yet), with its data files."""

    place: Place
    version: int | None
    files: Sequence[Place]


def tables_in(folder: Place, inside: Iterable[Place], version: int | None) -> list[Table]:
    """The tables that a folder is, or has below it, by what lies in it. Raises BadInput for one that cannot be read."""
    delta: set[str] = set()
    iceberg: set[str] = set()
    for file in inside:
        relative = file.uri.removeprefix(folder.for_spark).lstrip("/").partition("?")[0]
        if found := _DELTA.fullmatch(relative):
            delta.add(found[1] or "")
        elif found := _ICEBERG.fullmatch(relative):
            iceberg.add(found[1] or "")
    tables = [Table(place, *delta_files(place, version)) for place in _below(folder, delta)]
    return tables + [Table(place, *iceberg_files(place, version)) for place in _below(folder, iceberg)]


def table_of(metadata: Place, snapshot: int | None) -> Table:
    """The Iceberg table that a file of metadata is about."""
    place = metadata.parent.parent
    return Table(place, *iceberg_files(place, snapshot, metadata))


def _below(folder: Place, names: Iterable[str]) -> list[Place]:
    return [folder / name.rstrip("/") if name else folder for name in sorted(names)]


def refuse_part_of_table(place: Place, outside: set[Place]) -> None:
    """Raise BadInput for a file or a folder in a table's folder: it may be of a version that has passed.

    `outside` are folders of which it is known that they are in none, which this adds to.
    """
    _refuse_data_of_iceberg(place, place)
    passed: set[Place] = set()
    folder = place.parent
    while folder not in outside and folder not in passed:
        if (folder / LOG).is_folder():
            raise BadInput(
                f"{place} is in the folder of the Delta table {folder}, whose log says which files are part of it: "
                "name that folder"
            )
        _refuse_data_of_iceberg(place, folder)
        passed.add(folder)
        if "=" not in folder.name:  # a folder of a partition is in that of the table, or of another partition
            break
        folder = folder.parent
    outside |= passed


def _refuse_data_of_iceberg(place: Place, folder: Place) -> None:
    table = folder.parent
    if folder.name == DATA and any(file.name.endswith(SUFFIX) for file in (table / METADATA).files()):
        raise BadInput(
            f"{place} is in the folder of the Iceberg table {table}, whose metadata says which files are part of it: "
            "name that folder, or the file of metadata"
        )
