"""The compiled part of looking ahead: steps of states, and verdicts on them, before anybody asks.

It writes to what is its caller's alone, and may run in many threads at a time: none of them holds Python's lock.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tidegauge.spec.kernel.fast.kernel import (
    BASE,
    NEW,
    _changed,
    _changed_orbit,
    _gathered,
    _numbered,
    _orbit,
    _undone,
    hashed,
    unpacked,
)
from tidegauge.spec.kernel.fast.trie_tables import FIRST_LEAF, recent, walked


@njit(cache=True, nogil=True)
def looked_up(
    start, end, free, room, bases, roots, node_word, keys, codes, leaf_start, leaf_items, rows, places, table, count,
    width, question_words, questions, bits, leaves, turns, initials, targets, starts, image_of, ahead,
):  # fmt: skip
    """The steps of the states from `start` to `end`, into the places from `free` to `room` of what is known ahead.

    A state of which something is not known is left out, and so are all behind the last place. `width` is the most
    steps of a state, `count` the number of the next new state.
    """
    at, counts, known, known_hashes, known_rows, info = ahead
    chosen = np.empty((width, 2), np.int64)
    origin = np.empty(places.shape[1], np.uint32)
    row = np.empty_like(origin)
    kept = np.empty(rows.shape[1], np.uint64)
    images = np.zeros_like(initials)
    hashes = np.zeros(len(initials), np.uint64)
    missed = np.zeros(2, np.int64)
    none = np.empty((0, 2), np.int64)
    for state in range(start, end):
        unpacked(rows[state], places, origin)
        steps, _, _ = _gathered(
            state, rows[state], origin, places, bases, roots, node_word, keys, codes, question_words, questions, bits,
            leaves, turns, 0, leaf_start, leaf_items, chosen, missed, none, 0,
        )  # fmt: skip
        if steps < 0:
            continue
        if free + steps > room:
            break
        hash_ = hashed(origin)
        _orbit(origin, hash_, initials, targets, starts, image_of, images, hashes)
        for word in range(len(row)):
            row[word] = origin[word]
        for step in range(steps):
            leaf = chosen[step, 1]
            for lane in range(len(kept)):
                kept[lane] = rows[state, lane]
            after = _changed(row, kept, places, hash_, leaf, leaf_start, leaf_items, keys, codes, missed)
            if len(images):
                after = _changed_orbit(
                    row, after, leaf, leaf_start, leaf_items, targets, starts, image_of, images, hashes
                )
            number, _ = _numbered(kept, after, images, rows, places, table, count)
            _undone(row, origin, leaf, leaf_start, leaf_items, targets, starts, image_of, images)
            known[free + step, 0] = chosen[step, 0]
            known[free + step, 1] = leaf
            known[free + step, 2] = number
            if number == count:
                known[free + step, 2] = NEW
                known_hashes[free + step] = after
                for lane in range(len(kept)):
                    known_rows[free + step, lane] = kept[lane]
        at[state - info[BASE]] = free
        counts[state - info[BASE]] = steps
        free += steps


@njit(cache=True, nogil=True)
def cleared(
    start, end, base, programs, wanted, roots, node_word, keys, codes, rows, places, question_words, questions, bits,
    leaves, turns, clear,
):  # fmt: skip
    """Which of the states from `start` to `end` need not be judged: no program comes to what is wanted or counted.

    `clear` has it from then on, and begins with the state `base`. A state of which something is not known has
    to be judged.
    """
    missed = np.zeros(2, np.int64)
    for state in range(start, end):
        kept = rows[state]
        is_clear = True
        for place in range(len(programs)):
            program = programs[place]
            code = roots[program]
            if code >= 0:
                found = recent(program, kept, bits, leaves)
                code = FIRST_LEAF - found
                if found < 0:
                    code = walked(
                        program, kept, places, roots, node_word, keys, codes, question_words, questions, bits,
                        leaves, turns, missed,
                    )  # fmt: skip
            leaf = FIRST_LEAF - code
            if code > FIRST_LEAF or wanted[place] == leaf or wanted[place] == -1 - leaf:
                is_clear = False
                break
        clear[state - base] = is_clear
