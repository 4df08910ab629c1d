"""Who may commit: one member at a time, and never of a former generation.

A generation is known to have begun when a member was told its assignment, or its commit was taken. From then on no
commit of an earlier one is taken, whatever its partition.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegauge.linearizability.groups.findings import GroupAnomaly, Name
from tidegauge.linearizability.groups.history import NONE, GroupRows, Kind, rows_where
from tidegauge.linearizability.history import Ints


def check_ownership(rows: GroupRows) -> Iterator[GroupAnomaly]:
    """What is wrong with who commits."""
    commits = rows.of(Kind.COMMIT)
    commits = commits[rows.generation[commits] != NONE]
    yield from two_committers(rows, commits)
    yield from former_generations(rows, commits)


def two_committers(rows: GroupRows, commits: Ints) -> Iterator[GroupAnomaly]:
    """Commits of two members for one partition were taken in one generation."""
    order = commits[np.lexsort((commits, rows.member[commits], rows.partition[commits], rows.generation[commits]))]
    first, second = order[:-1], order[1:]
    is_same = (rows.generation[first] == rows.generation[second]) & (rows.partition[first] == rows.partition[second])
    places = rows_where(is_same & (rows.member[first] != rows.member[second]))
    if len(places):
        one, other = int(first[places[0]]), int(second[places[0]])
        witness = f"{rows.told(one)}, and {rows.told(other)}: the partition is one member's in that generation"
        yield GroupAnomaly(Name.TWO_COMMITTERS, (one, other), len(places), witness)


def former_generations(rows: GroupRows, commits: Ints) -> Iterator[GroupAnomaly]:
    """A commit was taken that was called when a later generation was known to have begun."""
    known = np.concatenate((rows.of(Kind.ASSIGN), commits))
    known = known[np.lexsort((known, rows.returned[known]))]
    if not len(known):
        return
    highest = np.maximum.accumulate(rows.generation[known])
    before = np.searchsorted(rows.returned[known], rows.call[commits], side="left")
    reached = np.where(before > 0, highest[np.maximum(before, 1) - 1], NONE)
    found = commits[reached > rows.generation[commits]]
    if not len(found):
        return
    late = int(found[0])
    earlier = known[rows.returned[known] < rows.call[late]]
    by = int(earlier[np.argmax(rows.generation[earlier])])
    witness = f"{rows.told(late)} and succeeds, after {rows.told(by)}: a commit of a former generation is refused"
    yield GroupAnomaly(Name.COMMIT_OF_FORMER_GENERATION, (by, late), len(found), witness)
