"""Small random machines whose processes are alike: for holding two engines together under symmetry.

A process has a value, a mark and a note of every process; beside them there are a leader, a set of members, two
processes in the order of their names, letters on their way, and a counter. A random command is the same for every
process, or every pair of them: what it compares and writes is said of the process itself (`me`) and the other one
(`it`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from random import Random
from typing import Any, ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, StepInvariant
from tidegauge.spec.kernel.piecemeal import PIECEMEAL, one_at_a_time

MOST = 2
"""The largest value of a process."""
NOBODY = -1


@attrs.frozen
class Note:
    value: int = 0


@attrs.frozen
class Process:
    value: int = 0
    mark: int = 0
    notes: tuple[Note, ...] = ()


@attrs.frozen
class Pair:
    """Two processes, the lower name first."""

    low: int
    high: int


@attrs.frozen(order=True)
class Letter:
    sender: int
    receiver: int


@one_at_a_time
def sent(letters: tuple[Letter, ...], letter: Letter) -> tuple[Letter, ...]:
    return letters if letter in letters else tuple(sorted((*letters, letter)))


@one_at_a_time
def received(letters: tuple[Letter, ...], letter: Letter) -> tuple[Letter, ...]:
    return tuple(each for each in letters if each != letter)


@attrs.frozen
class Crowd:
    processes: tuple[Process, ...]
    leader: int
    members: tuple[int, ...]
    pair: Pair
    counter: int
    letters: tuple[Letter, ...] = attrs.field(default=(), metadata=PIECEMEAL)


@attrs.frozen
class Alone(Action):
    command: int
    me: int


@attrs.frozen
class Together(Action):
    command: int
    me: int
    it: int


Read = Callable[[Crowd, int, int], int]
Write = Callable[[Crowd, int, int, int], Crowd]


@attrs.frozen(slots=False)
class RandomCrowd(Machine[Crowd]):
    """The machine of a seed."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Alone, Together)
    seed: int

    @cached_property
    def _size(self) -> int:
        return Random(f"size {self.seed}").choice((2, 2, 3, 3, 4) if self.seed > 100 else (2, 3))

    @cached_property
    def _commands(self) -> list[tuple[bool, list[tuple[Read, int]], list[tuple[Write, Read]]]]:
        random = Random(self.seed)
        commands = []
        for _ in range(random.randint(2, 5)):
            guards = [(_read(random), random.randint(0, MOST)) for _ in range(random.randint(0, 2))]
            writes = [(_write(random), _read(random)) for _ in range(random.randint(1, 3))]
            commands.append((random.random() < 0.5, guards, writes))
        return commands

    def initial(self) -> Iterable[Crowd]:
        process = Process(notes=(Note(),) * self._size)
        yield Crowd((process,) * self._size, NOBODY, (), Pair(0, 1), 0)
        yield Crowd((process,) * self._size, NOBODY, (), Pair(self._size - 2, self._size - 1), 1)

    def actions(self, state: Crowd) -> Iterator[Action]:
        everyone = range(self._size)
        for number, (alone, guards, _) in enumerate(self._commands):
            for me in everyone:
                for it in (me,) if alone else (other for other in everyone if other != me):
                    if all(read(state, me, it) != value for read, value in guards):
                        yield Alone(number, me) if alone else Together(number, me, it)

    def step(self, state: Crowd, action: Action) -> Crowd:
        match action:
            case Alone(number, me):
                it = me
            case Together(number, me, it):
                pass
            case _:
                raise NotEnabled(action, "the machine has no such command")
        for write, source in self._commands[number][2]:
            state = write(state, me, it, source(state, me, it))
        return state

    @property
    def invariants(self) -> Mapping[str, Invariant[Crowd]]:
        random = Random(f"invariants {self.seed}")
        return {f"invariant {i}": _never(random) for i in range(random.randint(0, 1))}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Crowd]]:
        random = Random(f"steps {self.seed}")
        count = random.randint(1, self._size)
        return {"step": lambda before, action, after: len(after.members) < count} if random.random() < 0.5 else {}

    @property
    def sometimes(self) -> Mapping[str, Invariant[Crowd]]:
        random = Random(f"goals {self.seed}")
        return {f"goal {i}": _never(random) for i in range(2)}

    @property
    def converges(self) -> Mapping[str, Invariant[Crowd]]:
        random = Random(f"converges {self.seed}")
        return {"in the end": _never(random)} if random.random() < 0.5 else {}

    @property
    def interchangeable(self) -> int:
        return self._size

    def permute(self, state: Crowd, permutation: tuple[int, ...]) -> Crowd:
        processes = [*state.processes]
        for old, new in enumerate(permutation):
            notes = [*state.processes[old].notes]
            for one, other in enumerate(permutation):
                notes[other] = state.processes[old].notes[one]
            processes[new] = evolve(state.processes[old], notes=tuple(notes))
        low, high = sorted((permutation[state.pair.low], permutation[state.pair.high]))
        leader = state.leader if state.leader == NOBODY else permutation[state.leader]
        members = tuple(sorted(permutation[member] for member in state.members))
        letters = sorted(Letter(permutation[each.sender], permutation[each.receiver]) for each in state.letters)
        return Crowd(tuple(processes), leader, members, Pair(low, high), state.counter, tuple(letters))


