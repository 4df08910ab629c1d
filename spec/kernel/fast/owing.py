"""What is owed and what is to come, asked of the numbers of states: whether it may be owed for ever, where it fails.

The states in which it is owed are followed by what is known of their steps, so that no state is made again. That it
may be for ever is told by `tidegauge.spec.kernel.leads_to`, which looks at states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegauge.compilation.kept_code import compiled_and_kept
from tidegauge.spec.kernel.components import ELSEWHERE
from tidegauge.spec.kernel.fast.components import components
from tidegauge.spec.kernel.fast.kernel import (
    DONE,
    FAIR,
    MISSES,
    ROOM,
    TRUE,
    _gathered,
    _numbered,
    changed,
)
from tidegauge.spec.kernel.fast.trie_tables import FIRST_LEAF, NOWHERE, noted, recent, walked

__all__ = ["Owing", "first_failures", "owed_for_ever", "starts_for_ever"]

Numbers = npt.NDArray[np.int64]


def owed_for_ever(search: Any, name: str) -> Mapping[int, Any]:
    """The states in which it is owed, by their numbers, if weak fairness lets it be for ever; otherwise none."""
    return {number: search.state(number) for number in starts_for_ever(search, (name,)).tolist()}


def starts_for_ever(search: Any, names: Sequence[str]) -> Numbers:
    """The numbers of the states in which one of `names` is owed, if weak fairness lets it be for ever; otherwise none.

    Of several names a behaviour is looked for in which there is always one that has not come.

    The search is a `FastSearch` that has expanded all states, and its table has them; an action is one program.
    """
    everything = np.arange(search.count)
    is_done, is_owed = np.ones(search.count, np.bool_), np.zeros(search.count, np.bool_)
    for owed in (search.machine.leads_to[name] for name in names):
        has_come = values(search, owed.then, everything)
        is_owed |= values(search, owed.when, everything) & ~has_come
        is_done &= has_come
    starts = np.flatnonzero(is_owed)
    tries, questions = search.tries, search.layout.questions
    compiled: Any = followed  # numba has its types from the calls

    def follow(*given: Any) -> Any:
        return compiled(
            *given, search.bases, tries.roots, tries.nodes, tries.keys, tries.codes, tries.used,
            tries.leaf_start, tries.leaf_items, tries.leaf_flags,
            search.rows, search.packing.places, search.table.slots, search.count,
            search.chosen, search.misses, questions.words, questions.table, *search.recent_paths(),
            search.renaming.initials,
        )  # fmt: skip

    return starts if Owing(starts, is_done, follow).lasts() else starts[:0]


def first_failures(search: Any, states: Sequence[int]) -> dict[str, int]:
    """The least number of a state, of these, in which each goal of convergence is false."""
    numbers = np.array(sorted(states), np.int64)
    false = {goal: numbers[~values(search, holds, numbers)] for goal, holds in search.machine.converges.items()}
    return {goal: int(found[0]) for goal, found in false.items() if len(found)}


def values(search: Any, holds: Callable[[Any], bool], states: Numbers) -> npt.NDArray[np.bool_]:
    """Of each of these states of a `FastSearch`, by their numbers, whether something holds in it."""
    tries, questions, program, at = search.tries, search.layout.questions, search.predicate(holds), 0
    leaves: Numbers = np.zeros(len(states), np.int64)
    compiled: Any = valued  # numba has its types from the calls
    while at < len(states):
        tries.make_room(2 * len(search.judge_misses))
        at, asked, tries.used = compiled(
            at, program, tries.roots, tries.nodes, tries.keys, tries.codes, tries.used, search.rows,
            search.packing.places, questions.words, questions.table, *search.recent_paths(), search.judge_misses,
            states, leaves,
        )  # fmt: skip
        search.ask_all(search.judge_misses, asked)
    found: npt.NDArray[np.bool_] = leaves == TRUE
    return found


class Owing:
    """The states from `starts` on, by steps to others in which it has not come: `is_done` says by number where it has.

    `follow` takes the arguments of `followed` that are here, and gives what it gives.
    """

    def __init__(self, starts: Numbers, is_done: npt.NDArray[np.bool_], follow: Callable[..., Any]) -> None:
        self.numbers: Numbers = np.zeros(len(is_done), np.int64)
        self.numbers[: len(starts)] = starts
        self.count = len(starts)
        place_of: Numbers = np.full(len(is_done), -1, np.int64)
        place_of[starts] = np.arange(len(starts))
        self.targets: npt.NDArray[np.uint32] = np.zeros(1 << 12, np.uint32)
        self.programs: Numbers = np.zeros(1 << 12, np.int64)
        """By step: the action's; negative for one that is not fair, -1 - program."""
        self.starts: Numbers = np.zeros(len(is_done) + 1, np.int64)
        how, at = ROOM, 0
        while how == ROOM:
            how, at, self.count = follow(
                at, self.count, self.numbers, place_of, is_done, self.targets, self.programs, self.starts
            )
            if how == ROOM:
                self.targets = np.concatenate([self.targets, np.zeros_like(self.targets)])
                self.programs = np.concatenate([self.programs, np.zeros_like(self.programs)])
        if how != DONE:
            raise AssertionError(f"the steps of state {self.numbers[at]} are not all known")

    def lasts(self) -> bool:
        """Whether weak fairness lets a behaviour stay in a component of these states for ever."""
        component = components(self.targets, self.starts, self.count)
        order = np.argsort(component, kind="stable")
        borders = np.concatenate([[0], np.flatnonzero(np.diff(component[order])) + 1, [self.count]])
        programs = self.programs[: self.starts[self.count]]
        actions = int(np.maximum(programs, -1 - programs).max(initial=-1)) + 1
        compiled: Any = stays  # numba has its types from the calls
        return bool(compiled(order, borders, component, self.starts, self.targets, self.programs, actions))


