"""Small random machines whose processes are alike and send letters, which are values by their keys.

A letter names who has sent it and to whom, and a word of two; of each it is known how often it is on its way, once it
was sent. A process keeps what it was told, by letter as well. What may happen to a letter is a rule of each letter. A
random command is the same for every process, or every pair of them. Some machines look at all letters at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any, ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction, RuledMachine
from tidegauge.spec.kernel.keyed import KEYED, OfEach, Pairs, in_order, value_of, with_value
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant

MOST = 2
"""The largest value of a process, and the most of one letter that are on their way."""


@attrs.frozen(order=True, cache_hash=True)
class Letter:
    sender: int
    receiver: int
    word: int = 0

    def renamed(self, names: Sequence[int]) -> Letter:
        return evolve(self, sender=names[self.sender], receiver=names[self.receiver])


@attrs.frozen(order=True, cache_hash=True)
class Card(Letter):
    pass


Letters = Pairs[Letter, int]


@attrs.frozen
class Process:
    value: int = 0
    mark: int = 0
    told: Letters = attrs.field(default=(), metadata=KEYED)


@attrs.frozen
class Post:
    processes: tuple[Process, ...]
    counter: int = 0
    letters: Letters = attrs.field(default=(), metadata=KEYED)


@attrs.frozen
class PostAction(GuardedAction["RandomPost", Post]):
    """A command, and what it is about: two processes, or those of a letter, which is taken."""

    command: int

    @property
    def about(self) -> tuple[int, int]:
        raise NotImplementedError

    def taken(self, state: Post) -> Post:
        return state

    def guard(self, machine: RandomPost, state: Post) -> str:
        guards, _ = machine.commands[self.command]
        return "" if all(read(state, *self.about) != value for read, value in guards) else "a guard"

    def effect(self, machine: RandomPost, state: Post) -> Post:
        _, writes = machine.commands[self.command]
        after = self.taken(state)
        for write, source in writes:
            after = write(after, *self.about, source(state, *self.about))
        return after


@attrs.frozen
class Act(PostAction):
    me: int
    it: int

    @property
    def about(self) -> tuple[int, int]:
        return self.me, self.it


@attrs.frozen
class Take(PostAction):
    fair: ClassVar[bool] = True

    letter: Letter

    @property
    def about(self) -> tuple[int, int]:
        return self.letter.receiver, self.letter.sender

    def guard(self, machine: RandomPost, state: Post) -> str:
        return super().guard(machine, state) if value_of(state.letters, self.letter) else "the letter is on its way"

    def taken(self, state: Post) -> Post:
        return evolve(state, letters=_more(state.letters, self.letter, -1))


@attrs.frozen
class Lose(Take):
    """Not what happens if it may."""

    fair = False

    def effect(self, machine: RandomPost, state: Post) -> Post:
        return self.taken(state)


Read = Callable[[Post, int, int], int]
Write = Callable[[Post, int, int, int], Post]


@attrs.frozen(slots=False)
class RandomPost(RuledMachine[Post]):
    """The machine of a seed."""

    action_base = PostAction
    action_types: ClassVar[tuple[type[Action], ...]] = (Act, Take, Lose)
    seed: int

    @cached_property
    def size(self) -> int:
        return Random(f"size {self.seed}").choice((2, 2, 3))

    @cached_property
    def looks_at_all(self) -> bool:
        """Whether some rule looks at all letters, or moves them elsewhere."""
        return Random(f"all {self.seed}").random() < 0.2

    @cached_property
    def commands(self) -> list[tuple[list[tuple[Read, int]], list[tuple[Write, Read]]]]:
        random = Random(self.seed)
        commands = []
        for _ in range(random.randint(3, 6)):
            guards = [(self._read(random), random.randint(0, MOST)) for _ in range(random.randint(0, 2))]
            writes = [(self._write(random), self._read(random)) for _ in range(random.randint(1, 3))]
            commands.append((guards, writes))
        return commands

    def initial(self) -> Iterable[Post]:
        yield Post((Process(),) * self.size)
        if self.seed % 5 == 0:
            letters = [(Card(me, it), 1) for me in range(self.size) for it in range(self.size)]
            yield Post((Process(),) * self.size, 1, tuple(sorted(letters, key=in_order)))

    def candidate_rules(self) -> Sequence[Callable[[Post], Iterable[PostAction]]]:
        everyone, numbers = range(self.size), range(len(self.commands))
        takes = [number for number in numbers if number % 2]
        acts = [Act(number, me, it) for number in numbers if not number % 2 for me in everyone for it in everyone]

        def handled(letter: Letter, count: int) -> list[PostAction]:
            if not count:
                return []
            lost = [Lose(0, letter)] if self.seed % 3 == 0 else []
            return [*[Take(number, letter) for number in takes if isinstance(letter, Card) or number < 4], *lost]

        return [lambda state: acts, OfEach(letters_of, handled)]

    @property
    def invariants(self) -> Mapping[str, Invariant[Post]]:
        random = Random(f"invariants {self.seed}")
        return {"invariant": self._never(random)} if random.random() < 0.5 else {}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Post]]:
        random = Random(f"steps {self.seed}")
        most = random.randint(1, MOST)
        if random.random() < 0.6:
            return {}
        return {
            "step": lambda before, action, after: (
                before.letters == after.letters
                or sum(one.value for one in after.processes) < most
                or (isinstance(action, Take) and action.letter.word == 0)
            )
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[Post]]:
        return {"goal": self._never(Random(f"goals {self.seed}"))}

    @property
    def converges(self) -> Mapping[str, Invariant[Post]]:
        random = Random(f"converges {self.seed}")
        return {"in the end": self._never(random)} if random.random() < 0.5 else {}

    @property
    def interchangeable(self) -> int:
        return self.size

    def permute(self, state: Post, permutation: tuple[int, ...]) -> Post:
        processes = [*state.processes]
        for old, new in enumerate(permutation):
            told = state.processes[old].told
            processes[new] = evolve(state.processes[old], told=_renamed(told, permutation))
        return Post(tuple(processes), state.counter, _renamed(state.letters, permutation))

    def _never(self, random: Random) -> Invariant[Post]:
        """Something that tells no processes apart."""
        value, count, everyone = random.randint(0, MOST), random.randint(1, 2), range(self.size)
        pairs = [Letter(me, it, value % 2) for me in everyone for it in everyone]
        never: list[Invariant[Post]] = [
            lambda post: sum(one.value == value for one in post.processes) < count,
            lambda post: post.counter != value,
            lambda post: not any(value_of(post.letters, pair) == count for pair in pairs),
            lambda post: not any(value_of(one.told, pair) == value for one in post.processes for pair in pairs),
        ]
        if self.looks_at_all:
            never += [lambda post: len(post.letters) <= value + count, lambda post: sum(n for _, n in post.letters) < 4]
        return random.choice(never)

    def _read(self, random: Random) -> Read:
        constant, kind = random.randint(0, MOST), random.choice((Letter, Card))
        reads: list[Read] = [
            lambda post, me, it: constant,
            lambda post, me, it: post.processes[me].value,
            lambda post, me, it: post.processes[it].mark,
            lambda post, me, it: min(post.processes[me].value + 1, MOST),
            lambda post, me, it: min(post.counter + 1, MOST),
            lambda post, me, it: value_of(post.letters, kind(me, it, post.processes[me].value)) or 0,
            lambda post, me, it: int(value_of(post.letters, kind(it, me)) is None),
            lambda post, me, it: value_of(post.processes[me].told, kind(me, it)) or 0,
            lambda post, me, it: int(value_of(post.processes[it].told, Letter(it, me, constant)) is None),
        ]
        if self.looks_at_all:
            reads += [
                lambda post, me, it: sum(letter.receiver == me for letter, _ in post.letters) % (MOST + 1),
                lambda post, me, it: int((Letter(me, it), 1) in post.letters),
                lambda post, me, it: int(post.processes[me] == post.processes[it]),
            ]
        return random.choice(reads)

    def _write(self, random: Random) -> Write:
        kind = random.choice((Letter, Card))

        def changed(post: Post, which: int, **fields: Any) -> Post:
            processes = [*post.processes]
            processes[which] = evolve(processes[which], **fields)
            return evolve(post, processes=tuple(processes))

        def noted(post: Post, me: int, it: int, value: int) -> Post:
            return changed(post, me, told=with_value(post.processes[me].told, (kind(me, it), value)))

        def passed(post: Post, me: int, it: int, value: int) -> Post:
            count = value_of(post.letters, kind(me, it)) or 0
            return changed(post, it, told=with_value(post.processes[it].told, (kind(me, it, 1), count)))

        writes: list[Write] = [
            lambda post, me, it, value: changed(post, me, value=value),
            lambda post, me, it, value: changed(post, it, mark=value),
            lambda post, me, it, value: evolve(post, counter=value),
            lambda post, me, it, value: evolve(post, letters=_more(post.letters, kind(me, it, value % 2), 1)),
            lambda post, me, it, value: evolve(post, letters=_more(post.letters, kind(it, me), 1)),
            lambda post, me, it, value: evolve(post, letters=with_value(post.letters, (kind(me, it, 1), value))),
            noted,
            passed,
        ]
        if self.looks_at_all:
            writes += [
                lambda post, me, it, value: evolve(post, letters=tuple(pair for pair in post.letters if pair[1])),
                lambda post, me, it, value: changed(post, me, told=post.letters),
                lambda post, me, it, value: changed(post, me, told=post.processes[it].told),
            ]
        return random.choice(writes)


def letters_of(post: Post) -> Letters:
    return post.letters


def _more(letters: Letters, letter: Letter, more: int) -> Letters:
    return with_value(letters, (letter, min(max((value_of(letters, letter) or 0) + more, 0), MOST)))


def _renamed(letters: Letters, names: Sequence[int]) -> Letters:
    return tuple(sorted([(letter.renamed(names), count) for letter, count in letters], key=in_order))
