"""Array operations of the log checker: runs of indices, ranks of times, and tables indexed by value."""

from __future__ import annotations

import numpy as np

from tidegauge.linearizability.history import NEVER, Ints


def spread(items: Ints, counts: Ints) -> Ints:
    """Each item as often as it counts."""
    if not len(items) or counts.max() == 1 == counts.min():
        return items
    return np.repeat(items, counts)


def runs(first: Ints, counts: Ints) -> Ints:
    """first, first + 1, … as long as each counts."""
    if not len(first) or counts.max() == 1 == counts.min():
        return first
    before = np.cumsum(counts) - counts
    found: Ints = np.repeat(first - before, counts)
    found += np.arange(len(found))
    return found


def expand(first: Ints, counts: Ints) -> Ints:
    """The same where some count nothing."""
    filled = counts > 0
    return runs(first[filled], counts[filled])


def of_each(values: Ints, group: Ints) -> Ints:
    """The value of each row's partition. Where there is one partition its value stands for all rows."""
    return values if len(values) == 1 else values[group]


def lower(lowest: Ints, group: Ints, values: Ints) -> None:
    """Lower what is kept of each partition to the smallest of its `values`."""
    if len(lowest) == 1:
        lowest[0] = min(lowest[0], values.min(initial=NEVER))
    else:
        np.minimum.at(lowest, group, values)


def lift(highest: Ints, group: Ints, values: Ints) -> None:
    """Lift what is kept of each partition to the greatest of its `values`."""
    if len(highest) == 1:
        highest[0] = max(highest[0], values.max(initial=-NEVER))
    else:
        np.maximum.at(highest, group, values)


def ranks(call: Ints, returned: Ints) -> tuple[Ints, Ints, int]:
    """Times replaced by their ranks, for clocks too long to shift."""
    times, rank = np.unique(np.concatenate((call, returned)), return_inverse=True)
    return rank[: len(call)], rank[len(call) :], len(times) + 2


def value_slots(
    writer: Ints, wrote: Ints, reader: Ints, read: Ints, groups: int | None = None
) -> tuple[Ints, Ints, int]:
    """A slot for each (partition, value) written, the slot of each one read, and n; slot n is that of values unwritten.

    `writer` and `reader` are the partitions of the values `wrote` and `read`, numbers below `groups`.
    """
    if groups is None:
        groups = int(max(writer.max(initial=0), reader.max(initial=0))) + 1
    low = np.full(groups, NEVER, np.int64)
    high = np.full(groups, -NEVER, np.int64)
    lower(low, writer, wrote)
    lift(high, writer, wrote)
    # The difference may need 64 bits, and as floats the values would lose their last ones before it is taken.
    span = np.where(high >= low, (high - low).view(np.uint64).astype(np.float64), -1.0) + 1.0
    # Values that are dense in their partition, as counters are, index the table themselves.
    if span.sum() > 8 * len(wrote) + 1024:
        return _blocked_slots(writer, wrote, reader, read)
    length = span.astype(np.int64)
    size = int(length.sum())
    shift = np.cumsum(length) - length - low
    found = read + of_each(shift, reader)
    outside = (read < of_each(low, reader)) | (read > of_each(high, reader))
    if outside.any():
        found[outside] = size
    return wrote + of_each(shift, writer), found, size


def _blocked_slots(writer: Ints, wrote: Ints, reader: Ints, read: Ints) -> tuple[Ints, Ints, int]:
    """The same for values that are dense in some ranges, such as counters of several clients."""
    length = 1 << _BLOCK_BITS
    blocks = np.unique(wrote >> _BLOCK_BITS)
    if len(blocks) * length > 8 * len(wrote) + 1024:
        return _sorted_slots(writer, wrote, reader, read)
    keys = writer * len(blocks) + np.searchsorted(blocks, wrote >> _BLOCK_BITS)
    used = np.unique(keys)
    if len(used) * length > 8 * len(wrote) + 1024:
        return _sorted_slots(writer, wrote, reader, read)
    at = np.searchsorted(blocks, read >> _BLOCK_BITS)
    known = blocks[np.minimum(at, len(blocks) - 1)] == read >> _BLOCK_BITS
    want = reader * len(blocks) + at
    found = np.searchsorted(used, want)
    known &= used[np.minimum(found, len(used) - 1)] == want
    size, within = len(used) * length, length - 1
    slot = np.searchsorted(used, keys) * length + (wrote & within)
    return slot, np.where(known, found * length + (read & within), size), size


_BLOCK_BITS = 8
"""A range of so many bits of values has slots of its own where any value of it was written."""


def _sorted_slots(writer: Ints, wrote: Ints, reader: Ints, read: Ints) -> tuple[Ints, Ints, int]:
    """The same for values of any kind: by sorting."""
    values = np.unique(wrote)
    at = np.searchsorted(values, read)
    known = (at < len(values)) & (values[np.minimum(at, len(values) - 1)] == read)
    keys, slot = np.unique(writer * len(values) + np.searchsorted(values, wrote), return_inverse=True)
    want = reader * len(values) + at
    found = np.searchsorted(keys, want)
    known &= (found < len(keys)) & (keys[np.minimum(found, len(keys) - 1)] == want)
    return slot, np.where(known, found, len(keys)), len(keys)


def stacked(call: Ints, returned: Ints, group: Ints) -> tuple[Ints, Ints]:
    """The times such that all of a group lie above those of the group before it; a return of NEVER stays so.

    Times that would leave 64 bits are replaced by their ranks.
    """
    if not len(call):
        return call, returned
    never = returned == NEVER
    finite = np.where(never, 0, returned)
    horizon = int(max(call.max(), finite.max())) + 2
    if horizon * (int(group.max()) + 2) >= 1 << 62:
        call, finite, horizon = ranks(call, finite)
    return call + group * horizon, np.where(never, NEVER, finite + group * horizon)
