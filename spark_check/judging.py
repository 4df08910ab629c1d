"""A DataFrame of operations in, a DataFrame of verdicts out: for notebooks, tables and pipelines.

Spark shuffles the rows by history and sorts them, and workers check them in blocks as they come. To send a row from the
JVM to Python costs ten times as much as to check it; where the operations are files, `check_histories` reads them
without that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.linearizability.arrow import REQUIRED, HistoryError, known_columns
from tidegauge.linearizability.check import ANOMALY_SCHEMA
from tidegauge.linearizability.log import Level
from tidegauge.spark_check.checking import MALFORMED, NAMES, NOT_CHECKED, VERDICT_SCHEMA, Checked, check_parts
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.footers import KEY
from tidegauge.spark_check.planner import TARGET
from tidegauge.spark_check.reading import COLUMNS, Part
from tidegauge.spark_check.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


def judge(operations: DataFrame, level: Level = Level.KAFKA, *, topics: Sequence[str] | None = None) -> DataFrame:
    """Check every history in `operations`, whose columns are those of docs/history.md: a row for each history.

    The columns of the result are those of JUDGED_SCHEMA. `topics` names topic codes; a string column needs none.
    Lazy, as DataFrames are. Raises BadInput for a table that holds no histories.
    """
    require_order(operations)
    ship(operations.sparkSession)
    known = [name for name in COLUMNS if name in operations.columns]
    rows = operations.select(*known).repartition(KEY).sortWithinPartitions(KEY, "index")
    named = None if topics is None else tuple(topics)

    def judge_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in whole_histories(batches, TARGET):
            yield from judge_block(block, level, named).to_batches()

    return rows.mapInArrow(judge_partition, _DDL)


def require_order(operations: DataFrame) -> None:
    """Raise BadInput unless `operations` has the columns of a history, and an index: its rows have no order."""
    names = operations.columns
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
    """Blocks of at least `target` rows, none of which cuts a history. The batches are sorted by history."""
    held: list[pa.RecordBatch] = []
    rows = begins = 0
    last: int | None = None
    for batch in batches:
        if not len(batch):
            continue
        ids = batch.column(batch.schema.get_field_index(KEY))
        column = np.where(ids.is_null().to_numpy(zero_copy_only=False), -1, pc.fill_null(ids, 0).to_numpy())
        changes = np.flatnonzero(np.diff(column))
        if len(changes):
            begins = rows + int(changes[-1]) + 1
        elif int(column[0]) != last:
            begins = rows
        held.append(batch)
        rows += len(batch)
        last = int(column[-1])
        if rows >= target and begins:
            table = pa.Table.from_batches(held)
            yield table.slice(0, begins)
            held = table.slice(begins).to_batches()
            rows, begins = rows - begins, 0
    if held:
        yield pa.Table.from_batches(held)


def judge_block(table: pa.Table, level: Level, topics: tuple[str, ...] | None = None) -> pa.Table:
    """Check the histories in a table: a row for each, in JUDGED_SCHEMA."""
    checked = check_parts([Part("the DataFrame", 0, np.arange(len(table)), table, topics)], level)
    return judged(checked, table.column(KEY).null_count)


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
