"""The screening of `log` in compiled code (numba): one loop over the operations of a block for each of its passes.

What it does not flag breaks no rule. What it flags `log` screens again, so that the verdicts are the same with and
without numba. It leaves out what is rare (explicit offsets, positions that
nobody knows, values or topics with large gaps), and does not match holes with anything but single records of unknown
outcome in order of call: blocks and partitions with such are for `log`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_NEVER = np.iinfo(np.int64).max
_PRODUCE, _FETCH, _LIST, _SETTLED = 0, 1, 2, 4
_OK, _FAIL = 0, 1
_ROOM = 8
"""Slots for values that a table may have for each value."""


@njit(cache=True)
def suspicious(group, groups, columns, strict):
    """Whether each partition of a block may break a rule; an empty array where the block is not for this code.

    `group` is the partition of each row, a number below `groups`; `columns` are kind, outcome, acks, offset, starts,
    values, high_watermark, call and returned of `Operations`.
    """
    flags = np.zeros(groups, np.bool_)
    low_value, high_value, written, since = _counted(group, groups, columns)
    value_at = _value_slots(groups, low_value, high_value, len(columns[5]))
    if not len(value_at):
        return np.zeros(0, np.bool_)
    slots = (low_value, high_value, value_at, *_write(group, columns, low_value, value_at, flags))
    low = np.full(groups, _NEVER, np.int64)
    high = np.full(groups, -1, np.int64)
    base = slots[5]
    if not _read(group, columns, slots, low, high, flags):
        return np.zeros(0, np.bool_)
    unknown, odd = _extend(group, groups, columns, base, low, high)
    first = _lay_out(groups, written, low, high, flags)
    reached = _reach(group, groups, columns, first, low, flags)
    holder = np.full(first[groups], -1, np.int32)
    _hold(group, columns, base, first, low, holder, flags)
    _bound(group, columns, base, first, low, high, reached, since, strict, flags)
    _fill(group, groups, columns, base, first, unknown, odd, reached, holder, flags)
    return flags


@njit(cache=True)
def _counted(group, groups, columns):
    """Of each partition the extremes of the values that were produced, their number, and since when it has settled."""
    kind, _, _, _, starts, values, _, call, _ = columns
    low_value = np.full(groups, _NEVER, np.int64)
    high_value = np.full(groups, -_NEVER, np.int64)
    written = np.zeros(groups, np.int64)
    since = np.full(groups, _NEVER, np.int64)
    for row in range(len(kind)):
        g = group[row]
        if kind[row] == _PRODUCE:
            written[g] += starts[row + 1] - starts[row]
            for k in range(starts[row], starts[row + 1]):
                low_value[g] = min(low_value[g], values[k])
                high_value[g] = max(high_value[g], values[k])
        elif kind[row] == _SETTLED:
            since[g] = call[row] if since[g] == _NEVER else max(since[g], call[row])
    return low_value, high_value, written, since


@njit(cache=True)
def _value_slots(groups, low_value, high_value, values):
    """The first slot of each partition in the table of values, and their number; empty where they are too far apart."""
    value_at = np.zeros(groups + 1, np.int64)
    for g in range(groups):
        span = 0
        if high_value[g] >= low_value[g]:
            span = high_value[g] - low_value[g] + 1
            if span < 0 or span > _ROOM * values + 1024:
                return np.zeros(0, np.int64)
        value_at[g + 1] = value_at[g] + span
        if value_at[g + 1] > _ROOM * values + 1024:
            return np.zeros(0, np.int64)
    return value_at


@njit(cache=True)
def _write(group, columns, low_value, value_at, flags):
    """The row and the number in its batch of each value, and the base offset of each batch that its response tells."""
    kind, outcome, acks, offset, starts, values, _, _, _ = columns
    writer = np.full(value_at[-1], -1, np.int32)
    record = np.zeros(value_at[-1], np.int32)
    base = np.full(len(kind), -1, np.int64)
    for row in range(len(kind)):
        if kind[row] == _PRODUCE:
            g = group[row]
            for k in range(starts[row], starts[row + 1]):
                slot = value_at[g] + values[k] - low_value[g]
                if writer[slot] >= 0:
                    flags[g] = True
                writer[slot] = row
                record[slot] = k - starts[row]
            if outcome[row] == _OK and acks[row] == -1 and offset[row] >= 0:
                base[row] = offset[row]
    return writer, record, base


@njit(cache=True)
def _read(group, columns, slots, low, high, flags):
    """Rule 1: place batches by the fetches that read them, flag where they disagree; False for an unknown position."""
    kind, outcome, acks, offset, starts, values, mark, _, _ = columns
    low_value, high_value, value_at, writer, record, base = slots
    for row in range(len(kind)):
        if outcome[row] != _OK or (kind[row] != _FETCH and kind[row] != _LIST):
            continue
        g, at, count = group[row], offset[row], starts[row + 1] - starts[row]
        if at < 0:
            return False
        low[g] = min(low[g], at)
        if kind[row] == _LIST:
            high[g] = max(high[g], at)
            continue
        for k in range(starts[row], starts[row + 1]):
            if values[k] < low_value[g] or values[k] > high_value[g]:
                flags[g] = True
                continue
            slot = value_at[g] + values[k] - low_value[g]
            by = writer[slot]
            if by < 0:
                flags[g] = True
                continue
            begins = at - record[slot] + (k - starts[row])
            weak = outcome[by] == _OK and acks[by] != -1 and offset[by] >= 0
            if outcome[by] == _FAIL or begins < 0 or (weak and offset[by] != begins):
                flags[g] = True
            elif base[by] < 0:
                base[by] = begins
            elif base[by] != begins:
                flags[g] = True
        if count > 0:
            high[g] = max(high[g], at + count)
            if 0 <= mark[row] < at + count:
                flags[g] = True
        if mark[row] >= 0:
            low[g] = min(low[g], mark[row])
            high[g] = max(high[g], mark[row])
    return True


@njit(cache=True)
def _extend(group, groups, columns, base, low, high):
    """Extend each log to its batches, and count those that may fill holes; `odd` where some do in other ways."""
    kind, outcome, _, offset, starts, _, _, _, _ = columns
    unknown = np.zeros(groups + 1, np.int64)
    odd = np.zeros(groups, np.bool_)
    for row in range(len(kind)):
        if kind[row] != _PRODUCE:
            continue
        g, count = group[row], starts[row + 1] - starts[row]
        if base[row] >= 0:
            low[g] = min(low[g], base[row])
            high[g] = max(high[g], base[row] + count)
        elif outcome[row] != _FAIL:
            unknown[g + 1] += 1
            # A batch that may be lost, or is longer, fills holes in other ways.
            if (outcome[row] == _OK and offset[row] >= 0) or count != 1:
                odd[g] = True
    for g in range(groups):
        unknown[g + 1] += unknown[g]
    return unknown, odd


@njit(cache=True)
def _lay_out(groups, written, low, high, flags):
    """The first slot of each partition in the tables by offset, and their number."""
    first = np.zeros(groups + 1, np.int64)
    for g in range(groups):
        span = 0
        if high[g] < 0 or low[g] == _NEVER:
            low[g], high[g] = 0, 0
        elif high[g] - low[g] > written[g]:
            flags[g] = True
        else:
            span = high[g] - low[g]
        first[g + 1] = first[g] + span + 2
    return first


@njit(cache=True)
def _reach(group, groups, columns, first, low, flags):
    """By when the log had each length."""
    kind, outcome, acks, offset, starts, _, mark, _, returned = columns
    reached = np.full(first[groups], _NEVER, np.int64)
    for row in range(len(kind)):
        g = group[row]
        if flags[g] or outcome[row] != _OK:
            continue
        count = starts[row + 1] - starts[row]
        least = -1
        if kind[row] == _PRODUCE:
            if acks[row] == -1 and offset[row] >= 0:
                least = offset[row] + count
        elif kind[row] == _FETCH:
            least = max(offset[row] + count if count > 0 else 0, mark[row])
        elif kind[row] == _LIST:
            least = offset[row]
        if least >= 0:
            slot = first[g] + max(least, low[g]) - low[g]
            reached[slot] = min(reached[slot], returned[row])
    for g in range(groups):
        for slot in range(first[g + 1] - 2, first[g] - 1, -1):
            reached[slot] = min(reached[slot], reached[slot + 1])
    return reached


@njit(cache=True)
def _hold(group, columns, base, first, low, holder, flags):
    """Rule 1: one record an offset."""
    starts = columns[4]
    for row in range(len(base)):
        g = group[row]
        if base[row] < 0 or flags[g]:
            continue
        begin = first[g] + base[row] - low[g]
        for slot in range(begin, begin + starts[row + 1] - starts[row]):
            if holder[slot] >= 0:
                flags[g] = True
            holder[slot] = row


@njit(cache=True)
def _bound(group, columns, base, first, low, high, reached, since, strict, flags):
    """Rule 2: flag what was called after the log had outgrown its bound."""
    kind, outcome, _, offset, starts, _, mark, call, _ = columns
    for row in range(len(kind)):
        g = group[row]
        if flags[g]:
            continue
        most = -1
        if kind[row] == _PRODUCE:
            most = base[row]
        elif outcome[row] == _OK and (strict or call[row] >= since[g]):
            if kind[row] == _FETCH:
                empty = starts[row + 1] == starts[row]
                most = mark[row] if mark[row] >= 0 else (offset[row] if empty else -1)
            elif kind[row] == _LIST:
                most = offset[row]
        if most >= 0 and reached[first[g] + min(most, high[g]) - low[g] + 1] < call[row]:
            flags[g] = True


@njit(cache=True)
def _fill(group, groups, columns, base, first, unknown, odd, reached, holder, flags):
    """Rule 3: the k-th hole takes the k-th record of unknown outcome."""
    kind, outcome, _, _, _, _, _, call, _ = columns
    waiting = np.zeros(unknown[groups], np.int64)
    filled = unknown[:groups].copy()
    for row in range(len(kind)):
        if kind[row] == _PRODUCE and base[row] < 0 and outcome[row] != _FAIL:
            g = group[row]
            if filled[g] > unknown[g] and waiting[filled[g] - 1] > call[row]:
                odd[g] = True
            waiting[filled[g]] = call[row]
            filled[g] += 1
    for g in range(groups):
        if flags[g]:
            continue
        taken = unknown[g]
        for slot in range(first[g], first[g + 1] - 2):
            if holder[slot] < 0:
                if odd[g] or taken == unknown[g + 1] or waiting[taken] > reached[slot + 1]:
                    flags[g] = True
                    break
                taken += 1
