"""The compiled part of what is known of programs: walking through their tries, and adding paths to them.

A *trie* node asks for one word of the state; the word's value leads on to the next node, or to a leaf. Steps from node
to node are kept in one hash table for all tries, under (node, value). A *code* is what a step leads to: a node from 0
on; NOWHERE where nothing has been learned; ASKED where it is being learned; and from FIRST_LEAF down the leaves.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tidegauge.spec.kernel.fast.kept_code import compiled_and_kept

NOWHERE: Final = -1
ASKED: Final = -2
FIRST_LEAF: Final = -3

EMPTY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)

UNCOUNTED: Final[Any] = {"_nrt": False}
"""Options of compiled functions that make no array: they do not count who refers to the arrays that they are given,
which otherwise takes as long as all that is done with these."""

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


@compiled_and_kept(**UNCOUNTED)
def walked(
    program, kept, places, roots, node_word, keys, codes, question_words, questions, bits, leaves, turns, missed
):
    """The leaf to which a state leads; where nothing is known, what is asked is marked, and `missed` has its slot.

    The path is kept, instead of the program's oldest one.
    """
    mask = np.uint64(len(keys) - 1)
    lanes = len(kept)
    way = program * WAYS + turns[program]
    at = way * 2 * lanes
    leaves[way] = -1
    for lane in range(lanes):
        bits[at + lane] = 0
    code = roots[program]
    while code >= 0:
        word = node_word[code]
        question = word - places.shape[1]
        if question >= 0:
            word = question_words[question]
        value = (kept[places[0, word]] >> places[1, word]) & places[2, word]
        if question >= 0:
            value = np.uint64(questions[question, value])
        bits[at + np.int64(places[0, word])] |= places[2, word] << places[1, word]
        key = (np.uint64(code) << np.uint64(32)) | value
        slot = mixed(key) & mask
        while True:
            found = keys[slot]
            if found == key:
                code = codes[slot]
                break
            if found == EMPTY:
                missed[0] = slot
                missed[1] = np.int64(key)
                return NOWHERE
            slot = (slot + np.uint64(1)) & mask
    if code <= FIRST_LEAF:
        for lane in range(lanes):
            bits[at + lanes + lane] = kept[lane] & bits[at + lane]
        leaves[way] = FIRST_LEAF - code
        turns[program] = (turns[program] + 1) % WAYS
    return code


@compiled_and_kept(**UNCOUNTED)
def came_to(change, value, keys, codes, missed):
    """The number of what a change makes of a value, or a copy of it has: NOWHERE or ASKED if that is not known.

    The change's last 32 bits say its node, those before the word that has the value.
    """
    mask = np.uint64(len(keys) - 1)
    key = (np.uint64(-1 - change) << np.uint64(32)) | np.uint64(value)
    slot = mixed(key) & mask
    while keys[slot] != key:
        if keys[slot] == EMPTY:
            missed[0] = slot
            missed[1] = np.int64(key)
            return NOWHERE
        slot = (slot + np.uint64(1)) & mask
    return codes[slot]


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


@compiled_and_kept()
def learned_all(programs, ends, words, values, leaves, roots, node_word, nodes, keys, codes, used):
    """Add paths, which lie behind each other, to the tries of their programs: (a program that read other words than it
    did before, or -1; nodes, used)."""
    start = 0
    for path in range(len(programs)):
        program = programs[path]
        end = ends[path]
        root, more, used = learned(
            roots[program], words[start:end], values[start:end], leaves[path], node_word, nodes, keys, codes, used
        )
        if more < 0:
            return program, nodes, used
        roots[program] = root
        nodes = more
        start = end
    return -1, nodes, used


@compiled_and_kept()
def learned(root, words, values, leaf, node_word, nodes, keys, codes, used):
    """Add a path to the trie at `root`, node NOWHERE or ASKED for none: (root, nodes, used), or nodes -1 for another
    word than was read there before."""
    mask = np.uint64(len(keys) - 1)
    if len(words) == 0:
        return leaf, nodes, used
    if root < 0:
        node_word[nodes] = words[0]
        root = nodes
        nodes += 1
    code = root
    for place in range(len(words)):
        if node_word[code] != words[place]:
            return root, -1, used
        key = (np.uint64(code) << np.uint64(32)) | np.uint64(values[place])
        slot = mixed(key) & mask
        while keys[slot] != key and keys[slot] != EMPTY:
            slot = (slot + np.uint64(1)) & mask
        if keys[slot] == EMPTY:
            keys[slot] = key
            codes[slot] = NOWHERE
            used += 1
        if place == len(words) - 1:
            codes[slot] = leaf
        else:
            if codes[slot] < 0:
                node_word[nodes] = words[place + 1]
                codes[slot] = nodes
                nodes += 1
            code = codes[slot]
    return root, nodes, used


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
def noted(program, state, is_root, roots, keys, codes, missed, misses, count, used):
    """Note that a program has to run in a state, once for all that come by."""
    if is_root:
        roots[program] = ASKED
    else:
        keys[np.uint64(missed[0])] = np.uint64(missed[1])
        codes[np.uint64(missed[0])] = ASKED
        used += 1
    misses[count, 0] = program
    misses[count, 1] = state
    return count + 1, used
