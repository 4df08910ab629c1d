"""Small random machines of states in parts: tuples that grow and shrink, and places where one class or another is.

A state has a queue of customers and of notes, each customer with a basket that is a queue as well, somebody at the
counter or nobody, and the same once more behind them. An action compares what it reads, and writes, copies, moves or
drops parts. What holds, and of which step, is as random; some of it is said of each place in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from random import Random
from typing import Any, ClassVar

import attrs

from tidegauge.spec.kernel.each import holds_of_each
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, StepInvariant
from tidegauge.spec.kernel.piecemeal import IN_PARTS

MOST, LONGEST = 2, 3
"""The largest number, and the most that are in a queue."""


@attrs.frozen(order=True)
class Thing:
    size: int
    mark: int = 0


@attrs.frozen(cache_hash=True)
class Customer:
    number: int
    basket: tuple[Thing, ...] = attrs.field(default=(), metadata=IN_PARTS)
    thing: Thing | None = attrs.field(default=None, metadata=IN_PARTS)


@attrs.frozen
class Note:
    number: int


Waiting = Customer | Note


@attrs.frozen
class Room:
    queue: tuple[Waiting, ...] = attrs.field(default=(), metadata=IN_PARTS)
    first: Waiting | int | None = attrs.field(default=None, metadata=IN_PARTS)


@attrs.frozen
class Shop:
    number: int
    room: Room = Room()
    behind: Room = Room()


@attrs.frozen
class Command(Action):
    command: int


@attrs.frozen
class Choice(Action):
    """One that a client chooses to do."""

    fair: ClassVar[bool] = False

    command: int


Read = Callable[[Shop], int]
Write = Callable[[Shop, int], Shop]


@attrs.frozen(slots=False)
class RandomShop(Machine[Shop]):
    """The machine of a seed."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Command, Choice)
    seed: int

    @cached_property
    def _commands(self) -> list[tuple[Action, list[tuple[Read, int]], list[tuple[Write, Read]]]]:
        random = Random(self.seed)
        commands = []
        for command in range(random.randint(4, 9)):
            kind: Any = random.choice(self.action_types)
            guards = [(_read(random), random.randint(0, MOST)) for _ in range(random.randint(0, 2))]
            writes = [(_write(random), _source(random)) for _ in range(random.randint(1, 3))]
            commands.append((kind(command), guards, writes))
        return commands

    def initial(self) -> Iterable[Shop]:
        yield Shop(0)

    def actions(self, state: Shop) -> Iterator[Action]:
        for action, guards, _ in self._commands:
            if all(read(state) != value for read, value in guards):
                yield action

    def step(self, state: Shop, action: Action) -> Shop:
        for known, _, writes in self._commands:
            if known == action:
                for write, source in writes:
                    state = write(state, source(state))
                return state
        raise NotEnabled(action, "the machine has no such command")

    @property
    def invariants(self) -> Mapping[str, Invariant[Shop]]:
        random = Random(f"invariants {self.seed}")
        one, other, value = _read(random), _read(random), random.randint(1, MOST)

        def differs(place: int, state: Shop) -> bool:
            queue = state.room.queue
            return place >= len(queue) or number_of(queue[place]) != value or one(state) != place

        return {
            "all": lambda state: one(state) != value or other(state) != value,
            "each": holds_of_each(range(LONGEST), differs),
        }

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Shop]]:
        random = Random(f"steps {self.seed}")
        read, other, value = _read(random), _read(random), random.randint(0, MOST)

        def follows(place: int, before: Shop, action: Action, after: Shop) -> bool:
            old, new = before.behind.queue, after.behind.queue
            if old is new or old == new or place >= min(len(old), len(new)):
                return True  # what is the same before and after may be one object, or two that are equal
            return number_of(old[place]) + number_of(new[place]) != value + MOST or other(after) != read(before)

        if random.random() < 0.5:
            return {"each step": holds_of_each(range(LONGEST), follows)} if random.random() < 0.5 else {}

        def grows(before: Shop, action: Action, after: Shop) -> bool:
            if before.room == after.room or (isinstance(action, Command) and action.command == read(after)):
                return True
            return read(before) <= other(after) + value

        return {"step": grows}

    @property
    def sometimes(self) -> Mapping[str, Invariant[Shop]]:
        read = _read(Random(f"goals {self.seed}"))
        return {"goal": lambda state: read(state) == 1}

    @property
    def converges(self) -> Mapping[str, Invariant[Shop]]:
        random = Random(f"converges {self.seed}")
        read, value = _read(random), random.randint(0, MOST)
        return {"in the end": lambda state: read(state) == value} if random.random() < 0.5 else {}


