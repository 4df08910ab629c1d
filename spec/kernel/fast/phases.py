"""The compiled part of expanding states by many threads, in phases between which all of them wait for each other.

In the first phase each thread takes the steps out of a slice of the states. What such a step leads to and the table
does not have is a *candidate*: it may be new, and the same as another one. In the second a thread has the candidates of
a part of the table's slots, and finds the first one of each state. In the third it numbers the first ones of a slice.
In each phase a thread writes only to what is of its slice or its part, and all hold no lock of Python's.

The order of a search is that of states and their steps: the first candidate of a state is the one by which it is found
where one thread does all of this, and the numbers of new states go by that order too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidegauge.compilation.kept_code import compiled_and_kept
from tidegauge.spec.kernel.fast.kernel import (
    DONE,
    FAIR,
    NARROW,
    NO_ROOM,
    ROOM,
    STEP_VIOLATED,
    VIOLATES,
    _gathered,
    _numbered,
    changed,
    entry_of,
    slot_of,
)
from tidegauge.spec.kernel.fast.packed import (
    changed_orbit,
    hashed,
    is_same,
    orbit_size,
    pack,
    renamed_all,
    undone,
    unpacked,
)
from tidegauge.spec.kernel.fast.trie_tables import EMPTY, INLINED, UNCOUNTED

NOBODY: Final = -1
"""In place of a candidate: there is none."""

_HALF: Final = np.uint64(0xFFFFFFFF)


@compiled_and_kept(nogil=True)
def stepped(
    todo, base, free, free_end, edge, edge_end, known, paths, renamed, rows, places, table, count, chosen, bounds,
    of_states, candidates, edge_targets, taken, enabled, with_edges, misses,
):  # fmt: skip
    """Take all steps out of the states `todo`, the first of which is to be at least `base`.

    Candidates are put into the places from `free` to `free_end`, targets of fair steps into those from `edge` to
    `edge_end`: the number of a state, or -1 - candidate. `bounds` has the first and the last candidate of each part of
    the table. What is taken and enabled is added to by class of action. A state whose steps are not all known is left
    out, and put at the beginning of `todo`; what is not known is noted in `misses`. Gives how it ended (NARROW for
    `chosen`, ROOM for places), how many are left out, the free places by now, and how much is noted.
    """
    initials, _, _, _ = renamed
    origin = np.empty(places.shape[1], np.uint32)
    rooms = (
        origin, np.empty_like(origin), np.empty(rows.shape[1], np.uint64), np.zeros_like(initials),
        np.zeros(len(initials), np.uint64), np.zeros(3, np.int64), np.full(len(taken), -1, np.int64),
    )  # fmt: skip
    own_taken, own_enabled = np.zeros_like(taken), np.zeros_like(taken)  # no other thread's are in the same line
    found = _stepped(
        todo, base, free, free_end, edge, edge_end, known, paths, renamed, rows, places, table, count, chosen, bounds,
        of_states, candidates, edge_targets, own_taken, own_enabled, with_edges, misses, rooms,
    )  # fmt: skip
    for kind in range(len(taken)):
        taken[kind] += own_taken[kind]
        enabled[kind] += own_enabled[kind]
    return found


@compiled_and_kept(nogil=True, **UNCOUNTED)
def _stepped(
    todo, base, free, free_end, edge, edge_end, known, paths, renamed, rows, places, table, count, chosen, bounds,
    of_states, candidates, edge_targets, taken, enabled, with_edges, misses, rooms,
):  # fmt: skip
    """What `stepped` says, in rooms that it has made: this function makes no array, and counts none."""
    bases, roots, nodes, keys, codes, kinds, leaf_start, leaf_items, leaf_flags, question_words, questions = known
    bits, leaves, turns = paths
    at, many, degrees, edge_at, edge_many = of_states
    origin, row, kept, images, hashes, missed, last = rooms
    left = asked = 0
    for place in range(len(todo)):
        state = todo[place]
        steps, asked, _ = _gathered(
            state, rows[state], places, bases, roots, nodes, keys, codes, question_words, questions, bits,
            leaves, turns, 0, leaf_start, leaf_items, chosen, missed, misses, asked,
        )  # fmt: skip
        if steps == NO_ROOM:
            return NARROW, left, free, edge, asked
        if steps < 0:
            todo[left] = state
            left += 1
            continue
        if free + steps > free_end or edge + steps > edge_end:
            return ROOM, left, free, edge, asked
        at[state - base], edge_at[state - base], degrees[state - base] = free, edge, steps
        is_right, free, edge = _taken_out(
            state, origin, steps, chosen, base, free, edge, kinds, leaf_start, leaf_items, leaf_flags, keys, codes,
            renamed, rows, places, table, count, bounds, candidates, edge_targets, taken, enabled, last, with_edges,
            row, kept, images, hashes, missed,
        )  # fmt: skip
        if not is_right:
            return STEP_VIOLATED, left, free, edge, asked
        many[state - base], edge_many[state - base] = free - at[state - base], edge - edge_at[state - base]
    return DONE, left, free, edge, asked


@compiled_and_kept(**INLINED)
def _taken_out(
    state, origin, steps, chosen, base, free, edge, kinds, leaf_start, leaf_items, leaf_flags, keys, codes, renamed,
    rows, places, table, count, bounds, candidates, edge_targets, taken, enabled, last, with_edges, row, kept, images,
    hashes, missed,
):  # fmt: skip
    """Take the steps out of one state: whether none of them violates, and the free places by now."""
    initials, targets, starts, image_of = renamed
    for lane in range(len(kept)):
        kept[lane] = rows[state, lane]
    hash_ = np.uint64(0)
    if len(images):
        hash_ = renamed_all(kept, places, origin, row, initials, targets, starts, image_of, images, hashes)
    for step in range(steps):
        leaf = chosen[step, 1]
        if leaf_flags[leaf] & VIOLATES:
            return False, free, edge
        kind = kinds[chosen[step, 0]]
        taken[kind] += 1
        if last[kind] != state:
            last[kind] = state
            enabled[kind] += 1
        after = changed(kept, places, leaf, leaf_start, leaf_items, keys, codes, missed)
        if len(images):
            after = changed_orbit(
                row, hash_, kept, places, leaf, leaf_start, leaf_items, targets, starts, image_of, images, hashes
            )
        number, _ = _numbered(kept, after, images, rows, places, table, count)
        if number == count:
            _found(free, after, kept, state - base, kind, orbit_size(row, images), bounds, candidates)
            number = -1 - free
            free += 1
        if with_edges and leaf_flags[leaf] & FAIR:
            edge_targets[edge] = number
            edge += 1
        for lane in range(len(kept)):
            kept[lane] = rows[state, lane]
        if len(images):
            undone(row, origin, leaf, leaf_start, leaf_items, targets, starts, image_of, images)
    return True, free, edge


@compiled_and_kept(**INLINED)
def _found(candidate, hash_, kept, state, kind, size, bounds, candidates):
    """Keep a candidate, behind the others of its part of the table."""
    _, packed, states, kinds, sizes, _, firsts = candidates
    for lane in range(len(kept)):
        packed[candidate, lane] = kept[lane]
    states[candidate], kinds[candidate], sizes[candidate] = state, kind, size
    firsts[candidate] = candidate
    _linked(candidate, hash_, bounds, candidates)


@compiled_and_kept(**INLINED)
def _linked(candidate, hash_, bounds, candidates):
    """Put a candidate behind the others of its part of the table."""
    hashes, _, _, _, _, behind, _ = candidates
    hashes[candidate] = hash_
    behind[candidate] = NOBODY
    part = slot_of(hash_, bounds)
    if bounds[part, 0] == NOBODY:
        bounds[part, 0] = candidate
    else:
        behind[bounds[part, 1]] = candidate
    bounds[part, 1] = candidate


@compiled_and_kept(nogil=True)
def packed_again(free, free_end, before, places_before, places, renamed, bounds, candidates):
    """Pack candidates as states are packed by now; they were packed in `before`. `bounds` is of none of them so far."""
    hashes, packed, _, _, _, _, _ = candidates
    initials, _, _, _ = renamed
    row = np.empty(places_before.shape[1], np.uint32)
    for candidate in range(free, free_end):
        unpacked(before[candidate], places_before, row)
        pack(row, places, packed[candidate])
        hash_ = hashes[candidate] if len(initials) else hashed(packed[candidate])
        _linked(candidate, hash_, bounds, candidates)


@compiled_and_kept(nogil=True)
def met_again(free, free_end, renamed, rows, places, table, count, candidates):
    """Of candidates: have the number of those that the table has by now, as -1 - number instead of the first one."""
    hashes, packed, _, _, _, _, firsts = candidates
    initials, targets, starts, image_of = renamed
    origin = np.empty(places.shape[1], np.uint32)
    row = np.empty_like(origin)
    images = np.zeros_like(initials)
    image_hashes = np.zeros(len(initials), np.uint64)
    for candidate in range(free, free_end):
        if len(images):
            renamed_all(
                packed[candidate], places, origin, row, initials, targets, starts, image_of, images, image_hashes
            )
        number, _ = _numbered(packed[candidate], hashes[candidate], images, rows, places, table, count)
        if number != count:
            firsts[candidate] = -1 - number


@compiled_and_kept(nogil=True)
def doubled(part, bounds, end, room, renamed, places, table, count, candidates, slots, news):
    """Find the first candidate of each state of a part of the table, whose slots end at `end`, and have it there.

    `bounds` is that of all slices, each of which has `room` places. `news` counts first ones by slice. Gives the
    last of the candidates for which there is no slot in this part: they are behind each other.
    """
    left = NOBODY
    for slice_ in range(len(bounds)):
        left = _doubled(
            bounds[slice_, part, 0], left, end, room, renamed, places, table, count, candidates, slots, news
        )
    return left


@compiled_and_kept()
def doubled_rest(candidate, room, renamed, places, table, count, candidates, slots, news):
    """The same for candidates for which there was no slot in their part."""
    return _doubled(candidate, NOBODY, len(table) + 1, room, renamed, places, table, count, candidates, slots, news)


@compiled_and_kept()
def _doubled(candidate, left, end, room, renamed, places, table, count, candidates, slots, news):
    _, _, _, _, _, behind, firsts = candidates
    row = np.empty(places.shape[1], np.uint32)
    other = np.empty_like(row)
    image = np.empty_like(row)
    while candidate != NOBODY:
        after = behind[candidate]
        if firsts[candidate] >= 0 and not _is_placed(
            candidate, end, room, renamed, places, table, count, candidates, slots, news, row, other, image
        ):
            behind[candidate] = left
            left = candidate
        candidate = after
    return left


@compiled_and_kept(**INLINED)
def _is_placed(candidate, end, room, renamed, places, table, count, candidates, slots, news, row, other, image):
    """Have a candidate in the table, or know the first one of its state; whether that is done before slot `end`."""
    hashes, packed, states, _, _, _, firsts = candidates
    slot = slot_of(hashes[candidate], table)
    while True:
        entry = table[slot]
        if entry == EMPTY:
            table[slot] = entry_of(hashes[candidate], count + candidate)
            slots[candidate] = slot
            news[candidate // room] += 1
            return True
        first = np.int64(entry & _HALF) - count
        if (
            first >= 0
            and hashes[first] == hashes[candidate]
            and _is_one(packed[first], packed[candidate], renamed, places, row, other, image)
        ):
            if (states[first], first) < (states[candidate], candidate):
                firsts[candidate] = first
            else:
                firsts[first] = candidate
                table[slot] = entry_of(hashes[candidate], count + candidate)
                slots[candidate] = slot
                news[first // room] -= 1
                news[candidate // room] += 1
            return True
        slot += 1
        if slot == end:
            return False
        if slot == len(table):
            slot = 0


@compiled_and_kept(**UNCOUNTED)
def _is_one(kept, other_kept, renamed, places, row, other, image):
    """Whether two packed states are the same one, or of the same orbit."""
    initials, targets, starts, image_of = renamed
    is_one = True
    for lane in range(len(kept)):
        is_one = is_one and kept[lane] == other_kept[lane]
    if is_one or not len(initials):
        return is_one
    unpacked(kept, places, row)
    unpacked(other_kept, places, other)
    for place in range(len(initials)):
        for word in range(len(row)):
            image[word] = initials[place, word]
        for word in range(len(row)):
            target = targets[place, word]
            if target >= 0:
                image[target] = image_of[place, starts[word] + row[word]]
        if is_same(image, other):
            return True
    return False


@compiled_and_kept(**UNCOUNTED)
def _first_of(candidate, firsts):
    """The first candidate of the same state, or -1 - number of a state that was known."""
    while candidate >= 0 and firsts[candidate] != candidate:
        candidate = firsts[candidate]
    return candidate


@compiled_and_kept(nogil=True, **UNCOUNTED)
def kept(
    first, end, base, number, of_states, candidates, slots, numbers, rows, parents, table, found, sizes, degrees
):  # fmt: skip
    """Number the new states to which the states from `first` to `end` lead, from `number` on, and keep them."""
    at, many, steps, _, _ = of_states
    hashes, packed, _, kinds, of_sizes, _, firsts = candidates
    for state in range(first, end):
        degrees[steps[state - base]] += 1
        for candidate in range(at[state - base], at[state - base] + many[state - base]):
            if firsts[candidate] == candidate:
                for lane in range(rows.shape[1]):
                    rows[number, lane] = packed[candidate, lane]
                parents[number] = state
                table[slots[candidate]] = entry_of(hashes[candidate], number)
                numbers[candidate] = number
                found[kinds[candidate]] += 1
                sizes[of_sizes[candidate]] += 1
                number += 1


@compiled_and_kept(nogil=True, **UNCOUNTED)
def joined(first, end, base, place, of_states, firsts, numbers, edge_targets, targets, starts):
    """Put the fair steps out of the states from `first` to `end` into `targets`, from `place` on."""
    _, _, _, edge_at, edge_many = of_states
    for state in range(first, end):
        for edge in range(edge_at[state - base], edge_at[state - base] + edge_many[state - base]):
            target = edge_targets[edge]
            if target < 0:
                candidate = _first_of(-1 - target, firsts)
                target = numbers[candidate] if candidate >= 0 else -1 - candidate
            targets[place] = target
            place += 1
        starts[state + 1] = place
