"""The semantics of docs/history.md by brute force, for many small histories at once: every log, every way to grow it.

Written from that page alone, and it shares no code with the checker. A log is a choice of where each batch is, or that
it is nowhere. Its growth is a path: for each instant, how long it was then. Each claim of an operation is that the path
visits a rectangle: some instant of the operation's interval, with a length in some range. So every path is tried, as
one bit of a word: a table has, for each rectangle, the bits of the paths that visit it, and a history is valid if some
log leaves a bit in the conjunction of its claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement

import attrs
import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]
Truth = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

INSTANTS = 5
"""Times are 0 to 4; what happens after all of them happens in the last one."""
LONGEST = 6
"""How many offsets a log has at most, from its start on."""
ABSENT = -1
PRODUCE, FETCH, LIST = 0, 1, 2
OK, FAIL, INFO = 0, 1, 2
BATCH = 2
"""How many records an operation has at most."""
FAR = 99


@attrs.frozen(eq=False)
class Small:
    """Histories of one partition, one a row; a column is an operation, in order of index.

    `values` and `offsets` have BATCH places an operation, of which the first `count` are in use. The value of record k
    of the produce in column c is BATCH * c + k. `settled`: when the partition was declared settled, FAR if never.
    """

    kind: Table
    outcome: Table
    process: Table
    acks: Table
    offset: Table
    """ABSENT where nobody says."""
    count: Table
    values: Table
    offsets: Table
    mark: Table
    """The high watermark of a fetch, or ABSENT."""
    call: Table
    returned: Table
    settled: Table

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def width(self) -> int:
        return int(self.kind.shape[1])

    def take(self, rows: Table) -> Small:
        return Small(**{field.name: getattr(self, field.name)[rows] for field in attrs.fields(Small)})


def positions(small: Small) -> Table:
    """Where each fetch begins: its offset, or where the last one of the process ended; ABSENT where nobody knows."""
    began = np.full(small.kind.shape, ABSENT)
    for process in np.unique(small.process):
        end = np.full(len(small), ABSENT)
        for at in range(small.width):
            mine = (small.kind[:, at] == FETCH) & (small.process[:, at] == process)
            done = mine & (small.outcome[:, at] == OK)
            began[:, at] = np.where(done, np.where(small.offset[:, at] >= 0, small.offset[:, at], end), began[:, at])
            full = done & (small.count[:, at] > 0)
            last = small.offsets[np.arange(len(small)), at, np.maximum(small.count[:, at] - 1, 0)]
            end = np.where(full, last + 1, np.where(done, began[:, at], end))
            end = np.where(mine & (small.outcome[:, at] == INFO), ABSENT, end)
    return began


def log_start(small: Small, began: Table) -> Table:
    """The smallest offset that completed operations mention; that of a batch of which a record was read counts."""
    done = small.outcome == OK
    strong = done & (small.kind == PRODUCE) & (small.acks == -1)
    mentions = [
        np.where(strong | (done & (small.kind == LIST)), small.offset, FAR),
        np.where(done & (small.kind == FETCH) & (began >= 0), began, FAR),
        np.where(done & (small.kind == FETCH) & (small.mark >= 0), small.mark, FAR),
    ]
    for place in range(BATCH):
        read = done & (small.kind == FETCH) & (small.count > place)
        written = small.values[:, :, place] % BATCH
        mentions.append(np.where(read, small.offsets[:, :, place] - written, FAR))
    least: Table = np.min(np.stack(mentions), axis=(0, 2))
    return np.where(least == FAR, 0, least)


@cache
def _paths() -> tuple[Words, tuple[Table, Table]]:
    """The paths that visit each rectangle (first and last instant, least and greatest length), as bits."""
    ends = np.array(list(combinations_with_replacement(range(LONGEST + 1), INSTANTS)))
    begins = np.concatenate((np.zeros((len(ends), 1), np.int64), ends[:, :-1]), axis=1)
    words = -(-len(ends) // 64)
    table = np.zeros((INSTANTS, INSTANTS, LONGEST + 1, LONGEST + 1, words), np.uint64)
    for first, last in combinations_with_replacement(range(INSTANTS), 2):
        for low, high in combinations_with_replacement(range(LONGEST + 1), 2):
            # From one instant to the last one the path passes all lengths between.
            visits = (begins[:, first] <= high) & (ends[:, last] >= low)
            table[first, last, low, high] = _bits(visits, words)
    return table, (begins, ends)


def _bits(chosen: Truth, words: int) -> Words:
    padded = np.zeros(words * 64, np.uint8)
    padded[: len(chosen)] = chosen
    bits: Words = np.packbits(padded, bitorder="little").view(np.uint64)
    return bits


@cache
def _ending(length: int) -> Words:
    """The paths that end at `length`."""
    table, (_, ends) = _paths()
    return _bits(ends[:, -1] == length, table.shape[-1])


def valid(small: Small, strict: bool) -> Truth:
    """Whether there is a log, and a way to grow it, with which every operation is true."""
    began = positions(small)
    start = log_start(small, began)
    found = _valid_from(small, began, start, strict)
    # Or the log begins with a batch that reaches over that offset.
    lower = np.flatnonzero(~found & (start > 0))
    found[lower] = _valid_from(small.take(lower), began[lower], start[lower] - 1, strict, reaching=True)
    return found


def _valid_from(small: Small, began: Table, start: Table, strict: bool, reaching: bool = False) -> Truth:
    """The same for logs that begin at `start`; if `reaching`, with a batch of more than one record."""
    rows, bases = _choices(small, start)
    if reaching:
        kept = ((bases == 0) & (small.count[rows] > 1)).any(axis=1)
        rows, bases = rows[kept], bases[kept]
    kept = (_says_what_can_be(small, began) & (start >= 0))[rows]
    rows, bases = rows[kept], bases[kept]
    log, length, whole = _build(small, rows, bases)
    rows, bases, log, length = rows[whole], bases[whole], log[whole], length[whole]
    explained = _explains(small.take(rows), began[rows], start[rows], bases, log, length, strict)
    found = np.zeros(len(small), np.bool_)
    found[rows[explained]] = True
    return found


def _choices(small: Small, start: Table) -> tuple[Table, Table]:
    """Every choice of a base offset, or none, for the produces of each history: whose it is, and bases by column."""
    rows, bases = np.arange(len(small)), np.zeros((len(small), 0), np.int64)
    everywhere = np.arange(ABSENT, LONGEST)
    for at in range(small.width):
        may = np.stack([_may_be_there(small, start, at, np.full(len(small), base)) for base in everywhere], axis=1)
        taken, base = np.nonzero(may[rows])
        bases = np.concatenate((bases[taken], everywhere[base][:, None]), axis=1)
        rows = rows[taken]
        # Two batches at one offset are no log, whatever else there is.
        clash = (bases[:, :-1] == bases[:, -1:]) & (bases[:, -1:] != ABSENT)
        rows, bases = rows[~clash.any(axis=1)], bases[~clash.any(axis=1)]
    return rows, bases


def _says_what_can_be(small: Small, began: Table) -> Truth:
    """What is true or false of an operation whatever the log is: gaps, positions, and the high watermark beside it."""
    sound = np.ones(len(small), np.bool_)
    for at in range(small.width):
        done = small.outcome[:, at] == OK
        count, offsets, mark = small.count[:, at], small.offsets[:, at], small.mark[:, at]
        acknowledged = done & (small.kind[:, at] == PRODUCE) & (small.acks[:, at] != 0)
        fetch = done & (small.kind[:, at] == FETCH)
        expected = np.where(acknowledged, small.offset[:, at], began[:, at])
        told = (acknowledged | fetch) & (expected >= 0) & (count > 0)
        sound &= ~(told & (offsets[:, 0] != expected))
        for place in range(1, BATCH):
            sound &= ~((acknowledged | fetch) & (count > place) & (offsets[:, place] != offsets[:, place - 1] + 1))
        for place in range(BATCH):
            sound &= ~(fetch & (count > place) & (mark >= 0) & (offsets[:, place] >= mark))
    return sound


def _may_be_there(small: Small, start: Table, at: int, base: Table) -> Truth:
    """Whether the batch of column `at` may be at `base`, counted from the log start, as its outcome says."""
    produce, done = small.kind[:, at] == PRODUCE, small.outcome[:, at] == OK
    acks, absent = small.acks[:, at], base == ABSENT
    told = base == small.offset[:, at] - start
    allowed = np.where(small.outcome[:, at] == FAIL, absent, True)
    allowed = np.where(done & (acks == 1), absent | told, allowed)
    allowed = np.where(done & (acks == -1), ~absent & told, allowed)
    may: Truth = np.where(produce, allowed, absent)
    return may


def _build(small: Small, rows: Table, bases: Table) -> tuple[Table, Table, Truth]:
    """The value at each offset from the log start on, how many there are, and whether they are one each, no hole."""
    log = np.full((len(rows), LONGEST), ABSENT)
    whole = np.ones(len(rows), np.bool_)
    for at in range(small.width):
        for place in range(BATCH):
            there = np.flatnonzero((bases[:, at] != ABSENT) & (small.count[rows, at] > place))
            where = bases[there, at] + place
            whole[there[where >= LONGEST]] = False
            there, where = there[where < LONGEST], where[where < LONGEST]
            whole[there[log[there, where] != ABSENT]] = False
            log[there, where] = BATCH * at + place
    held = log != ABSENT
    whole &= ~(held[:, 1:] & ~held[:, :-1]).any(axis=1)
    return log, held.sum(axis=1), whole


def _explains(small: Small, began: Table, start: Table, bases: Table, log: Table, length: Table, strict: bool) -> Truth:
    """Whether some path to `length` visits the rectangles of all claims; `log` has what was read."""
    table, _ = _paths()
    agrees = np.ones(len(small), np.bool_)
    everything = np.arange(len(small))
    for at in range(small.width):
        for place in range(BATCH):
            read = (small.kind[:, at] == FETCH) & (small.outcome[:, at] == OK) & (small.count[:, at] > place)
            where = small.offsets[:, at, place] - start
            inside = (where >= 0) & (where < LONGEST)
            held = log[everything, np.clip(where, 0, LONGEST - 1)]
            agrees &= ~read | (inside & (held == small.values[:, at, place]))
    paths = np.stack([_ending(one) for one in range(LONGEST + 1)])[length]
    for applies, first, last, low, high in _claims(small, began, start, bases, strict):
        possible = (low <= high) & (low <= LONGEST) & (high >= 0)
        agrees &= ~applies | possible
        rows = np.flatnonzero(applies & possible)
        low, high = np.maximum(low[rows], 0), np.minimum(high[rows], LONGEST)
        paths[rows] &= table[first[rows], last[rows], low, high]
    return agrees & paths.any(axis=1)


def _claims(
    small: Small, began: Table, start: Table, bases: Table, strict: bool
) -> Iterator[tuple[Truth, Table, Table, Table, Table]]:
    """For whom it holds, from which instant to which, and between which lengths the log was at one of them."""
    zero, most = np.zeros(len(small), np.int64), np.full(len(small), LONGEST)
    for at in range(small.width):
        call, offset = small.call[:, at], small.offset[:, at] - start
        count, mark = small.count[:, at], small.mark[:, at]
        done, kind = small.outcome[:, at] == OK, small.kind[:, at]
        returned = np.minimum(small.returned[:, at], INSTANTS - 1)
        strong = done & (kind == PRODUCE) & (small.acks[:, at] == -1)
        yield strong, call, returned, zero, offset
        yield strong, call, returned, offset + count, most
        there = (kind == PRODUCE) & (bases[:, at] != ABSENT)
        yield there, call, np.full(len(small), INSTANTS - 1), zero, bases[:, at]
        exact = np.full(len(small), strict) | (call >= small.settled)
        ended = done & (kind == LIST)
        yield ended, call, returned, offset, np.where(exact, offset, LONGEST)
        fetch = done & (kind == FETCH)
        last = small.offsets[np.arange(len(small)), at, np.maximum(count - 1, 0)] + 1 - start
        yield fetch & (count > 0), call, returned, last, most
        yield fetch & (mark >= 0), call, returned, mark - start, np.where(exact, mark - start, LONGEST)
        empty = fetch & (count == 0) & (mark < 0) & (began[:, at] >= 0) & exact
        yield empty, call, returned, zero, began[:, at] - start


def covered(small: Small) -> tuple[Table, Table, Truth]:
    """How many records must not be lost, how many of them are not confirmed, and whether the end is open.

    Of histories that are valid; no record of others is looked for where nobody produced it.
    """
    began = positions(small)
    must = np.zeros((len(small), int(small.values.max()) + 1), np.bool_)
    confirmed = np.zeros_like(must)
    reached, shown = np.full(len(small), ABSENT), log_start(small, began)
    everything = np.arange(len(small))
    for at in range(small.width):
        done, kind, count = small.outcome[:, at] == OK, small.kind[:, at], small.count[:, at]
        strong = done & (kind == PRODUCE) & (small.acks[:, at] == -1)
        fetch, late = done & (kind == FETCH), small.call[:, at] >= small.settled
        for place in range(BATCH):
            must[strong & (count > place), BATCH * at + place] = True
            read = np.flatnonzero(fetch & (count > place))
            must[read, small.values[read, at, place]] = True
            read = np.flatnonzero(fetch & (count > place) & late)
            confirmed[read, small.values[read, at, place]] = True
        last = small.offsets[everything, at, np.maximum(count - 1, 0)] + 1
        saw = np.maximum(np.where(count > 0, last, ABSENT), small.mark[:, at])
        saw = np.where(done & (kind == LIST), small.offset[:, at], np.where(fetch, saw, ABSENT))
        reached = np.maximum(reached, np.where(strong, small.offset[:, at] + count, saw))
        shown = np.maximum(shown, np.where(late, saw, ABSENT))
    return must.sum(axis=1), (must & ~confirmed).sum(axis=1), reached > shown
