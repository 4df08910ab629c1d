"""What a row must be before it can be checked, and the rows that are not."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.linearizability.arrow import NULLABLE, ONLY_MEMBERS, ONLY_TRANSACTIONS, REQUIRED, SCHEMA, require_columns
from tidegauge.linearizability.compiled_code import columns, compiled, fixed
from tidegauge.linearizability.history import (
    DECLARED,
    NEVER,
    OF_MANY,
    UNKNOWN,
    Flags,
    Ints,
    Isolation,
    Kind,
    Operations,
    Outcome,
)
from tidegauge.linearizability.malformed_groups import group_faults
from tidegauge.linearizability.malformed_transactions import transaction_faults
from tidegauge.linearizability.membership import Membership
from tidegauge.linearizability.transactional import Transactional

REASON = "_malformed"
"""A column in which the table says why a row is no operation; null for rows that are."""
BEYOND = 1 << 62
"""No offset is so large, so that sums of offsets and counts fit 64 bits."""


@attrs.frozen
class MalformedRow:
    """A row that cannot be checked: where it came from, its history if it has one, and what is wrong with it."""

    source: str
    row: int
    history: int | None
    reason: str

    def __str__(self) -> str:
        whose = "" if self.history is None else f" (history {self.history})"
        return f"{self.source}, row {self.row}{whose}: {self.reason}"


def find(operations: Operations, source: str = "memory", first_row: int = 0) -> list[MalformedRow]:
    """Every malformed row with its first fault, in order of row; empty for a table that can be checked."""
    if _are_sound(operations):
        return []
    reasons: dict[int, str] = {}
    for wrong, reason in _faults(operations):
        for row in np.flatnonzero(wrong).tolist():
            reasons.setdefault(row, _filled(reason, operations, row))
    return [
        MalformedRow(source, first_row + row, int(operations.history[row]), reason)
        for row, reason in sorted(reasons.items())
    ]


def _are_sound(ops: Operations) -> bool:
    """Whether compiled code finds nothing wrong; where it does, or cannot say, each rule is asked."""
    plain = ops.offsets is None and ops.transactional is None and ops.membership is None
    code = compiled() if plain else None
    if code is None:
        return False
    rows = map(fixed, (ops.history, ops.index, ops.partition, ops.isolation))
    return bool(code.are_sound(*rows, columns(ops)))


def split(operations: Operations, source: str = "memory", first_row: int = 0) -> tuple[Operations, list[MalformedRow]]:
    """The rows of histories that can be checked, and the malformed rows.

    A history with a malformed row is left out as a whole: without the row its verdict would mean nothing.
    """
    bad = find(operations, source, first_row)
    if not bad:
        return operations, bad
    spoiled = np.unique(operations.history[[row.row - first_row for row in bad]])
    return operations.take(np.flatnonzero(~np.isin(operations.history, spoiled))), bad


def sieve(table: pa.Table, source: str = "memory") -> tuple[pa.Table, list[MalformedRow], Ints]:
    """The rows of an Arrow table that are not even operations, the rest without their histories, and its row numbers.

    Such rows have a null where none may be, a number that does not fit its column, or not one offset for each value; or
    the table itself says so (REASON).
    """
    require_columns(table, source)
    reasons: dict[int, str] = {}
    if REASON in table.column_names:
        said = table.column(REASON)
        reasons = {row: said[row].as_py() for row in np.flatnonzero(pc.is_valid(said).to_numpy()).tolist()}
    for name in REQUIRED:
        if name not in NULLABLE and table.column(name).null_count:
            nulls = np.flatnonzero(pc.is_null(table.column(name)).to_numpy())
            for row in nulls.tolist():
                reasons.setdefault(row, f"{name} is null; every operation needs one")
    for name, narrow in _narrower(table):
        least, most = np.iinfo(narrow.to_pandas_dtype()).min, np.iinfo(narrow.to_pandas_dtype()).max
        column = table.column(name)
        beyond = pc.greater(column, pa.scalar(most, column.type))
        if pa.types.is_signed_integer(column.type):
            beyond = pc.or_(beyond, pc.less(column, pa.scalar(least, column.type)))
        for row in np.flatnonzero(pc.fill_null(beyond, False).to_numpy()).tolist():
            reasons.setdefault(row, f"{name} is {column[row]}: it does not fit {narrow}")
    if "offsets" in table.column_names and table.column("offsets").null_count < len(table):
        counts, places = (pc.list_value_length(table.column(name)) for name in ("values", "offsets"))
        differs = pc.fill_null(pc.not_equal(pc.fill_null(counts, 0), places), False).to_numpy()
        for row in np.flatnonzero(differs).tolist():
            reasons.setdefault(
                row,
                f"{counts[row]} values and {places[row]} offsets; give one offset for each value, "
                "or null when they are contiguous from offset",
            )
    everything = np.arange(len(table))
    if not reasons:
        return table, [], everything
    ids, named = table.column("history"), pc.is_valid(table.column("history")).to_numpy()
    history = pc.fill_null(ids, 0).to_numpy()
    bad = [
        MalformedRow(source, row, int(history[row]) if named[row] else None, reason)
        for row, reason in sorted(reasons.items())
    ]
    kept = everything[named & ~np.isin(history, [row.history for row in bad if row.history is not None])]
    return table.take(kept), bad, kept


def _narrower(table: pa.Table) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of whole numbers whose type has numbers that the type of the column in SCHEMA has not."""
    for field in SCHEMA:
        if field.name in table.column_names and field.name != "history" and pa.types.is_integer(field.type):
            given = table.schema.field(field.name).type
            unsigned = pa.types.is_unsigned_integer(given)
            if pa.types.is_integer(given) and given.bit_width + unsigned > field.type.bit_width:
                yield field.name, field.type


