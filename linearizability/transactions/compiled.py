"""The screening of transactions in compiled code (numba): loops over the rows of a block, in place of array passes.

What it does not flag breaks no rule at level `kafka`. What it flags `screen` looks at again with arrays, so that the
verdicts are the same with and without numba. It flags what is rare without a look: positions that nobody knows, numbers
or offsets with large gaps, fetches that may have returned after the end of their transaction was called, unclean
elections. Each table has a run of slots for each partition, or for each history.
"""

from __future__ import annotations

import numpy as np

from tidegauge.compilation.kept_code import compiled_and_kept

_NEVER = np.iinfo(np.int64).max
_PRODUCE, _FETCH, _LIST, _ELECTION, _COMMIT, _ABORT, _COMMIT_OFFSETS = 0, 1, 2, 3, 6, 7, 8
_OK, _FAIL, _INFO = 0, 1, 2
_ROOM = 8
"""Slots that a table may have for each value, row or record."""
_FEW = 16
"""Consumer groups that commit offsets of one partition: they are looked for one after the other."""


@compiled_and_kept()
def suspicious(history_starts, group, groups, columns):
    """Whether each history of a block may break a rule; an empty array where most are not for this code.

    `group` is the partition of each row, a number below `groups`; `columns` are kind, outcome, acks, isolation, offset,
    starts, values, offsets (empty where they are contiguous), high_watermark, call, returned, and the transaction, the
    group and the last stable offset of `Transactional`.
    """
    flags = np.zeros(len(history_starts) - 1, np.bool_)
    history, home, size = _number(history_starts, columns[11], flags)
    produces, fetches, lists, commits, told, inside, where = _split(history, home, columns, flags)
    end, committed, unknown = _end(where, home, size, columns)
    of_group = np.zeros(groups, np.int32)
    for row in range(len(history)):
        of_group[group[row]] = history[row]
    values = _value_slots(group, groups, columns, produces, of_group, flags)
    _flag_odd(history, home, end, columns, fetches, flags)
    if 2 * flags.sum() > len(flags):
        return np.zeros(0, np.bool_)
    written = _write(history, group, columns, produces, values, flags)
    _read(history, group, home, columns, fetches, values, written, committed, unknown, flags)
    base = written[2]
    layout = _lay_out(group, groups, columns, produces, base, of_group, flags)
    holder = _hold(history, group, columns, produces, base, layout, flags)
    counted = _count(groups, home, columns, end, committed, holder, layout)
    reached = _reach(history, group, columns, fetches, lists, produces, layout, counted, flags)
    _bound(history, group, groups, columns, produces, base, layout, reached, flags)
    by_transaction = _sort(home, size, inside)
    pairs = _pair(history, group, groups, home, columns, commits, committed, unknown, flags)
    spans = np.zeros(len(holder), np.int32), np.zeros(len(holder), np.bool_)
    tiles = _tile(
        history, group, groups, columns, by_transaction, committed, base, layout, counted[1], pairs, spans, flags
    )
    _flag_torn(history, group, groups, columns, told, layout, holder, spans, flags)
    _flag_tiles(tiles, pairs[1], len(holder), flags)
    return flags


# --- what the rows are -----------------------------------------------------------------------------------------------


@compiled_and_kept()
def _number(history_starts, transaction, flags):
    """The history and the transaction of each row, numbered in the block, and how many transactions there are."""
    history = np.empty(history_starts[-1], np.int32)
    home = np.full(history_starts[-1], -1, np.int32)
    size = 0
    for h in range(len(flags)):
        start, stop = history_starts[h], history_starts[h + 1]
        most = -1
        for row in range(start, stop):
            history[row] = h
            most = max(most, transaction[row])
        if most >= _ROOM * (stop - start) + 64:
            flags[h] = True
            continue
        for row in range(start, stop):
            home[row] = size + transaction[row] if transaction[row] >= 0 else -1
        size += most + 1
    return history, home, size


