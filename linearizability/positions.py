"""Where fetches began: at the position in the request, or where the process's last fetch on the partition ended.

Only what a process was told moves it. A fetch that failed did not happen; one of unknown outcome may have ended
anywhere, so after it the position is unknown until a fetch has a position or reads records.
"""

from __future__ import annotations

import numpy as np

from tidegauge.linearizability.history import UNKNOWN, Flags, Ints, Kind, Operations, Outcome


def positions(ops: Operations, group: Ints, fetches: Ints, rewinds: Flags | None = None) -> Ints:
    """Where each of the completed `fetches` began; UNKNOWN where nobody knows. `group`: the partition of each row.

    After a row of `rewinds` nobody knows the position of its process.
    """
    return told(ops, group, fetches, rewinds)[0]


def told(ops: Operations, group: Ints, fetches: Ints, rewinds: Flags | None = None) -> tuple[Ints, Ints]:
    """The same, and for each the earlier fetch that tells it; −1 where the request does, or where nobody knows."""
    asked = ops.offset[fetches]
    if not len(asked) or asked.min() != UNKNOWN:
        return asked, np.full(len(asked), -1, np.int64)
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
    by_last = same & (ops.offset[rows] == UNKNOWN) & (end[last] != UNKNOWN)
    began, teller = np.full(len(ops), UNKNOWN, np.int64), np.full(len(ops), -1, np.int64)
    began[rows] = np.where(ops.offset[rows] != UNKNOWN, ops.offset[rows], np.where(same, end[last], UNKNOWN))
    teller[rows] = np.where(by_last, rows[last], -1)
    return began[fetches], teller[fetches]
