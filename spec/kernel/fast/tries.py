"""What has been learned of programs: for each, a trie of the words that it reads, and an outcome at each leaf.

Outcomes are numbered. The first three are the same for all: false, true, and that an action may not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast import kernel, trie_tables

__all__ = ["Paths", "Tries", "UnsteadyError"]

_SMALLEST = 1 << 14
_WITHOUT_ITEMS = 3
"""Leaves that are the same for all programs."""


class UnsteadyError(Exception):
    """A program that read different words in the same state."""


class Paths:
    """Paths of programs, one behind the other."""

    def __init__(self) -> None:
        self.programs: list[int] = []
        self.leaves: list[int] = []
        self.ends: list[int] = []
        """By path: where its words end."""
        self.words: list[int] = []
        self.values: list[int] = []

    def add(self, program: int, words: Sequence[int], values: Sequence[int], leaf: int) -> None:
        """In a state where these words have these values, which the program read in this order, it comes to `leaf`.

        Program -1 - tail is a tail, and so is such a leaf, which has been added before.
        """
        self.programs.append(program)
        self.leaves.append(leaf)
        self.words += words
        self.values += values
        self.ends.append(len(self.words))


class Tries:
    """The tries of all programs, in arrays that the kernel walks."""

    def __init__(self) -> None:
        self.roots: npt.NDArray[np.int64] = np.full(256, trie_tables.NOWHERE, np.int64)
        """What each program begins with: a node, or a leaf if it reads nothing."""
        self.kinds: npt.NDArray[np.int64] = np.zeros(256, np.int64)
        """The class of each action, by its place."""
        self.programs = 0
        self.tail_roots: npt.NDArray[np.int64] = np.full(256, trie_tables.NOWHERE, np.int64)
        """As `roots`, of what paths go on with (`tidegauge.spec.kernel.fast.tails`)."""
        self.tails = 0
        self.nodes: npt.NDArray[np.int32] = np.zeros(_SMALLEST, np.int32)
        self.filled = 0
        """How many numbers of `nodes` are taken."""
        self.keys: npt.NDArray[np.uint64] = np.full(_SMALLEST, trie_tables.EMPTY, np.uint64)
        self.codes: npt.NDArray[np.int64] = np.zeros(_SMALLEST, np.int64)
        self.used = 0
        """Slots of `keys` that are taken."""
        self.leaf_start: npt.NDArray[np.int64] = np.zeros(_SMALLEST, np.int64)
        self.leaf_flags: npt.NDArray[np.int64] = np.zeros(_SMALLEST, np.int64)
        self.leaf_items: npt.NDArray[np.int64] = np.zeros(_SMALLEST, np.int64)
        self.leaves = self.items = 0
        self._held: list[tuple[int, int, int]] | None = None
        """What is put while threads walk the tries; None while none does."""
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}
        for leaf in (kernel.FALSE, kernel.TRUE, kernel.DISABLED):
            self._added_leaf(())
            assert self.leaves == leaf + 1

    def program(self, kind: int = 0) -> int:
        """A new program, of which nothing is known."""
        if self.programs == len(self.roots):
            self.roots = np.concatenate([self.roots, np.full_like(self.roots, trie_tables.NOWHERE)])
            self.kinds = np.concatenate([self.kinds, np.zeros_like(self.kinds)])
        self.kinds[self.programs] = kind
        self.programs += 1
        return self.programs - 1

    def tail(self) -> int:
        """A new tail, of which nothing is known."""
        if self.tails == len(self.tail_roots):
            self.tail_roots = np.concatenate([self.tail_roots, np.full_like(self.tail_roots, trie_tables.NOWHERE)])
        self.tails += 1
        return self.tails - 1

    def items_of(self, leaf: int) -> list[int]:
        """What `leaf` was given."""
        items: list[int] = self.leaf_items[self.leaf_start[leaf] : self.leaf_start[leaf + 1]].tolist()
        return items

    def leaf(self, items: Sequence[int], flags: int = 0) -> int:
        """The number of an outcome: the programs to run next, or the words that change with their values."""
        key = flags, tuple(items)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._added_leaf(key[1], flags)
        return found

    def _added_leaf(self, items: tuple[int, ...], flags: int = 0) -> int:
        if self.leaves + 1 >= len(self.leaf_start):
            self.leaf_start = _twice(self.leaf_start)
            self.leaf_flags = _twice(self.leaf_flags)
        while self.items + len(items) > len(self.leaf_items):
            self.leaf_items = _twice(self.leaf_items)
        self.leaf_items[self.items : self.items + len(items)] = items
        self.items += len(items)
        self.leaf_flags[self.leaves] = flags
        self.leaves += 1
        self.leaf_start[self.leaves] = self.items
        return self.leaves - 1

    def mend(self, mended: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
        """Have what `mended` makes of the words that change by each step."""
        known, self._known = self._known, {}
        self.leaves, self.items = _WITHOUT_ITEMS, 0
        for (flags, items), leaf in known.items():
            new = mended(items) if flags & kernel.IS_STEP else items
            self._known[flags, new] = self._added_leaf(new, flags)
            assert self.leaves == leaf + 1, "leaves are known in their order"

    def learn(self, paths: Paths, row_words: int) -> None:
        """Add the paths, each to the trie of its program; words from `row_words` on are questions. Raises
        UnsteadyError."""
        self.make_room(len(paths.words))
        programs, ends, words, values, leaves = (
            np.array(each, np.int64) for each in (paths.programs, paths.ends, paths.words, paths.values, paths.leaves)
        )
        unsteady, self.filled, self.used = trie_tables.learned_all(
            row_words, programs, ends, words, values, leaves, self.tail_roots,
            self.roots, self.nodes, self.filled, self.keys, self.codes, self.used,
        )  # fmt: skip
        if unsteady >= 0:
            raise UnsteadyError(f"program {programs[unsteady]} reads other words than it did in the same state")

    def node(self, word: int) -> int:
        """A node of its own, of no trie, that leads from values of a word to others."""
        self.make_room(1)
        node = self.filled
        self.filled = trie_tables.made_node(word, self.nodes, self.filled)
        return node

    def put(self, node: int, value: int, code: int) -> None:
        """From now on `node` leads from `value` to `code`."""
        if self._held is not None:
            self._held.append((node, value, code))
            return
        self.make_room(1)
        self.used += trie_tables.put(node, value, code, self.keys, self.codes)

    def hold(self) -> None:
        """Threads walk the tries from now on: change nothing that they may read, and learn nothing."""
        self._held = []

    def release(self) -> None:
        """No thread walks the tries any more."""
        held, self._held = self._held, None
        for node, value, code in held or ():
            self.put(node, value, code)

    def make_room(self, more: int) -> None:
        """Have room for so many more steps, and as many nodes."""
        needed = self.filled + more * (trie_tables.NODE + trie_tables.MOST_BELOW)
        if needed > len(self.nodes):
            larger = np.zeros(2 * needed, np.int32)
            larger[: self.filled] = self.nodes[: self.filled]
            self.nodes = larger
        if 2 * (self.used + more) > len(self.keys):
            size = 2 * len(self.keys)
            while 2 * (self.used + more) > size:
                size *= 2
            keys = np.full(size, trie_tables.EMPTY, np.uint64)
            codes = np.zeros(size, np.int64)
            trie_tables.rehashed(self.keys, self.codes, keys, codes)
            self.keys, self.codes = keys, codes


def _twice(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])
