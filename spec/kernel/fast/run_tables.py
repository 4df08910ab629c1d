"""The compiled part of what is known of states by files alone: looking for them, and the table of the others.

A *run* has the hashes of states in order, and by each the number of its state. Its index says for each beginning of a
hash, that is its highest bits, at which place such hashes begin.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidegauge.compilation.kept_code import compiled_and_kept
from tidegauge.spec.kernel.fast.kernel import (
    DONE,
    MISSES,
    NARROW,
    NO_ROOM,
    ROOM,
    _gathered,
    _numbered,
    changed,
    entry_of,
    slot_of,
)
from tidegauge.spec.kernel.fast.packed import changed_orbit, hashed, hashed_row, orbit, renamed_all, undone, unpacked
from tidegauge.spec.kernel.fast.trie_tables import EMPTY

FILTERED: Final = 5
"""Hashes, on the average, that share a word of a filter: one in a hundred of those that are in no run passes it."""


@compiled_and_kept(nogil=True)
def hashes_of(numbers, rows, places, initials, targets, starts, image_of, found):
    """The hashes of the states of these numbers, each the least of its orbit, into `found`."""
    row = np.zeros(places.shape[1], np.uint32)
    images = np.zeros_like(initials)
    hashes = np.zeros(len(initials), np.uint64)
    for place in range(len(numbers)):
        kept = rows[numbers[place]]
        found[place] = hashed(kept)
        if len(images):
            unpacked(kept, places, row)
            found[place] = orbit(row, hashed_row(row), initials, targets, starts, image_of, images, hashes)


@compiled_and_kept()
def put_states(table, hashes, numbers):
    """Put states into a table in which they are not."""
    for place in range(len(hashes)):
        slot = slot_of(hashes[place], table)
        while table[slot] != EMPTY:
            slot = slot + 1 if slot + 1 < len(table) else 0
        table[slot] = entry_of(hashes[place], numbers[place])


@compiled_and_kept(nogil=True)
def emptied(table, first, end):
    """Have nothing in these slots."""
    for slot in range(first, end):
        table[slot] = EMPTY


@compiled_and_kept(nogil=True)
def moved(table, first, end, larger, larger_first, larger_end):
    """Move what is in some slots of a table into a larger one, as far as its place is in those slots of that.

    What is left stays where it was; what is moved leaves its slot empty.
    """
    for slot in range(first, end):
        entry = table[slot]
        if entry != EMPTY:
            place = slot_of(entry >> np.uint64(32), larger)
            if place >= larger_first:
                while place < larger_end and larger[place] != EMPTY:
                    place += 1
                if place < larger_end:
                    larger[place] = entry
                    table[slot] = EMPTY


@compiled_and_kept()
def moved_rest(table, larger):
    """Move all that is left."""
    for slot in range(len(table)):
        entry = table[slot]
        if entry != EMPTY:
            place = slot_of(entry >> np.uint64(32), larger)
            while larger[place] != EMPTY:
                place = place + 1 if place + 1 < len(larger) else 0
            larger[place] = entry


@compiled_and_kept()
def unseen(
    start, end, bases, roots, nodes, keys, codes, used, leaf_start, leaf_items, rows, places, table, count,
    chosen, misses, question_words, questions, bits, leaves, turns, found, met, initials, targets, starts, image_of,
):  # fmt: skip
    """The hashes of what steps out of the states from `start` to `end` lead to that the table does not have.

    They are put into `found`, of which `met` are there already. Gives how it ended, at which state, the hashes by now,
    the number of programs that have to run, and of used slots.
    """
    origin = np.empty(places.shape[1], np.uint32)
    row = np.empty_like(origin)
    kept = np.empty(rows.shape[1], np.uint64)
    images = np.zeros_like(initials)
    hashes = np.zeros(len(initials), np.uint64)
    missed = np.zeros(3, np.int64)
    asked = 0
    missing = -1
    for state in range(start, end):
        steps, asked, used = _gathered(
            state, rows[state], places, bases, roots, nodes, keys, codes, question_words, questions, bits,
            leaves, turns, used, leaf_start, leaf_items, chosen, missed, misses, asked,
        )  # fmt: skip
        if steps < 0:
            if missing < 0:
                if steps == NO_ROOM:
                    return NARROW, state, met, asked, used
                missing = state
            if asked == len(misses):
                break
            continue
        if missing >= 0:
            continue
        if met + steps > len(found):
            return ROOM, state, met, asked, used
        for lane in range(len(kept)):
            kept[lane] = rows[state, lane]
        hash_ = np.uint64(0)
        if len(images):
            hash_ = renamed_all(kept, places, origin, row, initials, targets, starts, image_of, images, hashes)
        for step in range(steps):
            leaf = chosen[step, 1]
            after = changed(kept, places, leaf, leaf_start, leaf_items, keys, codes, missed)
            if len(images):
                after = changed_orbit(
                    row, hash_, kept, places, leaf, leaf_start, leaf_items, targets, starts, image_of, images, hashes
                )
            number, _ = _numbered(kept, after, images, rows, places, table, count)
            if number >= count:
                found[met] = after
                met += 1
            for lane in range(len(kept)):
                kept[lane] = rows[state, lane]
            if len(images):
                undone(row, origin, leaf, leaf_start, leaf_items, targets, starts, image_of, images)
    if missing >= 0:
        return MISSES, missing, met, asked, used
    return DONE, end, met, asked, used


@compiled_and_kept()
def indexed(hashes, shift, index):
    """Where the hashes begin that have each beginning."""
    place = 0
    for beginning in range(len(index) - 1):
        while place < len(hashes) and np.int64(hashes[place] >> shift) < beginning:
            place += 1
        index[beginning] = place
    index[len(index) - 1] = len(hashes)


@compiled_and_kept()
def _word_and_bits(hash_, beginning, low, high):
    """The word of a run's filter that a hash has, and its four bits there.

    Hashes of one beginning, those between `low` and `high`, have words beside each other, so many as they need: the
    least hashes of orbits are not spread evenly.
    """
    words = np.uint64((high - low) // FILTERED + 1)
    word = (
        low // FILTERED + beginning + np.int64(((hash_ >> np.uint64(24)) & np.uint64(0xFFFF)) * words >> np.uint64(16))
    )
    bits = np.uint64(0)
    for shift in range(0, 24, 6):
        bits |= np.uint64(1) << ((hash_ >> np.uint64(shift)) & np.uint64(63))
    return word, bits


@compiled_and_kept()
def let_pass(hashes, index, passing):
    """Have a filter let these hashes pass, which are those of a run."""
    for beginning in range(len(index) - 1):
        low, high = index[beginning], index[beginning + 1]
        for place in range(low, high):
            word, bits = _word_and_bits(hashes[place], beginning, low, high)
            passing[word] |= bits


@compiled_and_kept()
def sought(wanted, hashes, numbers, index, shift, passing, found, found_numbers, count):
    """The states of a run that have one of the wanted hashes, behind the `count` that were found: how many by now."""
    for place in range(len(wanted)):
        hash_ = wanted[place]
        beginning = np.int64(hash_ >> shift)
        low, high = index[beginning], index[beginning + 1]
        word, bits = _word_and_bits(hash_, beginning, low, high)
        if passing[word] & bits != bits:
            continue
        while low < high:
            middle = (low + high) // 2
            if hashes[middle] < hash_:
                low = middle + 1
            else:
                high = middle
        while low < len(hashes) and hashes[low] == hash_:
            if count < len(found):
                found[count] = hash_
                found_numbers[count] = numbers[low]
            count += 1
            low += 1
    return count


@compiled_and_kept()
def merged(hashes, numbers, other_hashes, other_numbers, larger_hashes, larger_numbers):
    """Merge two runs into one."""
    place = other = 0
    for at in range(len(larger_hashes)):
        is_first = other == len(other_hashes) or (place < len(hashes) and hashes[place] <= other_hashes[other])
        if is_first:
            larger_hashes[at] = hashes[place]
            larger_numbers[at] = numbers[place]
            place += 1
        else:
            larger_hashes[at] = other_hashes[other]
            larger_numbers[at] = other_numbers[other]
            other += 1
