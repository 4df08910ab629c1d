"""Strongly connected components of what a search has found.

R. Tarjan, "Depth-first search and linear graph algorithms" (1972).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

ELSEWHERE: Final = 2**32 - 1
"""The target of a step to a state that is not among those of the search."""


class Edges:
    """Steps of a search, by the numbers of their states: some four bytes for each step."""

    def __init__(self) -> None:
        self._starts = array("Q", [0])
        self._targets = array("I")
        self.add = self._targets.append
        """Adds the target of a step from the state that is being expanded."""
        self.add_all = self._targets.extend
        """Adds the targets of several, as an array of type I."""

    def close(self) -> None:
        """All steps from the state have been added; those of the next one follow."""
        self._starts.append(len(self._targets))

    @property
    def closed(self) -> int:
        """How many states have been expanded: of the others no step is known."""
        return len(self._starts) - 1

    def of(self, state: int) -> array[int]:
        """The targets of the steps from an expanded state."""
        return self._targets[self._starts[state] : self._starts[state + 1]]

    def bottom_components(self) -> Iterator[list[int]]:
        """Components out of which no step leads, each by its states in order.

        A step to a state that was not expanded leads out.
        """
        for component in self.components():
            members = set(component)
            if all(target in members for member in component for target in self.of(member)):
                yield component

    def components(self) -> Iterator[list[int]]:
        """All components, each by its states in order: found without recursion."""
        starts, targets, closed = self._starts, self._targets, self.closed
        number, low = array("I", [0]) * closed, array("I", [0]) * closed
        done = bytearray(closed)
        waiting: list[int] = []
        path: list[int] = []
        at: list[int] = []
        count = 0
        for root in range(closed):
            if number[root]:
                continue
            path.append(root)
            at.append(starts[root])
            while path:
                state, edge = path[-1], at[-1]
                if not number[state]:
                    count += 1
                    number[state] = low[state] = count
                    waiting.append(state)
                end = starts[state + 1]
                while edge < end:
                    target = targets[edge]
                    edge += 1
                    if target >= closed or done[target]:
                        continue
                    if not number[target]:
                        at[-1] = edge
                        path.append(target)
                        at.append(starts[target])
                        break
                    low[state] = min(low[state], number[target])
                else:
                    path.pop()
                    at.pop()
                    if path:
                        low[path[-1]] = min(low[path[-1]], low[state])
                    if low[state] == number[state]:
                        yield sorted(_popped(waiting, state, done))


def _popped(waiting: list[int], root: int, done: bytearray) -> list[int]:
    """The states of the component whose first state is `root`; they are done with."""
    place = len(waiting) - 1
    while waiting[place] != root:
        place -= 1
    component = waiting[place:]
    del waiting[place:]
    for state in component:
        done[state] = 1
    return component
