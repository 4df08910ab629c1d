"""Histories of Jepsen's Kafka workload, as its EDN files hold them.

A completed `:send` or `:txn` of `[:send k v]` says `[:send k [offset v]]`; a completed `:poll` says, for each key, the
pairs of offset and value. A key is a partition here, each micro-operation an operation with the interval of the whole.
Polls carry no position: they go on where the process was, until it subscribes, crashes, or assigns itself other keys or
to their beginning. A process that has subscribed is a member of a group, which may give a key to another one and back.
The keys of an operation's
`:rebalance-log` have moved in it: their polls in it need not even be in order, and after it nobody knows the position.
Where no operation of a file has such a log, nobody knows it between two polls of a process that has subscribed.

In a run with transactions, which has a `:txn`, each `:send`, `:poll` and `:txn` is a transaction: its tag only says
what is in it. Each of its operations has the interval of the whole, and so has its commit: ok, failed or unknown as
the whole. Where it is unknown or failed, the sends and polls that have their results were done; and nobody knows where
its consumer goes on, which a client may rewind after an abort, or not (KAFKA-17582).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import count
from pathlib import Path
from typing import Any

import attrs

from tidegauge.linearizability.arrow import HistoryError
from tidegauge.linearizability.history import UNKNOWN, Isolation, Kind, Operation, Operations, Outcome

TOPIC = "jepsen"
_TOKEN = re.compile(r'[\s,]*(#\{|#_|\\.[\w-]*|[()\[\]{}]|"(?:\\.|[^"\\])*"|;[^\n]*|[^\s,()\[\]{}";\\]+|\Z)')
_CLOSES = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_WORDS: Mapping[str, Any] = {"nil": None, "true": True, "false": False}


def read(path: str | Path, isolation: Isolation = Isolation.READ_COMMITTED) -> Operations:
    """The operations of a Jepsen history, one map a line or one vector of maps. Raises HistoryError.

    The file does not say the isolation level of consumers in a run with transactions; Jepsen's default is the one here.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise HistoryError(f"{path}: there is no such file; check the path") from None
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}; check its permissions") from error
    except UnicodeDecodeError as error:
        raise HistoryError(f"{path}: not readable as UTF-8 text ({error}); write it again") from error
    return parse(text, str(path), isolation=isolation)


def parse(
    text: str, source: str = "memory", history: int = 0, isolation: Isolation = Isolation.READ_COMMITTED
) -> Operations:
    """The operations in the EDN `text`."""
    try:
        read = list(forms(text))
        events = read[0] if len(read) == 1 and isinstance(read[0], tuple) else read
        ordered = sorted(_pair(tuple(events), isolation), key=lambda row: row.call)
        return Operations.of(attrs.evolve(row, history=history, index=index) for index, row in enumerate(ordered))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise HistoryError(f"{source}: not a history of Jepsen's Kafka workload ({error})") from error


def forms(text: str) -> Iterator[Any]:
    """EDN as Python: maps as dicts, vectors, lists and sets as tuples, keywords as strings that begin with a colon.

    Raises ValueError.
    """
    return _Reader(text).forms()


def _tokens(text: str) -> Iterator[str]:
    """What the text is made of, but for blanks and comments."""
    end = 0
    for match in _TOKEN.finditer(text):
        if match.start() != end:
            raise ValueError(f"a string that is never closed, at character {end}")
        end = match.end()
        if match[1] and not match[1].startswith(";"):
            yield match[1]


