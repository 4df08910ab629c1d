"""The compiled part of expanding states by many threads, in phases between which all of them wait for each other.

In the first phase each thread takes the steps out of a slice of the states. What such a step leads to and the table
does not have is a *candidate*: it *claims* a slot of the table, which has the first candidate of each state, by the
order of states and their steps. In the second a thread numbers the first ones of a slice. All hold no lock of
Python's, and write to what is of their slice alone, but for the table: a slot is only ever exchanged for what it had
when it was read, by one instruction of the processor.

The order of a search is that of states and their steps: the first candidate of a state is the one by which it is found
where one thread does all of this, and the numbers of new states go by that order too. Who comes before whom among
threads says which candidates there are besides, and no more.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

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
    is_kept,
    orbit_size,
    pack,
    renamed_all,
    undone,
    unpacked,
)
from tidegauge.spec.kernel.fast.trie_tables import EMPTY, INLINED, UNCOUNTED

_HALF: Final = np.uint64(0xFFFFFFFF)
_POINTER: Final[Any] = cgutils.get_item_pointer


@intrinsic
def _exchanged(_, array, place, before, after):
    """As one step, of which no other thread sees half."""

    def compiled(context, builder, signature, given):
        made = context.make_array(signature.args[0])(context, builder, given[0])
        pointer = _POINTER(context, builder, signature.args[0], made, [given[1]])
        found = builder.cmpxchg(pointer, given[2], given[3], "seq_cst", "seq_cst")
        return builder.extract_value(found, 0)

    return types.uint64(array, types.int64, types.uint64, types.uint64), compiled


exchanged: Final[Any] = _exchanged
"""Puts a number into an array at a place, if that has what it is given before that number; gives what it had."""


@compiled_and_kept(nogil=True)
def stepped(
    todo, base, free, met, most, edge, edge_end, known, paths, renamed, rows, places, table, claims, count, chosen,
    of_states, candidates, edge_targets, taken, enabled, with_edges, misses,
):  # fmt: skip
    """Take all steps out of the states `todo`, the first of which is to be at least `base`.

    Candidates are put into the places from `free` on, targets of fair steps into those from `edge` to `edge_end`: the
    number of a state, or -1 - candidate. Where `claims` has slots, those are claimed, and none of `table`. `met` steps
    of the slice have led to what the table did not have before, and there is room for `most` of them: who claims it
    first does not say where that ends. What is taken and enabled is added to by class of action. A state whose steps
    are not all known is left out, and put at the beginning of `todo`; what is not known is noted in `misses`. Gives how
    it ended (NARROW for `chosen`, ROOM for places), how many are left out, the free places, the steps that were met and
    the places of fair steps by now, and how much is noted.
    """
    initials, _, _, _ = renamed
    origin = np.empty(places.shape[1], np.uint32)
    rooms = (
        origin, np.empty_like(origin), np.empty(rows.shape[1], np.uint64), np.zeros_like(initials),
        np.zeros(len(initials), np.uint64), np.zeros(3, np.int64), np.full(len(taken), -1, np.int64),
    )  # fmt: skip
    own_taken, own_enabled = np.zeros_like(taken), np.zeros_like(taken)  # no other thread's are in the same line
    found = _stepped(
        todo, base, free, met, most, edge, edge_end, known, paths, renamed, rows, places, table, claims, count, chosen,
        of_states, candidates, edge_targets, own_taken, own_enabled, with_edges, misses, rooms,
    )  # fmt: skip
    for kind in range(len(taken)):
        taken[kind] += own_taken[kind]
        enabled[kind] += own_enabled[kind]
    return found


@compiled_and_kept(nogil=True, **UNCOUNTED)
def _stepped(
    todo, base, free, met, most, edge, edge_end, known, paths, renamed, rows, places, table, claims, count, chosen,
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
            return NARROW, left, free, met, edge, asked
        if steps < 0:
            todo[left] = state
            left += 1
            continue
        if met + steps > most or edge + steps > edge_end:
            return ROOM, left, free, met, edge, asked
        at[state - base], edge_at[state - base], degrees[state - base] = free, edge, steps
        is_right, free, met, edge = _taken_out(
            state, origin, steps, chosen, base, free, met, edge, kinds, leaf_start, leaf_items, leaf_flags, keys, codes,
            renamed, rows, places, table, claims, count, candidates, edge_targets, taken, enabled, last, with_edges,
            row, kept, images, hashes, missed,
        )  # fmt: skip
        if not is_right:
            return STEP_VIOLATED, left, free, met, edge, asked
        many[state - base], edge_many[state - base] = free - at[state - base], edge - edge_at[state - base]
    return DONE, left, free, met, edge, asked


@compiled_and_kept(**INLINED)
def _taken_out(
    state, origin, steps, chosen, base, free, met, edge, kinds, leaf_start, leaf_items, leaf_flags, keys, codes,
    renamed, rows, places, table, claims, count, candidates, edge_targets, taken, enabled, last, with_edges, row, kept,
    images, hashes, missed,
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
            return False, free, met, edge
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
        number, slots = count, table
        if len(claims):
            number, _ = _numbered(kept, after, images, rows, places, table, count)
            slots = claims
        if number == count:
            number = _claimed(
                free, after, kept, state - base, kind, row, images, rows, places, slots, count, candidates
            )
        met += number < 0
        free += number == -1 - free
        if with_edges and leaf_flags[leaf] & FAIR:
            edge_targets[edge] = number
            edge += 1
        for lane in range(len(kept)):
            kept[lane] = rows[state, lane]
        if len(images):
            undone(row, origin, leaf, leaf_start, leaf_items, targets, starts, image_of, images)
    return True, free, met, edge


@compiled_and_kept(**INLINED)
def _claimed(candidate, hash_, kept, state, kind, row, images, rows, places, table, count, candidates):
    """The number of a state, packed as `kept`, or -1 - candidate of one that is new: this one, where it has claimed the
    slot; another one of the same state, where that comes before it."""
    hashes, packed, states, _, _, slots, firsts = candidates
    half = hash_ & _HALF
    is_put = False
    slot = slot_of(hash_, table)
    entry = table[slot]
    while True:
        is_behind = entry != EMPTY
        if is_behind and entry >> np.uint64(32) == half:
            number = np.int64(entry & _HALF)
            if number < count:
                if _is_one(kept, images, rows[number], places):
                    return number
            else:
                other = number - count
                if hashes[other] == hash_ and _is_one(kept, images, packed[other], places):
                    if states[other] < state or (states[other] == state and other < candidate):
                        return -1 - other
                    is_behind = False
        if is_behind:
            slot = slot + 1 if slot + 1 < len(table) else 0
            entry = table[slot]
            continue
        if not is_put:
            _put(candidate, hash_, kept, state, kind, orbit_size(row, images), candidates)
            is_put = True
        slots[candidate] = slot
        found = exchanged(table, slot, entry, entry_of(hash_, count + candidate))
        if found == entry:
            if entry != EMPTY:
                firsts[np.int64(entry & _HALF) - count] = candidate
            return -1 - candidate
        entry = found


@compiled_and_kept(**INLINED)
def _put(candidate, hash_, kept, state, kind, size, candidates):
    """Keep a candidate, which is the first one of its state as far as is known."""
    hashes, packed, states, kinds, sizes, _, firsts = candidates
    hashes[candidate] = hash_
    for lane in range(len(kept)):
        packed[candidate, lane] = kept[lane]
    states[candidate], kinds[candidate], sizes[candidate] = state, kind, size
    firsts[candidate] = candidate


@compiled_and_kept(**INLINED)
def _is_one(kept, images, other, places):
    """Whether two packed states are the same one, or of the same orbit: `images` are those of the first."""
    is_one = True
    for lane in range(len(kept)):
        is_one = is_one and kept[lane] == other[lane]
    for place in range(len(images)):
        is_one = is_one or is_kept(images[place], other, places)
    return is_one


@compiled_and_kept(nogil=True, **UNCOUNTED)
def given_up(first, free, table, candidates):
    """Have the slots that candidates have claimed empty again."""
    _, _, _, _, _, slots, firsts = candidates
    for candidate in range(first, free):
        if firsts[candidate] == candidate:
            table[slots[candidate]] = EMPTY


@compiled_and_kept(nogil=True, **UNCOUNTED)
def claimed_again(first, free, table, count, candidates):
    """Have slots for the first candidate of each state, none of which the table has."""
    hashes, _, _, _, _, slots, firsts = candidates
    for candidate in range(first, free):
        if firsts[candidate] == candidate:
            slot = slot_of(hashes[candidate], table)
            entry = entry_of(hashes[candidate], count + candidate)
            while exchanged(table, slot, EMPTY, entry) != EMPTY:
                slot = slot + 1 if slot + 1 < len(table) else 0
            slots[candidate] = slot


@compiled_and_kept(nogil=True)
def packed_again(first, free, before, places_before, places, renamed, candidates):
    """Pack candidates as states are packed by now; they were packed in `before`."""
    hashes, packed, _, _, _, _, _ = candidates
    initials, _, _, _ = renamed
    row = np.empty(places_before.shape[1], np.uint32)
    for candidate in range(first, free):
        unpacked(before[candidate], places_before, row)
        pack(row, places, packed[candidate])
        if not len(initials):
            hashes[candidate] = hashed(packed[candidate])


@compiled_and_kept(nogil=True)
def met_again(first, free, renamed, rows, places, table, count, candidates):
    """Of first candidates: have the number of those that the table has by now, as -1 - number."""
    hashes, packed, _, _, _, _, firsts = candidates
    initials, targets, starts, image_of = renamed
    origin = np.empty(places.shape[1], np.uint32)
    row = np.empty_like(origin)
    images = np.zeros_like(initials)
    image_hashes = np.zeros(len(initials), np.uint64)
    for candidate in range(first, free):
        if firsts[candidate] != candidate:
            continue
        if len(images):
            renamed_all(
                packed[candidate], places, origin, row, initials, targets, starts, image_of, images, image_hashes
            )
        number, _ = _numbered(packed[candidate], hashes[candidate], images, rows, places, table, count)
        if number != count:
            firsts[candidate] = -1 - number


@compiled_and_kept(**UNCOUNTED)
def counted(first, free, firsts):
    """How many candidates are the first ones of their states."""
    found = 0
    for candidate in range(first, free):
        found += firsts[candidate] == candidate
    return found


@compiled_and_kept(**UNCOUNTED)
def _first_of(candidate, firsts):
    """The first candidate of the same state, or -1 - number of a state that was known."""
    while candidate >= 0 and firsts[candidate] != candidate:
        candidate = firsts[candidate]
    return candidate


@compiled_and_kept(nogil=True, **UNCOUNTED)
def kept(
    first, end, base, number, of_states, candidates, numbers, rows, parents, table, found, sizes, degrees
):  # fmt: skip
    """Number the new states to which the states from `first` to `end` lead, from `number` on, and keep them."""
    at, many, steps, _, _ = of_states
    hashes, packed, _, kinds, of_sizes, slots, firsts = candidates
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
