"""What a verdict is about: which rules of docs/history.md had something to decide in a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import attrs
import numpy as np
import pyarrow as pa

from tidegauge.linearizability.groups.parts import with_groups
from tidegauge.linearizability.history import UNKNOWN, Flags, Ints, Kind, Operations, Outcome
from tidegauge.linearizability.positions import positions
from tidegauge.linearizability.rows import partitions
from tidegauge.linearizability.transactional import NONE
from tidegauge.linearizability.transactions.table import with_transactions

PARTS = ("records", "holes", "positions", "ends", "elections", "transactions", "groups")
"""Each says that all of it was judged in the history; `ends` that no partition has an open end."""


@attrs.frozen(eq=False)
class Judged:
    """For each history, in the order of the operations."""

    parts: Ints
    """Which of PARTS were judged, as bits; `ends` is left to the coverage."""
    unplaced: Ints
    """How many fetches have a position that nobody knows."""

    @classmethod
    def of(cls, operations: Operations, starts: Ints) -> Judged:
        """What is judged in each history of `operations`; histories begin at `starts`."""
        if not len(operations):
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        kind = operations.kind
        transactions, groups = with_transactions(operations), with_groups(operations)

        def where_any(rows: Flags) -> Flags:
            found: Flags = np.logical_or.reduceat(rows, starts[:-1])
            return found

        if groups.any() and operations.transactional is not None:
            # Each row of a group has one, whether there are transactions or not.
            transactions &= ~groups | where_any(operations.transactional.transaction != NONE)

        of_a_log = where_any((kind == Kind.PRODUCE) | (kind == Kind.FETCH) | (kind == Kind.LIST_OFFSETS))
        fetches = np.flatnonzero((kind == Kind.FETCH) & (operations.outcome == Outcome.OK))
        unplaced = np.zeros(len(starts) - 1, np.int64)
        if len(fetches) and operations.offset[fetches].min() == UNKNOWN:
            group, _ = partitions(operations)
            nowhere = fetches[positions(operations, group, fetches) == UNKNOWN]
            np.add.at(unplaced, np.searchsorted(starts, nowhere, side="right") - 1, 1)
        elections = where_any(kind == Kind.ELECTION)
        flags = {
            "records": of_a_log,
            "holes": of_a_log & ~transactions,
            "positions": where_any(kind == Kind.FETCH) & (unplaced == 0),
            "elections": elections & ~transactions,
            "transactions": transactions & ~elections,
            "groups": groups,
        }
        return cls(_as_bits(flags), unplaced)

    @classmethod
    def of_kinds(cls, kinds: Ints) -> Judged | None:
        """The same of histories of logs by the kinds of rows that each has, as bits; None if other bits are set too."""
        if not len(kinds) or int(kinds.max()) >> len(Kind):
            return None

        def any_of(*some: Kind) -> Flags:
            there: Flags = (kinds & sum(1 << kind for kind in some)) != 0
            return there

        of_a_log = any_of(Kind.PRODUCE, Kind.FETCH, Kind.LIST_OFFSETS)
        flags = {
            "records": of_a_log,
            "holes": of_a_log,
            "positions": any_of(Kind.FETCH),
            "elections": any_of(Kind.ELECTION),
        }
        return cls(_as_bits(flags), np.zeros(len(kinds), np.int64))

    def with_ends(self, open_ends: Ints) -> Ints:
        """The parts, with the ends of the histories that have no open one, and have holes judged."""
        closed = (open_ends == 0) & (self.parts >> PARTS.index("holes") & 1 == 1)
        parts: Ints = self.parts | closed.astype(np.int64) << PARTS.index("ends")
        return parts


def _as_bits(flags: Mapping[str, Flags]) -> Ints:
    parts = np.zeros(len(next(iter(flags.values()))), np.int64)
    for name, where in flags.items():
        parts |= where.astype(np.int64) << PARTS.index(name)
    return parts


def in_words(parts: Ints) -> pa.Array:
    """The names of the parts of each history."""
    found, place = np.unique(parts, return_inverse=True)
    words = pa.array([_words(one) for one in found.tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), words).cast(pa.string())


def counted(parts: Sequence[Ints]) -> dict[str, int]:
    """Of how many histories each part was judged."""
    return {name: sum(int((one >> number & 1).sum()) for one in parts) for number, name in enumerate(PARTS)}


@lru_cache(maxsize=1 << len(PARTS))
def _words(parts: int) -> str:
    return ", ".join(name for number, name in enumerate(PARTS) if parts >> number & 1)