def number_of(waiting: Waiting | int | None) -> int:
    return waiting.number if isinstance(waiting, Customer | Note) else waiting or 0


def _customers(room: Room) -> list[Customer]:
    return [one for one in room.queue if isinstance(one, Customer)]


def _read(random: Random) -> Read:
    number = random.randint(0, MOST)
    reads: list[Read] = [
        lambda shop: shop.number,
        lambda shop: min(len(shop.room.queue), MOST),
        lambda shop: number_of(shop.room.queue[-1]) if shop.room.queue else 0,
        lambda shop: number_of(shop.behind.first),
        lambda shop: int(any(number_of(one) == number for one in shop.behind.queue)),
        lambda shop: int(isinstance(shop.room.first, Note)) + 2 * (shop.room.first is None),
        lambda shop: int(shop.room == shop.behind),
        lambda shop: int(shop.room.queue[:1] == shop.behind.queue[:1]),
        lambda shop: sum(len(one.basket) for one in _customers(shop.room)) % (MOST + 1),
        lambda shop: max((thing.size for one in _customers(shop.behind) for thing in one.basket), default=0),
        lambda shop: sum(one.thing is not None and one.thing.mark for one in _customers(shop.room)) % (MOST + 1),
        lambda shop: int(Customer(number) in shop.room.queue),
        lambda shop: hash(shop.room.first == Customer(number, (), Thing(1))) % (MOST + 1),
    ]
    return random.choice(reads)


def _source(random: Random) -> Read:
    constant, read = random.randint(0, MOST), _read(random)
    return random.choice([lambda shop: constant, read, lambda shop: min(read(shop) + 1, MOST)])


def _with(room: Room, place: int, change: Callable[[Customer], Customer]) -> Room:
    """The room in which one customer is another one."""
    found = room.queue[place] if place < len(room.queue) else None
    if not isinstance(found, Customer):
        return room
    return evolve(room, queue=(*room.queue[:place], change(found), *room.queue[place + 1 :]))


def _write(random: Random) -> Write:
    place = random.randrange(2)

    def numbered(shop: Shop, value: int) -> Shop:
        return evolve(shop, number=value)

    def joined(shop: Shop, value: int) -> Shop:
        waiting = Note(value) if place and value else Customer(value)
        return evolve(shop, room=evolve(shop.room, queue=(*shop.room.queue, waiting)[-LONGEST:]))

    def left(shop: Shop, value: int) -> Shop:
        queue = tuple(one for one in shop.room.queue if number_of(one) != value)
        return evolve(shop, room=evolve(shop.room, queue=queue))

    def given(shop: Shop, value: int) -> Shop:
        def more(one: Customer) -> Customer:
            return evolve(one, basket=tuple(sorted((*one.basket, Thing(value))))[:2])

        return evolve(shop, room=_with(shop.room, place, more))

    def held(shop: Shop, value: int) -> Shop:
        thing = Thing(place, value) if value else None
        return evolve(shop, room=_with(shop.room, place, lambda one: evolve(one, thing=thing)))

    def called(shop: Shop, value: int) -> Shop:
        first: Waiting | int | None = shop.room.queue[0] if shop.room.queue else value
        return evolve(shop, room=evolve(shop.room, first=first, queue=shop.room.queue[1:]))

    def dismissed(shop: Shop, value: int) -> Shop:
        return evolve(shop, behind=evolve(shop.behind, first=Note(value) if value else None))

    def copied(shop: Shop, value: int) -> Shop:
        return evolve(shop, behind=shop.room) if value else evolve(shop, behind=Room(shop.room.queue))

    def swapped(shop: Shop, value: int) -> Shop:
        return evolve(shop, room=shop.behind, behind=evolve(shop.room, first=value))

    def turned(shop: Shop, value: int) -> Shop:
        return evolve(shop, room=evolve(shop.room, queue=shop.room.queue[::-1]))

    return random.choice([numbered, joined, joined, left, given, held, called, dismissed, copied, swapped, turned])