class _Reader:
    """Reads one form after the other."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)

    def forms(self) -> Iterator[Any]:
        for token in self.tokens:
            if token == "#_":
                self.form()
            else:
                yield self.form(token)

    def form(self, token: str | None = None) -> Any:
        token = next(self.tokens, None) if token is None else token
        if token is None:
            raise ValueError("it ends within a form")
        if token in _CLOSES:
            return self._collection(token)
        if token in (")", "]", "}"):
            raise ValueError(f"a {token} that closes nothing")
        if token == "#_":
            self.form()
            return self.form()
        # A tag such as #jepsen.history.Op says how to print the form after it.
        if token.startswith("#"):
            return self.form()
        if token.startswith('"'):
            return token[1:-1]
        if re.fullmatch(r"[+-]?\d+[NM]?", token):
            return int(token.rstrip("NM"))
        return _WORDS.get(token, token)

    def _collection(self, opening: str) -> Any:
        items: list[Any] = []
        while (token := next(self.tokens, None)) != _CLOSES[opening]:
            if token is None:
                raise ValueError(f"a {opening} that is never closed")
            if token == "#_":
                self.form()
            else:
                items.append(self.form(token))
        if opening != "{":
            return tuple(items)
        if len(items) % 2:
            raise ValueError(f"a map of {len(items)} forms: keys and values come in pairs")
        keys = items[::2]
        if len(fields := dict(zip(keys, items[1::2], strict=True))) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"a map with more than one key {twice}: write each once")
        return fields


def _pair(events: Iterable[Mapping[str, Any]], isolation: Isolation) -> list[Operation]:
    """Operations from invocations and completions, by process."""
    rows: list[Operation] = []
    events = tuple(events)
    transactional = any(event.get(":f") == ":txn" for event in events)
    number = count()

    def take(invoked: Mapping[str, Any], done: Mapping[str, Any] | None, place: _Place) -> None:
        whole = transactional and invoked.get(":f") in (":txn", ":send", ":poll")
        place.moved = _rebalanced(done or {})
        mine = list(_operations(invoked, done, place, in_part=whole))
        place.kept -= place.moved
        if whole and _outcome(done) is not Outcome.OK:
            place.kept.clear()
        rows.extend(_whole(invoked, done, mine, next(number), isolation) if whole else mine)

    opened: dict[int, Mapping[str, Any]] = {}
    places: dict[int, _Place] = {}
    is_told = any(":rebalance-log" in event for event in events)
    for event in events:
        process, kind = event.get(":process"), event.get(":type")
        if not isinstance(process, int):
            continue
        if kind == ":invoke":
            if process in opened:
                raise ValueError(f"process {process} is invoked twice at once, at index {event.get(':index')}")
            opened[process] = event
            continue
        invoked = opened.pop(process, None)
        if invoked is None:
            raise ValueError(f"process {process} completes nothing at index {event.get(':index')}")
        if event.get(":f") == ":assign":
            places[process] = _Place(kept=_still_assigned(invoked, event, places.get(process)))
        elif event.get(":f") in (":subscribe", ":crash"):
            subscribes = event.get(":f") == ":subscribe"
            places[process] = _Place(is_subscribed=subscribes, is_lost=subscribes and not is_told)
        take(invoked, event, places.setdefault(process, _Place()))
    for invoked in opened.values():
        take(invoked, None, _Place())
    return rows


@attrs.define
class _Place:
    """Where a process is."""

    kept: set[_Key] = attrs.field(factory=set)
    """The keys of which it keeps its position."""
    moved: Set[_Key] = frozenset()
    """The keys that went to others, or came to it, in its operation."""
    is_subscribed: bool = False
    is_lost: bool = False
    """Whether a rebalance, of which nobody tells, may come before any poll."""


def _still_assigned(invoked: Mapping[str, Any], done: Mapping[str, Any], before: _Place | None) -> set[_Key]:
    """The keys of which a process keeps its position when it assigns itself some."""
    if before is None or before.is_subscribed or any(event.get(":seek-to-beginning?") for event in (invoked, done)):
        return set()
    if done.get(":type") == ":fail":
        return before.kept
    keys = done.get(":value") or invoked.get(":value") or ()
    return before.kept & {_key(key) for key in keys}


def _rebalanced(done: Mapping[str, Any]) -> Set[_Key]:
    """The keys of an operation's rebalance log: a list of entries, or, as some clients write it, two by name."""
    log = done.get(":rebalance-log") or ()
    entries = [entry for part in log.values() for entry in part or ()] if isinstance(log, Mapping) else log
    return {_key(key) for entry in entries for key in entry.get(":keys") or ()}


def _whole(
    invoked: Mapping[str, Any], done: Mapping[str, Any] | None, parts: Iterable[Operation], number: int,
    isolation: Isolation,
) -> Iterator[Operation]:  # fmt: skip
    """The operations of a transaction, and its commit."""
    for part in parts:
        row = attrs.evolve(part, transaction=number)
        if row.kind is Kind.FETCH:
            yield attrs.evolve(row, isolation=isolation)
        else:
            # What became of the whole says nothing of whether a record is in the log.
            yield attrs.evolve(row, outcome=Outcome.OK if row.outcome is Outcome.OK else Outcome.INFO)
    yield Operation(
        index=0, process=int(invoked[":process"]), kind=Kind.COMMIT, outcome=_outcome(done), topic="", partition=0,
        call=_time(invoked), returned=None if done is None else _time(done), transaction=number,
    )  # fmt: skip


