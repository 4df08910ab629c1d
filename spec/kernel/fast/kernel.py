"""The compiled part of the fast engine: it walks the tries of a whole level, and keeps the states that it finds.

States are kept packed: `places` says where each word of a row lies (`tidegauge.spec.kernel.fast.packing`).

A level is expanded from states that are complete: all that happens in one of them is looked up before any of it is
done, so that a state whose outcome is not yet known leaves nothing behind. All arrays are the caller's; a function that
lacks room says so, and is called again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidegauge.compilation.kept_code import compiled_and_kept
from tidegauge.spec.kernel.fast.packed import (
    changed_orbit,
    hashed,
    hashed_row,
    is_kept,
    orbit,
    orbit_size,
    pack,
    renamed_all,
    undone,
    value_of,
)
from tidegauge.spec.kernel.fast.trie_tables import (
    EMPTY,
    FIRST_LEAF,
    INLINED,
    NOWHERE,
    UNCOUNTED,
    came_to,
    looked_at,
    looked_up,
    noted,
    recent,
    walked,
)

DONE: Final = 0
MISSES: Final = 1
ROOM: Final = 2
STEP_VIOLATED: Final = 3
FULL: Final = 4
LIMIT: Final = 5
NARROW: Final = 6
"""How a function ended: it is done; programs have to run first; there is no room for states or fair steps; a step
violates; the most states are kept; the last new state was reached; `chosen` has no room for the steps of a state."""

FALSE: Final = 0
"""The leaf of an invariant that does not hold, or of a goal that is not reached."""
TRUE: Final = 1
DISABLED: Final = 2
"""The leaf of an action whose guard forbids it."""

INCOMPLETE: Final = -1
NO_ROOM: Final = -2

BASE: Final = 0
FREE: Final = 1
"""What `at` of what is known ahead counts from; the first free place."""

FAIR: Final = 1
VIOLATES: Final = 2
IS_STEP: Final = 4
"""Flags of a leaf: of a fair step; of one that violates; of a step."""

_HALF: Final = np.uint64(0xFFFFFFFF)


@compiled_and_kept(**UNCOUNTED)
def slot_of(hash_, table):
    """Where a state is looked for first: by the lower half of its hash, in the order of which the slots are.

    Half of the slots of a table twice as large are those of its first half, so that parts of it can grow by themselves.
    The upper half would not do: orbits are known by their least hashes, of which most begin with zeros.
    """
    return np.int64(((hash_ & _HALF) * np.uint64(len(table))) >> np.uint64(32))


@compiled_and_kept(**UNCOUNTED)
def entry_of(hash_, number):
    """What the table has of a state: the lower half of its hash, and its number."""
    return (hash_ << np.uint64(32)) | np.uint64(number)


@compiled_and_kept(**INLINED)
def _numbered(kept, hash_, images, rows, places, table, count):
    """The number of a state, packed as `kept`, or of its orbit, and its slot: `count` if it is new.

    An orbit is known by the least hash in it.
    """
    slot = slot_of(hash_, table)
    half = hash_ & _HALF
    while True:
        entry = table[slot]
        if entry == EMPTY:
            return count, slot
        if entry >> np.uint64(32) == half:
            number = np.int64(entry & _HALF)
            is_known = True
            for lane in range(len(kept)):
                is_known = is_known and kept[lane] == rows[number, lane]
            for place in range(len(images)):
                is_known = is_known or is_kept(images[place], rows[number], places)
            if is_known:
                return number, slot
        slot = slot + 1 if slot + 1 < len(table) else 0


@compiled_and_kept()
def added(row, rows, places, table, count, initials, targets, starts, image_of):
    """The number of a state, which is kept if it is new, and the size of its orbit."""
    images = np.zeros_like(initials)
    hashes = np.zeros(len(initials), np.uint64)
    kept = np.zeros(rows.shape[1], np.uint64)
    pack(row, places, kept)
    hash_ = hashed(kept)
    if len(images):
        hash_ = orbit(row, hashed_row(row), initials, targets, starts, image_of, images, hashes)
    number, slot = _numbered(kept, hash_, images, rows, places, table, count)
    if number == count:
        for lane in range(len(kept)):
            rows[count, lane] = kept[lane]
        table[slot] = entry_of(hash_, count)
    return number, orbit_size(row, images)


@compiled_and_kept(**INLINED)
def _gathered(
    state, kept, places, bases, roots, nodes, keys, codes, question_words, questions, bits, leaves, turns,
    used, leaf_start, leaf_items, chosen, missed, misses, asked,
):  # fmt: skip
    """All steps of a state, into `chosen`: how many, or INCOMPLETE, or NO_ROOM; and `asked` and `used` by now."""
    steps = 0
    complete = True
    for base in bases:
        is_of_key = base < 0
        base = -1 - base if is_of_key else base
        code = roots[base]
        is_root = code < 0
        if is_of_key:
            code = looked_at(code, kept, places, nodes, keys, codes, missed)
        elif code >= 0:
            code = looked_up(
                base, kept, places, roots, nodes, keys, codes, question_words, questions, bits, leaves, turns, missed
            )
        if code > FIRST_LEAF:
            complete = False
            if len(misses) == 0:  # who looks ahead notes nothing
                return INCOMPLETE, asked, used
            if code == NOWHERE:
                asked, used = noted(base, state, is_root, roots, keys, codes, questions, missed, misses, asked, used)
                if asked == len(misses):
                    return INCOMPLETE, asked, used
            continue
        leaf = FIRST_LEAF - code
        for item in range(leaf_start[leaf], leaf_start[leaf + 1]):
            program = leaf_items[item]
            code = roots[program]
            is_root = code < 0
            if code >= 0:
                code = looked_up(
                    program, kept, places, roots, nodes, keys, codes, question_words, questions, bits, leaves, turns,
                    missed,
                )  # fmt: skip
            if code > FIRST_LEAF:
                complete = False
                if len(misses) == 0:
                    return INCOMPLETE, asked, used
                if code == NOWHERE:
                    asked, used = noted(
                        program, state, is_root, roots, keys, codes, questions, missed, misses, asked, used
                    )
                    if asked == len(misses):
                        return INCOMPLETE, asked, used
            elif FIRST_LEAF - code != DISABLED:
                if steps == len(chosen):
                    return NO_ROOM, asked, used
                leaf = FIRST_LEAF - code
                chosen[steps, 0], chosen[steps, 1] = program, leaf
                steps += 1
                for change in range(leaf_start[leaf] + 1, leaf_start[leaf + 1], 2):
                    origin = leaf_items[change]
                    if origin < 0:
                        code = came_to(origin, value_of((-1 - origin) >> 32, kept, places), keys, codes, missed)
                        complete = complete and code >= 0
                        if code == NOWHERE and len(misses) == 0:
                            return INCOMPLETE, asked, used
                        if code == NOWHERE:
                            asked, used = noted(
                                origin, state, False, roots, keys, codes, questions, missed, misses, asked, used
                            )
                            if asked == len(misses):
                                return INCOMPLETE, asked, used
    return steps if complete else INCOMPLETE, asked, used


@compiled_and_kept(**INLINED)
def changed(kept, places, leaf, leaf_start, leaf_items, keys, codes, missed):
    """Change the words of a packed state as a leaf says; its hash.

    A negative value comes from that of a word, be it another one (`tidegauge.spec.kernel.fast.origins`).
    """
    for item in range(leaf_start[leaf], leaf_start[leaf + 1], 2):
        word = leaf_items[item]
        value = leaf_items[item + 1]
        if value < 0:
            value = came_to(value, value_of((-1 - value) >> 32, kept, places), keys, codes, missed)
        kept[places[0, word]] &= ~(places[2, word] << places[1, word])
        kept[places[0, word]] |= np.uint64(value) << places[1, word]
    return hashed(kept)


@compiled_and_kept(**UNCOUNTED)
def _recalled(state, ahead, chosen):
    """The steps of a state that are known ahead, into `chosen`: how many, or INCOMPLETE; the place of the first."""
    at, counts, known, info = ahead
    place = state - info[BASE]
    first = at[place]
    if first < 0:
        return INCOMPLETE, first
    for step in range(counts[place]):
        chosen[step, 0] = known[first + step, 0]
        chosen[step, 1] = known[first + step, 1]
    return counts[place], first


@compiled_and_kept(**UNCOUNTED)
def _remembered(state, steps, chosen, ahead):
    """Keep the steps of a state for when it is expanded, if there is room for them."""
    at, counts, known, info = ahead
    first = info[FREE]
    if first + steps <= len(known):
        for step in range(steps):
            known[first + step, 0] = chosen[step, 0]
            known[first + step, 1] = chosen[step, 1]
        at[state - info[BASE]] = first
        counts[state - info[BASE]] = steps
        info[FREE] = first + steps


@compiled_and_kept(**INLINED)
def _taken(
    state, origin, row, skip, steps, chosen, kinds, leaf_start, leaf_items, leaf_flags, rows, places, parents, table,
    taken, enabled, found, last, count, capacity, last_new, edge_targets, edges, with_edges, is_told,
    initials, targets, starts, image_of, images, hashes, sizes, keys, codes, missed, kept,
):  # fmt: skip
    """Take the steps of a state from `skip` on: how it ended, at which step, and the states and edges by now."""
    for lane in range(len(kept)):
        kept[lane] = rows[state, lane]
    hash_ = np.uint64(0)
    if len(images):
        hash_ = renamed_all(kept, places, origin, row, initials, targets, starts, image_of, images, hashes)
    for step in range(skip):
        last[kinds[chosen[step, 0]]] = state
    for step in range(skip, steps):
        leaf = chosen[step, 1]
        if leaf_flags[leaf] & VIOLATES and not (is_told and step == skip):
            return STEP_VIOLATED, step, count, edges
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
        number, slot = _numbered(kept, after, images, rows, places, table, count)
        if with_edges and leaf_flags[leaf] & FAIR:
            edge_targets[edges] = number
            edges += 1
        if number == count:
            found[kind] += 1
            sizes[orbit_size(row, images)] += 1
            if count == capacity:
                return FULL, step, count, edges
            if table[slot] == EMPTY:
                for lane in range(len(kept)):
                    rows[count, lane] = kept[lane]
                parents[count] = state
                table[slot] = entry_of(after, count)
            count += 1
            if number == last_new:
                return LIMIT, step, count, edges
        for lane in range(len(kept)):
            kept[lane] = rows[state, lane]
        if len(images):
            undone(row, origin, leaf, leaf_start, leaf_items, targets, starts, image_of, images)
    return DONE, steps, count, edges


@compiled_and_kept()
def expanded(
    start, skip, end, count, capacity, last_new,
    bases, roots, kinds, nodes, keys, codes, used,
    leaf_start, leaf_items, leaf_flags,
    rows, places, parents, table,
    taken, enabled, found, degrees,
    edge_targets, edge_starts, edges, with_edges,
    chosen, misses, is_told,
    sizes, question_words, questions, bits, leaves, turns, absent, initials, targets, starts, image_of, ahead,
):  # fmt: skip
    """Take every step out of the states from `start` to `end`; of the first one, the steps from `skip` on.

    `capacity` states are kept at most, and the search ends behind the new state `last_new`. `is_told`: whether the step
    at `skip` is known to violate. Behind a state whose steps are not all known, states are looked at only for what else
    has to run; steps that are known are kept in `ahead` (`tidegauge.spec.kernel.fast.ahead`), and not looked up again.
    Gives how it ended, at which state and step, the number of states, of programs that have to run, of used slots, and
    of fair steps. `degrees` counts states by the number of their steps, `sizes` new orbits by the number of their
    states. The renamings are those of `tidegauge.spec.kernel.fast.renaming`; where there are none each state is its own
    orbit. The table has all states but `absent` ones, to which no step leads here.
    """
    origin = np.empty(places.shape[1], np.uint32)
    rooms = (
        origin, np.empty_like(origin), np.empty(rows.shape[1], np.uint64), np.zeros_like(initials),
        np.zeros(len(initials), np.uint64), np.zeros(3, np.int64), np.full(len(taken), -1, np.int64),
    )  # fmt: skip
    return _expanded(
        start, skip, end, count, capacity, last_new,
        bases, roots, kinds, nodes, keys, codes, used,
        leaf_start, leaf_items, leaf_flags,
        rows, places, parents, table,
        taken, enabled, found, degrees,
        edge_targets, edge_starts, edges, with_edges,
        chosen, misses, is_told,
        sizes, question_words, questions, bits, leaves, turns, absent, initials, targets, starts, image_of, ahead,
        rooms,
    )  # fmt: skip


@compiled_and_kept(**UNCOUNTED)
def _expanded(
    start, skip, end, count, capacity, last_new,
    bases, roots, kinds, nodes, keys, codes, used,
    leaf_start, leaf_items, leaf_flags,
    rows, places, parents, table,
    taken, enabled, found, degrees,
    edge_targets, edge_starts, edges, with_edges,
    chosen, misses, is_told,
    sizes, question_words, questions, bits, leaves, turns, absent, initials, targets, starts, image_of, ahead,
    rooms,
):  # fmt: skip
    """What `expanded` says, in rooms that it has made: this function makes no array, and counts none."""
    origin, row, packed, images, hashes, missed, last = rooms
    asked, missing, how, state = 0, -1, DONE, start
    while state < end and how == DONE and asked < len(misses):
        steps, first = _recalled(state, ahead, chosen)
        if first < 0:
            steps, asked, used = _gathered(
                state, rows[state], places, bases, roots, nodes, keys, codes, question_words, questions,
                bits, leaves, turns, used, leaf_start, leaf_items, chosen, missed, misses, asked,
            )  # fmt: skip
        if steps == NO_ROOM:
            if missing < 0:
                how = NARROW
            break
        if steps == INCOMPLETE:
            if missing < 0:
                missing = state
        elif missing >= 0:
            if first < 0:
                _remembered(state, steps, chosen, ahead)
        else:
            room = min(len(rows), absent + len(table) // 4 * 3)
            if count + steps > room or (with_edges and edges + steps > len(edge_targets)):
                how = ROOM
                break
            how, step, count, edges = _taken(
                state, origin, row, skip, steps, chosen, kinds, leaf_start, leaf_items, leaf_flags, rows, places,
                parents, table, taken, enabled, found, last, count, capacity, last_new, edge_targets, edges, with_edges,
                is_told, initials, targets, starts, image_of, images, hashes, sizes, keys, codes, missed, packed,
            )  # fmt: skip
            if how != DONE:
                skip = step
                break
            skip = 0
            is_told = False
            degrees[steps] += 1
            if with_edges:
                edge_starts[state + 1] = edges
        state += 1
    if missing >= 0:
        how, state = MISSES, missing
    return how, state, skip, count, asked, used, edges


@compiled_and_kept()
def judged(start, place, end, programs, roots, nodes, keys, codes, used, rows, places, wanted, verdicts, behind,
    misses, question_words, questions, bits, leaves, turns, base, clear,
):  # fmt: skip
    """Run each program, an invariant or a goal, on the states from `start` to `end`, up to one that says so.

    On the first state programs run from `place` on. `wanted[p]` is the leaf upon which program p ends it;
    `verdicts[p]` counts the others of its kind where `wanted` is negative: -1 - leaf. Then the state is held against
    program `behind[p]` next: those before say the same of other processes. From the state `base` on, `clear` says in
    which ones no program does either; behind a state in which a program has to run, those are noted in it. Gives how it
    ended, at which state and program, the number of programs that have to run, and of used slots.
    """
    return _judged(
        start, place, end, programs, roots, nodes, keys, codes, used, rows, places, wanted, verdicts, behind,
        misses, question_words, questions, bits, leaves, turns, base, clear, np.zeros(3, np.int64),
    )  # fmt: skip


@compiled_and_kept(**UNCOUNTED)
def _judged(
    start, place, end, programs, roots, nodes, keys, codes, used, rows, places, wanted, verdicts, behind, misses,
    question_words, questions, bits, leaves, turns, base, clear, missed,
):  # fmt: skip
    """What `judged` says; this function makes no array, and counts none."""
    asked = 0
    missing = -1
    missing_place = 0
    for state in range(start, end):
        if state - base < len(clear) and clear[state - base]:
            continue
        kept = rows[state]
        is_clear = missing >= 0
        at = (place if state == start else 0) - 1
        while at + 1 < len(programs):
            at += 1
            program = programs[at]
            code = roots[program]
            is_root = code < 0
            if code >= 0:
                found = recent(program, kept, bits, leaves)
                code = FIRST_LEAF - found
                if found < 0:
                    code = walked(
                        program, kept, places, roots, nodes, keys, codes, question_words, questions, bits,
                        leaves, turns, missed,
                    )  # fmt: skip
            if code > FIRST_LEAF:
                is_clear = False
                if missing < 0:
                    missing, missing_place = state, at
                if code == NOWHERE:
                    asked, used = noted(
                        program, state, is_root, roots, keys, codes, questions, missed, misses, asked, used
                    )
                    if asked == len(misses):
                        return MISSES, missing, missing_place, asked, used
            elif missing >= 0:
                leaf = FIRST_LEAF - code
                is_clear = is_clear and wanted[at] != leaf and wanted[at] != -1 - leaf
            else:
                leaf = FIRST_LEAF - code
                if wanted[at] == leaf:
                    return DONE, state, at, asked, used
                if wanted[at] == -1 - leaf:
                    verdicts[at] += 1
                    at = behind[at] - 1
        if is_clear and state - base < len(clear):
            clear[state - base] = True
    if missing >= 0:
        return MISSES, missing, missing_place, asked, used
    return DONE, end, 0, asked, used
