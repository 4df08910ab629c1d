"""What the rules of Jepsen's Kafka workload report, stated once more: the names of the errors in a history's events.

A second implementation, of what `jepsen.tests.kafka` says it looks for, to hold docs/jepsen.md to: each name by itself,
in the slowest way. Offsets are put into an order once (gaps are markers); all but two rules compare places in it. Of an
offset with two values the smallest counts. Cycles have edges from writes to reads and between writes; those that take
the order of a process or of real time have names of their own. `worst-realtime-lag` is a figure, and no error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

Event = Mapping[str, Any]
Places = dict[Any, dict[Any, int]]
"""For each key, the place of each value in the order of the log."""
Edges = set[tuple[int, int]]


class NoWriter(Exception):  # noqa: N818 - what Jepsen throws
    """A value was read that no operation sent."""


def report(events: Sequence[Event]) -> set[str]:
    """The names of the errors."""
    ended = [event for event in events if event[":type"] != ":invoke"]
    done = [event for event in ended if event[":f"] in (":send", ":poll", ":txn")]
    logs = _logs(done)
    places = {key: _places(log) for key, log in logs.items()}
    found = {
        "inconsistent-offsets": any(len(values) > 1 for log in logs.values() for values in log.values()),
        "duplicate": any(len(offsets) > 1 for log in logs.values() for offsets in _by_value(log).values()),
        "lost-write": _loses(done, logs),
        "G1a": bool(_pairs(done, ":fail", sends) & _pairs(done, ":ok", polls)),
        "precommitted-read": any(_values(sends(event)) & _values(polls(event)) for event in done),
        "unseen": bool(_pairs(done, ":ok", sends) - _pairs(done, ":ok", polls)),
    }
    names = {name for name, holds in found.items() if holds}
    names |= {f"int-{kind}" for kind in _within(done, places)} | {*_between(ended, places)}
    return names | _cycles(events, done, places)


# --- what an operation sent and polled ------------------------------------------------------------------------------


def sends(event: Event) -> dict[Any, list[tuple[int | None, Any]]]:
    """For each key what was sent, each with its offset, if that is known."""
    found: dict[Any, list[tuple[int | None, Any]]] = defaultdict(list)
    for part in event.get(":value") or ():
        if part[0] == ":send":
            found[part[1]].append(part[2] if isinstance(part[2], tuple) else (None, part[2]))
    return found


def polls(event: Event) -> dict[Any, list[tuple[int, Any]]]:
    """For each key what was polled."""
    found: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    for part in event.get(":value") or ():
        if part[0] == ":poll" and len(part) > 1:
            for key, pairs in part[1].items():
                found[key] += pairs
    return {key: pairs for key, pairs in found.items() if pairs}


def _values(by_key: Mapping[Any, Iterable[tuple[Any, Any]]]) -> set[tuple[Any, Any]]:
    return {(key, value) for key, pairs in by_key.items() for _, value in pairs}


def _pairs(done: Iterable[Event], kind: str, of: Any) -> set[tuple[Any, Any]]:
    return {pair for event in done if event[":type"] == kind for pair in _values(of(event))}


def _took_effect(event: Event, read: set[tuple[Any, Any]]) -> bool:
    """Whether an operation's sends are in the log: it says so, or somebody has read one of them."""
    return event[":type"] == ":ok" or (event[":type"] == ":info" and bool(_values(sends(event)) & read))


# --- the order of each log ------------------------------------------------------------------------------------------


