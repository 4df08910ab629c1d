"""Positions that go on from an earlier block: of each client the last fetch that says where it ended."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from tidegauge.linearizability.history import UNKNOWN, Ints, Kind, Outcome
from tidegauge.linearizability.rows import Rows


@attrs.frozen(eq=False)
class Ended:
    """Where the last fetches of clients ended, by rising `client`, a number for a partition and a process.

    UNKNOWN is the end after a fetch of which nobody knows where it ended.
    """

    client: Ints
    end: Ints
    row: Ints
    """The fetch, by its number in the history."""

    @classmethod
    def nobody(cls) -> Ended:
        none = np.zeros(0, np.int64)
        return cls(none, none, none)

    def then(self, later: Ended) -> Ended:
        """The same after what happened later."""
        client = np.concatenate((later.client, self.client))
        found, first = np.unique(client, return_index=True)
        return Ended(found, np.concatenate((later.end, self.end))[first], np.concatenate((later.row, self.row))[first])

    def of(self, clients: Ints) -> tuple[Ints, Ints]:
        """The end and the fetch of each of `clients`; UNKNOWN and −1 where there is none."""
        if not len(self.client):
            return np.full(len(clients), UNKNOWN, np.int64), np.full(len(clients), -1, np.int64)
        at = np.minimum(np.searchsorted(self.client, clients), len(self.client) - 1)
        there = self.client[at] == clients
        return np.where(there, self.end[at], UNKNOWN), np.where(there, self.row[at], -1)


@attrs.frozen(eq=False)
class _Polled:
    """The fetches of a block that may have happened, by client."""

    rows: Ints
    client: Ints
    end: Ints
    tells: Ints
    """For each the number of the last one up to it that says where it ended, or after which nobody knows; −1: none."""

    @classmethod
    def of(cls, rows: Rows) -> _Polled:
        ops = rows.ops
        fetches = np.flatnonzero((ops.kind == Kind.FETCH) & (ops.outcome != Outcome.FAIL))
        client = client_of(rows, fetches)
        order = np.argsort(client, kind="stable")
        fetches, client = fetches[order], client[order]
        counts = rows.counts[fetches]
        end = ops.offset[fetches].copy()
        filled = np.flatnonzero(counts)
        if ops.offsets is None:
            end[filled] += counts[filled]
        else:
            end[filled] = ops.offsets[ops.starts[fetches[filled] + 1] - 1] + 1
        lost = ops.outcome[fetches] == Outcome.INFO
        end[lost] = UNKNOWN
        number = np.where((end != UNKNOWN) | lost, np.arange(len(fetches)), -1)
        begins = np.searchsorted(client, client)
        tells = np.maximum.accumulate(number) if len(number) else number
        return cls(fetches, client, end, np.where(tells >= begins, tells, -1))


def client_of(rows: Rows, fetches: Ints) -> Ints:
    """The number of the partition and the process of each of `fetches`."""
    client: Ints = (rows.group[fetches] << 32) + (rows.ops.process[fetches].astype(np.int64) + (1 << 31))
    return client


def ended(rows: Rows, first: int) -> Ended:
    """Where the clients of a block ended, whose rows begin at `first`."""
    polled = _Polled.of(rows)
    if not len(polled.rows):
        return Ended.nobody()
    last = np.flatnonzero(np.append(polled.client[1:] != polled.client[:-1], True))
    last = last[polled.tells[last] >= 0]
    tells = polled.tells[last]
    return Ended(polled.client[last], polled.end[tells], polled.rows[tells] + first)


def carried(blocks: Sequence[Ended]) -> list[Ended]:
    """For each block what the ones before it carry into it."""
    now, before = Ended.nobody(), []
    for one in blocks:
        before.append(now)
        now = now.then(one)
    return before


def told(rows: Rows, first: int, before: Ended) -> tuple[Ints, Ints]:
    """Where each completed fetch of a block began, UNKNOWN where nobody knows, and the fetch that tells it, or −1.

    `first` is the number of the block's first row; fetches are numbered so.
    """
    ops, fetches = rows.ops, rows.fetches
    asked = ops.offset[fetches]
    if not len(asked) or asked.min() != UNKNOWN:
        return asked, np.full(len(asked), -1, np.int64)
    polled = _Polled.of(rows)
    previous = np.concatenate(([-1], polled.tells[:-1]))
    same = np.concatenate(([False], polled.client[1:] == polled.client[:-1])) & (previous >= 0)
    end, teller = before.of(polled.client)
    end[same], teller[same] = polled.end[previous[same]], polled.rows[previous[same]] + first
    teller[end == UNKNOWN] = -1
    began, says = np.full(len(ops), UNKNOWN, np.int64), np.full(len(ops), -1, np.int64)
    began[polled.rows], says[polled.rows] = end, teller
    polls = asked == UNKNOWN
    return np.where(polls, began[fetches], asked), np.where(polls, says[fetches], -1)
