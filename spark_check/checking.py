"""Check the rows of one unit: what a worker does. Pure: tables in, tables out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.arrow import HistoryError, from_arrow
from tidegauge.linearizability.check import Verdict, Verdicts, check
from tidegauge.linearizability.coverage import Totals
from tidegauge.linearizability.history import Flags, Ints, Operations, concatenate
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import MalformedRow, find, sieve
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.footers import KEY
from tidegauge.spark_check.origins import Listed, Origins
from tidegauge.spark_check.reading import Part
from tidegauge.spark_check.row_counts import RowCounts, add, count_column

MALFORMED = "malformed"
"""The verdict of a history with malformed rows. It is not checked: without those rows a verdict means nothing."""

NOT_CHECKED = "not checked: anything, because of malformed rows"
"""The note on such a history."""

NAMES = (*(verdict.name.lower() for verdict in Verdict), MALFORMED)
"""The names of verdicts; the indexes of the first three are the checker's codes."""

VERDICT_SCHEMA = pa.schema(
    [
        pa.field("history", pa.int64(), nullable=False),
        pa.field("operations", pa.int64(), nullable=False),
        pa.field("malformed", pa.int64(), nullable=False),
        pa.field("verdict", pa.int8(), nullable=False),
        pa.field("anomalies", pa.int32(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("unconfirmed", pa.int64(), nullable=False),
        pa.field("open_ends", pa.int64(), nullable=False),
        pa.field("judged", pa.string(), nullable=False),
        pa.field("note", pa.string()),
    ]
)
"""One row for each history. `operations`: its rows in the input; `malformed`: how many of them were set aside;
`verdict`: an index into NAMES; `records`, `unconfirmed`, `open_ends`: what it covers (linearizability.coverage),
`judged`: what it is about (linearizability.judged), and `note`: in words what it is not. Columns that the checker's
table has too have the same names and types there."""

FILE = pa.field("file", pa.string())
"""In the verdicts and anomalies of a job: the file that the history is from; null if histories go on across files."""

MOST_GAPS = 3
"""How many partitions that a verdict does not cover a unit names."""

MALFORMED_SCHEMA = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("row_group", pa.int32(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("history", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("content", pa.string(), nullable=False),
    ]
)
"""One row for each row set aside: where it is (`row` counts within the row group), why, and its content as JSON."""


Named = Origins | Listed
"""What says whose the numbers of histories are."""
Aside = dict[str, Any]
"""A row of MALFORMED_SCHEMA."""


@attrs.frozen(eq=False)
class Checked:
    """The tables and counts of one unit."""

    verdicts: pa.Table
    anomalies: pa.Table
    malformed: pa.Table
    counts: Counter[str]
    """Histories by verdict."""
    kinds: Counter[str]
    """Rows of the anomaly table by the anomaly's name."""
    examples: tuple[Anomaly, ...]
    """The first anomaly of each name."""
    covered: Totals
    """What the verdicts cover."""
    gaps: tuple[str, ...]
    """The first partitions of which they do not say everything, in words."""


def check_parts(parts: Sequence[Part], level: Level, origins: Named | None = None) -> Checked:
    """Check the histories in `parts`, which hold all their rows. Raises BadInput for a table without histories.

    With `origins` the rows have numbers of histories, and the tables their ids and files or sources.
    """
    rows = add(count_column(part.table.column(KEY)) for part in parts)
    operations, aside, spoiled = sound_rows(parts, origins)
    if spoiled:
        operations = operations.take(np.flatnonzero(~_among(operations.history, spoiled)))
    return checked_of(check(operations, level, named=MOST_GAPS), rows, spoiled, aside, origins)


def checked_of(
    verdicts: Verdicts, rows: RowCounts, spoiled: set[int], aside: list[Aside], origins: Named | None
) -> Checked:
    """The tables: verdicts on the sound histories, and of which histories, with so many rows, some rows are aside."""
    first: dict[str, Anomaly] = {}
    for one in verdicts.anomalies:
        first.setdefault(one.name.value, one)
    tables = [
        _verdict_table(verdicts, rows, spoiled, aside),
        verdicts.anomaly_table(),
        pa.Table.from_pylist(aside, schema=MALFORMED_SCHEMA),
    ]
    if origins is not None:
        tables = [named(table, origins) for table in tables]
    return Checked(
        verdicts=tables[0],
        anomalies=tables[1],
        malformed=tables[2],
        counts=Counter({NAMES[code]: int(n) for code, n in enumerate(np.bincount(verdicts.verdicts)) if n})
        + Counter({MALFORMED: len(spoiled)}),
        kinds=Counter(one.name.value for one in verdicts.anomalies),
        examples=tuple(first.values()),
        covered=verdicts.coverage.totals,
        gaps=tuple(
            str(one if origins is None else attrs.evolve(one, whose=origins.words(one.history)))
            for one in verdicts.coverage.gaps
        ),
    )


def sound_rows(parts: Sequence[Part], origins: Named | None) -> tuple[Operations, list[Aside], set[int]]:
    """The rows that are operations, sorted; those that are none, and the histories that have some. Raises BadInput."""
    sound, aside, spoiled = _sieve(parts, origins)
    operations, order = _combine(sound)
    bad = find(operations)
    if bad:
        aside += _place(bad, sound, order, origins)
        spoiled.update(operations.history[[row.row for row in bad]].tolist())
    return operations, aside, spoiled


def with_note(checked: Checked, note: str) -> Checked:
    """The same with a note on every verdict, besides what it does not cover."""
    if not note:
        return checked
    at = checked.verdicts.schema.get_field_index("note")
    said = [note if one is None else f"{one}; {note}" for one in checked.verdicts.column(at).to_pylist()]
    field = checked.verdicts.schema.field(at)
    return attrs.evolve(checked, verdicts=checked.verdicts.set_column(at, field, pa.array(said, field.type)))


def named(table: pa.Table, origins: Named) -> pa.Table:
    """A table with the ids of its histories in place of their numbers; and with their files, unless it names files."""
    at = table.schema.get_field_index(KEY)
    column = table.column(at)
    blank = column.is_null().to_numpy()
    numbers = column.drop_null().to_numpy()
    ids = np.zeros(len(table), np.int64)
    ids[~blank] = origins.ids(numbers)
    table = table.set_column(at, table.schema.field(at), pa.array(ids, mask=blank))
    if FILE.name in table.column_names:
        return table
    files = origins.files_of(numbers)
    if blank.any():
        files = files.take(pa.array(np.cumsum(~blank) - 1, mask=blank))
    return table.append_column(FILE, files)


def _sieve(parts: Iterable[Part], origins: Named | None) -> tuple[list[Part], list[Aside], set[int]]:
    """Split the rows: those that are operations, those that are not, and the histories that have some that are not."""
    sound: list[Part] = []
    aside: list[Aside] = []
    spoiled: set[int] = set()
    for part in parts:
        try:
            table, bad, kept = sieve(part.table, part.file)
        except HistoryError as error:
            raise BadInput(str(error)) from error
        for row in bad:
            kept_aside = _aside(part, row.row, row.reason, origins)
            aside.append(kept_aside)
            if row.history is not None:
                spoiled.add(row.history)
        sound.append(attrs.evolve(part, table=table, rows=part.rows[kept]) if bad else part)
    return sound, aside, spoiled


def _aside(part: Part, at: int, reason: str, origins: Named | None) -> Aside:
    """Describe row `at` of `part`, under MALFORMED_SCHEMA, by the number of its history."""
    content = part.table.slice(at, 1).to_pylist()[0]
    number = content[KEY]
    if number is not None and origins is not None:
        content[KEY] = origins.id(number)
    row = int(part.rows[at])
    whose = None if part.whose is None else part.whose[row].as_py()
    return {
        "file": whose or part.source or part.file,
        "row_group": part.row_group,
        "row": row,
        "history": number,
        "reason": reason,
        "content": json.dumps(content),
    }


def _combine(parts: Sequence[Part]) -> tuple[Operations, Ints | None]:
    """Sort all rows by history and index. Also returns the permutation; None if the rows were in order already."""
    try:
        operations = concatenate([from_arrow(part.table, part.file, part.topics) for part in parts])
    except HistoryError as error:
        raise BadInput(str(error)) from error
    history, index = operations.history, operations.index
    if not any("index" in part.table.column_names for part in parts):
        order = np.argsort(history, kind="stable")
        operations = operations.take(order)
        starts = operations.history_starts
        index = (np.arange(len(order)) - np.repeat(starts[:-1], np.diff(starts))).astype(np.int32)
        return attrs.evolve(operations, index=index), order
    step = np.diff(history)
    if (step > 0).all() or ((step > 0) | ((step == 0) & (np.diff(index) >= 0))).all():
        return operations, None
    order = np.lexsort((index, history))
    return operations.take(order), order


def _place(
    bad: Iterable[MalformedRow], parts: Sequence[Part], order: Ints | None, origins: Named | None
) -> list[Aside]:
    """Find where malformed rows of the combined operations came from."""
    starts = np.concatenate(([0], np.cumsum([len(part.table) for part in parts])))
    placed: list[Aside] = []
    for row in bad:
        came = row.row if order is None else int(order[row.row])
        part = int(np.searchsorted(starts, came, side="right")) - 1
        placed.append(_aside(parts[part], came - int(starts[part]), row.reason, origins))
    return placed


def _among(history: Ints, spoiled: Iterable[int]) -> Flags:
    found: Flags = np.isin(history, np.array(sorted(spoiled), np.int64))
    return found


def _verdict_table(verdicts: Verdicts, rows: RowCounts, spoiled: set[int], aside: Iterable[Aside]) -> pa.Table:
    """Build the verdict table: the histories that were checked, and those that malformed rows kept from it."""
    checked = verdicts.table()
    table = checked.append_column("malformed", _zeros(len(checked))).select(VERDICT_SCHEMA.names).cast(VERDICT_SCHEMA)
    if not spoiled:
        return table
    malformed = Counter(row["history"] for row in aside)
    ids = sorted(spoiled)
    left_out = {
        "history": ids,
        "operations": rows.counts[np.searchsorted(rows.ids, ids)],
        "malformed": [malformed[one] for one in ids],
        "verdict": [NAMES.index(MALFORMED)] * len(ids),
        **{name: [0] * len(ids) for name in ("anomalies", "records", "unconfirmed", "open_ends")},
        "judged": [""] * len(ids),
        "note": [NOT_CHECKED] * len(ids),
    }
    return pa.concat_tables([table, pa.table(left_out, schema=VERDICT_SCHEMA)]).sort_by("history")


def _zeros(size: int) -> pa.Array:
    return pa.array(np.zeros(size, np.int64))
