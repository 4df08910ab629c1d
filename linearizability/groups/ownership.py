"""Who may commit: one member at a time, and never of a former generation.

A generation is known to have begun when a member was told its assignment, or its commit was taken. From then on no
commit of an earlier one is taken, whatever its partition.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.groups.assignments import two_members
from tidegauge.linearizability.groups.findings import Found
from tidegauge.linearizability.groups.table import GroupTable, rows_where
from tidegauge.linearizability.history import Ints, Kind
from tidegauge.linearizability.transactional import NONE


def check_ownership(table: GroupTable) -> Iterator[Found]:
    """What is wrong with who commits."""
    commits = rows_where((table.kind == Kind.COMMIT_OFFSETS) & table.is_taken)
    commits = commits[table.generation[commits] != NONE]
    reason = "in one generation a partition is one member's"
    yield Found(Name.TWO_COMMITTERS, reason, two_members(table, commits))
    yield former_generations(table, commits)


def former_generations(table: GroupTable, commits: Ints) -> Found:
    """A commit was taken that was called when a later generation was known to have begun."""
    known = np.concatenate((table.of_kind(Kind.ASSIGN), commits))
    known = known[table.generation[known] != NONE]
    returned = table.clock(table.group[known], table.returned[known])
    order = np.lexsort((known, returned))
    known, returned = known[order], returned[order]
    # Generations of later groups have larger numbers, and are known later.
    highest = np.maximum.accumulate(table.generation[known])
    is_new = np.concatenate(([True], highest[1:] > highest[:-1]))[: len(highest)]
    holder = np.maximum.accumulate(np.where(is_new, np.arange(len(known)), 0))
    before = np.searchsorted(returned, table.clock(table.group[commits], table.call[commits]), side="left")
    at = rows_where(before > 0)
    late = at[highest[before[at] - 1] > table.generation[commits[at]]]
    reason = "a commit of a former generation is refused"
    return Found(Name.COMMIT_OF_FORMER_GENERATION, reason, (known[holder[before[late] - 1]], commits[late]))