def _read(random: Random) -> Read:
    constant = random.randint(0, MOST)
    reads: list[Read] = [
        lambda crowd, me, it: constant,
        lambda crowd, me, it: crowd.processes[me].value,
        lambda crowd, me, it: crowd.processes[it].mark,
        lambda crowd, me, it: crowd.processes[me].notes[it].value,
        lambda crowd, me, it: crowd.processes[it].notes[me].value,
        lambda crowd, me, it: int(crowd.leader == me) + int(crowd.leader == it),
        lambda crowd, me, it: len(crowd.members),
        lambda crowd, me, it: int(it in crowd.members),
        lambda crowd, me, it: int(me in (crowd.pair.low, crowd.pair.high)),
        lambda crowd, me, it: min(crowd.processes[me].value + 1, MOST),
        lambda crowd, me, it: crowd.counter,
        lambda crowd, me, it: int(Letter(me, it) in crowd.letters),
    ]
    return random.choice(reads)


def _write(random: Random) -> Write:
    def changed(crowd: Crowd, which: int, **fields: Any) -> Crowd:
        processes = [*crowd.processes]
        processes[which] = attrs.evolve(processes[which], **fields)
        return evolve(crowd, processes=tuple(processes))

    def noted(crowd: Crowd, me: int, it: int, value: int) -> Crowd:
        notes = [*crowd.processes[me].notes]
        notes[it] = Note(value)
        return changed(crowd, me, notes=tuple(notes))

    def joined(crowd: Crowd, me: int, it: int, value: int) -> Crowd:
        return evolve(crowd, members=tuple(sorted({*crowd.members} ^ {it})))

    writes: list[Write] = [
        lambda crowd, me, it, value: changed(crowd, me, value=value),
        lambda crowd, me, it, value: changed(crowd, it, mark=value),
        noted,
        joined,
        lambda crowd, me, it, value: evolve(crowd, leader=it if value else NOBODY),
        lambda crowd, me, it, value: evolve(crowd, pair=Pair(min(me, it), max(me, it))) if me != it else crowd,
        lambda crowd, me, it, value: evolve(crowd, counter=min(value, MOST)),
        lambda crowd, me, it, value: evolve(crowd, letters=sent(crowd.letters, Letter(me, it))),
        lambda crowd, me, it, value: evolve(crowd, letters=received(crowd.letters, Letter(it, me))),
    ]
    return random.choice(writes)


def _never(random: Random) -> Invariant[Crowd]:
    """Something that tells no processes apart."""
    value, count = random.randint(0, MOST), random.randint(1, 2)
    return random.choice(
        [
            lambda crowd: sum(process.value == value for process in crowd.processes) < count,
            lambda crowd: all(note.value != MOST for process in crowd.processes for note in process.notes),
            lambda crowd: crowd.leader == NOBODY or crowd.leader not in crowd.members,
            lambda crowd: crowd.leader not in (crowd.pair.low, crowd.pair.high),
            lambda crowd: len(crowd.members) != count,
        ]
    )
