"""Small random machines of guarded commands: what no specification would think of, for holding two engines together.

A state has counters, flags, and cells, each with a value and a mark, in a tuple; a set of words in no order; and two
heaps of messages, which are cells as well. An
action of a random machine compares some of these, and if all agree writes some others, from constants or from what it
has read. Invariants, goals and fairness are as random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from random import Random
from typing import Any, ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, Machine, NotEnabled, StepInvariant
from tidegauge.spec.kernel.piecemeal import PIECEMEAL, one_at_a_time, question

MOST = 3
"""The largest value of a counter."""


@attrs.frozen(order=True)
class Cell:
    value: int
    mark: int


@attrs.frozen
class Board:
    counters: tuple[int, ...]
    cells: tuple[Cell, ...]
    words: frozenset[int]
    flag: bool
    post: tuple[Cell, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    desk: tuple[Cell, ...] = attrs.field(default=(), metadata=PIECEMEAL)


@one_at_a_time
def sent(messages: tuple[Cell, ...], message: Cell) -> tuple[Cell, ...]:
    return messages if message in messages else tuple(sorted((*messages, message)))


@one_at_a_time
def received(messages: tuple[Cell, ...], message: Cell) -> tuple[Cell, ...]:
    return tuple(each for each in messages if each != message)


@question
def marked(messages: tuple[Cell, ...], mark: int) -> int:
    """Raises ValueError where there is none."""
    return max(cell.value for cell in messages if cell.mark == mark)


@question
def shared(messages: tuple[Cell, ...], others: tuple[Cell, ...]) -> tuple[Cell, ...]:
    return tuple(cell for cell in others if cell in messages)


@attrs.frozen
class First(Action):
    command: int


@attrs.frozen
class Second(Action):
    command: int


@attrs.frozen
class Third(Action):
    """One that a client chooses to do."""

    fair: ClassVar[bool] = False

    command: int


Read = Callable[[Board], int]
Write = Callable[[Board, int], Board]
KINDS: tuple[type[Action], ...] = (First, Second, Third)


@attrs.frozen(slots=False)
class RandomMachine(Machine[Board]):
    """The machine of a seed."""

    action_types: ClassVar[tuple[type[Action], ...]] = KINDS
    seed: int

    @cached_property
    def _commands(self) -> list[tuple[Action, list[tuple[Read, int]], list[tuple[Write, Read]]]]:
        random = Random(self.seed)
        commands = []
        for command in range(random.randint(2, 7)):
            kind: Any = random.choice(KINDS)
            guards = [(_read(random), random.randint(0, MOST)) for _ in range(random.randint(0, 3))]
            writes = [(_write(random), _source(random)) for _ in range(random.randint(1, 3))]
            commands.append((kind(command), guards, writes))
        return commands

    def initial(self) -> Iterable[Board]:
        random = Random(f"initial {self.seed}")
        for _ in range(random.randint(1, 2)):
            cells = tuple(Cell(random.randint(0, 1), random.randint(0, 1)) for _ in range(2))
            yield Board((random.randint(0, 1), 0), cells, frozenset(), random.random() < 0.5)

    def actions(self, state: Board) -> Iterator[Action]:
        for action, guards, _ in self._commands:
            if all(read(state) != value for read, value in guards):
                yield action

    def step(self, state: Board, action: Action) -> Board:
        for known, _, writes in self._commands:
            if known == action:
                for write, source in writes:
                    state = write(state, source(state))
                return state
        raise NotEnabled(action, "the machine has no such command")

    @property
    def invariants(self) -> Mapping[str, Invariant[Board]]:
        random = Random(f"invariants {self.seed}")
        return {f"invariant {i}": _property(random) for i in range(random.randint(0, 2))}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Board]]:
        random = Random(f"steps {self.seed}")
        if random.random() < 0.6:
            return {}
        read, other, value = _read(random), _read(random), random.randint(0, MOST)
        if random.random() < 0.3:
            return {"step": lambda before, action, after: len(shared(before.post, after.post)) < 2}
        if random.random() < 0.3:
            return {"step": lambda before, action, after: action != Second(1) or read(before) <= other(after)}

        def rises(before: Board, action: Action, after: Board) -> bool:
            is_told_apart = before.flag and isinstance(action, First) and action.command == value
            return is_told_apart or read(before) <= read(after) or other(after) != value

        return {"step": rises}

    @property
    def sometimes(self) -> Mapping[str, Invariant[Board]]:
        random = Random(f"goals {self.seed}")
        return {f"goal {i}": _goal(random) for i in range(3)}

    @property
    def converges(self) -> Mapping[str, Invariant[Board]]:
        random = Random(f"converges {self.seed}")
        return {"in the end": _goal(random)} if random.random() < 0.5 else {}

    @property
    def leads_to(self) -> Mapping[str, LeadsTo[Board]]:
        random = Random(f"leads to {self.seed}")
        return {f"owed {number}": _owed(random) for number in range(random.randint(0, 2))}

    def is_fair(self, before: Board, action: Action, after: Board) -> bool:
        return super().is_fair(before, action, after) and before.flag == after.flag


def _owed(random: Random) -> LeadsTo[Board]:
    return LeadsTo(_goal(random), _goal(random)) if random.random() < 0.7 else LeadsTo.again(_goal(random))


def _read(random: Random) -> Read:
    index = random.randrange(2)
    reads: list[Read] = [
        lambda board: board.counters[index],
        lambda board: board.cells[index].value,
        lambda board: board.cells[index].mark + board.flag,
        lambda board: len(board.words),
        lambda board: max(board.cells).value,
        lambda board: int(board.cells[0] == board.cells[1]),
        lambda board: int(board.cells[index] in (Cell(1, 1), Cell(2, 0))),
        lambda board: hash(board.cells) % (MOST + 1),
        lambda board: int(Cell(1, index) in board.post),
        lambda board: int(board.cells[index] in board.desk),
        lambda board: 2 * (Cell(0, index) not in board.post) + (Cell(0, index) in sent(board.desk, Cell(0, 1))),
        lambda board: min(len(board.post), MOST),
        lambda board: board.desk[0].value if board.desk else 0,
        lambda board: int(board.post == board.desk),
        lambda board: marked(board.post, index) if Cell(MOST, index) in board.post else 0,
        lambda board: len(shared(board.post, sent(received(board.post, Cell(0, index)), Cell(1, index)))),
        lambda board: len(shared(board.desk, board.post)),
        lambda board: board.post[-1].value + 2 * (board.desk[:1] == (Cell(0, 0),)) if len(board.post) > 1 else 0,
        lambda board: sum(cell.mark for cell in received(board.post, Cell(1, 0))) % (MOST + 1),
    ]
    return random.choice(reads)


def _source(random: Random) -> Read:
    constant, read = random.randint(0, MOST), _read(random)
    return random.choice([lambda board: constant, read, lambda board: min(read(board) + 1, MOST)])


def _write(random: Random) -> Write:
    index = random.randrange(2)

    def counter(board: Board, value: int) -> Board:
        counters = (*board.counters[:index], value, *board.counters[index + 1 :])
        return evolve(board, counters=counters)

    def cell(board: Board, value: int) -> Board:
        cells = [*board.cells]
        cells[index] = evolve(cells[index], value=value)
        return evolve(board, cells=tuple(cells))

    def marked(board: Board, value: int) -> Board:
        cells = [*board.cells]
        cells[index] = Cell(cells[1 - index].value, value)
        return Board(board.counters, tuple(cells), board.words, board.flag, board.post, board.desk)

    def swapped(board: Board, value: int) -> Board:
        return evolve(board, cells=(board.cells[1], board.cells[0]))

    def copied(board: Board, value: int) -> Board:
        return evolve(board, cells=(board.cells[index],) * 2)

    def worded(board: Board, value: int) -> Board:
        return evolve(board, words=board.words ^ {value})

    def flagged(board: Board, value: int) -> Board:
        return attrs.evolve(board, flag=bool(value))

    def posted(board: Board, value: int) -> Board:
        return evolve(board, post=sent(board.post, Cell(value, index)))

    def kept(board: Board, value: int) -> Board:
        return evolve(board, desk=sent(board.desk, board.cells[index]))

    def taken(board: Board, value: int) -> Board:
        message = Cell(value, index)
        return evolve(board, post=received(board.post, message), desk=sent(received(board.desk, Cell(0, 0)), message))

    def delivered(board: Board, value: int) -> Board:
        return evolve(board, post=board.desk, desk=sent(board.post, Cell(value, 1)) if index else ())

    plain = [counter, cell, marked, swapped, copied, worded, flagged]
    return random.choice([*plain, posted, kept, taken, delivered])


def _property(random: Random) -> Invariant[Board]:
    one, other, value = _read(random), _read(random), random.randint(1, MOST)
    return lambda board: one(board) != value or other(board) != value


def _goal(random: Random) -> Invariant[Board]:
    read, value = _read(random), random.randint(0, MOST)
    return lambda board: read(board) == value