def _filled(reason: str, ops: Operations, row: int) -> str:
    names = ("index", "kind", "outcome", "isolation", "acks", "offset", "high_watermark", "call", "returned", "process")
    facts: dict[str, object] = {name: int(getattr(ops, name)[row]) for name in (*names, "partition")}
    facts["count"] = int(ops.counts[row])
    extra = ops.transactional or Transactional.blank(len(ops))
    said = ops.membership or Membership.blank(len(ops))
    for names_of, extras in ((ONLY_TRANSACTIONS, extra.columns), (ONLY_MEMBERS, said.columns)):
        facts |= {name: int(column[row]) for name, column in zip(names_of, extras, strict=True)}
    return reason.format(**facts)


def _faults(ops: Operations) -> Iterator[tuple[Flags, str]]:
    """Each rule that a row may break, and how to say so."""
    if not len(ops):
        return
    ok = ops.outcome == Outcome.OK
    produce, fetch, filled = ops.kind == Kind.PRODUCE, ops.kind == Kind.FETCH, ops.counts > 0
    yield _outside(ops.kind, Kind), "kind is {kind}: use " + _codes(Kind)
    yield _outside(ops.outcome, Outcome), "outcome is {outcome}: use " + _codes(Outcome)
    yield _outside(ops.isolation, Isolation), "isolation is {isolation}: use " + _codes(Isolation)
    yield (ops.acks < -1) | (ops.acks > 1), "acks is {acks}: use -1 (all), 0 or 1"
    yield ops.partition < 0, "partition is {partition}: number partitions from 0"
    yield ops.call < 0, "called at {call}: count nanoseconds from the start of the history"
    yield ops.returned < ops.call, "returned at {returned}, before its call at {call}: use one monotonic clock"
    declared = np.isin(ops.kind, DECLARED)
    yield ok & ~declared & (ops.returned == NEVER), "it is ok but has no return: make it info"
    yield ops.offset < UNKNOWN, "offset is {offset}: use null where nobody knows it"
    yield ops.offset >= BEYOND, "offset is {offset}: no log is that long, give an offset below 2**62"
    yield ops.high_watermark >= BEYOND, "high_watermark is {high_watermark}: no log is that long, give less than 2**62"
    if ops.offsets is not None:
        wild: Ints = np.concatenate(([0], np.cumsum((ops.offsets < UNKNOWN) | (ops.offsets >= BEYOND))))
        yield wild[ops.starts[1:]] > wild[ops.starts[:-1]], "an offset in offsets is negative, or 2**62 or more"
    yield ops.high_watermark < UNKNOWN, "high_watermark is {high_watermark}: use null where nobody knows it"
    yield produce & ~filled, "a produce without values: list what was sent"
    listing = np.isin(ops.kind, (*OF_MANY, Kind.DELIVER))
    yield (
        filled & ~(produce | fetch | listing),
        "{count} values on an operation that has none: leave values empty",
    )
    yield fetch & filled & ~ok, "{count} values on a fetch that is not ok: leave values empty"
    acknowledged = produce & ok & (ops.acks != 0)
    yield acknowledged & (ops.offset == UNKNOWN), "an acknowledged produce without its offset: give it, or make it info"
    told = (ops.offset != UNKNOWN) | _any_offset(ops)
    yield (
        produce & ok & (ops.acks == 0) & told,
        "acks is 0 and offset is {offset}: no response tells where such a record is, use null, and no offsets",
    )
    yield (
        produce & ~ok & told,
        "a produce that is not ok has an offset or offsets: who was told where its records are knows that it is ok",
    )
    yield (
        ~(fetch & ok) & (ops.high_watermark != UNKNOWN),
        "high_watermark is {high_watermark}: only a fetch that is ok has one",
    )
    needs = ((ops.kind == Kind.LIST_OFFSETS) & ok) | (ops.kind == Kind.ELECTION)
    yield (
        needs & (ops.offset == UNKNOWN),
        "no offset: a list_offsets needs the offset that it returned, an election the new log end",
    )
    yield declared & (ops.outcome == Outcome.FAIL), "a declaration of what did not happen: leave the row out"
    yield (
        _offsets_absent(ops, filled & (fetch | (ops.kind == Kind.DELIVER)) & ok),
        "values without offsets: give offsets, or the position in offset",
    )
    yield from transaction_faults(ops)
    if ops.transactional is not None or ops.membership is not None or (ops.kind >= Kind.MEMBER).any():
        yield from group_faults(ops)
    yield from _order(ops)


