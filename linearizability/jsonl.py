"""Histories as JSON lines: a row a line, or Jepsen's events, an invocation and later its completion.

A row has `Operation`'s fields under the column names of docs/history.md, names instead of codes. An event has `type`
(invoke, ok, fail, info), `f` (the kind), `process`, `time`, and the same fields; an event of type ok completes the
invocation that its process has open. One that is never completed is info and never returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np

from tidegauge.linearizability.arrow import SCHEMA, HistoryError, unknown_name
from tidegauge.linearizability.history import (
    NAMELESS,
    UNKNOWN,
    History,
    Isolation,
    Kind,
    Operation,
    Operations,
    Outcome,
)
from tidegauge.linearizability.json_objects import parse_line
from tidegauge.linearizability.malformed import find

E = TypeVar("E", bound=IntEnum)
EVENTS = ("invoke", "ok", "fail", "info")
ROW_FIELDS = tuple(SCHEMA.names)
_ELSEWHERE = ("kind", "outcome", "call", "return")
"""An event says these by its type, f and time."""
EVENT_FIELDS = ("type", "f", "time", *(name for name in ROW_FIELDS if name not in _ELSEWHERE), "error")
"""Of these, `index` and `error` are Jepsen's and are not read: events are in order, and an outcome is their type."""


@attrs.frozen
class MalformedLine:
    """A line that is no operation: its number from 1, its history where it names one, why, and its beginning."""

    number: int
    history: int | None
    reason: str
    text: str

    def __str__(self) -> str:
        whose = "" if self.history is None else f" (history {self.history})"
        return f"line {self.number}{whose}: {self.reason}"


@attrs.frozen(eq=False)
class _Sifted:
    """The operations of a file, the lines that are none, and in which line each operation begins."""

    operations: Operations
    malformed: list[MalformedLine]
    lines: list[int]


class _EventError(Exception):
    """An event where only rows can be."""


SHOWN = 500
"""Characters of a malformed line that are kept."""


def read(path: str | Path) -> Operations:
    """The operations of a file of JSON lines, rows or events. Raises HistoryError with the line."""
    return _sound(_sift_file(path), str(path))


def parse(lines: Iterable[str], source: str = "memory") -> Operations:
    """The operations in `lines`; each line is an event if it has a `type`. Raises HistoryError with the line."""
    return _sound(_sift(lines), source)


def sift(path: str | Path) -> tuple[Operations, list[MalformedLine]]:
    """The operations of a file, and the lines that are none. Raises HistoryError if it is no text."""
    sifted = _sift_file(path)
    return sifted.operations, sifted.malformed


def sift_lines(
    lines: Iterable[str], source: str, first: int = 1, *, events: bool = True
) -> tuple[Operations, list[MalformedLine]]:
    """The same of `lines`, the first of which is line `first` of its file.

    Rows without an index, but for those from line 1 on, are numbered so that they follow those of the lines before.
    Without `events` a line that is one raises HistoryError: its invocation may be elsewhere. So does what is no text.
    """
    try:
        sifted = _sift(lines, first, events=events)
    except UnicodeDecodeError as error:
        raise HistoryError(f"{source}: not readable as UTF-8 text ({error}); write it again") from error
    except _EventError as error:
        raise HistoryError(f"{source}, line {error}: an event, which cannot be read apart from the others") from error
    return sifted.operations, sifted.malformed


def read_sound(path: str | Path) -> tuple[Operations, list[MalformedLine]]:
    """The histories that can be checked, and the lines for which others cannot. Raises HistoryError if it is no text.

    A history that a malformed line names is left out as a whole. A line that names none may be missing in any history
    of the file, which is checked without it.
    """
    sifted = _sift_file(path)
    operations = sifted.operations
    told = list(sifted.malformed)
    for row in find(operations):
        (operation,) = operations.take(np.array([row.row]))
        told.append(MalformedLine(sifted.lines[row.row], row.history, row.reason, format_row(operation)[:SHOWN]))
    spoiled = [line.history for line in told if line.history is not None]
    if spoiled:
        operations = operations.take(np.flatnonzero(~np.isin(operations.history, np.array(spoiled, np.int64))))
    return operations, sorted(told, key=lambda line: line.number)