_Key = tuple[str, int]
"""A topic and a partition."""


def _key(key: Any) -> _Key:
    """What a key stands for: an integer is a partition of one topic, a keyword or string a topic with one partition."""
    if isinstance(key, str):
        return key, 0
    if isinstance(key, int) and not isinstance(key, bool):
        return TOPIC, key
    raise ValueError(f"the key {key}: use an integer, a keyword or a string")


def _time(event: Mapping[str, Any]) -> int:
    if ":time" not in event:
        raise ValueError(f"an event without :time, at index {event.get(':index')}")
    return int(event[":time"])


_OUTCOMES: Mapping[Any, Outcome] = {":ok": Outcome.OK, ":fail": Outcome.FAIL, ":info": Outcome.INFO}


def _outcome(done: Mapping[str, Any] | None) -> Outcome:
    kind = ":info" if done is None else done.get(":type")
    if kind not in _OUTCOMES:
        raise ValueError(f"the :type {kind}: it is :invoke, :ok, :fail or :info")
    return _OUTCOMES[kind]


def _operations(
    invoked: Mapping[str, Any], done: Mapping[str, Any] | None, place: _Place, *, in_part: bool
) -> Iterator[Operation]:
    """One operation for each send and each key polled, from where the process is.

    `in_part`: where the whole failed, or nobody knows of it, a part of it that has its result was done all the same.
    """
    outcome = _outcome(done)
    has_results = outcome is Outcome.OK or (in_part and done is not None)
    told = done.get(":value") if done is not None and has_results else None
    parts = told if isinstance(told, tuple) else invoked.get(":value")
    for part in parts if isinstance(parts, tuple) else ():
        if not isinstance(part, tuple) or not part:
            continue
        if part[0] not in (":send", ":poll"):
            raise ValueError(f"{part[0]} in the value of an operation: there are :send and :poll")
        row = Operation(
            index=0, process=int(invoked[":process"]), kind=Kind.PRODUCE, outcome=outcome, topic=TOPIC, partition=0,
            call=_time(invoked), returned=None if done is None else _time(done),
        )  # fmt: skip
        if part[0] == ":send":
            _, key, sent = part
            done_so = has_results and isinstance(sent, tuple)
            yield _send(attrs.evolve(row, outcome=Outcome.OK) if done_so else row, _key(key), sent)
        elif has_results and len(part) > 1:
            row = attrs.evolve(row, outcome=Outcome.OK)
            yield from _poll(row, part[1] or {}, place)


def _send(row: Operation, key: _Key, sent: Any) -> Operation:
    row = attrs.evolve(row, topic=key[0], partition=key[1])
    offset, value = sent if isinstance(sent, tuple) else (None, sent)
    if row.outcome is not Outcome.OK:
        return attrs.evolve(row, values=(int(value),))
    # Acknowledged, but the client was not told where: it is somewhere, or lost, and only a reader can tell.
    where = UNKNOWN if offset is None else int(offset)
    outcome = Outcome.INFO if offset is None else Outcome.OK
    return attrs.evolve(row, values=(int(value),), offset=where, outcome=outcome)


def _poll(row: Operation, read_by_key: Mapping[Any, tuple[tuple[int, int], ...]], place: _Place) -> Iterator[Operation]:
    if place.is_lost:
        place.kept.clear()
    for named, pairs in read_by_key.items():
        if not pairs:
            continue
        key = _key(named)
        # Of a key that has moved each record is read by itself.
        for run in [(pair,) for pair in pairs] if key in place.moved else [pairs]:
            offsets, values = zip(*run, strict=True)
            position = UNKNOWN if key in place.kept - place.moved else offsets[0]
            yield attrs.evolve(
                row, kind=Kind.FETCH, topic=key[0], partition=key[1], offset=position, values=values, offsets=offsets
            )
        place.kept.add(key)
