"""What verdicts cover, counted in compiled code (numba) from the tables in which `compiled` has judged histories."""

from __future__ import annotations

from tidegauge.compilation.kept_code import compiled_and_kept

_FETCH, _LIST, _SETTLED = 1, 2, 4
_OK = 0


@compiled_and_kept()
def count(columns, few, groups, tables, left, kinds):
    """How many records of each partition a read confirms, and up to where one shows the log, since it has settled."""
    kind, outcome, _, offset, starts, _, _, mark, call, _ = columns
    part, expected, marks, since = tables[0], tables[2], tables[9], tables[11][7]
    confirmed, shown, first = tables[12][1], tables[12][2], starts[few[0]]
    confirmed[:groups] = 0
    shown[:groups] = -1
    for h in range(len(few) - 1):
        if left[h] or not kinds[h] >> _SETTLED & 1:
            continue
        for row in range(few[h], few[h + 1]):
            g = part[row - few[0]]
            if outcome[row] != _OK or call[row] < since[g] or not (kind[row] == _FETCH or kind[row] == _LIST):
                continue
            count = starts[row + 1] - starts[row]
            told = offset[row] + count if count or kind[row] == _LIST else -1
            shown[g] = max(shown[g], max(told, mark[row]))
            if not tables[13][g]:
                for k in range(starts[row] - first, starts[row + 1] - first):
                    confirmed[g] += marks[expected[k]] < 2
                    marks[expected[k]] = 2


@compiled_and_kept()
def add_up(number, h, few, tables, counts, gaps, total):
    """Add up the partitions of a history; how many have a gap with those before, of which the first are kept."""
    part, known, counted, has_gap = tables[0], tables[11], tables[12], tables[13]
    kept = total
    for g in range(tables[15][h], tables[15][h + 1]):
        records = known[3, g] + counted[0, g]
        unconfirmed = records - counted[1, g]
        is_open = known[1, g] > max(known[0, g], counted[2, g])
        counts[0, number] += records
        counts[1, number] += unconfirmed
        counts[2, number] += is_open
        has_gap[g] = unconfirmed > 0 or is_open
        total += has_gap[g]
    for row in range(few[h], few[h + 1]):
        if kept >= min(total, len(gaps)):
            break
        if has_gap[part[row - few[0]]]:
            has_gap[part[row - few[0]]] = False
            gaps[kept] = row
            kept += 1
    return total