@compiled_and_kept()
def _split(history, home, columns, flags):
    """The rows of each kind that is looked at, asked for without a branch: kinds come in no order."""
    kind, outcome, stable = columns[0], columns[1], columns[13]
    rows = np.empty((7, len(kind)), np.int32)
    p = f = n = c = s = m = e = 0
    for row in range(len(kind)):
        what, is_ok = kind[row], outcome[row] == _OK
        rows[0, p] = rows[1, f] = rows[2, n] = rows[3, c] = rows[4, s] = rows[5, m] = rows[6, e] = row
        is_produce, is_fetch = what == _PRODUCE, is_ok & (what == _FETCH)
        commits = (what == _COMMIT_OFFSETS) & (outcome[row] != _FAIL)
        is_inside = home[row] >= 0
        p += is_produce
        f += is_fetch
        n += is_ok & (what == _LIST)
        c += commits
        s += stable[row] >= 0
        m += is_inside & (is_produce | is_fetch | commits)
        e += is_inside & ((what == _COMMIT) | (what == _ABORT))
        flags[history[row]] |= what == _ELECTION
    return rows[0, :p], rows[1, :f], rows[2, :n], rows[3, :c], rows[4, :s], rows[5, :m], rows[6, :e]


@compiled_and_kept()
def _end(where, home, size, columns):
    """The row that ends each transaction, −1 for none; whether it committed; whether nobody knows that."""
    kind, outcome = columns[0], columns[1]
    end = np.full(size, -1, np.int32)
    committed = np.zeros(size, np.bool_)
    unknown = np.zeros(size, np.bool_)
    for row in where:
        t, is_commit = home[row], kind[row] == _COMMIT
        end[t] = row
        committed[t] = is_commit and outcome[row] == _OK
        unknown[t] = is_commit and outcome[row] == _INFO
    return end, committed, unknown


@compiled_and_kept()
def _value_slots(group, groups, columns, produces, of_group, flags):
    """Of each partition the extremes of the values that were produced, and its first slot in the table of values."""
    starts, values = columns[5], columns[6]
    low = np.full(groups, _NEVER, np.int64)
    high = np.full(groups, -_NEVER, np.int64)
    written = np.zeros(groups, np.int64)
    for row in produces:
        g = group[row]
        written[g] += starts[row + 1] - starts[row]
        for k in range(starts[row], starts[row + 1]):
            low[g] = min(low[g], values[k])
            high[g] = max(high[g], values[k])
    first = np.zeros(groups + 1, np.int64)
    for g in range(groups):
        span = 0
        if high[g] >= low[g]:
            span = high[g] - low[g] + 1
            if span <= 0 or span > _ROOM * written[g] + 64:
                flags[of_group[g]] = True
                low[g], high[g], span = 1, 0, 0
        first[g + 1] = first[g] + span
    return low, high, first


@compiled_and_kept()
def _flag_odd(history, home, end, columns, fetches, flags):
    """Flag positions that nobody knows, and fetches that may have returned after their transaction's end was called."""
    offset, call, returned = columns[4], columns[9], columns[10]
    for row in fetches:
        t = home[row]
        if offset[row] < 0 or (t >= 0 and end[t] >= 0 and returned[row] > call[end[t]]):
            flags[history[row]] = True


# --- where records are -----------------------------------------------------------------------------------------------


@compiled_and_kept()
def _write(history, group, columns, produces, values, flags):
    """The row and the number in its batch of each value, and the base offset of each batch that its response tells."""
    outcome, acks, offset, starts, value, offsets = (
        columns[1],
        columns[2],
        columns[4],
        columns[5],
        columns[6],
        columns[7],
    )
    low, _, first = values
    writer = np.full(first[-1], -1, np.int32)
    record = np.zeros(first[-1], np.int32)
    base = np.full(len(history), -1, np.int64)
    for row in produces:
        g, h, begin = group[row], history[row], starts[row]
        if flags[h]:
            continue
        is_strong = outcome[row] == _OK and acks[row] == -1 and offset[row] >= 0
        if is_strong:
            base[row] = offset[row]
        for k in range(begin, starts[row + 1]):
            slot = first[g] + value[k] - low[g]
            if writer[slot] >= 0 or (is_strong and len(offsets) and offsets[k] != offset[row] + k - begin):
                flags[h] = True
            writer[slot] = row
            record[slot] = k - begin
    return writer, record, base