def _sift_file(path: str | Path) -> _Sifted:
    try:
        with open(path, encoding="utf-8") as lines:
            return _sift(lines)
    except FileNotFoundError:
        raise HistoryError(f"{path}: there is no such file; check the path") from None
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}; check its permissions") from error
    except UnicodeDecodeError as error:
        raise HistoryError(f"{path}: not readable as UTF-8 text ({error}); write it again") from error


def _sound(sifted: _Sifted, source: str) -> Operations:
    if sifted.malformed:
        first = sifted.malformed[0]
        raise HistoryError(f"{source}, line {first.number}: {first.reason}")
    return sifted.operations


def _sift(lines: Iterable[str], first: int = 1, *, events: bool = True) -> _Sifted:
    begun: list[tuple[Operation, int]] = []
    malformed: list[MalformedLine] = []
    paired = _Events()
    indices: dict[int, int] = {}
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        history: int | None = None
        try:
            fields = parse_line(line)
            if not isinstance(fields, dict):
                raise ValueError("it is not a JSON object; write one object a line")
            history = _integer(fields, "history", 0)
            _known(fields)
            if "type" in fields:
                if not events:
                    raise _EventError(number)
                paired.take(fields, number)
            else:
                row = _row(fields, history, indices.get(history, first - 1))
                begun.append((row, number))
                indices[history] = row.index + 1
        except (ValueError, RecursionError) as error:
            malformed.append(MalformedLine(number, history, str(error), line.rstrip("\n")[:SHOWN]))
    begun = sorted([*begun, *paired.rows()], key=lambda one: (one[0].history, one[0].index))
    return _Sifted(Operations.of(row for row, _ in begun), malformed, [number for _, number in begun])


def _known(fields: Mapping[str, Any]) -> None:
    known, what = (EVENT_FIELDS, "field of an event") if "type" in fields else (ROW_FIELDS, "field")
    if not fields.keys() <= set(known):
        for name in fields:
            if wrong := unknown_name(name, known, what):
                raise ValueError(wrong)


