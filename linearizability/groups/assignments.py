"""The assignment of a generation: disjoint, and covering what was to be shared out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.groups.findings import Found
from tidegauge.linearizability.groups.table import GroupTable, keyed, rows_where
from tidegauge.linearizability.history import Flags, Ints, Kind
from tidegauge.linearizability.transactional import NONE


def check_assignments(table: GroupTable) -> Iterator[Found]:
    """What is wrong with assignments."""
    yield assigned_twice(table)
    yield unassigned(table)


def assigned_twice(table: GroupTable) -> Found:
    """Two members were told that they own one partition in one generation."""
    told = table.of_kind(Kind.ASSIGN)
    told = told[(table.partition[told] != NONE) & (table.generation[told] != NONE)]
    reason = "a partition has one owner in a generation"
    return Found(Name.ASSIGNED_TWICE, reason, two_members(table, told))


def two_members(table: GroupTable, rows: Ints) -> tuple[Ints, Ints]:
    """Neighbours of two members among `rows`, in one generation and partition."""
    order = rows[np.lexsort((rows, table.member[rows], table.partition[rows], table.generation[rows]))]
    first, second = order[:-1], order[1:]
    is_same = (table.generation[first] == table.generation[second]) & (
        table.partition[first] == table.partition[second]
    )
    places = rows_where(is_same & (table.member[first] != table.member[second]))
    return first[places], second[places]


def unassigned(table: GroupTable) -> Found:
    """Nobody owns a partition that was to be shared out, though every member of the generation was told what it owns.

    With the cooperative protocol it may be kept for who owned it before, and has to give it back first (KIP-429).
    """
    told, members, expected = map(table.of_kind, (Kind.ASSIGN, Kind.MEMBER, Kind.EXPECT))
    generation, partition = table.generation, table.partition
    informed = keyed(generation[told], table.member[told])
    is_silent = ~np.isin(keyed(generation[members], table.member[members]), informed)
    silent = generation[members[is_silent]]
    given = keyed(generation[told], partition[told])
    is_given = np.isin(keyed(generation[expected], partition[expected]), given)
    open_ones = expected[~is_given & ~np.isin(generation[expected], silent)]
    open_ones = open_ones[np.isin(generation[open_ones], generation[members])]
    found = open_ones[~is_owned(table, partition[open_ones], table.call[open_ones])]
    return Found(Name.UNASSIGNED, "no member of that generation is assigned it", (found,))


def is_owned(table: GroupTable, partitions: Ints, times: Ints) -> Flags:
    """Whether somebody owns each partition at that time: it was told so, and has not released it before."""
    assigned, released = table.of_kind(Kind.ASSIGN), table.of_kind(Kind.RELEASE)
    assigned = assigned[table.partition[assigned] != NONE]
    owners = keyed(table.process[assigned], table.partition[assigned])
    leavers = keyed(table.process[released], table.partition[released])
    order = np.lexsort((table.call[released], leavers))
    ends = np.full(len(assigned), table.never, np.int64)
    at = rank(leavers[order], table.call[released][order], owners, table.call[assigned], "left")
    is_same = at < len(order)
    is_same[is_same] = leavers[order][at[is_same]] == owners[is_same]
    ends[is_same] = table.call[released][order][at[is_same]]
    places = table.partition[assigned]
    by_start, by_end = np.lexsort((table.call[assigned], places)), np.lexsort((ends, places))
    begun = rank(places[by_start], table.call[assigned][by_start], partitions, times, "right")
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
