"""The fast engine: a machine runs once for each combination of what it reads; what it did is looked up ever after.

A state is a row of small integers (`layout`). The machine's actions and invariants are programs (`programs`), each of
which runs over a view that notes what it reads (`views`); the reads and the outcome are a path in the program's trie
(`tries`), which compiled code walks for a whole level (`kernel`). Where a trie does not know, the machine is asked.

It finds the states of the plain engine in the same order, with the same tallies. A machine that it cannot follow, since
a rule raises, or reads what is no part of the state, raises FollowError: the plain engine says what is the matter.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.convergence import Convergence, converged, convergence
from tidegauge.spec.kernel.each import parts_of
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.fast import checkpoints, kernel, packed
from tidegauge.spec.kernel.fast.ahead import Ahead
from tidegauge.spec.kernel.fast.bases import Bases
from tidegauge.spec.kernel.fast.checkpoints import PARENTS, ROWS
from tidegauge.spec.kernel.fast.components import FairSteps
from tidegauge.spec.kernel.fast.fetching import fetched
from tidegauge.spec.kernel.fast.in_memory import InMemory
from tidegauge.spec.kernel.fast.in_phases import InPhases
from tidegauge.spec.kernel.fast.layout import Layout, ShapeError
from tidegauge.spec.kernel.fast.origins import Origins, lengthened
from tidegauge.spec.kernel.fast.owing import first_failures, owed_for_ever, starts_for_ever
from tidegauge.spec.kernel.fast.packing import Packing
from tidegauge.spec.kernel.fast.programs import FollowError, asking, behind_each
from tidegauge.spec.kernel.fast.questions import FIRST_QUESTION
from tidegauge.spec.kernel.fast.recents import RecentPaths, Recents
from tidegauge.spec.kernel.fast.renaming import Renaming
from tidegauge.spec.kernel.fast.table import Table
from tidegauge.spec.kernel.fast.tails import Tails, stepped
from tidegauge.spec.kernel.fast.threads import Threads
from tidegauge.spec.kernel.fast.trie_tables import FIRST_LEAF, QUESTION
from tidegauge.spec.kernel.fast.tries import Paths, Tries
from tidegauge.spec.kernel.fast.views import Run, plain, view
from tidegauge.spec.kernel.fast.worth import is_slow
from tidegauge.spec.kernel.leads_to import Responses, responded
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.progress import Clock, Cut, Limits, OnProgress, Stop
from tidegauge.spec.kernel.searching import INTERVAL, NO_PARENT, Finished, Search
from tidegauge.spec.kernel.state_sequence import StateSequence
from tidegauge.spec.kernel.storage import Storage
from tidegauge.spec.kernel.symmetry import Orbits
from tidegauge.spec.kernel.traces import Step

__all__ = ["FastSearch"]

S = TypeVar("S")
Numbers = npt.NDArray[np.int64]

_MOST_ASKED = 512
"""Programs that are asked for at once."""
_NO_LIMIT = 2**62
_KEY_BITS = 2
"""Bits of the word of a new key: mostly it is not there, or has one of three values."""


class FastSearch(Search[S]):
    """A search that keeps the states as rows of numbers."""

    engine = Engine.FAST

    def __init__(
        self,
        machine: Machine[S],
        limits: Limits,
        stop: Stop,
        clock: Clock | None,
        progress: OnProgress | None,
        *,
        layout: Layout,
        samples: Sequence[S] = (),
        symmetry: bool = False,
        converges: bool = False,
        started: float | None = None,
        storage: Storage | None = None,
        workers: int = 1,
        is_patient: bool = True,
    ) -> None:
        super().__init__(machine, limits, stop, clock, progress, started, converges=converges)
        self.workers, self.threads, self.ahead = workers, Threads(workers), Ahead()
        self.is_patient = is_patient
        self.layout = layout
        self.storage: Storage = storage or InMemory()
        self.capacity = limits.states or sys.maxsize
        self.resumed = self.storage.saved()
        """The checkpoint to go on from, if there is one."""
        self.packing = Packing(*self.resumed["packing"]) if self.resumed else Packing([0] * layout.words)
        self.rows: npt.NDArray[np.uint64] = self._array(ROWS, np.uint64, self.packing.lanes)
        self.parents: npt.NDArray[np.uint32] = self._array(PARENTS, np.uint32)
        self.table = Table(self.storage, lambda: (self.rows, self.packing.places, *self.renamed_words()), self.threads)
        self.phases = InPhases(self, self.threads)
        self.count = self.checked = self.first = 0
        self.renamings = Orbits(machine).renamings if symmetry else ()
        self.renaming = Renaming(machine, layout, self.renamings)
        self.renaming.begin([layout.encoded(state) for state in samples] if symmetry else [])
        self.sizes: Numbers = np.zeros(len(self.renamings) + 2, np.int64)
        """Orbits by the number of their states."""
        self.tries = Tries()
        self.paths = Paths()
        """Those that the tries have yet to learn."""
        self.recents = Recents()
        self.runs: list[Callable[[Run, Any], int]] = []
        """What each program is, by its number: it gives the leaf that it comes to."""
        self.kinds = {kind: place for place, kind in enumerate(machine.action_types)}
        self.actions: dict[Action, int] = {}
        self._acting: set[int] = set()
        """The programs of actions, whose paths may go on with tails."""
        self.origins = Origins(layout, self.tries)
        self.tails = Tails(layout, self.tries, self.origins, [holds for _, holds in self.step_invariants])
        self.taken: Numbers = np.zeros(len(self.kinds), np.int64)
        self.enabled, self.new = self.taken.copy(), self.taken.copy()
        self._candidates = self._begun()
        self.bases: Numbers = np.zeros(0, np.int64)
        self.fair = FairSteps(self._array, self.storage) if converges and machine.converges else None
        self.judges: list[tuple[str, int, bool]] = [
            *[(name, self.predicate(part), True) for name, holds in self.invariants for part in parts_of(holds)],
            *[(name, self.predicate(holds), False) for name, holds in machine.sometimes.items()],
        ]
        """Name, program, and whether it is an invariant: those that new states are held against. An invariant may be
        what several programs say, which follow each other."""
        self.chosen: Numbers = np.zeros((1 << 12, 2), np.int64)
        self.degrees: Numbers = np.zeros(len(self.chosen) + 1, np.int64)
        """States by the number of their steps."""
        self.misses: Numbers = np.zeros((_MOST_ASKED, 2), np.int64)
        self.judge_misses = self.misses.copy()
        self.asked: int = 0
        self.have_more_words(_KEY_BITS)
        self._states = StateSequence[S](lambda: self.count, lambda numbers: [*map(self.state, numbers)])

    def _array(self, name: str, kind: type[np.generic], lanes: int = 0) -> npt.NDArray[Any]:
        """An array with what is known by it of states: that of the checkpoint, or a new one."""
        return self.storage.opened(name) if self.resumed else self.storage.array(name, kind, 1 << 12, lanes)

    def run(self) -> Exploration[S]:
        with self.threads.working():
            return super().run()

    def tell_where(self, error: Exception) -> None:
        """The plain engine tells."""

    # --- programs ----------------------------------------------------------------------------------------------------

    def _program(self, run: Callable[[Run, Any], int], kind: int = 0) -> int:
        self.runs.append(run)
        return self.tries.program(kind)

    def _begun(self) -> Callable[[], Sequence[int]]:
        """What gives the programs to begin with."""
        ask = asking(self.machine)
        self.is_by_action = ask is not None
        """Whether the steps of a program are those of one action."""
        if ask is None:
            alone = self._program(self._all_successors)
            return lambda: [alone]
        self._take = ask.take

        def leaf(actions: Iterable[Action]) -> int:
            return self.tries.leaf([self._action(action) for action in actions])

        return Bases(
            ask.bases, self.layout, next(iter(self.machine.initial())), self.tries, self._program, leaf
        ).numbers

    def _action(self, action: Action) -> int:
        """The program of an action, in which there may be views: these are equal to what they are views of."""
        found = self.actions.get(action)
        if found is None:
            action = plain(action)

            def run(run: Run, state: Any) -> int:
                after = self._take(state, action)
                if after is None:
                    return kernel.DISABLED
                items, flags = stepped(self, run, state, action, after)
                return self.tails.of(self.paths, run, action, items, flags)

            found = self.actions[action] = self._program(run, self._kind(action))
            self._acting.add(found)
        return found

    def _all_successors(self, run: Run, state: Any) -> int:
        """For a machine whose successors are its own: each outcome is a program that reads nothing."""
        outcomes = []
        for action, after in self.machine.successors(state):
            items, flags = stepped(self, run, state, action, after)
            if not all(holds(state, action, after) for _, holds in self.step_invariants):
                flags |= kernel.VIOLATES
            leaf, kind = self.tries.leaf(items, flags), self._kind(action)
            key: Any = (kind, leaf)
            if key not in self.actions:
                program = self.actions[key] = self._program(_nothing, kind)
                self.tries.roots[program] = FIRST_LEAF - leaf
            outcomes.append(self.actions[key])
        return self.tries.leaf(outcomes)

    def _kind(self, action: Action) -> int:
        self.counts[type(action)]  # refuses a class that the machine does not declare
        return self.kinds[type(action)]

    def predicate(self, holds: Callable[[Any], bool]) -> int:
        """The program that says whether something holds in a state."""
        return self._program(lambda run, state: kernel.TRUE if holds(state) else kernel.FALSE)

    def ask(self, program: int, row: list[int], numbers: npt.NDArray[np.uint32]) -> None:
        """Run a program in a state, and note what it came to; a negative one is where a word's value comes from, and
        one from QUESTION on is a question."""
        if program >= QUESTION:
            self.layout.questions.find(program - QUESTION, row, self.layout.values)
            return
        if program < 0:
            self.renaming.learn(*self.origins.learn(program, row))
            return
        self.asked += 1
        run = Run(self.layout, row)
        try:
            tail = self.tails.unknown(program, numbers) if program in self._acting else None
            if tail is not None:
                self.tails.ask(self.paths, tail, row)
                return
            leaf = self.runs[program](run, view(run, self.layout.root))
        except (ShapeError, FollowError):
            raise
        except Exception as error:
            raise FollowError(f"{type(error).__name__}: {error}") from error
        finally:
            run.views.clear()  # they refer to the run, and no collector looks for circles during a search
        self.paths.add(program, run.words, run.read_values(), leaf)

    def ask_all(self, misses: Numbers, asked: int) -> None:
        """Run what the kernel has asked for, and keep what it came to."""
        if not asked:
            return
        done = 0
        while done < asked:
            rows: npt.NDArray[np.uint32] = np.zeros((asked - done, len(self.packing.widths)), np.uint32)
            packed.unpacked_all(self.rows, misses[done:asked, 1], self.packing.places, rows)
            try:
                for program, row, numbers in zip(misses[done:asked, 0].tolist(), rows.tolist(), rows, strict=True):
                    self.ask(program, row, numbers)
                    done += 1
            except ShapeError as error:
                self.learn()
                if not isinstance(self.storage, InMemory) or not lengthened(self, error):
                    raise
        self.learn()

    def learn(self) -> None:
        """Keep what programs came to, and have room for keys that they have met. No thread walks the tries."""
        self.tries.learn(self.paths, FIRST_QUESTION)
        self.paths = Paths()
        self.tails.learned()
        if len(self.packing.widths) < self.layout.words:
            self.have_more_words(_KEY_BITS)

    def have_more_words(self, width: int = 0) -> None:
        """The layout has: no state has anything in them, and so no state has another hash. They are this wide."""
        more = self.layout.words - len(self.packing.widths)
        if more:
            self._pack(self.packing.longer(more, width))
        self.bases = np.array(self._candidates(), np.int64)

    # --- states ------------------------------------------------------------------------------------------------------

    @property
    def states(self) -> Sequence[S]:
        return self._states

    @property
    def distinct(self) -> int:
        return self.count

    def parent(self, index: int) -> int:
        return int(self.parents[index]) if index >= self.first else NO_PARENT

    def kept_bytes(self) -> int:
        kept = self.count * (self.rows.itemsize * self.packing.lanes + self.parents.itemsize)
        return self.table.slots.nbytes + (kept if self.storage.memory is None else 0)

    def orbit_sum(self) -> int | None:
        return int(self.sizes @ np.arange(len(self.sizes))) if self.renamings else None

    def begin(self) -> None:
        try:
            self._begin()
        finally:
            self.tally()

    def _begin(self) -> None:
        for state in self.machine.initial():
            numbers = self.layout.encoded(state)
            self.renaming.met(numbers, range(len(numbers)))
            numbers = self.layout.completed(numbers)
            self.repack()
            self.make_room(1)
            number, size = kernel.added(
                np.array(numbers, np.uint32), self.rows, self.packing.places, self.table.slots,
                self.count, *self.renamed_words(),
            )  # fmt: skip
            if number == self.count:
                self.sizes[size] += 1
                if self.count == self.capacity:
                    raise Finished(Cut.STATES)
                self.count += 1
                self.first = self.count
                self.judge(0)

    def repack(self) -> None:
        """Have room for all words and values that are known."""
        if len(self.packing.widths) < self.layout.words:
            self.have_more_words(_KEY_BITS)
        self._pack(self.packing.for_values([*map(len, self.layout.values)], spare=bool(self.layout.keys)))

    def _pack(self, packing: Packing) -> None:
        """Have states packed like this."""
        is_longer = packing.widths[: len(self.packing.widths)] == self.packing.widths
        if is_longer and packing.lanes == self.packing.lanes:
            self.packing = packing
        else:
            before, places, self.packing = self.rows, self.packing.places, packing
            self.rows = self.storage.array(ROWS, np.uint64, len(before), packing.lanes)
            self.threads.spread(
                0, self.count, lambda first, end: packed.repacked(before, places, first, end, self.rows, packing.places)
            )
            self.recents.forget()
            self.phases.forget()
            if not self.renamings:
                self.table.hash_again(self.count)

    def recent_paths(self) -> RecentPaths:
        """What the kernel has to know of paths that were walked of late."""
        return self.recents.of(self.tries.programs, self.packing.lanes)

    def have_rows(self, more: int) -> None:
        """Have room for so many more states, not counting the table."""
        if self.count + more > len(self.rows):
            self.rows = self.storage.grown(ROWS, self.count + more)
        if self.count + more > len(self.parents):
            self.parents = self.storage.grown(PARENTS, self.count + more)

    def make_room(self, more: int) -> None:
        """Have room for so many more states."""
        self.have_rows(more)
        self.table.make_room(self.count, more)

    def row(self, index: int) -> list[int]:
        """The numbers of a state's words."""
        row = np.zeros(len(self.packing.widths), np.uint32)
        packed.unpacked(self.rows[index], self.packing.places, row)
        found: list[int] = row.tolist()
        return found

    def state(self, index: int) -> S:
        """The state of that number, made again."""
        found: S = self.layout.decoded(self.row(index))
        return found

    def renamed_words(self) -> tuple[Any, ...]:
        """What the kernel has to know of renamings."""
        return self.renaming.initials, self.renaming.targets, self.renaming.starts, self.renaming.images

    # --- a level -----------------------------------------------------------------------------------------------------

    def expand(self, start: int, end: int) -> None:
        while start < end:
            if not start % INTERVAL:
                self.tally()
                self.pause(start)
            until = min(end, start - start % INTERVAL + INTERVAL * self.phases.intervals)
            if not self.phases.expand(start, until):
                self.expand_some(start, until := fetched(self, start, until))
            words = self.layout.words - len(self.layout.keys)
            if not self.is_patient and is_slow(self.count, self.asked, words):
                raise FollowError(f"it is asked {self.asked:,} times in {self.count:,} states")
            start = until
            self.storage.release()
            if self.storage.is_due():
                self.save(start)
        self.tally()

    def pause(self, expanded: int) -> None:
        try:
            super().pause(expanded)
        except Finished:
            self.save(expanded)
            raise

    def widen(self) -> None:
        """Have room for the steps of a state that has more of them than any before."""
        self.chosen = np.zeros((2 * len(self.chosen), 2), np.int64)
        self.degrees = np.concatenate([self.degrees, np.zeros(len(self.chosen) // 2, np.int64)])

    def expand_some(self, start: int, end: int) -> None:
        """Take every step out of the states from `start` to `end`."""
        self.repack()
        self.ahead.begin(start, end)
        skip, is_told = 0, False
        while start < end:
            self.have_rows(INTERVAL)
            if not self.table.is_narrow(self.count):
                self.table.make_room(self.count, INTERVAL)
            before = self.snapshot()
            how, at, step, asked = self.call(start, skip, end, is_told)
            self.ask_all(self.misses, asked)  # first: what is judged may wait for the same question
            self.judge_expanded(before, start, skip, end, at, is_told)
            is_told = is_told and (at, step) == (start, skip)
            start, skip = at, step
            if how == kernel.NARROW:
                self.widen()
            elif how == kernel.ROOM:
                self.make_room(len(self.chosen))
                if self.fair is not None:
                    self.fair.make_room(len(self.chosen))
            elif how == kernel.STEP_VIOLATED:
                self.expanding = at
                self.step_violates(at, step)
                is_told = True
            elif how == kernel.FULL:
                self.expanding = at
                self.tally()
                raise Finished(Cut.STATES)

    def judge_expanded(
        self, before: tuple[Any, ...], start: int, skip: int, end: int, at: int, is_told: bool = False
    ) -> None:
        """Judge what steps lead to; where that ends the search, it is as `before`, and takes them up to there."""
        try:
            self.judge(at)
        except Finished:
            self.restore(before)
            self.ahead.begin(start, end)
            _, self.expanding, _, _ = self.call(start, skip, end, is_told, last_new=self.checked)
            self.tally()
            raise

    def call(
        self, start: int, skip: int, end: int, is_told: bool, last_new: int = _NO_LIMIT
    ) -> tuple[int, int, int, int]:
        """Have the kernel expand: how it ended, at which state and step, and how many programs have to run."""
        tries, fair = self.tries, self.fair
        tries.make_room(2 * _MOST_ASKED)
        self.repack()
        if fair is not None:
            fair.have_states(end + 1)
        compiled: Any = kernel.expanded  # numba has its types from the calls
        how, at, step, self.count, asked, tries.used, edges = compiled(
            start, skip, end, self.count, self.capacity, last_new,
            self.bases, tries.roots, tries.kinds, tries.nodes, tries.keys, tries.codes, tries.used,
            tries.leaf_start, tries.leaf_items, tries.leaf_flags,
            self.rows, self.packing.places, self.parents, self.table.slots,
            self.taken, self.enabled, self.new, self.degrees,
            fair.targets if fair else _NO_TARGETS, fair.starts if fair else _NO_STARTS, fair.count if fair else 0,
            fair is not None,
            self.chosen, self.misses, is_told,
            self.sizes, self.layout.questions.words, self.layout.questions.table, *self.recent_paths(),
            self.table.absent,
            *self.renamed_words(), self.ahead.arrays,
        )  # fmt: skip
        if fair is not None:
            fair.count, fair.closed = edges, at
        return how, at, step, asked

    def snapshot(self) -> tuple[Any, ...]:
        fair = self.fair.count if self.fair else 0
        taken, enabled, new = self.taken.copy(), self.enabled.copy(), self.new.copy()
        return taken, enabled, new, self.count, self.degrees.copy(), self.sizes.copy(), fair

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        self.taken, self.enabled, self.new, self.count, self.degrees, self.sizes, fair = snapshot
        if self.fair:
            self.fair.count = fair

    def tally(self) -> None:
        """Hand the tallies on."""
        self.out_degrees = Counter({int(steps): int(self.degrees[steps]) for steps in np.flatnonzero(self.degrees)})
        self.orbit_sizes = Counter({int(size): int(self.sizes[size]) for size in np.flatnonzero(self.sizes)})
        for kind, place in self.kinds.items():
            tally = self.counts[kind]
            tally.taken, tally.enabled = int(self.taken[place]), int(self.enabled[place])
            tally.found = int(self.new[place])

    def step_violates(self, index: int, place: int) -> None:
        """A step of a state violates: which one, and what."""
        state = self.states[index]
        ((action, after),) = islice(self.machine.successors(state), place, place + 1)
        kind = self.kinds[type(action)]
        earlier = {int(self.tries.kinds[program]) for program in self.chosen[:place, 0]}
        self.taken[kind] += 1
        self.enabled[kind] += kind not in earlier
        self.tally()
        for name, holds in self.step_invariants:
            if not holds(state, action, after):
                self.step_violated(name, index, Step(action, after))
        self.taken[kind] -= 1
        self.enabled[kind] -= kind not in earlier

    # --- new states --------------------------------------------------------------------------------------------------

    def judge(self, expanding: int) -> None:
        """Hold each new state against the invariants, and look for goals, in the order in which they were reached."""
        tries, place, base, clear = self.tries, 0, self.checked, self.phases.clear_states()
        if not len(clear):
            clear = np.zeros(self.count - base, np.bool_)
        elif clear.all():
            self.checked = self.count
        while self.checked < self.count:
            programs, wanted = self.judging()
            behind = np.array(behind_each([name for name, _, _ in self.judges]), np.int64)
            verdicts: Numbers = np.zeros(len(programs), np.int64)
            tries.make_room(2 * _MOST_ASKED)
            how, self.checked, place, asked, tries.used = kernel.judged(
                self.checked, place, self.count, programs, tries.roots, tries.nodes, tries.keys, tries.codes,
                tries.used, self.rows, self.packing.places, wanted, verdicts, behind, self.judge_misses,
                self.layout.questions.words, self.layout.questions.table, *self.recent_paths(), base, clear,
            )  # fmt: skip
            for (name, _, _), count in zip(self.judges, verdicts.tolist(), strict=True):
                if count:
                    self.violation_counts[name] += count
            self.ask_all(self.judge_misses, asked)
            if how == kernel.MISSES or self.checked == self.count:
                continue
            name, _, invariant = self.judges[place]
            if invariant:
                self.expanding = expanding
                self.violated(name, self.trace(self.checked) if name not in self.found else None)
                place = int(behind[place])
            else:
                self.goals[name] = self.checked
                del self.judges[place]

    def judging(self) -> tuple[Numbers, Numbers]:
        """The programs that judge, and of each what `_wanted` says."""
        programs = np.array([program for _, program, _ in self.judges], np.int64)
        wanted = np.array([self._wanted(name, invariant) for name, _, invariant in self.judges], np.int64)
        return programs, wanted

    def _wanted(self, name: str, invariant: bool) -> int:
        """The leaf at which the kernel is to stop; negative where it is to count."""
        if not invariant:
            return kernel.TRUE
        return -1 - kernel.FALSE if name in self.found and self.stop is not Stop.FIRST else kernel.FALSE

    def responses(self) -> Responses[S]:
        if self.renamings or self.fair is None or not self.is_by_action or self.table.absent:
            return super().responses()
        names = (*self.machine.leads_to,)
        open_ = names if len(names) == 1 or len(starts_for_ever(self, names)) else ()
        return responded(self.machine, open_, lambda name: owed_for_ever(self, name), self.trace)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, at: int) -> None:
        """Save a checkpoint between two states: the next one to be expanded is `at`."""
        self.tally()
        checkpoints.save(self, at)

    def resume(self) -> int | None:
        content, self.resumed = self.resumed, None
        return None if content is None else checkpoints.resume(self, content)

    def converged(self) -> Convergence[S] | None:
        if self.fair is None or self.found:
            return None
        if self.renamings:
            return convergence(self.machine, self.fair.bottom_components(), self.states, self.trace, self.renamings)
        bottom = self.fair.bottom_components()
        return converged(self.machine, bottom, lambda states: first_failures(self, states), self.trace)


_NO_TARGETS: npt.NDArray[np.uint32] = np.zeros(1, np.uint32)
_NO_STARTS: npt.NDArray[np.int64] = np.zeros(1, np.int64)


def _nothing(run: Run, state: Any) -> int:
    raise AssertionError("its outcome is known")