def write(path: str | Path, operations: Iterable[Operation]) -> None:
    """Write `operations`, a row a line; the file is in its place once it is complete."""
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    try:
        with open(partial, "w", encoding="utf-8") as out:
            out.writelines(format_row(row) + "\n" for row in operations)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def format_row(row: Operation) -> str:
    """One row as a line."""
    fields: dict[str, Any] = {
        "history": row.history,
        "index": row.index,
        "process": row.process,
        "kind": row.kind.name.lower(),
        "outcome": row.outcome.name.lower(),
        "topic": row.topic,
        "partition": row.partition,
        "offset": None if row.offset == UNKNOWN else row.offset,
        "values": list(row.values),
        "offsets": None if row.offsets is None else list(row.offsets),
        "high_watermark": row.high_watermark,
        "isolation": row.isolation.name.lower(),
        "acks": row.acks,
        "call": row.call,
        "return": row.returned,
        "meta": row.meta,
        "transaction": row.transaction,
        "group": row.group,
        "last_stable_offset": row.last_stable_offset,
        "generation": row.generation,
        "member": row.member,
        "found": row.found,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def _row(fields: Mapping[str, Any], history: int, index: int) -> Operation:
    return Operation(
        history=history,
        index=_integer(fields, "index", index),
        process=_integer(fields, "process"),
        kind=(kind := _name(fields, "kind", Kind)),
        outcome=_name(fields, "outcome", Outcome),
        topic=_topic(fields, kind),
        partition=_integer(fields, "partition", 0),
        call=_integer(fields, "call"),
        returned=_optional(fields, "return"),
        offset=_integer(fields, "offset", UNKNOWN),
        values=_integers(fields, "values") or (),
        offsets=_integers(fields, "offsets"),
        high_watermark=_optional(fields, "high_watermark"),
        isolation=_name(fields, "isolation", Isolation, Isolation.READ_UNCOMMITTED),
        acks=_integer(fields, "acks", -1),
        meta=_meta(fields),
        transaction=_optional(fields, "transaction"),
        group=_optional(fields, "group"),
        last_stable_offset=_optional(fields, "last_stable_offset"),
        generation=_optional(fields, "generation"),
        member=_optional(fields, "member"),
        found=_optional(fields, "found"),
    )


class _Events:
    """Pairs the completions of each process with its invocations."""

    def __init__(self) -> None:
        self._histories: dict[int, History] = {}
        self._open: dict[tuple[int, int], int] = {}
        self._lines: dict[int, list[int]] = {}

    def take(self, fields: Mapping[str, Any], line: int) -> None:
        kind = fields["type"]
        if kind not in EVENTS:
            raise ValueError(f"type is {kind!r}: use {', '.join(EVENTS)}")
        number, process, time = _integer(fields, "history", 0), _integer(fields, "process"), _integer(fields, "time")
        history = self._histories.setdefault(number, History(number))
        if kind == "invoke":
            self._invoke(history, process, time, fields)
            self._lines.setdefault(number, []).append(line)
            return
        if (number, process) not in self._open:
            raise ValueError(f"process {process} completes nothing: every {kind} follows an invoke of its process")
        index = self._open.pop((number, process))
        if kind == "ok":
            history.ok(
                index,
                returned=time,
                offset=_optional(fields, "offset"),
                values=_integers(fields, "values"),
                offsets=_integers(fields, "offsets"),
                high_watermark=_optional(fields, "high_watermark"),
                last_stable_offset=_optional(fields, "last_stable_offset"),
                generation=_optional(fields, "generation"),
                found=_optional(fields, "found"),
                meta=_meta(fields),
            )
        else:
            complete: Callable[..., None] = history.fail if kind == "fail" else history.info
            complete(index, returned=time, meta=_meta(fields))

    def _invoke(self, history: History, process: int, time: int, fields: Mapping[str, Any]) -> None:
        if (history.id, process) in self._open:
            raise ValueError(f"process {process} calls again before its last call is complete: one call at a time")
        kind = _name(fields, "f", Kind)
        self._open[history.id, process] = history.invoke(
            process=process,
            kind=kind,
            topic=_topic(fields, kind),
            partition=_integer(fields, "partition", 0),
            call=time,
            values=_integers(fields, "values") or (),
            position=_integer(fields, "offset", UNKNOWN),
            acks=_integer(fields, "acks", -1),
            isolation=_name(fields, "isolation", Isolation, Isolation.READ_UNCOMMITTED),
            meta=_meta(fields),
            transaction=_optional(fields, "transaction"),
            group=_optional(fields, "group"),
            generation=_optional(fields, "generation"),
            member=_optional(fields, "member"),
        )

    def rows(self) -> Iterator[tuple[Operation, int]]:
        """Each operation, and the line of its invocation."""
        for history in self._histories.values():
            yield from zip(history.rows(), self._lines.get(history.id, ()), strict=True)


_BITS = {"acks": 8, **dict.fromkeys(("index", "process", "partition", "group", "generation", "member", "found"), 32)}


def _integer(fields: Mapping[str, Any], name: str, absent: int | None = None) -> int:
    value = fields.get(name)
    if value is None and absent is not None:
        return absent
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}: give an integer")
    bits = _BITS.get(name, 64)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{name} is {value}: it must fit {bits} bits")
    return value


def _optional(fields: Mapping[str, Any], name: str) -> int | None:
    return None if fields.get(name) is None else _integer(fields, name)


def _integers(fields: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError(f"{name} is {value!r}: give a list of integers")
    return tuple(_integer({name: item}, name) for item in value)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}: give a string")
    return _unicode(name, value)


def _topic(fields: Mapping[str, Any], kind: Kind) -> str:
    """The topic; the beginning and the end of a transaction need none, nor what is about no partition."""
    return "" if kind in NAMELESS and fields.get("topic") is None else _text(fields, "topic")


def _meta(fields: Mapping[str, Any]) -> str | None:
    value = fields.get("meta")
    return _unicode("meta", value) if isinstance(value, str) else None if value is None else json.dumps(value)


def _unicode(name: str, text: str) -> str:
    """`text`; JSON can escape half of a surrogate pair, which no file or terminal can be given."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {text!r}: half of a surrogate pair is no character") from None
    return text


def _name(fields: Mapping[str, Any], name: str, names: type[E], absent: E | None = None) -> E:
    value = fields.get(name)
    if value is None and absent is not None:
        return absent
    for one in names:
        if value == one.name.lower():
            return one
    raise ValueError(f"{name} is {value!r}: use {', '.join(one.name.lower() for one in names)}")
