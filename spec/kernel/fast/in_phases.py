"""States that many threads expand together, in the phases of `tidegauge.spec.kernel.fast.phases`.

What is found is what one thread finds: the same states with the same numbers, tallies and fair steps. Where order
matters among some states, since a step violates or no more states may be kept, all slots that were claimed are given
up, and one thread expands them. Programs have to run in Python: threads leave out the states where something is not
known, Python is asked about them, slice by slice, while the threads go on, and they alone are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast import kernel, looking, phases
from tidegauge.spec.kernel.fast.candidates import Candidates
from tidegauge.spec.kernel.fast.meanwhile import Meanwhile
from tidegauge.spec.kernel.fast.recents import Recents
from tidegauge.spec.kernel.fast.threads import Threads
from tidegauge.spec.kernel.fast.trie_tables import EMPTY
from tidegauge.spec.kernel.searching import INTERVAL

__all__ = ["InPhases"]

Numbers = npt.NDArray[np.int64]

_INTERVALS: Final = 4
"""How many intervals between two looks at the clock each thread takes at once: the more, the less threads wait."""
_SLICES: Final = 8
"""Slices of the states for each thread: who is done early takes one more."""
_ROOM: Final = 1 << 13
"""Candidates, and fair steps, of a slice for which there is room at first."""
_STEPS: Final = 8
"""Steps of a state, on the average, to what the table does not have: for so many there is room at first."""
_MORE_STEPS: Final = 256
"""For so many there is room besides, in each slice."""
_MANY_ASKED: Final = 4
"""In one of how many states a program has to run so that threads would wait for Python most of the time."""
_MOST_NUMBERS: Final = 1 << 32
_MOST_MISSED: Final = 256
"""What is not known that is noted in one slice."""


class InPhases:
    """The threads of a `FastSearch`, and what they share."""

    def __init__(self, search: Any, threads: Threads) -> None:
        self._search, self._threads = search, threads
        self._recents = [Recents() for _ in range(threads.workers)]
        self._slices = _SLICES * threads.workers
        self._steps_of_state = _STEPS
        """Steps of a state, on the average, to what the table does not have, for which there is room."""
        self._candidates = Candidates(self._slices, _ROOM, 1, 0)
        self._misses: Numbers = np.zeros((self._slices, _MOST_MISSED, 3), np.int64)
        self._borders: list[int] = []
        self._asked, self._states = 0, 1
        self._is_known = False
        """Whether programs have run seldom of late."""
        self._found = self._found_from = 1
        """New states to which the last ones have led that threads have taken steps of, and how many these were."""
        self._is_packed_again = False
        self._claims: npt.NDArray[np.uint64] | None = None
        """Slots that are claimed instead of the table's, where memory is limited."""

    @property
    def intervals(self) -> int:
        """Of states that are to be expanded next: few where they may well lead to more than may be kept."""
        if not self._is_known or self._threads.workers == 1:
            return 1
        left = (self._search.capacity - self._search.count) * self._found_from // (2 * self._found * INTERVAL)
        return max(1, min(_INTERVALS * self._threads.workers, int(left)))

    def forget(self) -> None:
        """States are packed in another way."""
        self._is_packed_again = True
        for recents in self._recents:
            recents.forget()

    def is_worthwhile(self, states: int, asked: int) -> bool:
        """Whether threads are worth their while for so many states, after programs have run so often."""
        self._is_known = (asked - self._asked) * _MANY_ASKED <= self._states
        self._asked, self._states = asked, states
        return self._is_known and self._threads.shares(states)

    def expand(self, start: int, end: int) -> bool:
        """Take every step out of the states from `start` to `end`; False if one thread has to, and nothing is done."""
        search = self._search
        if not self.is_worthwhile(end - start, search.asked):
            return False
        if not self._step(start, end):
            return False
        before = search.snapshot()
        self._number()
        search.judge_expanded(before, start, 0, end, end)
        return True

    # --- steps -------------------------------------------------------------------------------------------------------

    def _step(self, start: int, end: int) -> bool:
        """Take the steps, and have room for what they lead to; False if one thread has to take them."""
        search, table = self._search, self._search.table
        while True:
            search.repack()
            self._have_room(end - start)
            if search.count + self._slices * self._candidates.room >= _MOST_NUMBERS:
                return False
            how = self._tried(start, end)
            if how == kernel.STEP_VIOLATED:
                return False
            if how == kernel.ROOM:
                self._steps_of_state *= 2
            elif how == kernel.NARROW:
                search.widen()
            elif how == kernel.DONE:
                self._widest = int(self._steps.max())
                self._count()
                found = int(self._news.sum())
                self._found, self._found_from = max(1, found), end - start
                if search.count + found > search.capacity:
                    self._give_up()
                    return False
                if self._claims is None or self._fetch():
                    return True
                if not table.shrink(search.count):
                    return False

    def _have_room(self, states: int) -> None:
        """Have room for what so many states may lead to: in the table as well, or apart from it with limited memory."""
        search, table, known = self._search, self._search.table, self._candidates
        self._most = self._steps_of_state * -(-states // self._slices) + _MORE_STEPS
        if known.room < self._most:
            room = 1 << (self._most - 1).bit_length()
            self._candidates = Candidates(self._slices, room, known.lanes, known.states)
        most = self._slices * self._most
        self._claims = None
        if not table.have_room(search.count, most) or table.first:
            self._claims = np.full(2 << (most - 1).bit_length(), EMPTY, np.uint64)

    def _fetch(self) -> bool:
        """Have in the table what has left it, and the candidates that are new; False if it has no room."""
        search, table, known = self._search, self._search.table, self._candidates
        candidates = np.concatenate([np.arange(first, free) for first, free in self._used()])
        wanted = np.unique(known.hashes[candidates[known.firsts[candidates] == candidates]])
        if not table.has_room(search.count, len(wanted) + self._widest):
            return False
        table.fetch(wanted)
        self._meet_again()
        self._claim_again(table.slots)
        self._count()
        return True

    def _count(self) -> None:
        """How many states are new, by slice."""
        compiled: Any = phases.counted  # numba has its types from the calls
        self._news: Numbers = np.array([compiled(*used, self._candidates.firsts) for used in self._used()])

    def _give_up(self) -> None:
        """Have the table as it was before any slot of it was claimed."""
        if self._claims is not None:
            return
        compiled: Any = phases.given_up  # numba has its types from the calls
        for first, free in self._used():
            compiled(first, free, self._search.table.slots, self._candidates.arrays)

    def _claim_again(self, slots: npt.NDArray[np.uint64]) -> None:
        """Have slots for all new states."""
        count, used = self._search.count, self._used()
        compiled: Any = phases.claimed_again  # numba has its types from the calls
        self._threads.each(
            self._slices,
            lambda _, each: compiled(*used[each], slots, count, self._candidates.arrays),
        )

    def _used(self) -> list[tuple[int, int]]:
        """By slice: the first candidate, and the place behind the last one."""
        return [*zip(self._candidates.first.tolist(), self._free.tolist(), strict=True)]

    def _tried(self, start: int, end: int) -> int:
        """Take the steps of all states: DONE; or what is to be done before all of it begins again."""
        self._begin(start, end)
        todo = [np.arange(first, last) for first, last in pairwise(self._borders)]
        while True:
            before, self._is_packed_again = self._search.packing, False
            asking = Meanwhile(self._search, self._misses)
            ended = self._threads.each(self._slices, self._stepping(todo), asking.ask, _missed)
            self._free[:], self._met[:], self._edges[:] = np.array(ended)[:, 2:5].T
            hows = {each[0] for each in ended} - {kernel.DONE}
            if hows:
                self._give_up()  # before anything is packed in another way
            asking.learn()
            for how in (kernel.STEP_VIOLATED, kernel.NARROW, kernel.ROOM):
                if how in hows:
                    return how
            todo = [states[: each[1]] for states, each in zip(todo, ended, strict=True)]
            is_done = not any(map(len, todo))
            if not is_done:
                asking.ask_rest()
                self._search.repack()
            if self._is_packed_again:
                self._pack_again(before.places)
            if is_done:
                return kernel.DONE

    def _pack_again(self, places: npt.NDArray[np.uint64]) -> None:
        """Have the candidates packed as states are by now; `places` says how they were packed before."""
        search, known = self._search, self._candidates
        before = known.have_lanes(search.packing.lanes)
        compiled: Any = phases.packed_again  # numba has its types from the calls
        self._threads.each(
            self._slices,
            lambda _, each: compiled(
                known.first[each], self._free[each], before, places, search.packing.places, search.renamed_words(),
                known.arrays,
            ),
        )  # fmt: skip
        if not search.renamings:  # the table has been made anew, of states that have numbers
            if self._claims is not None:
                self._claims[:] = EMPTY
            self._claim_again(search.table.slots if self._claims is None else self._claims)

    def _begin(self, start: int, end: int) -> None:
        """Nothing is known of these states yet."""
        search, known, slices = self._search, self._candidates, self._slices
        if known.lanes != search.packing.lanes or known.states < end - start:
            self._candidates = known = Candidates(
                slices, known.room, search.packing.lanes, max(known.states, end - start)
            )
        self._borders = [start + (end - start) * each // slices for each in range(slices + 1)]
        self._steps = known.of_states[2][: end - start]
        self._free, self._edges, self._met = known.first.copy(), known.first.copy(), np.zeros_like(known.first)
        self._taken: Numbers = np.zeros((slices, len(search.taken)), np.int64)
        self._enabled = self._taken.copy()

    def _stepping(self, todo: list[Numbers]) -> Callable[[int, int], tuple[int, ...]]:
        search, known, base = self._search, self._candidates, self._borders[0]
        tries, questions = search.tries, search.layout.questions
        programs = (
            search.bases, tries.roots, tries.nodes, tries.keys, tries.codes, tries.kinds, tries.leaf_start,
            tries.leaf_items, tries.leaf_flags, questions.words, questions.table,
        )  # fmt: skip
        paths = [recents.of(tries.programs, search.packing.lanes) for recents in self._recents]
        claims = _NOWHERE if self._claims is None else self._claims
        compiled: Any = phases.stepped  # numba has its types from the calls

        def step(worker: int, each: int) -> tuple[int, ...]:
            if not len(todo[each]):
                return kernel.DONE, 0, self._free[each], self._met[each], self._edges[each], 0
            found: tuple[int, ...] = compiled(
                todo[each], base, self._free[each], self._met[each], self._most, self._edges[each],
                known.first[each] + known.room, programs, paths[worker], search.renamed_words(), search.rows,
                search.packing.places, search.table.slots, claims, search.count, np.empty_like(search.chosen),
                known.of_states, known.arrays, known.targets, self._taken[each], self._enabled[each],
                search.fair is not None, self._misses[each],
            )  # fmt: skip
            return found

        return step

    def _meet_again(self) -> None:
        """Find the candidates that the table has by now."""
        search, known, used = self._search, self._candidates, self._used()
        compiled: Any = phases.met_again  # numba has its types from the calls
        self._threads.each(
            self._slices,
            lambda _, each: compiled(
                *used[each], search.renamed_words(), search.rows, search.packing.places, search.table.slots,
                search.count, known.arrays,
            ),
        )  # fmt: skip

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _number(self) -> None:
        """Number the new states, and keep them with what is known of them."""
        search, known, borders, news = self._search, self._candidates, self._borders, self._news
        search.have_rows(int(news.sum()) + self._widest)
        numbers = search.count + np.concatenate([[0], np.cumsum(news)])
        found = np.zeros_like(self._taken)
        sizes: Numbers = np.zeros((self._slices, len(search.sizes)), np.int64)
        degrees: Numbers = np.zeros((self._slices, self._widest + 1), np.int64)
        keep: Any = phases.kept  # numba has its types from the calls
        self._threads.each(
            self._slices,
            lambda _, each: keep(
                borders[each], borders[each + 1], borders[0], numbers[each], known.of_states, known.arrays,
                known.numbers, search.rows, search.parents, search.table.slots, found[each], sizes[each],
                degrees[each],
            ),
        )  # fmt: skip
        search.count = int(numbers[-1])
        for tally, more in (
            (search.taken, self._taken), (search.enabled, self._enabled), (search.new, found), (search.sizes, sizes),
            (search.degrees[: self._widest + 1], degrees),
        ):  # fmt: skip
            tally += more.sum(axis=0)
        if search.fair is not None:
            self._join(search.fair)

    def _join(self, fair: Any) -> None:
        """Keep the fair steps."""
        known, borders = self._candidates, self._borders
        places = fair.count + np.concatenate([[0], np.cumsum(self._edges - known.first)])
        fair.have_states(borders[-1] + 1)
        fair.make_room(int(places[-1]) - fair.count + self._widest)
        join: Any = phases.joined  # numba has its types from the calls
        self._threads.each(
            self._slices,
            lambda _, each: join(
                borders[each], borders[each + 1], borders[0], places[each], known.of_states, known.firsts,
                known.numbers, known.targets, fair.targets, fair.starts,
            ),
        )  # fmt: skip
        fair.count, fair.closed = int(places[-1]), borders[-1]

    # --- verdicts ----------------------------------------------------------------------------------------------------

    def clear_states(self) -> npt.NDArray[np.bool_]:
        """Which of the new states threads have judged: nothing is to be said of these."""
        search = self._search
        tries, questions, base, end = search.tries, search.layout.questions, search.checked, search.count
        if not self._threads.shares(end - base):
            return _NONE
        clear: npt.NDArray[np.bool_] = np.zeros(end - base, np.bool_)
        programs, wanted = search.judging()
        paths = [recents.of(tries.programs, search.packing.lanes) for recents in self._recents]
        borders = [base + (end - base) * each // self._slices for each in range(self._slices + 1)]
        compiled: Any = looking.cleared  # numba has its types from the calls

        def look(worker: int, each: int) -> tuple[int]:
            asked: int = compiled(
                borders[each], borders[each + 1], base, programs, wanted, tries.roots, tries.nodes, tries.keys,
                tries.codes, search.rows, search.packing.places, questions.words, questions.table, *paths[worker],
                clear, self._misses[each],
            )  # fmt: skip
            return (asked,)

        asking = Meanwhile(search, self._misses)
        self._threads.each(self._slices, look, asking.ask, _missed)
        asking.learn()
        return clear


_NONE: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
_NOWHERE: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)


def _missed(ended: tuple[int, ...]) -> int:
    """How much a slice has noted of what is not known, by how it ended."""
    return ended[-1]
