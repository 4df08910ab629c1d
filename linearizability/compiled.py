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
    produces, fetches, lists, since, is_settled = _split(group, groups, columns)
    low_value, high_value, written = _counted(group, groups, columns, produces)
    value_at = _value_slots(groups, low_value, high_value, len(columns[5]))
    if not len(value_at):
        return np.zeros(0, np.bool_)
    slots = (low_value, high_value, value_at, *_write(group, columns, produces, low_value, value_at, flags))
    low = np.full(groups, _NEVER, np.int64)
    high = np.full(groups, -1, np.int64)
    base = slots[5]
    if not _read(group, columns, fetches, slots, low, high, flags):
        return np.zeros(0, np.bool_)
    if not _list(group, columns, lists, low, high):
        return np.zeros(0, np.bool_)
    unknown, odd = _extend(group, groups, columns, produces, base, low, high)
    first = _lay_out(groups, written, low, high, flags)
    reached = _reach(group, groups, columns, produces, fetches, lists, first, low, flags)
    holder = np.full(first[groups], -1, np.int32)
    _hold(group, columns, produces, base, first, low, holder, flags)
    _bound_produces(group, columns, produces, base, first, low, reached, flags)
    if strict or is_settled:
        _bound_reads(group, columns, fetches, first, low, high, reached, since, strict, flags)
        _bound_reads(group, columns, lists, first, low, high, reached, since, strict, flags)
    _fill(group, groups, columns, produces, base, first, unknown, odd, reached, holder, flags)
    return flags


@njit(cache=True)
def _split(group, groups, columns):
    """The rows of produces, of completed fetches and of completed ListOffsets; since when each partition has settled.

    Kinds come in no order, so that a branch on one is guessed wrongly half of the time: each is asked for once, here,
    and without a branch.
    """
    kind, outcome, _, _, _, _, _, call, _ = columns
    produces = np.empty(len(kind) + 1, np.int32)
    fetches = np.empty(len(kind) + 1, np.int32)
    lists = np.empty(len(kind) + 1, np.int32)
    since = np.full(groups, _NEVER, np.int64)
    is_settled = False
    p = f = n = 0
    for row in range(len(kind)):
        what, is_ok = kind[row], outcome[row] == _OK
        produces[p] = fetches[f] = lists[n] = row
        p += what == _PRODUCE
        f += is_ok & (what == _FETCH)
        n += is_ok & (what == _LIST)
        if what == _SETTLED:
            g, is_settled = group[row], True
            since[g] = call[row] if since[g] == _NEVER else max(since[g], call[row])
    return produces[:p], fetches[:f], lists[:n], since, is_settled


@njit(cache=True)
def _counted(group, groups, columns, produces):
    """Of each partition the extremes of the values that were produced, and their number."""
    starts, values = columns[4], columns[5]
    low_value = np.full(groups, _NEVER, np.int64)
    high_value = np.full(groups, -_NEVER, np.int64)
    written = np.zeros(groups, np.int64)
    for row in produces:
        g = group[row]
        written[g] += starts[row + 1] - starts[row]
        for k in range(starts[row], starts[row + 1]):
            low_value[g] = min(low_value[g], values[k])
            high_value[g] = max(high_value[g], values[k])
    return low_value, high_value, written


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
def _write(group, columns, produces, low_value, value_at, flags):
    """The row and the number in its batch of each value, and the base offset of each batch that its response tells."""
    kind, outcome, acks, offset, starts, values, _, _, _ = columns
    writer = np.full(value_at[-1], -1, np.int32)
    record = np.zeros(value_at[-1], np.int32)
    base = np.full(len(kind), -1, np.int64)
    for row in produces:
        g = group[row]
        begin = starts[row]
        for k in range(begin, starts[row + 1]):
            slot = value_at[g] + values[k] - low_value[g]
            if writer[slot] >= 0:
                flags[g] = True
            writer[slot] = row
            record[slot] = k - begin
        if outcome[row] == _OK and acks[row] == -1 and offset[row] >= 0:
            base[row] = offset[row]
    return writer, record, base


