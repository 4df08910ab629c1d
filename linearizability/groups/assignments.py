"""The assignment of a generation: disjoint, and covering what was to be shared out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from tidegauge.linearizability.groups.findings import GroupAnomaly, Name
from tidegauge.linearizability.groups.history import NONE, GroupRows, Kind, rows_where
from tidegauge.linearizability.history import NEVER, Flags, Ints


def check_assignments(rows: GroupRows) -> Iterator[GroupAnomaly]:
    """What is wrong with assignments."""
    yield from assigned_twice(rows)
    yield from unassigned(rows)


def assigned_twice(rows: GroupRows) -> Iterator[GroupAnomaly]:
    """Two members were told that they own one partition in one generation."""
    told = rows.of(Kind.ASSIGN)
    told = told[rows.partition[told] != NONE]
    order = told[np.lexsort((told, rows.member[told], rows.partition[told], rows.generation[told]))]
    first, second = order[:-1], order[1:]
    is_same = (rows.generation[first] == rows.generation[second]) & (rows.partition[first] == rows.partition[second])
    places = rows_where(is_same & (rows.member[first] != rows.member[second]))
    if len(places):
        one, other = int(first[places[0]]), int(second[places[0]])
        witness = f"{rows.told(one)}, and {rows.told(other)}: a partition has one owner in a generation"
        yield GroupAnomaly(Name.ASSIGNED_TWICE, (one, other), len(places), witness)


def unassigned(rows: GroupRows) -> Iterator[GroupAnomaly]:
    """Nobody owns a partition that was to be shared out, though every member of the generation was told what it owns.

    With the cooperative protocol it may be kept for who owned it before, and has to give it back first (KIP-429).
    """
    told, members, expected = rows.of(Kind.ASSIGN), rows.of(Kind.MEMBER), rows.of(Kind.EXPECT)
    informed = keyed(rows.generation[told], rows.member[told])
    is_silent = ~np.isin(keyed(rows.generation[members], rows.member[members]), informed)
    silent = rows.generation[members[is_silent]]
    given = keyed(rows.generation[told], rows.partition[told])
    is_given = np.isin(keyed(rows.generation[expected], rows.partition[expected]), given)
    open_ones = expected[~is_given & ~np.isin(rows.generation[expected], silent)]
    open_ones = open_ones[np.isin(rows.generation[open_ones], rows.generation[members])]
    found = open_ones[~is_owned(rows, rows.partition[open_ones], rows.call[open_ones])].tolist()
    if found:
        witness = f"{rows.told(found[0])}, and no member of that generation is assigned it"
        yield GroupAnomaly(Name.UNASSIGNED, (found[0],), len(found), witness)


def keyed(high: Ints, low: Ints) -> Ints:
    """Two numbers as one; neither is below -1 or beyond 2^31."""
    keys: Ints = ((high + 1) << 32) | (low + 1)
    return keys


def is_owned(rows: GroupRows, partitions: Ints, times: Ints) -> Flags:
    """Whether somebody owns each partition at that time: it was told so, and has not released it before."""
    assigned, released = rows.of(Kind.ASSIGN), rows.of(Kind.RELEASE)
    assigned = assigned[rows.partition[assigned] != NONE]
    owners = keyed(rows.process[assigned], rows.partition[assigned])
    leavers = keyed(rows.process[released], rows.partition[released])
    order = np.lexsort((rows.call[released], leavers))
    ends = np.full(len(assigned), NEVER, np.int64)
    at = rank(leavers[order], rows.call[released][order], owners, rows.call[assigned], "left")
    is_same = at < len(order)
    is_same[is_same] = leavers[order][at[is_same]] == owners[is_same]
    ends[is_same] = rows.call[released][order][at[is_same]]
    places = rows.partition[assigned]
    by_start, by_end = np.lexsort((rows.call[assigned], places)), np.lexsort((ends, places))
    begun = rank(places[by_start], rows.call[assigned][by_start], partitions, times, "right")
    ended = rank(places[by_end], ends[by_end], partitions, times, "left")
    owned: Flags = begun > ended
    return owned


def rank(keys: Ints, values: Ints, asked_keys: Ints, asked: Ints, side: Literal["left", "right"]) -> Ints:
    """How many of these pairs, which are sorted, are below each pair that is asked of; with "right", or equal."""
    merged = np.lexsort(
        (
            np.concatenate((np.full(len(keys), side == "left"), np.full(len(asked_keys), side == "right"))),
            np.concatenate((values, asked)),
            np.concatenate((keys, asked_keys)),
        )
    )
    is_pair = merged < len(keys)
    counted = np.cumsum(is_pair)
    ranks = np.zeros(len(asked_keys), np.int64)
    ranks[merged[~is_pair] - len(keys)] = counted[~is_pair]
    return ranks