@compiled_and_kept()
def _read(history, group, home, columns, fetches, values, written, committed, unknown, flags):
    """Place batches by the fetches that read them, and flag where they disagree; what was read tells who committed."""
    outcome, isolation, offset, starts, value, offsets = (
        columns[1], columns[3], columns[4], columns[5], columns[6], columns[7]
    )  # fmt: skip
    low, high, first = values
    writer, record, base = written
    for row in fetches:
        g, h, mine, careful, begin = group[row], history[row], home[row], isolation[row] == 1, starts[row]
        if flags[h]:
            continue
        before = offset[row] - 1
        for k in range(begin, starts[row + 1]):
            at = offsets[k] if len(offsets) else offset[row] + k - begin
            by = -1
            if low[g] <= value[k] <= high[g]:
                by = writer[first[g] + value[k] - low[g]]
            if by < 0 or at <= before:  # of the first record: it is below the position
                flags[h] = True
                break
            before = at
            begins = at - record[first[g] + value[k] - low[g]]
            t = home[by]
            if begins < 0 or outcome[by] == _FAIL or (base[by] >= 0 and base[by] != begins):
                flags[h] = True
            base[by] = begins
            if careful and t >= 0:
                if t == mine or not (committed[t] or unknown[t]):
                    flags[h] = True
                committed[t] |= unknown[t]


@compiled_and_kept()
def _lay_out(group, groups, columns, produces, base, of_group, flags):
    """A slot for each offset between a partition's lowest and highest record, and one more."""
    starts = columns[5]
    low = np.full(groups, _NEVER, np.int64)
    high = np.zeros(groups, np.int64)
    written = np.zeros(groups, np.int64)
    for row in produces:
        if base[row] >= 0:
            g, count = group[row], starts[row + 1] - starts[row]
            low[g] = min(low[g], base[row])
            high[g] = max(high[g], base[row] + count)
            written[g] += count
    first = np.zeros(groups + 1, np.int64)
    for g in range(groups):
        if low[g] == _NEVER:
            low[g] = high[g] = 0
        elif high[g] < low[g] or high[g] - low[g] > _ROOM * written[g] + 64:
            flags[of_group[g]] = True
            high[g] = low[g]
        first[g + 1] = first[g] + high[g] - low[g] + 1
    return low, high, first


@compiled_and_kept()
def _slot(layout, g, offset):
    """The slot of an offset in a partition; one outside is moved to the nearest end."""
    low, high, first = layout
    return first[g] + min(max(offset, low[g]), high[g]) - low[g]


@compiled_and_kept()
def _fetched(columns, row):
    """Where a fetch ended: after its last record, or where it began."""
    offset, starts, offsets = columns[4], columns[5], columns[7]
    begin, end = starts[row], starts[row + 1]
    if begin < end and len(offsets):
        return offsets[end - 1] + 1
    return offset[row] + end - begin


@compiled_and_kept()
def _hold(history, group, columns, produces, base, layout, flags):
    """The produce of the record at each slot, −1 where nobody knows one; two records in one are flagged."""
    starts = columns[5]
    holder = np.full(layout[2][-1], -1, np.int32)
    for row in produces:
        if base[row] < 0 or flags[history[row]]:
            continue
        begin = _slot(layout, group[row], base[row])
        for slot in range(begin, begin + starts[row + 1] - starts[row]):
            if holder[slot] >= 0:
                flags[history[row]] = True
            holder[slot] = row
    return holder


@compiled_and_kept()
def _count(groups, home, columns, end, committed, holder, layout):
    """Below each slot: how many records, how many visible ones, and since when the log may be stable up to there."""
    call, first = columns[9], layout[2]
    below = np.zeros(len(holder), np.int64)
    seen_below = np.zeros(len(holder), np.int64)
    stable = np.zeros(len(holder), np.int64)
    count = seen = 0
    for g in range(groups):
        since = -_NEVER
        for slot in range(first[g], first[g + 1]):
            below[slot], seen_below[slot], stable[slot] = count, seen, since
            row = holder[slot]
            if row < 0:
                continue
            count += 1
            t = home[row]
            if t < 0 or committed[t]:
                seen += 1
                since = max(since, call[row] if t < 0 else call[end[t]])
    return below, seen_below, stable


# --- what fetches return, and when -----------------------------------------------------------------------------------


