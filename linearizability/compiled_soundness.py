"""Whether rows are what they must be (`malformed`), in compiled code (numba): one loop without a branch."""

from __future__ import annotations

import numpy as np

from tidegauge.compilation.kept_code import compiled_and_kept

_NEVER = np.int64(np.iinfo(np.int64).max)
_BEYOND = np.int64(1 << 62)
"""No offset is so large."""
_PRODUCE, _FETCH, _LIST, _ELECTION, _SETTLED = 0, 1, 2, 3, 4
_OK, _FAIL, _INFO = 0, 1, 2


@compiled_and_kept()
def are_sound(history, index, partition, isolation, columns):
    """Whether no row breaks a rule of `malformed`, nor comes out of order; False also where that is not for this code.

    It is for histories without transactions and groups, without explicit offsets, and in order of their ids.
    """
    kind, outcome, acks, offset, starts, _, offsets, mark, call, returned = columns
    wrong = len(offsets) > 0
    for i in range(len(kind)):
        at, count, most, what = offset[i], starts[i + 1] - starts[i], mark[i], kind[i]
        is_ok, produce, fetch, told = outcome[i] == _OK, what == _PRODUCE, what == _FETCH, at != -1
        wrong |= (what < _PRODUCE) | (what > _SETTLED) | (outcome[i] < _OK) | (outcome[i] > _INFO)
        wrong |= (isolation[i] < 0) | (isolation[i] > 1) | (acks[i] < -1) | (acks[i] > 1) | (partition[i] < 0)
        wrong |= (call[i] < 0) | (returned[i] < call[i]) | (is_ok & (what < _ELECTION) & (returned[i] == _NEVER))
        wrong |= (at < -1) | (at >= _BEYOND) | (most < -1) | (most >= _BEYOND)
        wrong |= (count > 0) != (produce | (fetch & (count > 0)))
        wrong |= fetch & (count > 0) & ((not is_ok) | (not told))
        wrong |= produce & (told != (is_ok & (acks[i] != 0)))
        wrong |= (most != -1) & (not (fetch & is_ok))
        wrong |= (((what == _LIST) & is_ok) | (what == _ELECTION)) & (not told)
        wrong |= (what >= _ELECTION) & (outcome[i] == _FAIL)
    for i in range(1, len(kind)):
        same = history[i] == history[i - 1]
        wrong |= (history[i] < history[i - 1]) | (same & (index[i] <= index[i - 1]))
    return not wrong