def _logs(done: Sequence[Event]) -> dict[Any, dict[int, set[Any]]]:
    """For each key the values at each offset: from all polls, and from sends that took effect."""
    read = _pairs(done, ":ok", polls)
    logs: dict[Any, dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for event in done:
        for told in (polls(event), sends(event) if _took_effect(event, read) else {}):
            for key, pairs in told.items():
                for offset, value in pairs:
                    if offset is not None:
                        logs[key][offset].add(value)
    return logs


def _by_value(log: Mapping[int, set[Any]]) -> dict[Any, list[int]]:
    """The places of each value, in order."""
    found: dict[Any, list[int]] = defaultdict(list)
    for place, offset in enumerate(sorted(log)):
        for value in log[offset]:
            found[value].append(place)
    return found


def _places(log: Mapping[int, set[Any]]) -> dict[Any, int]:
    return {min(log[offset]): place for place, offset in enumerate(sorted(log))}


def _loses(done: Sequence[Event], logs: Mapping[Any, Mapping[int, set[Any]]]) -> bool:
    """Whether nobody read a value whose last place is at or before the highest first place of one that was read."""
    read = _pairs(done, ":ok", polls)
    sure = {pair for event in done if _took_effect(event, read) for pair in _values(sends(event))}
    for key, log in logs.items():
        places = _by_value(log)
        bound = max((places[value][0] for of, value in read if of == key and value in places), default=-1)
        if any((key, value) in sure - read and where[-1] <= bound for value, where in places.items()):
            return True
    return False


# --- steps in that order --------------------------------------------------------------------------------------------


def _step(places: Mapping[Any, int], before: Any, after: Any, what: str) -> Iterator[str]:
    """The name of a step from one value to another that is not the next one."""
    step = places[after] - places[before] if before in places and after in places else 1
    if step > 1:
        yield f"{what}-skip"
    if step < 1:
        yield f"nonmonotonic-{what}"


def _within(done: Iterable[Event], places: Places) -> Iterator[str]:
    """Steps within an operation, but for polls of keys that were rebalanced in it."""
    for event in done:
        moved = {key for entry in event.get(":rebalance-log") or () for key in entry.get(":keys") or ()}
        for what, told, left_out in (("poll", polls(event), moved), ("send", sends(event), set[Any]())):
            for key, pairs in told.items():
                if key not in left_out:
                    for (_, before), (_, after) in pairwise(pairs):
                        yield from _step(places.get(key, {}), before, after, what)


def _between(ended: Iterable[Event], places: Places) -> Iterator[str]:
    """Steps from one operation of a process to the next; of sends only those that go back."""
    last: dict[tuple[str, Any], dict[Any, Any]] = defaultdict(dict)
    for event in ended:
        process, kind = event[":process"], event[":type"]
        for what, told in (("poll", polls), ("send", sends)):
            mine = last[what, process]
            if event[":f"] in (":assign", ":subscribe"):
                if kind != ":fail":
                    last[what, process] = {key: mine[key] for key in mine if key in event[":value"]}
                continue
            if what == "send" and kind == ":fail":
                continue
            for key, pairs in told(event).items():
                if key in mine:
                    names = set(_step(places.get(key, {}), mine[key], pairs[0][1], what))
                    yield from names - {"send-skip"}
                if what == "send" or kind == ":ok":
                    mine[key] = pairs[-1][1]


# --- cycles ---------------------------------------------------------------------------------------------------------


def _cycles(events: Sequence[Event], done: Sequence[Event], places: Places) -> set[str]:
    """The names of the cycles, each by the weakest order that it takes."""
    writers = {pair: number for number, event in enumerate(done) for pair in _values(sends(event))}
    readers = [(pair, number) for number, event in enumerate(done) for pair in _values(polls(event))]
    if any(pair not in writers for pair, _ in readers):
        raise NoWriter
    wr = {(writers[pair], reader) for pair, reader in readers}
    ww: Edges = set()
    for key, mine in places.items():
        for before, after in pairwise(sorted(mine, key=mine.__getitem__)):
            if (key, before) in writers and (key, after) in writers:
                ww.add((writers[key, before], writers[key, after]))
    invoked = {id(event): _invocation(events, event) for event in done}
    oks = [number for number, event in enumerate(done) if event[":type"] == ":ok"]
    realtime = {
        (a, b) for a in oks for b in oks
        if events.index(done[a]) < invoked[id(done[b])]
    }  # fmt: skip
    process = {(a, b) for a, b in realtime if done[a][":process"] == done[b][":process"]}
    names = set()
    none: Edges = set()
    for suffix, order in (("", none), ("-process", process), ("-realtime", realtime)):
        for name, plain, needed in (("G0", ww, ww), ("G1c", wr | ww, wr)):
            for one in needed:
                if one[0] != one[1] and _has_cycle(one, plain, order):
                    names.add(name + suffix)
        if names & {"G0" + suffix, "G1c" + suffix}:
            break
    return names


def _invocation(events: Sequence[Event], completion: Event) -> int:
    """Where an operation was invoked."""
    at = events.index(completion)
    mine = (number for number in range(at) if events[number][":process"] == completion[":process"])
    return max((number for number in mine if events[number][":type"] == ":invoke"), default=at)


def _has_cycle(first: tuple[int, int], plain: Edges, order: Edges) -> bool:
    """Whether a way leads from the end of an edge back to its beginning."""
    start, goal = first[1], first[0]
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        if here == goal:
            return True
        for source, target in plain | order:
            if source == here and target not in seen:
                seen.add(target)
                todo.append(target)
    return False
