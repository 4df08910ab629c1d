"""What a machine is made of, as the fast engine runs it: programs, and what they came to.

A *program* is a piece of the machine that depends on a state alone: which actions are worth asking, what one action
does, whether an invariant holds. It runs once for each combination of the words that it reads, over a view
(`tidegauge.spec.kernel.fast.views`); its outcomes are kept in a trie (`tidegauge.spec.kernel.fast.tries`).

The machine is asked in the way in which it shares work between states: one program for each rule by which a class of
action enumerates its instances, one for each instance; or one for all candidates; or, where a machine has successors
of its own, one for all that may happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from tidegauge.spec.kernel.guarded import EnumeratingMachine, GuardedMachine, RuledMachine
from tidegauge.spec.kernel.machine import Action, Machine

S = TypeVar("S")
__all__ = ["Asking", "FollowError", "asking", "behind_each"]


class FollowError(Exception):
    """A machine that the fast engine cannot follow, and why."""


class Asking(Generic[S]):
    """How a machine is asked what may happen."""

    bases: tuple[Callable[[S], Iterable[Action]], ...]
    """Each gives actions that are worth asking."""
    take: Callable[[S, Action], S | None]
    """The state after an action; None if it may not happen."""

    def __init__(self, bases: Iterable[Callable[[S], Iterable[Action]]], take: Callable[[S, Action], S | None]) -> None:
        self.bases, self.take = tuple(bases), take


def asking(machine: Machine[S]) -> Asking[S] | None:
    """How to ask the machine; None for one whose successors are its own."""
    kind = type(machine)
    if isinstance(machine, GuardedMachine) and kind.successors is GuardedMachine.successors:

        def guarded(state: S, action: Any) -> S | None:
            after: S | None = action.tried(machine, state)
            return after

        if isinstance(machine, EnumeratingMachine) and type(machine).candidates is EnumeratingMachine.candidates:
            rules = [rule for kind in machine.possible_types for rule in kind.candidate_rules(machine)]
            return Asking(rules, guarded)
        if isinstance(machine, RuledMachine) and type(machine).candidates is RuledMachine.candidates:
            return Asking(machine.candidate_rules(), guarded)
        return Asking([machine.candidates], guarded)
    if kind.successors is Machine.successors:
        return Asking([machine.actions], machine.step)
    return None


def behind_each(names: Sequence[str]) -> list[int]:
    """By place among names, of which equal ones follow each other: where the next other name is."""
    places = [len(names)]
    for place in range(len(names) - 1, 0, -1):
        places.append(places[-1] if names[place] == names[place - 1] else place)
    return places[::-1]
