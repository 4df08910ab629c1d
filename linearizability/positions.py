"""Where fetches began: at the position in the request, or where the process's last fetch on the partition ended.

Only what a process was told moves it. A fetch that failed did not happen; one of unknown outcome may have ended
anywhere, so after it the position is unknown until a fetch has a position or reads records.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tidegauge.linearizability.history import UNKNOWN, Flags, Ints, Kind, Operation, Operations, Outcome


def positions(ops: Operations, group: Ints, fetches: Ints, rewinds: Flags | None = None) -> Ints:
    """Where each of the completed `fetches` began; UNKNOWN where nobody knows. `group`: the partition of each row.

    After a row of `rewinds` nobody knows the position of its process.
    """
    asked = ops.offset[fetches]
    if not len(asked) or asked.min() != UNKNOWN:
        return asked
    rows = np.flatnonzero((ops.kind == Kind.FETCH) & (ops.outcome != Outcome.FAIL))
    rows = rows[np.lexsort((ops.index[rows], ops.process[rows], group[rows]))]
    counts = ops.starts[rows + 1] - ops.starts[rows]
    end = ops.offset[rows]
    filled = np.flatnonzero(counts)
    if ops.offsets is None:
        end[filled] += counts[filled]
    else:
        end[filled] = ops.offsets[ops.starts[rows[filled] + 1] - 1] + 1
    lost = ops.outcome[rows] == Outcome.INFO
    if rewinds is not None:
        lost |= rewinds[rows]
    end[lost] = UNKNOWN
    # The last fetch before each one that says where it ended, or after which nobody knows.
    tells = np.where((end != UNKNOWN) | lost, np.arange(len(rows)), -1)
    last = np.concatenate(([-1], np.maximum.accumulate(tells)[:-1]))
    same = (last >= 0) & (group[rows] == group[rows[last]]) & (ops.process[rows] == ops.process[rows[last]])
    began = np.full(len(ops), UNKNOWN, np.int64)
    began[rows] = np.where(ops.offset[rows] != UNKNOWN, ops.offset[rows], np.where(same, end[last], UNKNOWN))
    return began[fetches]


def began(rows: Iterable[Operation]) -> dict[int, tuple[int, Operation | None]]:
    """The same for the operations of one partition, by index: the position, and the earlier fetch that tells it.

    The latter is None where the request has the position; a fetch is left out where nobody knows it.
    """
    found: dict[int, tuple[int, Operation | None]] = {}
    ends: dict[int, tuple[int, Operation]] = {}
    for row in rows:
        if row.kind is not Kind.FETCH or row.outcome is Outcome.FAIL:
            continue
        if row.outcome is Outcome.INFO:
            ends.pop(row.process, None)
            continue
        if row.offset != UNKNOWN:
            found[row.index] = (row.offset, None)
        elif row.process in ends:
            found[row.index] = ends[row.process]
        if row.values:
            ends[row.process] = (row.placed[-1] + 1, row)
        elif row.offset != UNKNOWN:
            ends[row.process] = (row.offset, row)
    return found
