"""Which file each history is from: ids that two files share are two histories.

Two recordings both begin with history 0, and have nothing to do with each other. So a history is named by its file and
its id there. A job gives each history a *number* besides, by which it is planned, read, shuffled and counted: its id,
moved by so much for each file that no two files have a number in common. Files whose ids do not overlap are not moved.

Where a table was written in parts, a history may go on from one file to the next. Nothing in the files says so: the
user does (`across_files`), and then ids are numbers, and no verdict names a file.

A DataFrame or a stream may have a column that says of each row which source it is from: `told_apart` numbers the
histories of the rows at hand, one after the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from tidegauge.linearizability.history import Ints
from tidegauge.spark_check.errors import BadInput

LOWEST: Final = -(1 << 63)
HIGHEST: Final = (1 << 63) - 1
NUMBERS: Final = 1 << 64
Extents = Mapping[str, tuple[int, int]]
"""The lowest and the highest history id of each file that has any."""


@attrs.frozen
class Origins:
    """Files in the order of their numbers: `firsts` are their lowest numbers, `moves` what is added to their ids.

    Without files, as with `across_files`, a number is an id.
    """

    firsts: tuple[int, ...] = ()
    moves: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    is_named: bool = False
    """Whether words about a history name its file: the job has several."""

    def between(self, first: int, last: int) -> Origins:
        """Those of the histories with these numbers."""
        start = max(bisect_right(self.firsts, first) - 1, 0)
        stop = bisect_right(self.firsts, last)
        return attrs.evolve(
            self, firsts=self.firsts[start:stop], moves=self.moves[start:stop], files=self.files[start:stop]
        )

    def ids(self, numbers: Ints) -> Ints:
        """The ids that histories with these numbers have in their files."""
        if not self.files:
            return numbers
        moves = np.array([move % NUMBERS for move in self.moves], np.uint64)[self._places(numbers)]
        with np.errstate(over="ignore"):
            found: Ints = (numbers.view(np.uint64) - moves).view(np.int64)
        return found

    def files_of(self, numbers: Ints) -> pa.Array:
        """The files of histories with these numbers; null without files."""
        if not self.files:
            return pa.nulls(len(numbers), pa.string())
        return pa.array(self.files, pa.string()).take(pa.array(self._places(numbers)))

    def numbers(self, ids: Ints, files: pa.Array) -> Ints:
        """The numbers of histories by their ids and files. Raises KeyError for a file that is none of these."""
        if not self.files:
            return ids
        names = files.dictionary_encode()
        by_name = [self.moves[self._place(str(name))] for name in names.dictionary.to_pylist()]
        moves = np.array([move % NUMBERS for move in by_name], np.uint64)
        return _moved(ids, moves[names.indices.to_numpy()])

    def file(self, number: int) -> str | None:
        """The file of a history."""
        return self.files[self._at(number)] if self.files else None

    def id(self, number: int) -> int:
        """The id of a history in its file."""
        return number - self.moves[self._at(number)] if self.files else number

    def words(self, number: int) -> str:
        """The history, for a reader."""
        of = f" of {self.file(number)}" if self.is_named and self.files else ""
        return f"history {self.id(number)}{of}"

    def _at(self, number: int) -> int:
        return max(bisect_right(self.firsts, number) - 1, 0)

    def _places(self, numbers: Ints) -> Ints:
        found: Ints = np.searchsorted(np.array(self.firsts, np.int64), numbers, side="right") - 1
        return found

    def _place(self, file: str) -> int:
        if file not in self.files:
            raise KeyError(file)
        return self.files.index(file)


NO_FILES: Final = Origins()
"""Where numbers are ids."""


@attrs.frozen(eq=False)
class Listed:
    """Histories of several sources, numbered from 0 on: the id and the source of each."""

    listed: Ints
    sources: pa.Array

    def ids(self, numbers: Ints) -> Ints:
        """The ids that histories with these numbers have in their sources."""
        found: Ints = self.listed[numbers]
        return found

    def files_of(self, numbers: Ints) -> pa.Array:
        """The sources of histories with these numbers."""
        return self.sources.take(pa.array(numbers))

    def id(self, number: int) -> int:
        """The id of a history in its source."""
        return int(self.listed[number])

    def words(self, number: int) -> str:
        """The history, for a reader."""
        return f"history {self.id(number)} of {self.sources[number].as_py()}"


def told_apart(ids: pa.ChunkedArray, sources: pa.ChunkedArray) -> tuple[Ints, Listed]:
    """The number of each row's history, and what the numbers stand for. A null is a source, and no id: it counts as 0.

    Two rows are of one history if they have the same id and the same source.
    """
    names = sources.cast(pa.string()).combine_chunks().dictionary_encode(null_encoding="encode")
    codes = names.indices.to_numpy()
    values = ids.cast(pa.int64()).fill_null(0).to_numpy()
    order = np.lexsort((values, codes))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(codes[order]) != 0) | (np.diff(values[order]) != 0)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    first = order[begins]
    return numbers, Listed(values[first], names.dictionary.take(pa.array(codes[first])))


def numbered(column: pa.ChunkedArray, move: int) -> pa.ChunkedArray:
    """A column of ids, of which some may be null, as numbers."""
    ids = column.cast(pa.int64())
    if not move:
        return ids
    blank = ids.is_null().to_numpy()
    values = _moved(ids.fill_null(0).to_numpy(), np.uint64(move % NUMBERS))
    return pa.chunked_array([pa.array(values, pa.int64(), mask=blank)], pa.int64())


def _moved(ids: Ints, moves: np.ndarray[tuple[int, ...], np.dtype[np.uint64]] | np.uint64) -> Ints:
    """Modulo 2^64: an id and its number have 64 bits, and a move may have one more."""
    with np.errstate(over="ignore"):
        found: Ints = (np.ascontiguousarray(ids).view(np.uint64) + moves).view(np.int64)
    return found


def origins_of(extents: Extents, *, across_files: bool) -> tuple[Origins, tuple[str, ...]]:
    """The files by their ids, and notes for the summary. Raises BadInput for ids that no numbers are left for.

    `extents` has the ids as they are in the files.
    """
    if across_files:
        return NO_FILES, ()
    ordered = sorted((low, high, file) for file, (low, high) in extents.items())
    files = tuple(file for _, _, file in ordered)
    firsts = [low for low, _, _ in ordered]
    notes: tuple[str, ...] = ()
    overlapping = _overlapping(ordered)
    if overlapping:
        firsts = _apart(ordered)
        notes = (
            f"the ids of {len(overlapping):,} files overlap, such as those of {overlapping[0]} and {overlapping[1]}: "
            "each file's histories are its own. If the files are parts of one table, in which a history goes on from "
            "one file to the next, check them with --across-files",
        )
    moves = tuple(first - low for first, (low, _, _) in zip(firsts, ordered, strict=True))
    return Origins(tuple(firsts), moves, files, is_named=len(files) > 1), notes


def _overlapping(ordered: Sequence[tuple[int, int, str]]) -> list[str]:
    """The files whose range of ids has one in common with the range of another file."""
    found: dict[str, None] = {}
    highest: tuple[int, str] | None = None
    for low, high, file in ordered:
        if highest is not None and low <= highest[0]:
            found |= {highest[1]: None, file: None}
        if highest is None or high > highest[0]:
            highest = (high, file)
    return list(found)


def _apart(ordered: Sequence[tuple[int, int, str]]) -> list[int]:
    """The lowest numbers of files, so that no two have one in common: as their ids are, as far as that goes."""
    for begins in (None, LOWEST):
        firsts: list[int] = []
        free = ordered[0][0] if begins is None else begins
        for low, high, _ in ordered:
            firsts.append(free if begins is not None else max(low, free))
            free = firsts[-1] + high - low + 1
        if free - 1 <= HIGHEST:
            return firsts
    raise BadInput(
        f"the ids of {len(ordered):,} files overlap, and lie so far apart that 64 bits cannot number them all. Check "
        "each file in a job of its own; or with --across-files, if no two files use the same id for different histories"
    )


def extents_of(pieces: Iterable[tuple[str, int | None, int | None]]) -> dict[str, tuple[int, int]]:
    """The lowest and the highest id of each file, from those of its parts (None for a part that has none)."""
    found: dict[str, tuple[int, int]] = {}
    for file, low, high in pieces:
        if low is None or high is None:
            continue
        before = found.get(file, (low, high))
        found[file] = (min(low, before[0]), max(high, before[1]))
    return found
