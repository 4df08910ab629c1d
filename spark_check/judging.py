"""A DataFrame of operations in, a DataFrame of verdicts out: for notebooks, tables and pipelines.

Spark shuffles the rows by history and sorts them, and workers check them in blocks as they come. To send a row from the
JVM to Python costs ten times as much as to check it; where the operations are files, `check_histories` reads them
without that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.linearizability.arrow import REQUIRED, HistoryError, known_columns
from tidegauge.linearizability.check import ANOMALY_SCHEMA
from tidegauge.linearizability.log import Level
from tidegauge.spark_check.checking import (
    FILE,
    MALFORMED,
    NAMES,
    NOT_CHECKED,
    VERDICT_SCHEMA,
    Checked,
    check_parts,
    named,
)
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.footers import KEY
from tidegauge.spark_check.origins import Listed, told_apart
from tidegauge.spark_check.planner import TARGET
from tidegauge.spark_check.reading import COLUMNS, Part
from tidegauge.spark_check.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE: Final = "_source"
"""In the rows at hand, the column that says where each is from, if there is one."""
_ANOMALY = [field for field in ANOMALY_SCHEMA if field.name != KEY]
JUDGED_SCHEMA = pa.schema(
    [
        *(field.with_nullable(True) for field in VERDICT_SCHEMA),
        pa.field("found", pa.list_(pa.struct(_ANOMALY))),
        pa.field("reasons", pa.list_(pa.string())),
    ]
)
"""The verdict table's columns, and in each row the anomalies of the history (`found`, as in the table of anomalies) and
why rows of it are malformed (`reasons`). Rows without a history are counted in a row of their own, whose `history` is
null."""

_DDL = (
    "history bigint, operations bigint, malformed bigint, verdict tinyint, anomalies int, records bigint, "
    "unconfirmed bigint, open_ends bigint, judged string, note string, "
    "found array<struct<anomaly: string, topic: string, partition: int, operations: array<int>, count: bigint, "
    "witness: string>>, reasons array<string>"
)


def judge(
    operations: DataFrame, level: Level = Level.KAFKA, *, topics: Sequence[str] | None = None, source: str | None = None
) -> DataFrame:
    """Check every history in `operations`, whose columns are those of docs/history.md: a row for each history.

    The columns of the result are those of JUDGED_SCHEMA. `topics` names topic codes; a string column needs none. With
    `source`, the name of a column that says where each row is from, such as its file, an id that two sources have is
    two histories, and the result has the source as `file`. Lazy, as DataFrames are. Raises BadInput for a table that
    holds no histories.
    """
    rows = operations.select(*known_of(operations, source))
    ship(operations.sparkSession)
    keys = [name for name in (SOURCE, KEY) if name in rows.columns]
    rows = rows.repartition(*keys).sortWithinPartitions(*keys, "index")
    names = None if topics is None else tuple(topics)

    def judge_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in whole_histories(batches, TARGET):
            yield from judge_block(block, level, names).to_batches()

    return rows.mapInArrow(judge_partition, _DDL if source is None else f"{_DDL}, {FILE.name} string")


def known_of(operations: DataFrame, source: str | None) -> list[Column]:
    """The columns of a history, and where its rows are from as `SOURCE` if `source` says so. Raises BadInput."""
    from pyspark.sql import functions

    require_order(operations, source)
    known = [functions.col(name) for name in COLUMNS if name in operations.columns]
    if source is not None:
        known.append(functions.col(source).cast("string").alias(SOURCE))
    return known


def require_order(operations: DataFrame, source: str | None = None) -> None:
    """Raise BadInput unless `operations` has the columns of a history, and an index: its rows have no order."""
    names = operations.columns
    if source is not None:
        if source not in names or source in COLUMNS:
            raise BadInput(
                f"the column {source!r}, which says where rows are from, "
                f"{'is one of a history' if source in names else 'is not there'}: name a column of your own"
            )
        names = [name for name in names if name != source]
    try:
        known_columns(names, "the DataFrame")
    except HistoryError as error:
        raise BadInput(str(error)) from None
    missing = [name for name in (*REQUIRED, "index") if name not in names]
    if missing:
        raise BadInput(
            f"the DataFrame has no column {', '.join(missing)}: docs/history.md says what a table of histories looks "
            "like. `index` may not be absent, since the rows of a DataFrame have no order"
        )


def whole_histories(batches: Iterable[pa.RecordBatch], target: int) -> Iterator[pa.Table]:
    """Blocks of at least `target` rows, none of which cuts a history. The batches are sorted by source and history."""
    held: list[pa.RecordBatch] = []
    rows = begins = 0
    last: tuple[Any, ...] | None = None
    for batch in batches:
        if not len(batch):
            continue
        keys = [batch.column(name) for name in (SOURCE, KEY) if name in batch.schema.names]
        codes = [key.dictionary_encode(null_encoding="encode").indices.to_numpy() for key in keys]
        changes = np.flatnonzero(np.any([np.diff(code) != 0 for code in codes], axis=0))
        if len(changes):
            begins = rows + int(changes[-1]) + 1
        elif tuple(key[0].as_py() for key in keys) != last:
            begins = rows
        held.append(batch)
        rows += len(batch)
        last = tuple(key[-1].as_py() for key in keys)
        if rows >= target and begins:
            table = pa.Table.from_batches(held)
            yield table.slice(0, begins)
            held = table.slice(begins).to_batches()
            rows, begins = rows - begins, 0
    if held:
        yield pa.Table.from_batches(held)


def judge_block(table: pa.Table, level: Level, topics: tuple[str, ...] | None = None) -> pa.Table:
    """Check the histories in a table: a row for each, in JUDGED_SCHEMA, with its `file` if rows have a `SOURCE`."""
    part, origins = part_of("the DataFrame", table, topics)
    verdicts = judged(check_parts([part], level), table.column(KEY).null_count)
    return verdicts if origins is None else named(verdicts, origins)


def part_of(where: str, table: pa.Table, topics: tuple[str, ...] | None) -> tuple[Part, Listed | None]:
    """The rows as a part. If they have a `SOURCE`, with numbers of histories, and what these stand for."""
    if SOURCE not in table.column_names:
        return Part(where, 0, np.arange(len(table)), table, topics), None
    ids, whose = table.column(KEY), table.column(SOURCE)
    numbers, origins = told_apart(ids, whose)
    at = table.schema.get_field_index(KEY)
    blank = ids.is_null().to_numpy()
    rows = table.set_column(at, KEY, pa.array(numbers, mask=blank)).drop_columns([SOURCE])
    return Part(where, 0, np.arange(len(table)), rows, topics, whose=whose), origins


def judged(checked: Checked, nameless: int) -> pa.Table:
    """The verdicts with their anomalies and reasons beside them, in JUDGED_SCHEMA."""
    ids = checked.verdicts.column(KEY).to_numpy()
    found = _beside(ids, checked.anomalies, pa.struct(_ANOMALY))
    said = checked.malformed.select([KEY, "reason"])
    named = said.filter(pc.is_valid(said.column(KEY)))
    reasons = _beside(ids, named, pa.string())
    verdicts = checked.verdicts.cast(pa.schema(list(JUDGED_SCHEMA)[: len(VERDICT_SCHEMA)]))
    table = verdicts.append_column("found", found).append_column("reasons", reasons).cast(JUDGED_SCHEMA)
    if not nameless:
        return table
    why = said.filter(pc.is_null(said.column(KEY))).column("reason").unique().to_pylist()
    blank = dict.fromkeys(JUDGED_SCHEMA.names, 0) | {
        "history": None,
        "operations": nameless,
        "malformed": nameless,
        "verdict": NAMES.index(MALFORMED),
        "judged": "",
        "note": NOT_CHECKED,
        "found": [],
        "reasons": why,
    }
    return pa.concat_tables([table, pa.Table.from_pylist([blank], schema=JUDGED_SCHEMA)])


def _beside(ids: np.ndarray[tuple[int, ...], np.dtype[np.int64]], table: pa.Table, kind: pa.DataType) -> pa.Array:
    """For each of `ids`, in order, a list of the rows of `table` with that history, without the id."""
    whose = table.column(KEY).to_numpy()
    order = np.argsort(whose, kind="stable")
    rows = table.drop_columns([KEY]).take(pa.array(order)).combine_chunks()
    columns = [rows.column(name).combine_chunks() for name in rows.column_names]
    items = pa.StructArray.from_arrays(columns, fields=list(kind)) if pa.types.is_struct(kind) else columns[0]
    ends = np.searchsorted(whose[order], ids, side="right")
    starts = np.concatenate(([0], ends)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), items)
