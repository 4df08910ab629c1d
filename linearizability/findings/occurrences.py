"""Occurrences of one anomaly, as arrays; and the few of them that are shown, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Anomaly, Name
from tidegauge.linearizability.history import Ints, Operations
from tidegauge.linearizability.witness import finding

NOBODY = -1
"""In the rows of an occurrence: no operation."""


@attrs.frozen(eq=False)
class Occurrences:
    """Where one anomaly occurs, those of a partition in their order.

    `rows[k]` are the operations that prove the k-th, as shown, NOBODY where there are fewer; `reason(k)` is why.
    """

    name: Name
    group: Ints
    """The partition of each."""
    rows: Ints
    """Shape (occurrences, operations)."""
    reason: Callable[[int], str]

    def __attrs_post_init__(self) -> None:
        assert self.rows.shape[:1] == self.group.shape, "each occurrence has a partition and its operations"


def occurrences(name: Name, group: Ints, rows: Sequence[Ints], reason: Callable[[int], str]) -> Occurrences:
    """Occurrences whose k-th is shown by `rows[0][k]`, `rows[1][k]`, …"""
    return Occurrences(name, group, np.stack(rows, axis=1) if len(rows) > 1 else rows[0][:, None], reason)


@attrs.frozen(eq=False)
class _First:
    """The first occurrence of an anomaly in a partition, and how many there are."""

    found: Occurrences
    number: int
    count: int


def in_words(ops: Operations, found: Iterable[Occurrences]) -> list[Anomaly]:
    """An anomaly for each partition and name, by partition, in the order in which they were found.

    Where several finders give one name, the first of the first one is shown.
    """
    firsts: dict[tuple[int, Name], _First] = {}
    for one in found:
        groups, first, counts = np.unique(one.group, return_index=True, return_counts=True)
        for group, number, count in zip(groups.tolist(), first.tolist(), counts.tolist(), strict=True):
            known = firsts.get((group, one.name))
            firsts[group, one.name] = (
                _First(one, number, count) if known is None else attrs.evolve(known, count=known.count + count)
            )
    by_partition = sorted(firsts.items(), key=lambda item: item[0][0])
    rows = [[row for row in each.found.rows[each.number].tolist() if row != NOBODY] for _, each in by_partition]
    shown = np.unique(np.array([row for each in rows for row in each], np.int64))
    operations = dict(zip(shown.tolist(), ops.take(shown), strict=True))
    anomalies = []
    for ((_, name), each), proving in zip(by_partition, rows, strict=True):
        proof = finding(name, each.found.reason(each.number), *(operations[row] for row in proving))
        first_row = proof.operations[0]
        anomalies.append(
            Anomaly(
                history=first_row.history,
                name=name,
                topic=first_row.topic,
                partition=first_row.partition,
                operations=tuple(row.index for row in proof.operations),
                count=each.count,
                witness=proof.witness,
            )
        )
    return anomalies
