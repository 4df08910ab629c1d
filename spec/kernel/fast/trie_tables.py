"""The compiled part of what is known of programs: walking through their tries, and adding paths to them.

A *trie* node asks for one word of the state; the word's value leads on to the next node, or to a leaf. A *code* is what
a step leads to: a node from 0 on; NOWHERE where nothing has been learned; ASKED where it is being learned; and from
FIRST_LEAF down the leaves.

A node is the place in `nodes` at which its numbers begin: its word, or -1 - question; the first value that was learned,
and its code; where the codes of all values below a number begin, and that number. Most nodes know one value, or a few
small ones, and what is beside the node is found sooner than in a table. What has no place there is in one hash table
for all nodes, under (node, value): large values, what is being learned, and what changes make of values.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tidegauge.compilation.kept_code import compiled_and_kept

NOWHERE: Final = -1
ASKED: Final = -2
FIRST_LEAF: Final = -3

EMPTY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)

FIRST_VALUE: Final = 1
FIRST_CODE: Final = 2
SMALL: Final = 3
BELOW: Final = 4
NODE: Final = 5
"""What a node has behind its word, and how many numbers it takes."""
NO_VALUE: Final = -1
_NODE: Final = 0xFFFFFFFF
"""The bits of a change that say its node."""
MOST_BELOW: Final = 32
"""Values from it on are kept in the table."""

UNCOUNTED: Final[Any] = {"_nrt": False}
"""Options of compiled functions that make no array: they do not count who refers to the arrays that they are given,
which otherwise takes as long as all that is done with these."""

INLINED: Final[Any] = {**UNCOUNTED, "forceinline": True}
"""Options of those of them that run for every state: to hand over so many arrays takes as long as much of the work."""

NOT_ASKED: Final = 0xFFFF
BEING_ASKED: Final = 0xFFFE
"""In place of the number of a finding: the question has not been asked of this value yet, or it is about to be."""
QUESTION: Final = 1 << 40
"""In place of a program that has to run: from it on a question is to be asked."""
UNMARKED: Final = 2
"""The column of what has to run that says of what: where it is there, tries are not marked."""

WAYS: Final = 4
"""Paths of each program that are kept (`tidegauge.spec.kernel.fast.recents`)."""


@compiled_and_kept(**UNCOUNTED)
def mixed(key):
    key ^= key >> np.uint64(31)
    key *= np.uint64(0x9E3779B97F4A7C15)
    key ^= key >> np.uint64(29)
    key *= np.uint64(0xBF58476D1CE4E5B9)
    return key ^ (key >> np.uint64(32))


@compiled_and_kept(**UNCOUNTED)
def recent(program, kept, bits, leaves):
    """The leaf to which a state leads by a path that was walked of late; -1 for none.

    Almost all is looked up here, and a function with many arrays takes longer to be called than this takes.
    """
    lanes = len(kept)
    for way in range(program * WAYS, program * WAYS + WAYS):
        leaf = leaves[way]
        at = way * 2 * lanes
        for lane in range(lanes):
            if kept[lane] & bits[at + lane] != bits[at + lanes + lane]:
                leaf = -1
        if leaf >= 0:
            return leaf
    return -1


@compiled_and_kept(**INLINED)
def _beside(node, value, nodes):
    """What a value leads to that is kept beside the node; NOWHERE for any other."""
    if value == nodes[node + FIRST_VALUE]:
        return np.int64(nodes[node + FIRST_CODE])
    if value < nodes[node + BELOW]:
        return np.int64(nodes[nodes[node + SMALL] + value])
    return NOWHERE


@compiled_and_kept(**UNCOUNTED)
def in_table(node, value, keys, codes, missed):
    """What a value leads to by the table; NOWHERE, with its slot and its key in `missed`, if it is not there."""
    mask = np.uint64(len(keys) - 1)
    key = (np.uint64(node) << np.uint64(32)) | np.uint64(value)
    slot = mixed(key) & mask
    while keys[slot] != key:
        if keys[slot] == EMPTY:
            missed[0] = slot
            missed[1] = np.int64(key)
            missed[2] = -1
            return NOWHERE
        slot = (slot + np.uint64(1)) & mask
    return codes[slot]


@compiled_and_kept(**UNCOUNTED)
def walked(program, kept, places, roots, nodes, keys, codes, question_words, questions, bits, leaves, turns, missed):
    """The leaf to which a state leads; where nothing is known, `missed` has what `noted` marks.

    That is a slot and its key, or the number of a value and behind it the question that has not been asked of that. The
    path is kept, instead of the program's oldest one.
    """
    lanes = len(kept)
    way = program * WAYS + turns[program]
    at = way * 2 * lanes
    leaves[way] = -1
    for lane in range(lanes):
        bits[at + lane] = 0
    code = roots[program]
    while code >= 0:
        node = code
        word = np.int64(nodes[node])
        question = -1 - word
        if question >= 0:
            word = question_words[question]
        value = (kept[places[0, word]] >> places[1, word]) & places[2, word]
        if question >= 0:
            number = value
            value = np.uint64(questions[question, number])
        bits[at + np.int64(places[0, word])] |= places[2, word] << places[1, word]
        if question >= 0 and np.int64(value) >= BEING_ASKED:
            missed[0], missed[2] = np.int64(number), question
            return NOWHERE if np.int64(value) == NOT_ASKED else ASKED
        code = _beside(node, np.int64(value), nodes)
        if code == NOWHERE:
            code = in_table(node, value, keys, codes, missed)
    if code <= FIRST_LEAF:
        for lane in range(lanes):
            bits[at + lanes + lane] = kept[lane] & bits[at + lane]
        leaves[way] = FIRST_LEAF - code
        turns[program] = (turns[program] + 1) % WAYS
    return code


@compiled_and_kept(**INLINED)
def looked_up(
    program, kept, places, roots, nodes, keys, codes, question_words, questions, bits, leaves, turns, missed
):  # fmt: skip
    """What a program comes to that begins with a node: by a path that was walked of late, or by walking."""
    leaf = recent(program, kept, bits, leaves)
    if leaf >= 0:
        return FIRST_LEAF - leaf
    return walked(
        program, kept, places, roots, nodes, keys, codes, question_words, questions, bits, leaves, turns, missed
    )


@compiled_and_kept(**INLINED)
def looked_at(node, kept, places, nodes, keys, codes, missed):
    """What a program comes to that reads one word of rows, from its node."""
    word = np.int64(nodes[node])
    value = (kept[places[0, word]] >> places[1, word]) & places[2, word]
    code = _beside(node, np.int64(value), nodes)
    if code == NOWHERE:
        code = in_table(node, value, keys, codes, missed)
    return code


@compiled_and_kept(**UNCOUNTED)
def came_to(change, value, keys, codes, missed):
    """The number of what a change makes of a value, or a copy of it has: NOWHERE or ASKED if that is not known."""
    return in_table((-1 - change) & _NODE, value, keys, codes, missed)


@compiled_and_kept(**UNCOUNTED)
def put(node, value, code, keys, codes):
    """Keep what a node leads to; how many slots that takes."""
    mask = np.uint64(len(keys) - 1)
    key = (np.uint64(node) << np.uint64(32)) | np.uint64(value)
    slot = mixed(key) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + np.uint64(1)) & mask
    new = keys[slot] == EMPTY
    keys[slot] = key
    codes[slot] = code
    return new


@compiled_and_kept(**UNCOUNTED)
def made_node(word, nodes, filled):
    """Have a node at the end of `nodes`, which knows no value."""
    nodes[filled] = word
    nodes[filled + FIRST_VALUE] = NO_VALUE
    nodes[filled + FIRST_CODE] = NOWHERE
    nodes[filled + SMALL] = filled
    nodes[filled + BELOW] = 0
    return filled + NODE


@compiled_and_kept(**UNCOUNTED)
def _put_beside(node, value, code, nodes, filled, keys, codes, used):
    """Keep what a node of a trie leads to: how much of `nodes` is filled then, and how many slots are used."""
    if nodes[node + FIRST_VALUE] == NO_VALUE or nodes[node + FIRST_VALUE] == value:
        nodes[node + FIRST_VALUE] = value
        nodes[node + FIRST_CODE] = code
    elif value >= MOST_BELOW:
        used += put(node, value, code, keys, codes)
    else:
        if value >= nodes[node + BELOW]:
            below = 4
            while below <= value:
                below *= 2
            for small in range(below):
                is_known = small < nodes[node + BELOW]
                nodes[filled + small] = nodes[nodes[node + SMALL] + small] if is_known else NOWHERE
            nodes[node + SMALL] = filled
            nodes[node + BELOW] = below
            filled += below
        nodes[nodes[node + SMALL] + value] = code
    return filled, used


@compiled_and_kept()
def learned_all(
    row_words, programs, ends, words, values, leaves, tail_roots, roots, nodes, filled, keys, codes, used
):  # fmt: skip
    """Add paths, which lie behind each other, to the tries of their programs: (the place of one that read other words
    than its program did before, or -1; filled, used). Words from `row_words` on are questions, negative programs and
    leaves tails: -1 - tail."""
    missed = np.zeros(3, np.int64)
    start = 0
    for path in range(len(programs)):
        program = programs[path]
        end = ends[path]
        code = FIRST_LEAF - leaves[path] if leaves[path] >= 0 else tail_roots[-1 - leaves[path]]
        root, more, used = learned(
            row_words, roots[program] if program >= 0 else tail_roots[-1 - program], words[start:end],
            values[start:end], code, nodes, filled, keys, codes, used, missed,
        )  # fmt: skip
        if more < 0:
            return path, filled, used
        if program >= 0:
            roots[program] = root
        else:
            tail_roots[-1 - program] = root
        filled = more
        start = end
    return -1, filled, used


@compiled_and_kept(**UNCOUNTED)
def learned(row_words, root, words, values, leaf, nodes, filled, keys, codes, used, missed):
    """Add a path to the trie at `root`, node NOWHERE or ASKED for none: (root, filled, used), or filled -1 for another
    word than was read there before."""
    if len(words) == 0:
        return leaf, filled, used
    node = np.int64(NOWHERE)
    for place in range(len(words)):
        word = words[place] if words[place] < row_words else row_words - 1 - words[place]
        if place == 0:
            code = root
        else:
            code = _beside(node, values[place - 1], nodes)
            if code == NOWHERE:
                code = in_table(node, values[place - 1], keys, codes, missed)
        if code < 0:
            code = np.int64(filled)
            filled = made_node(word, nodes, filled)
            if place == 0:
                root = code
            else:
                filled, used = _put_beside(node, values[place - 1], code, nodes, filled, keys, codes, used)
        elif nodes[code] != word:
            return root, -1, used
        node = code
    filled, used = _put_beside(node, values[len(words) - 1], leaf, nodes, filled, keys, codes, used)
    return root, filled, used


@compiled_and_kept()
def visited(code, row, nodes, keys, codes, question_words, questions, found):
    """Put the nodes that a walk through a trie comes to, in a row that is not packed, into `found`: how many."""
    missed = np.zeros(3, np.int64)
    count = 0
    while code >= 0 and count < len(found):
        found[count] = code
        count += 1
        node = code
        word = np.int64(nodes[node])
        if word >= 0:
            value = np.int64(row[word])
        else:
            value = np.int64(questions[-1 - word, row[question_words[-1 - word]]])
            if value >= BEING_ASKED:
                break
        code = _beside(node, value, nodes)
        if code == NOWHERE:
            code = in_table(node, np.uint64(value), keys, codes, missed)
    return count


@compiled_and_kept()
def rehashed(keys, codes, larger_keys, larger_codes):
    """Move all steps into a larger table."""
    mask = np.uint64(len(larger_keys) - 1)
    for place in range(len(keys)):
        if keys[place] != EMPTY:
            slot = mixed(keys[place]) & mask
            while larger_keys[slot] != EMPTY:
                slot = (slot + np.uint64(1)) & mask
            larger_keys[slot] = keys[place]
            larger_codes[slot] = codes[place]


@compiled_and_kept(**UNCOUNTED)
def _noted_apart(program, state, is_root, missed, misses, count):
    of = np.int64(-1)
    if not is_root:
        of = missed[1]
        if missed[2] >= 0:
            program = QUESTION + missed[2]
            of = missed[0]
    for place in range(count):
        if misses[place, 0] == program and misses[place, UNMARKED] == of:
            return count
    if count == len(misses):
        return count
    misses[count, 0] = program
    misses[count, 1] = state
    misses[count, UNMARKED] = of
    return count + 1


@compiled_and_kept(**UNCOUNTED)
def noted(program, state, is_root, roots, keys, codes, questions, missed, misses, count, used):
    """Note that a program has to run in a state, or a question to be asked, once for all that come by.

    Where `misses` has three columns other threads walk the tries as well, and nothing is marked in these. The third
    says what is not known of the program, so that it is noted once: the key in the table, or a number.
    """
    if misses.shape[1] > UNMARKED:
        return _noted_apart(program, state, is_root, missed, misses, count), used
    if is_root:
        roots[program] = ASKED
    elif missed[2] >= 0:
        questions[missed[2], missed[0]] = BEING_ASKED
        program = QUESTION + missed[2]
    else:
        keys[np.uint64(missed[0])] = np.uint64(missed[1])
        codes[np.uint64(missed[0])] = ASKED
        used += 1
    misses[count, 0] = program
    misses[count, 1] = state
    return count + 1, used
