"""The compiled part of judging states by many threads: in which of them there is nothing to say.

It writes to what is its caller's alone, and may run in many threads at a time: none of them holds Python's lock.
"""

from __future__ import annotations

import numpy as np

from tidegauge.compilation.kept_code import compiled_and_kept
from tidegauge.spec.kernel.fast.trie_tables import FIRST_LEAF, NOWHERE, UNCOUNTED, noted, recent, walked


@compiled_and_kept(nogil=True)
def cleared(
    start, end, base, programs, wanted, roots, nodes, keys, codes, rows, places, question_words, questions, bits,
    leaves, turns, clear, misses,
):  # fmt: skip
    """Which of the states from `start` to `end` need not be judged: no program comes to what is wanted or counted.

    `clear` has it from then on, and begins with the state `base`. A state of which something is not known has
    to be judged: that is noted in `misses`. Gives how much is.
    """
    return _cleared(
        start, end, base, programs, wanted, roots, nodes, keys, codes, rows, places, question_words, questions, bits,
        leaves, turns, clear, misses, np.zeros(3, np.int64),
    )  # fmt: skip


@compiled_and_kept(nogil=True, **UNCOUNTED)
def _cleared(
    start, end, base, programs, wanted, roots, nodes, keys, codes, rows, places, question_words, questions, bits,
    leaves, turns, clear, misses, missed,
):  # fmt: skip
    """What `cleared` says; this function makes no array, and counts none."""
    asked = 0
    for state in range(start, end):
        kept = rows[state]
        is_clear = True
        for place in range(len(programs)):
            program = programs[place]
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
            leaf = FIRST_LEAF - code
            if code == NOWHERE:
                asked, _ = noted(program, state, is_root, roots, keys, codes, questions, missed, misses, asked, 0)
            if code > FIRST_LEAF or wanted[place] == leaf or wanted[place] == -1 - leaf:
                is_clear = False
                break
        clear[state - base] = is_clear
    return asked