@compiled_and_kept()
def _reach(history, group, columns, fetches, lists, produces, layout, counted, flags):
    """Flag fetches that do not return what is there, or too early; by when the log had each length."""
    outcome, acks, isolation, offset, starts = columns[1], columns[2], columns[3], columns[4], columns[5]
    mark, returned, said = columns[8], columns[10], columns[13]
    below, seen_below, stable = counted
    reached = np.full(len(below), _NEVER, np.int64)
    for row in fetches:
        g, careful, count = group[row], isolation[row] == 1, starts[row + 1] - starts[row]
        if flags[history[row]]:
            continue
        until, length = said[row], max(said[row], mark[row])
        if count > 0:
            end = _fetched(columns, row)
            low, high = _slot(layout, g, offset[row]), _slot(layout, g, end)
            there = seen_below[high] - seen_below[low] if careful else below[high] - below[low]
            beyond = 0 <= mark[row] < end or (careful and said[row] != -1 and end > said[row])
            if there != count or beyond:
                flags[history[row]] = True
            until, length = max(until, end if careful else 0), max(length, end)
        if stable[_slot(layout, g, until)] >= returned[row]:
            flags[history[row]] = True
        slot = _slot(layout, g, length)
        reached[slot] = min(reached[slot], returned[row])
    for row in lists:
        slot = _slot(layout, group[row], offset[row])
        reached[slot] = min(reached[slot], returned[row])
    for row in produces:
        if outcome[row] == _OK and acks[row] == -1 and offset[row] >= 0:
            slot = _slot(layout, group[row], offset[row] + starts[row + 1] - starts[row])
            reached[slot] = min(reached[slot], returned[row])
    return reached


@compiled_and_kept()
def _bound(history, group, groups, columns, produces, base, layout, reached, flags):
    """Flag what was written below a length that the log had before."""
    call, first = columns[9], layout[2]
    for g in range(groups):
        soonest = _NEVER
        for slot in range(first[g + 1] - 1, first[g] - 1, -1):
            soonest = min(soonest, reached[slot])
            reached[slot] = soonest
    for row in produces:
        if base[row] >= 0 and reached[_slot(layout, group[row], base[row] + 1)] < call[row]:
            flags[history[row]] = True


# --- what is of one transaction --------------------------------------------------------------------------------------


@compiled_and_kept()
def _sort(home, size, inside):
    """Sends, fetches and commits of offsets by transaction, in their order, and where those of each begin."""
    first = np.zeros(size + 1, np.int64)
    for row in inside:
        first[home[row] + 1] += 1
    for t in range(size):
        first[t + 1] += first[t]
    free = first[:size].copy()
    rows = np.empty(len(inside), np.int32)
    for row in inside:
        rows[free[home[row]]] = row
        free[home[row]] += 1
    return rows, first


@compiled_and_kept()
def _pair(history, group, groups, home, columns, commits, committed, unknown, flags):
    """The (partition, consumer group) of each commit of offsets, and which of them are left out."""
    outcome, consumers = columns[1], columns[12]
    pair = np.full(len(history), -1, np.int32)
    left_out = np.zeros(len(commits), np.bool_)
    name = np.zeros(len(commits), np.int64)
    head = np.full(groups, -1, np.int32)
    following = np.full(len(commits), -1, np.int32)
    pairs = 0
    for row in commits:
        g, t, looked = group[row], home[row], 0
        if t >= 0 and not (committed[t] or unknown[t]):
            continue
        one = head[g]
        while one >= 0 and name[one] != consumers[row] and looked < _FEW:
            one = following[one]
            looked += 1
        if looked == _FEW:
            flags[history[row]] = True
            continue
        if one < 0:
            one = pairs
            name[one], following[one], head[g] = consumers[row], head[g], one
            pairs += 1
        pair[row] = one
        left_out[one] |= t < 0 or outcome[row] == _INFO
    return pair, left_out