def _order(ops: Operations) -> Iterator[tuple[Flags, str]]:
    """Faults between one row and the one before it."""
    wrong = np.zeros(len(ops), np.bool_)
    wrong[1:] = (ops.history[1:] == ops.history[:-1]) & (ops.index[1:] <= ops.index[:-1])
    yield wrong, "index {index} does not follow the row before it: indices are unique, rows sorted by history and index"
    starts = ops.history_starts
    heads = ops.history[starts[:-1]]
    again = np.zeros(len(ops), np.bool_)
    if (heads[1:] <= heads[:-1]).any():
        _, first = np.unique(heads, return_index=True)
        repeated = np.ones(len(heads), np.bool_)
        repeated[first] = False
        again[starts[:-1][repeated]] = True
    yield again, "its history began earlier in the table: sort the rows by history and index"


def _any_offset(ops: Operations) -> Flags:
    """The rows that have an offset of their own for a value."""
    if ops.offsets is None:
        return np.zeros(len(ops), np.bool_)
    there: Ints = np.concatenate(([0], np.cumsum(ops.offsets != UNKNOWN)))
    any_offset: Flags = there[ops.starts[1:]] > there[ops.starts[:-1]]
    return any_offset


def _offsets_absent(ops: Operations, rows: Flags) -> Flags:
    """Those of `rows`, which have values each, that have one whose offset nobody knows."""
    if ops.offsets is None:
        nowhere: Flags = ops.offset == UNKNOWN
    else:
        unknown: Ints = np.concatenate(([0], np.cumsum(ops.offsets < 0)))
        nowhere = unknown[ops.starts[1:]] > unknown[ops.starts[:-1]]
    return rows & nowhere


def _outside(codes: np.ndarray[tuple[int, ...], np.dtype[np.int8]], names: type[Kind | Outcome | Isolation]) -> Flags:
    wrong: Flags = (codes < 0) | (codes >= len(names))
    return wrong


def _codes(names: type[Kind | Outcome | Isolation]) -> str:
    return ", ".join(f"{int(one)} ({one.name.lower()})" for one in names)