@njit(cache=True)
def _read(group, columns, fetches, slots, low, high, flags):
    """Rule 1: place batches by the fetches that read them, flag where they disagree; False for an unknown position."""
    _, outcome, acks, offset, starts, values, mark, _, _ = columns
    low_value, high_value, value_at, writer, record, base = slots
    for row in fetches:
        g, at, begin, end = group[row], offset[row], starts[row], starts[row + 1]
        if at < 0:
            return False
        low[g] = min(low[g], at)
        for k in range(begin, end):
            if values[k] < low_value[g] or values[k] > high_value[g]:
                flags[g] = True
                continue
            slot = value_at[g] + values[k] - low_value[g]
            by = writer[slot]
            if by < 0:
                flags[g] = True
                continue
            begins = at - record[slot] + (k - begin)
            if base[by] == begins and begins >= 0:
                continue  # it was placed there before, by its response or a fetch, and nothing was wrong
            weak = outcome[by] == _OK and acks[by] != -1 and offset[by] >= 0
            if outcome[by] == _FAIL or begins < 0 or (weak and offset[by] != begins) or base[by] >= 0:
                flags[g] = True
            else:
                base[by] = begins
        if end > begin:
            high[g] = max(high[g], at + end - begin)
            if 0 <= mark[row] < at + end - begin:
                flags[g] = True
        if mark[row] >= 0:
            low[g] = min(low[g], mark[row])
            high[g] = max(high[g], mark[row])
    return True


@njit(cache=True)
def _list(group, columns, lists, low, high):
    """Extend each log to the ends that were told; False for one that nobody knows."""
    offset = columns[3]
    for row in lists:
        g = group[row]
        if offset[row] < 0:
            return False
        low[g] = min(low[g], offset[row])
        high[g] = max(high[g], offset[row])
    return True


@njit(cache=True)
def _extend(group, groups, columns, produces, base, low, high):
    """Extend each log to its batches, and count those that may fill holes; `odd` where some do in other ways."""
    _, outcome, _, offset, starts, _, _, _, _ = columns
    unknown = np.zeros(groups + 1, np.int64)
    odd = np.zeros(groups, np.bool_)
    for row in produces:
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
def _reach(group, groups, columns, produces, fetches, lists, first, low, flags):
    """By when the log had each length."""
    _, outcome, acks, offset, starts, _, mark, _, returned = columns
    reached = np.full(first[groups], _NEVER, np.int64)
    origin = first[:groups] - low
    for row in produces:
        g = group[row]
        if outcome[row] == _OK and acks[row] == -1 and offset[row] >= 0 and not flags[g]:
            slot = origin[g] + offset[row] + starts[row + 1] - starts[row]
            reached[slot] = min(reached[slot], returned[row])
    for row in fetches:
        g, count = group[row], starts[row + 1] - starts[row]
        # An empty fetch tells of no length but its high watermark.
        least = max((offset[row] + count) * (count > 0), mark[row], low[g])
        if not flags[g]:
            slot = origin[g] + least
            reached[slot] = min(reached[slot], returned[row])
    for row in lists:
        g = group[row]
        if not flags[g]:
            slot = origin[g] + offset[row]
            reached[slot] = min(reached[slot], returned[row])
    for g in range(groups):
        soonest = _NEVER
        for slot in range(first[g + 1] - 1, first[g] - 1, -1):
            soonest = min(soonest, reached[slot])
            reached[slot] = soonest
    return reached


@njit(cache=True)
def _hold(group, columns, produces, base, first, low, holder, flags):
    """Rule 1: one record an offset."""
    starts = columns[4]
    for row in produces:
        g = group[row]
        if base[row] < 0 or flags[g]:
            continue
        begin = first[g] + base[row] - low[g]
        for slot in range(begin, begin + starts[row + 1] - starts[row]):
            if holder[slot] >= 0:
                flags[g] = True
            holder[slot] = row


@njit(cache=True)
def _bound_produces(group, columns, produces, base, first, low, reached, flags):
    """Rule 2: flag what was written below a length that the log had before."""
    call = columns[7]
    for row in produces:
        g = group[row]
        if not flags[g] and base[row] >= 0 and reached[first[g] + base[row] - low[g] + 1] < call[row]:
            flags[g] = True


@njit(cache=True)
def _bound_reads(group, columns, reads, first, low, high, reached, since, strict, flags):
    """Rule 2: flag a read that was called after the log had outgrown the end that it tells."""
    kind, _, _, offset, starts, _, mark, call, _ = columns
    for row in reads:
        g = group[row]
        if flags[g] or not (strict or call[row] >= since[g]):
            continue
        most = offset[row]
        if kind[row] == _FETCH:
            empty = starts[row + 1] == starts[row]
            most = mark[row] if mark[row] >= 0 else (offset[row] if empty else -1)
        if most >= 0 and reached[first[g] + min(most, high[g]) - low[g] + 1] < call[row]:
            flags[g] = True


@njit(cache=True)
def _fill(group, groups, columns, produces, base, first, unknown, odd, reached, holder, flags):
    """Rule 3: the k-th hole takes the k-th record of unknown outcome."""
    outcome, call = columns[1], columns[7]
    waiting = np.zeros(unknown[groups], np.int64)
    filled = unknown[:groups].copy()
    for row in produces:
        if base[row] < 0 and outcome[row] != _FAIL:
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