@compiled_and_kept()
def stays(order, borders, component, starts, targets, programs, actions):
    """Whether weak fairness lets a behaviour stay in a component: `tidegauge.spec.kernel.steps.may_stay`, of each.

    `order` has the states of each component behind each other, which begins and ends at `borders`.
    """
    last = np.full(actions, -1, np.int64)  # by action: the last state out of which it is fair
    counted = np.full(actions, -1, np.int64)  # the last component of which states are counted in `enabled`
    taken = np.full(actions, -1, np.int64)  # the last component in which it is taken
    enabled = np.zeros(actions, np.int64)
    for place in range(len(borders) - 1):
        begin, end = borders[place], borders[place + 1]
        for at in range(begin, end):
            state = order[at]
            for step in range(starts[state], starts[state + 1]):
                action = max(programs[step], -1 - programs[step])
                if programs[step] >= 0 and last[action] != state:
                    last[action] = state
                    enabled[action] = 1 + (enabled[action] if counted[action] == place else 0)
                    counted[action] = place
                target = np.int64(targets[step])
                if target != ELSEWHERE and component[target] == component[state]:
                    taken[action] = place
        may_leave = begin == end
        first = order[begin] if begin < end else 0
        for step in range(starts[first], starts[first + 1]):
            action = programs[step]
            may_leave = may_leave or (action >= 0 and enabled[action] == end - begin and taken[action] != place)
        if not may_leave:
            return True
    return False


@compiled_and_kept()
def followed(
    at, count, numbers, place_of, is_done, targets, programs, starts,
    bases, roots, nodes, keys, codes, used, leaf_start, leaf_items, leaf_flags,
    rows, places, table, total, chosen, misses, question_words, questions, bits, leaves, turns, initials,
):  # fmt: skip
    """Follow the steps out of the states from `numbers[at]` on, which ends where nothing new is reached.

    All that happens in them has been looked up before. Gives how it ended, where, and the number of states by now.
    """
    kept = np.empty(rows.shape[1], np.uint64)
    images = np.zeros_like(initials)
    missed = np.zeros(3, np.int64)
    while at < count:
        state = numbers[at]
        steps, _, _ = _gathered(
            state, rows[state], places, bases, roots, nodes, keys, codes, question_words, questions, bits,
            leaves, turns, used, leaf_start, leaf_items, chosen, missed, misses, 0,
        )  # fmt: skip
        edges = starts[at]
        if steps < 0:
            return MISSES, at, count
        if edges + steps > len(targets):
            return ROOM, at, count
        for step in range(steps):
            leaf = chosen[step, 1]
            for lane in range(len(kept)):
                kept[lane] = rows[state, lane]
            after = changed(kept, places, leaf, leaf_start, leaf_items, keys, codes, missed)
            number, _ = _numbered(kept, after, images, rows, places, table, total)
            if is_done[number]:
                targets[edges] = ELSEWHERE
            else:
                if place_of[number] < 0:
                    place_of[number] = count
                    numbers[count] = number
                    count += 1
                targets[edges] = place_of[number]
            program = chosen[step, 0]
            programs[edges] = program if leaf_flags[leaf] & FAIR else -1 - program
            edges += 1
        at += 1
        starts[at] = edges
    return DONE, at, count


@compiled_and_kept()
def valued(
    start, program, roots, nodes, keys, codes, used, rows, places, question_words, questions, bits,
    recent_leaves, turns, misses, states, leaves,
):  # fmt: skip
    """Run a program on `states` from the place `start` on, and put the leaf that each comes to into `leaves`.

    Gives the place of the first that it has to run in, or their number; how many programs have to run; used slots.
    """
    missed = np.zeros(3, np.int64)
    asked = 0
    missing = -1
    for place in range(start, len(states)):
        state = states[place]
        kept = rows[state]
        code = roots[program]
        is_root = code < 0
        if code >= 0:
            leaf = recent(program, kept, bits, recent_leaves)
            code = FIRST_LEAF - leaf
            if leaf < 0:
                code = walked(
                    program, kept, places, roots, nodes, keys, codes, question_words, questions, bits,
                    recent_leaves, turns, missed,
                )  # fmt: skip
        if code <= FIRST_LEAF:
            leaves[place] = FIRST_LEAF - code
            continue
        if missing < 0:
            missing = place
        if code == NOWHERE:
            asked, used = noted(program, state, is_root, roots, keys, codes, questions, missed, misses, asked, used)
            if asked == len(misses):
                break
    return missing if missing >= 0 else len(states), asked, used
