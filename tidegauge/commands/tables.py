"""Tables of Delta and Iceberg for `tidegauge check`: one table is one file of histories, whatever files it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tidegauge.exits import Unusable
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.malformed import MalformedRow

LOG = "_delta_log"
METADATA = "metadata"


def is_table(path: Path) -> bool:
    """Whether a folder is that of a table, or a file the metadata of one of Iceberg."""
    return (
        path.name.endswith(".metadata.json") or (path / LOG).is_dir() or any((path / METADATA).glob("*.metadata.json"))
    )


def table_above(path: Path) -> Path | None:
    """The Delta table in whose folder, or folders of partitions, a file or folder is."""
    for folder in path.absolute().parents:
        if (folder / LOG).is_dir():
            return folder
        if "=" not in folder.name:
            return None
    return None


def tables_below(folder: Path) -> list[Path]:
    """The tables in a folder and below it, itself among them."""
    named = (path.parent for name in (LOG, METADATA) for path in folder.rglob(name))
    return sorted({path for path in named if is_table(path)})


def read_table(path: Path, version: int | None = None) -> tuple[Operations, Sequence[MalformedRow], Sequence[str]]:
    """The histories of a table that can be checked, the rows for which others cannot, and at which version it is read.

    All of it is read, be it for one history: no checksum covers what a footer says of them. Raises Unusable.
    """
    from tidegauge.spark_check.checking import sound_rows
    from tidegauge.spark_check.errors import CannotRun
    from tidegauge.spark_check.footers import find, pieces_of
    from tidegauge.spark_check.reading import read_piece

    try:
        places, notes = find([path], version)
        pieces = list(pieces_of(places))
        operations, aside, spoiled = sound_rows([read_piece(piece) for piece in pieces], None)
    except CannotRun as error:
        raise Unusable(str(error)) from error
    first: dict[tuple[str, int], int] = {}
    at: dict[str, int] = {}
    for piece in pieces:
        first[piece.file, piece.row_group] = at.get(piece.file, 0)
        at[piece.file] = at.get(piece.file, 0) + piece.rows
    malformed = [
        MalformedRow(row["file"], first[row["file"], row["row_group"]] + row["row"], row["history"], row["reason"])
        for row in aside
    ]
    sound = operations.take(np.flatnonzero(~np.isin(operations.history, sorted(spoiled)))) if spoiled else operations
    return sound, malformed, notes
