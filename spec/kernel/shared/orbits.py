"""Orbits that have the same name in all processes: it is the member with the least hashes."""

from __future__ import annotations

from typing import Generic, TypeVar

from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.shared.values import Key, Values
from tidegauge.spec.kernel.symmetry import Orbits

__all__ = ["NamedOrbits"]

S = TypeVar("S")


class NamedOrbits(Generic[S]):
    """Names the orbit of a state by one of its members, and measures it (see `spec.kernel.symmetry`)."""

    def __init__(self, machine: Machine[S], values: Values[S]) -> None:
        self.renamings = Orbits(machine).renamings
        self._permute, self._values = machine.permute, values
        self._known: dict[Key, tuple[Key, int]] = {}

    def of(self, key: Key, state: S) -> tuple[Key, int]:
        """The orbit of the state that has this key, by the key of one member, and the number of states in it."""
        found = self._known.get(key)
        if found is None:
            values = self._values
            members = {key, *[values.key(self._permute(state, renaming)) for renaming in self.renamings]}
            found = self._known[key] = self._first(members), len(members)
        return found

    def _first(self, members: set[Key]) -> Key:
        """The member with the least hashes; of several that have the same, the one that reads first."""
        named = [*zip(self._values.hashes(members), members, strict=True)]
        least = min(hashes for hashes, _ in named)
        best = [member for hashes, member in named if hashes == least]
        return best[0] if len(best) == 1 else min(best, key=lambda member: str(plain(self._values.state(member))))
