"""A trie leads each state to what its program came to where it read the same, and no other state anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from tidegauge.spec.kernel.fast.packing import Packing
from tidegauge.spec.kernel.fast.recents import Recents
from tidegauge.spec.kernel.fast.trie_tables import FIRST_LEAF, MOST_BELOW, NOWHERE, in_table, walked
from tidegauge.spec.kernel.fast.tries import Paths, Tries, UnsteadyError

WORDS, QUESTIONS, PROGRAMS = 12, 4, 3
VALUES = (0, 1, 2, 3, 5, 8, MOST_BELOW - 1, MOST_BELOW, 700, 65_535)
PACKING = Packing([16] * WORDS)

Program = Callable[[Sequence[int]], tuple[list[int], list[int], int]]


def program(seed: int, values: Sequence[int]) -> tuple[list[int], list[int], int]:
    """What a program reads in a state, value by value: which word is next depends on what it has read. And its leaf."""
    words, read = list[int](), list[int]()
    while True:
        random = Random(f"{seed} {words} {read}")
        left = [word for word in range(len(values)) if word not in words]
        if len(words) > random.randrange(1, 9) or not left:
            return words, read, random.randrange(3, 9_000)
        words.append(random.choice(left))
        read.append(values[words[-1]])


class Known:
    """Tries of some programs, and what a state comes to by them."""

    def __init__(self, random: Random) -> None:
        self.tries, self.recents = Tries(), Recents()
        self.programs = [self.tries.program() for _ in range(PROGRAMS)]
        self.question_words = np.array([random.randrange(WORDS) for _ in range(QUESTIONS)], np.int64)
        self.questions = np.array([[n % 5 for n in range(1 << 16)] for _ in range(QUESTIONS)], np.uint16)

    def values(self, row: Sequence[int]) -> list[int]:
        """The values of words, and behind them the findings of questions."""
        asked = zip(range(QUESTIONS), self.question_words.tolist(), strict=True)
        return [*row, *(int(self.questions[question, row[word]]) for question, word in asked)]

    def leaf(self, which: int, row: Sequence[int]) -> int:
        """The leaf that the tries lead to, or -1."""
        kept = np.zeros(PACKING.lanes, np.uint64)
        for word, value in enumerate(row):
            kept[int(PACKING.places[0, word])] |= np.uint64(value) << PACKING.places[1, word]
        code = walked(
            which, kept, PACKING.places, self.tries.roots, self.tries.nodes, self.tries.keys, self.tries.codes,
            self.question_words, self.questions, *self.recents.of(PROGRAMS, PACKING.lanes), np.zeros(3, np.int64),
        )  # fmt: skip
        return -1 if code == NOWHERE else int(FIRST_LEAF - code)


@pytest.mark.parametrize("seed", range(4))
def test_states_come_to_what_was_learned_and_others_to_nothing(seed: int) -> None:
    random = Random(seed)
    known = Known(random)
    rows = [[random.choice(VALUES) for _ in range(WORDS)] for _ in range(600)]
    learned = [set[tuple[int, ...]]() for _ in known.programs]
    for start in range(0, 400, 50):
        paths = Paths()
        for row in rows[start : start + 50]:
            for which in known.programs:
                words, read, leaf = program(seed * PROGRAMS + which, known.values(row))
                paths.add(which, words, read, leaf)
                learned[which].add(tuple(read))
        known.tries.learn(paths, WORDS)
    unknown = 0
    for row in rows:
        for which in known.programs:
            _, read, leaf = program(seed * PROGRAMS + which, known.values(row))
            expected = leaf if tuple(read) in learned[which] else -1
            assert known.leaf(which, row) == expected, f"seed {seed}, program {which}, state {row}"
            unknown += expected < 0
    assert 50 < unknown < 700
    assert known.tries.used, "large values are in the table"


def test_what_is_learned_again_takes_the_place_of_what_was() -> None:
    known = Known(Random(0))
    for leaf in (7, 8):
        paths = Paths()
        for value in VALUES:
            paths.add(1, [3, WORDS + 1], [value, 1], leaf + value)
        known.tries.learn(paths, WORDS)
    known.question_words[1] = 5
    for value in VALUES:
        assert known.leaf(1, [0, 0, 0, value, 0, 1, *[9] * 6]) == 8 + value
        assert known.leaf(1, [0, 0, 0, value, 0, 2, *[9] * 6]) == -1


def test_a_program_that_reads_nothing_has_one_leaf() -> None:
    known = Known(Random(0))
    paths = Paths()
    paths.add(2, [], [], 12)
    known.tries.learn(paths, WORDS)
    assert known.tries.roots[2] == FIRST_LEAF - 12


def test_a_program_that_reads_another_word_in_the_same_state_is_refused() -> None:
    known = Known(Random(0))
    for words in ([3, 4], [3, 5]):
        paths = Paths()
        paths.add(0, words, [1, 1], 5)
        if words == [3, 5]:
            with pytest.raises(UnsteadyError, match="program 0"):
                known.tries.learn(paths, WORDS)
        else:
            known.tries.learn(paths, WORDS)


def test_nothing_is_put_while_threads_walk() -> None:
    tries = Tries()
    node = tries.node(word=0)
    tries.put(node, 1, 10)

    def known(value: int) -> int:
        return int(in_table(node, value, tries.keys, tries.codes, np.zeros(3, np.int64)))

    tries.hold()
    before = tries.keys.copy(), tries.codes.copy()
    for value in range(2, 1_000):
        tries.put(node, value, 10 * value)
    assert all((now == then).all() for now, then in zip((tries.keys, tries.codes), before, strict=True))
    assert (known(1), known(2)) == (10, NOWHERE)
    tries.release()
    assert [known(value) for value in range(1, 1_000)] == [10 * value for value in range(1, 1_000)]
    tries.put(node, 1_000, 7)
    assert known(1_000) == 7
