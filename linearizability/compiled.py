"""The screening of `log` in compiled code (numba): few histories at a time, in tables that stay in a core's cache.

What it does not flag breaks no rule, and `compiled_coverage` counts of it what `coverage` counts. What it flags `log`
screens again, so that the verdicts are the same with and without numba. It leaves out what is rare (positions that
nobody knows, gaps in the offsets of a row, values with large gaps, logs that nothing explains, a value that was written
twice), and matches holes with nothing but single records of unknown outcome: what has such is for `log`.

Kinds and numbers of records come in no order, so that a branch on one is guessed wrongly half of the time. The loops
over all rows have none: they choose between numbers, write where nobody looks, and write more than there is, which the
next row writes over.

    _number    the partition of each row
    _extend    where each log begins and ends
    _lay_out   a slot for each value, and for each offset, with two to spare
    _place     where each value is said to be, by when each length was reached, when each batch was called
    _compare   whether each value is where each row says (rule 1); `_settle` looks at those that are not
    _scan      by when the log had each length, and what was written below it (rule 2); the holes
    _bound     the reads that were called after the log had outgrown what they tell (rule 2)
    _fill      whether what nobody has placed fills the holes (rule 3)
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from tidegauge.compilation.kept_code import compiled_and_kept
from tidegauge.linearizability.compiled_coverage import add_up, count
from tidegauge.linearizability.compiled_soundness import are_sound as are_sound

_NEVER = np.int64(np.iinfo(np.int64).max)
_PRODUCE, _FETCH, _LIST, _ELECTION, _SETTLED = 0, 1, 2, 3, 4
_OK, _FAIL = 0, 1
_TOGETHER = 2_048
"""Rows of histories that are judged together."""
_ROOM, _LEAST_ROOM = 8, 256
"""Slots that a table may have for each value, and besides for each history."""
_SPARE = 4
"""Records of a row that are written whether they are there or not."""
_NOT_WRITTEN = -1
_HOLE, _WITHIN = -2, -1
"""No batch holds a slot; one that begins below it does."""
_LEFT, _UNPLACED = 1, 2
UNPLACED = np.int64(1 << 32)
"""A bit beside those of the kinds that a history has: the request of one of its fetches says no position."""


@compiled_and_kept()
def screen(bounds, topic, partition, width, codes, columns, strict, named):
    """Which histories may break a rule, their rows that are to be looked at, and what the verdicts on the others cover.

    Histories begin at the rows `bounds`. `width` is how many partitions a topic may have, `codes` how many there are of
    all topics. `columns` are kind, outcome, acks, offset, starts, values, offsets (empty where they are contiguous),
    high_watermark, call and returned of `Operations`. The other results are for each history the records that must not
    be lost, those that no read confirms and open ends; whether that was counted; the first rows of the first `named`
    partitions with one of the latter two, and how many there are; the kinds of rows that each history has, as bits, and
    UNPLACED. Nothing is counted where `named` is negative.
    """
    histories, starts = len(bounds) - 1, columns[4]
    suspicious, wrong = np.zeros(histories, np.bool_), np.zeros(bounds[-1], np.bool_)
    counts, counted = np.zeros((3, histories), np.int64), np.zeros(histories, np.bool_)
    gaps, total, has = np.zeros(max(named, 0), np.int64), 0, np.zeros(histories, np.int64)
    is_dense = codes == 1 or 4 * codes * histories <= bounds[-1]
    tables = _tables(bounds, starts, codes, is_dense)
    part, flags, first_group = tables[0], tables[13], tables[15]
    begin = 0
    while begin < histories:
        end = begin + 1
        while end < histories and bounds[end + 1] - bounds[begin] <= _TOGETHER:
            end += 1
        few = bounds[begin : end + 1]
        left, kinds = suspicious[begin:end], has[begin:end]
        groups = _number(topic, partition, width, codes, is_dense, few, tables)
        _judge(columns, few, groups, strict, tables, left, kinds, named >= 0)
        if named >= 0:
            count(columns, few, groups, tables, left, kinds)
        for h in range(end - begin):
            has_flags = False
            for g in range(first_group[h], first_group[h + 1]):
                has_flags |= flags[g]
            if left[h] or has_flags:
                for row in range(few[h], few[h + 1]):
                    wrong[row] = left[h] or flags[part[row - few[0]]]
                left[h] = True
            elif named >= 0 and not kinds[h] >> _ELECTION & 1:
                counted[begin + h] = True
                total = add_up(begin + h, h, few, tables, counts, gaps, total)
        begin = end
    return suspicious, wrong, counts, counted, gaps[: min(total, len(gaps))], total, has


@compiled_and_kept()
def _tables(bounds, starts, codes, is_dense):
    """What histories are judged in, large enough for the largest one, and for small ones together."""
    rows = records = 0
    for h in range(len(bounds) - 1):
        rows = max(rows, bounds[h + 1] - bounds[h])
        records = max(records, starts[bounds[h + 1]] - starts[bounds[h]])
    begin = 0
    for h in range(1, len(bounds)):
        while bounds[h] - bounds[begin] > _TOGETHER:
            begin += 1
        records = max(records, starts[bounds[h]] - starts[bounds[begin]])
    rows = max(rows, _TOGETHER)
    groups = max(codes * min(len(bounds), _TOGETHER + 1) if is_dense else 0, rows) + 1
    slots = records + 2 * groups + 2
    return (
        np.zeros(rows, np.int32),  # the partition of each row
        np.empty(_ROOM * records + _LEAST_ROOM * (_TOGETHER + 1) + 1, np.int32),  # the slot of each value, or its row
        np.empty(records + _SPARE, np.int32),  # the slot where each record of each row should be
        np.empty(records + 1, np.int32),  # the records that are not there
        np.empty(slots, np.int64),  # when the batch that begins in each slot was called
        np.empty(slots, np.int64),  # by when the log had each length
        np.empty(rows + 1, np.int32),  # the rows of batches that only reads may place
        np.empty(records + 2, np.int64),  # the deadline of each hole
        np.empty(rows + 1, np.int64),  # when what may fill holes was called
        np.empty(slots, np.int8),  # whether each slot was read, and read in the end
        np.full(0 if is_dense else codes, -1, np.int32),  # the number of each partition of a history
        np.empty((9, groups + 1), np.int64),  # what is known of each partition (_extend)
        np.empty((4, groups + 1), np.int64),  # what is counted of each one
        np.zeros(groups, np.bool_),  # whether each one may break a rule
        np.empty(records + _SPARE, np.int64),  # what to add to each value for its slot
        np.empty(_TOGETHER + 2, np.int64),  # the first partition of each history
    )


@compiled_and_kept()
def _number(topic, partition, width, codes, is_dense, few, tables):
    """The partition of each row, numbered in these histories, and how many there are."""
    part, number, first_group = tables[0], tables[10], tables[15]
    start, groups = few[0], 0
    for h in range(len(few) - 1):
        first_group[h] = groups
        if is_dense:
            if codes == 1:
                part[few[h] - start : few[h + 1] - start] = groups
            else:
                for row in range(few[h], few[h + 1]):
                    part[uint64(row - start)] = groups + topic[uint64(row)] * width + partition[uint64(row)]
            groups += codes
            continue
        for row in range(few[h], few[h + 1]):
            code = uint64(topic[row] * width + partition[row])
            if number[code] < first_group[h]:
                number[code] = groups
                groups += 1
            part[row - start] = number[code]
        for row in range(few[h], few[h + 1]):
            number[uint64(topic[row] * width + partition[row])] = -1
    first_group[len(few) - 1] = groups
    return groups


@compiled_and_kept()
def _judge(columns, few, groups, strict, tables, left, kinds, counting):
    """Flag the partitions of these histories, and say which histories are `left` to arrays."""
    starts, values = columns[4], columns[5]
    place, called, reached, deadlines, marks = tables[1], tables[4], tables[5], tables[7], tables[9]
    known, flags = tables[11], tables[13]
    flags[:groups] = False
    known[0, :groups] = _NEVER
    known[1, :groups] = -1
    known[2:4, :groups] = 0
    if groups == 1:
        _extend_one(columns, few[0], few[1], known, left, kinds, strict)
    else:
        _extend(columns, few, tables, left, kinds, strict)
    if len(columns[6]):
        _leave_gaps(columns, few, left)
    span = _lay_out(starts, values, few, tables, left)
    slots = known[5, groups]
    place[:span] = _NOT_WRITTEN
    called[:slots] = _HOLE
    reached[:slots] = _NEVER
    if counting:
        marks[:slots] = 0
    opened = _place(columns, few, groups, span, tables, left)
    _settle(columns, few, _compare(starts, values, few, groups, tables, left), tables, left)
    holes = 0
    for g in range(groups):
        before = holes
        holes, late = _scan(known[5, g], known[5, g + 1], called, reached, deadlines, holes)
        flags[g] |= late
        known[6, g] = holes - before
    has_settled = _since(columns, few, groups, tables, kinds)
    if strict or has_settled:
        _bound(columns, few, strict, tables, left)
    if holes:
        _fill(columns, few, groups, opened, tables)


# --- where each log begins and ends ----------------------------------------------------------------------------------


@compiled_and_kept()
def _extend_one(columns, s, e, known, left, kinds, strict):
    """`_extend` for one partition of one history, with nothing looked up: many rows at a time."""
    kind, outcome, acks, offset = columns[0][s:e], columns[1][s:e], columns[2][s:e], columns[3][s:e]
    starts, mark = columns[4][s : e + 1], columns[7][s:e]
    low, high, written, strong = _NEVER, np.int64(-1), np.int64(0), np.int64(0)
    bits, odd = np.int64(0), np.int64(0)
    begin = starts[0]
    for i in range(len(kind)):
        at, end, what = offset[i], starts[i + 1], kind[i]
        count, begin = end - begin, end
        produce = what == _PRODUCE
        claims = (outcome[i] == _OK) & (what <= _LIST) & ((what != _PRODUCE) | ((acks[i] == -1) & (at >= 0)))
        least = mark[i] if claims & (what == _FETCH) else np.int64(-1)
        until = at + count if claims & ((count > 0) | (what == _LIST)) else np.int64(-1)
        written += count if produce else 0
        strong += count if produce & claims else 0
        low = min(low, min(at if claims & (at >= 0) else _NEVER, least if least >= 0 else _NEVER))
        high = max(high, max(until, least))
        bits |= np.int64(1) << what
        odd |= _LEFT if (least >= 0) & (until > least) else 0
        odd |= (_UNPLACED | _LEFT if (count > 0) | (what == _LIST) else _UNPLACED) if claims & (at < 0) else 0
    known[0, 0], known[1, 0], known[2, 0], known[3, 0] = low, high, written, strong
    kinds[0], left[0] = _with_places(bits, odd), _is_odd(bits, odd, strict)


@compiled_and_kept()
def _extend(columns, few, tables, left, kinds, strict):
    """Of each partition: the least offset mentioned, the greatest length, how many records were written, and those
    that must not be lost. Histories are left that have fetches beyond their high watermark, or of unknown positions.
    """
    kind, outcome, acks, offset, starts, _, _, mark, _, _ = columns
    part, known = tables[0], tables[11]
    lows, highs, writtens, strongs = known[0], known[1], known[2], known[3]
    for h in range(len(few) - 1):
        bits, odd, begin = np.int64(0), np.int64(0), starts[few[h]]
        for x in range(few[h], few[h + 1]):
            row = uint64(x)
            g, at, end, what = uint64(part[uint64(x - few[0])]), offset[row], starts[row + uint64(1)], kind[row]
            count, begin = end - begin, end
            produce = what == _PRODUCE
            claims = (outcome[row] == _OK) & (what <= _LIST) & ((what != _PRODUCE) | ((acks[row] == -1) & (at >= 0)))
            least = mark[row]
            least = least if claims & (what == _FETCH) else np.int64(-1)
            until = at + count if claims & ((count > 0) | (what == _LIST)) else np.int64(-1)
            writtens[g] += count if produce else 0
            strongs[g] += count if produce & claims else 0
            low = min(at if claims & (at >= 0) else _NEVER, least if least >= 0 else _NEVER)
            lows[g] = min(lows[g], low)
            highs[g] = max(highs[g], max(until, least))
            bits |= np.int64(1) << what
            odd |= _LEFT if (least >= 0) & (until > least) else 0
            odd |= (_UNPLACED | _LEFT if (count > 0) | (what == _LIST) else _UNPLACED) if claims & (at < 0) else 0
        kinds[h], left[h] = _with_places(bits, odd), _is_odd(bits, odd, strict)


@compiled_and_kept()
def _with_places(bits, odd):
    """The kinds of a history, and whether a fetch began where its request does not say."""
    return bits | UNPLACED if odd & _UNPLACED else bits


@compiled_and_kept()
def _is_odd(bits, odd, strict):
    """Whether a history is left: it has other kinds, or a fetch of an unknown position whose end counts."""
    if odd & _LEFT or bits >> (_SETTLED + 1):
        return True
    return bool(odd & _UNPLACED) and (strict or bool(bits >> _SETTLED & 1))


@compiled_and_kept()
def _leave_gaps(columns, few, left):
    """Leave histories of which the records of a row that tells where they are do not follow each other."""
    kind, outcome, _, offset, starts, _, offsets, _, _, _ = columns
    for h in range(len(few) - 1):
        for row in range(few[h], few[h + 1]):
            if outcome[row] == _OK and (kind[row] == _FETCH or (kind[row] == _PRODUCE and offset[row] >= 0)):
                for k in range(starts[row], starts[row + 1]):
                    left[h] |= offsets[k] != offset[row] + k - starts[row]


@compiled_and_kept()
def _lay_out(starts, values, few, tables, left):
    """What to add to each value and each offset to get its slot, and how many slots the values have.

    Histories are left where values are far apart, or nothing explains how long a log is.
    """
    known, first_group = tables[11], tables[15]
    room = np.int64(0)
    known[5, 0] = 0
    for h in range(len(few) - 1):
        low, high, count = _NEVER, -_NEVER, starts[few[h + 1]] - starts[few[h]]
        some = values[starts[few[h]] : starts[few[h + 1]]]
        for k in range(len(some)):
            low = min(low, some[k])
            high = max(high, some[k])
        span = high - low + 1 if high >= low else 0
        left[h] |= span < 0 or span > _ROOM * count + _LEAST_ROOM
        written = np.int64(0)
        for g in range(first_group[h], first_group[h + 1]):
            if known[1, g] < 0 or known[0, g] == _NEVER:
                known[0, g] = known[1, g] = 0
            left[h] |= known[1, g] - known[0, g] > known[2, g]
            written += known[2, g]
        # Where more is written than there are values, partitions have the same ones, and each has slots of its own.
        times = first_group[h + 1] - first_group[h] if written > span else 1
        left[h] |= times * span > _ROOM * count + _LEAST_ROOM
        for g in range(first_group[h], first_group[h + 1]):
            known[8, g] = room - low
            room += span if times > 1 and not left[h] else 0
        room += span if times == 1 and not left[h] else 0
        for g in range(first_group[h], first_group[h + 1]):
            known[4, g] = known[5, g] - known[0, g]
            known[5, g + 1] = known[5, g] + (2 if left[h] else known[1, g] - known[0, g] + 2)
    return room


# --- rule 1: where each record is ------------------------------------------------------------------------------------


@compiled_and_kept()
def _place(columns, few, groups, nothing, tables, left):
    """Write down what each row says; flag partitions with two batches at one offset. How many batches are open.

    `nothing` is a slot of no value.
    """
    kind, outcome, acks, offset, starts, values, _, mark, call, returned = columns
    part, place, expected, called, reached = tables[0], tables[1], tables[2], tables[4], tables[5]
    known, flags, adds = tables[11], tables[13], tables[14]
    lows, shifts, value_shifts = known[0], known[4], known[8]
    nowhere, last, one, several, opened = len(called) - 1, len(values) - 1, uint64(1), groups > 1, 0
    g, shift, low, add, first = uint64(0), shifts[0], lows[0], value_shifts[0], starts[few[0]]
    for h in range(len(few) - 1):
        if left[h]:
            continue
        begin = starts[few[h]]
        for x in range(few[h], few[h + 1]):
            row = uint64(x)
            if several:
                g = uint64(part[uint64(x - few[0])])
                shift, low, add = shifts[g], lows[g], value_shifts[g]
            at, what, end = offset[row], kind[row], starts[row + one]
            count, produce = end - begin, what == _PRODUCE
            usual = (outcome[row] == _OK) & (what <= _LIST) & (at >= 0) & ((what != _PRODUCE) | (acks[row] == -1))
            if not usual:
                opened = _open(columns, x, few[0], first, shift, low, add, tables, opened)
                begin = end
                continue
            slot, k = shift + at, uint64(begin - first)
            expected[k] = slot
            expected[k + one] = slot + 1
            expected[k + uint64(2)] = slot + 2
            expected[k + uint64(3)] = slot + 3
            for j in range(_SPARE, count):
                expected[k + uint64(j)] = slot + j
            if several:
                adds[k] = adds[k + one] = adds[k + uint64(2)] = adds[k + uint64(3)] = add
                for j in range(_SPARE, count):
                    adds[k + uint64(j)] = add
            length = uint64(max(at + count if (count > 0) | (what == _LIST) else low, mark[row]) + shift)
            reached[length] = min(reached[length], returned[row])
            base = uint64(slot if produce else nowhere)
            clash = produce & (called[base] != _HOLE)
            called[base] = call[row]
            if last >= 0:
                value = values[uint64(min(begin, last))] + add
                place[uint64(value if produce else nothing)] = slot
            if produce & (count > 1):
                for j in range(1, count):
                    place[uint64(values[uint64(begin + j)] + add)] = slot + j
                    clash |= called[uint64(slot + j)] != _HOLE
                    called[uint64(slot + j)] = _WITHIN
            flags[g] |= clash
            begin = end
    return opened


@compiled_and_kept()
def _open(columns, row, start, first, shift, low, add, tables, opened):
    """`_place` for a row that does not tell where its records are; how many batches are open."""
    kind, outcome, _, _, starts, values, _, mark, _, returned = columns
    place, expected, reached, batches = tables[1], tables[2], tables[5], tables[6]
    if kind[row] == _FETCH and outcome[row] == _OK:
        length = max(mark[row], low) + shift
        reached[length] = min(reached[length], returned[row])
    elif kind[row] == _PRODUCE:
        for k in range(starts[row], starts[row + 1]):
            place[values[k] + add] = expected[k - first] = start - row - 2
            tables[14][k - first] = add
        if outcome[row] != _FAIL:
            batches[opened] = row - start
            opened += 1
    return opened


@compiled_and_kept()
def _compare(starts, values, few, groups, tables, left):
    """How many records are not where they should be; which ones is in their table."""
    place, expected, misplaced, adds = tables[1], tables[2], tables[3], tables[14]
    count, first, add, several = 0, starts[few[0]], tables[11][8, 0], groups > 1
    for h in range(len(few) - 1):
        if not left[h]:
            for k in range(starts[few[h]], starts[few[h + 1]]):
                misplaced[uint64(count)] = k - first
                slot = values[uint64(k)] + (adds[uint64(k - first)] if several else add)
                count += place[uint64(slot)] != expected[uint64(k - first)]
    return count


@compiled_and_kept()
def _settle(columns, few, count, tables, left):
    """Place batches by the fetches that read them, and flag where they disagree; leave values written twice."""
    kind, starts, values = columns[0], columns[4], columns[5]
    part, place, expected, misplaced, marks = tables[0], tables[1], tables[2], tables[3], tables[9]
    known, extra, flags = tables[11], tables[12][0], tables[13]
    first, ends = starts[few[0]], starts[few[0] : few[-1] + 1]
    extra[: tables[15][len(few) - 1]] = 0
    for x in range(count):
        k = first + misplaced[x]
        row = few[0] + np.searchsorted(ends, k, side="right") - 1
        h = np.searchsorted(few, row, side="right") - 1
        if kind[row] == _PRODUCE:
            left[h] = True
        if left[h]:
            continue
        g = part[row - few[0]]
        if place[values[k] + known[8, g]] != expected[k - first]:
            flags[g] |= _is_misplaced(columns, few[0], k, g, tables)
        if not flags[g] and not marks[expected[k - first]]:
            marks[expected[k - first]] = 1
            extra[g] += 1


@compiled_and_kept()
def _is_misplaced(columns, start, k, g, tables):
    """Place the batch whose value a fetch of partition `g` has read; whether it cannot be there."""
    _, outcome, _, offset, starts, values, _, _, call, _ = columns
    part, place, expected, called, known = tables[0], tables[1], tables[2], tables[4], tables[11]
    add = known[8, g]
    found = -2 - place[values[k] + add]
    row = start + found
    if found < 0 or outcome[row] == _FAIL or part[found] != g:
        return True
    slot = np.int64(expected[k - starts[start]])
    for j in range(starts[row], starts[row + 1]):
        if values[j] == values[k]:
            slot -= j - starts[row]
            break
    count = starts[row + 1] - starts[row]
    # A batch that goes on beyond what anybody mentions is for arrays, as is one that a response put elsewhere.
    if slot < known[5, g] or slot + count > known[5, g + 1] - 2:
        return True
    if outcome[row] == _OK and offset[row] >= 0 and known[4, g] + offset[row] != slot:
        return True
    clash = False
    for j in range(count):
        clash |= called[slot + j] != _HOLE
        called[slot + j] = _WITHIN
        place[values[starts[row] + j] + add] = slot + j
    called[slot] = call[row]
    return clash


# --- rule 2: lengths and times ---------------------------------------------------------------------------------------


@compiled_and_kept()
def _scan(first, last, called, reached, deadlines, holes):
    """By when the log had each length: one suffix minimum. Whether a batch was called after the log had outgrown it,
    and how many holes there are with those before, each with its deadline, from the highest on.
    """
    soonest, late = _NEVER, False
    for x in range(last - first):
        slot = uint64(last - 1 - x)
        deadlines[uint64(holes)] = soonest
        holes += (called[slot] == _HOLE) & (x >= 2)
        late |= called[slot] > soonest
        soonest = min(soonest, reached[slot])
        reached[slot] = soonest
    return holes, late


@compiled_and_kept()
def _since(columns, few, groups, tables, kinds):
    """The call of the last declaration that each partition has settled; whether there is one."""
    kind, call, part, since = columns[0], columns[8], tables[0], tables[11][7]
    since[:groups] = _NEVER
    there = False
    for h in range(len(few) - 1):
        if kinds[h] >> _SETTLED & 1:
            there = True
            for row in range(few[h], few[h + 1]):
                if kind[row] == _SETTLED:
                    g = part[row - few[0]]
                    since[g] = call[row] if since[g] == _NEVER else max(since[g], call[row])
    return there


@compiled_and_kept()
def _bound(columns, few, strict, tables, left):
    """Flag reads that were called after the log had outgrown the end that they tell, where that counts."""
    kind, outcome, _, offset, starts, _, _, mark, call, _ = columns
    part, reached, known, flags = tables[0], tables[5], tables[11], tables[13]
    highs, shifts, since = known[1], known[4], known[7]
    for h in range(len(few) - 1):
        if left[h]:
            continue
        for x in range(few[h], few[h + 1]):
            row = uint64(x)
            g, what, at = uint64(part[uint64(x - few[0])]), kind[row], offset[row]
            told = at if (what == _LIST) | (starts[row + uint64(1)] == starts[row]) else np.int64(-1)
            most = mark[row]
            most = most if most >= 0 else told
            reads = (outcome[row] == _OK) & ((what == _FETCH) | (what == _LIST)) & (most >= 0)
            counts = reads & (strict | (call[row] >= since[g]))
            slot = uint64(shifts[g] + min(most, highs[g]) + 1 if counts else 0)
            flags[g] |= counts & (reached[slot] < call[row])


# --- rule 3: holes ---------------------------------------------------------------------------------------------------


@compiled_and_kept()
def _fill(columns, few, groups, opened, tables):
    """Match the k-th hole of each partition with its k-th record of unknown outcome, by call; flag what stays open."""
    _, outcome, _, offset, starts, values, _, _, call, _ = columns
    part, place, batches, deadlines, waiting = tables[0], tables[1], tables[6], tables[7], tables[8]
    known, counts, ends, flags = tables[11], tables[12][1], tables[12][2], tables[13]
    counts[:groups] = 0
    for x in range(opened):
        row, g = few[0] + batches[x], part[batches[x]]
        if place[values[starts[row]] + known[8, g]] >= 0:
            batches[x] = -1
            continue
        counts[g] += 1
        # A batch that may be lost, or is longer, fills holes in other ways.
        odd = (outcome[row] == _OK and offset[row] >= 0) or starts[row + 1] - starts[row] != 1
        flags[g] |= odd and known[6, g] > 0
    ends[0] = 0
    for g in range(1, groups):
        ends[g] = ends[g - 1] + counts[g - 1]
    for x in range(opened):
        if batches[x] >= 0:
            g = part[batches[x]]
            waiting[ends[g]] = call[few[0] + batches[x]]
            ends[g] += 1
    before = 0
    for g in range(groups):
        holes = known[6, g]
        if holes and not flags[g]:
            flags[g] = holes > counts[g] or _are_late(waiting[ends[g] - counts[g] : ends[g]], deadlines, before, holes)
        before += holes


@compiled_and_kept()
def _are_late(waiting, deadlines, before, holes):
    """Whether the records that wait, from the one called first on, miss the deadline of a hole, from the lowest on."""
    for x in range(1, len(waiting)):
        if waiting[x] < waiting[x - 1]:
            waiting.sort()
            break
    late = False
    for x in range(holes):
        late |= waiting[x] > deadlines[before + holes - 1 - x]
    return late