@compiled_and_kept()
def _tile(
    history, group, groups, columns, by_transaction, committed, base, layout, seen_below, pairs, spans, flags
):  # fmt: skip
    """The visible records that each committed transaction consumed; flags sends that are not in their order.

    `spans` become what `_flag_torn` takes: where committed transactions begin and end, and where any begins.
    """
    kind, offset, starts = columns[0], columns[4], columns[5]
    rows, first = by_transaction
    within, begins = spans
    sender = np.full(groups, -1, np.int32)
    reader = np.full(groups, -1, np.int32)
    last = np.zeros(groups, np.int64)
    begin = np.zeros(groups, np.int64)
    end = np.zeros(groups, np.int64)
    tiles = np.zeros((4, len(rows)), np.int64)
    tiler = np.full(len(pairs[1]), -1, np.int32)
    tile = np.zeros(len(pairs[1]), np.int64)
    count = 0
    for t in range(len(committed)):
        start, stop, is_committed, commits = first[t], first[t + 1], committed[t], False
        if start == stop or flags[history[rows[start]]]:
            continue
        for row in rows[start:stop]:
            g = group[row]
            if kind[row] == _FETCH:
                begin[g] = begin[g] if reader[g] == t else offset[row]
                end[g] = _fetched(columns, row)
                reader[g] = t
            elif kind[row] == _COMMIT_OFFSETS:
                commits = True
            elif base[row] >= 0:
                at = _slot(layout, g, base[row])
                if sender[g] != t:
                    begins[at] = True
                    last[g] = at
                elif at <= last[g]:
                    flags[history[row]] = True
                until = at + max(starts[row + 1] - starts[row] - 1, 0)
                within[last[g] + 1] += is_committed
                within[until + 1] -= is_committed
                sender[g], last[g] = t, until
        if not (commits and is_committed):
            continue
        for row in rows[start:stop]:
            g, one = group[row], pairs[0][row]
            if one < 0:
                continue
            if reader[g] != t:
                pairs[1][one] = True
                continue
            if tiler[one] != t:
                tiler[one], tile[one] = t, count
                count += 1
            tiles[0, tile[one]] = row
            tiles[1, tile[one]] = seen_below[_slot(layout, g, begin[g])]
            tiles[2, tile[one]] = seen_below[_slot(layout, g, end[g])]
            tiles[3, tile[one]] = seen_below[_slot(layout, g, offset[row])]
    return tiles[:, :count], pairs[0], history


@compiled_and_kept()
def _flag_torn(history, group, groups, columns, told, layout, holder, spans, flags):
    """Flag last stable offsets within what a committed transaction wrote, and where no other one begins."""
    said = columns[13]
    low, high, first = layout
    within, begins = spans
    if not len(told):
        return
    torn = np.zeros(len(holder), np.bool_)
    for g in range(groups):
        around = 0
        for slot in range(first[g], first[g + 1]):
            around += within[slot]
            torn[slot] = around > 0 and holder[slot] >= 0 and not begins[slot]
    for row in told:
        g = group[row]
        if low[g] <= said[row] < high[g] and torn[_slot(layout, g, said[row])]:
            flags[history[row]] = True


@compiled_and_kept()
def _flag_tiles(tiles, left_out, slots, flags):
    """Flag what is consumed twice or not at all, or committed beyond the reads: each begins where another one ended.

    Of a pair, the tiles are followed from the lowest on; those that are not come by are beside a gap, or overlap.
    """
    rows, pair, history = tiles
    head = np.full(len(left_out), -1, np.int64)
    total = np.zeros(len(left_out), np.int64)
    following = np.full(rows.shape[1], -1, np.int64)
    for number in range(rows.shape[1]):
        row, low, read, high = rows[0, number], rows[1, number], rows[2, number], rows[3, number]
        one = pair[row]
        if left_out[one] or flags[history[row]]:
            continue
        if high > read:
            flags[history[row]] = True
        if high > low:
            following[number], head[one] = head[one], number
            total[one] += 1
    by = np.full(slots, -1, np.int32)
    at = np.zeros(slots, np.int64)
    for one in range(len(head)):
        lowest, number = _NEVER, head[one]
        while number >= 0:
            by[rows[1, number]] = one
            at[rows[1, number]] = rows[3, number]
            lowest = min(lowest, rows[1, number])
            number = following[number]
        if head[one] < 0:
            continue
        came_by = 0
        while by[lowest] == one:
            lowest = at[lowest]
            came_by += 1
        if came_by != total[one]:
            flags[history[rows[0, head[one]]]] = True
