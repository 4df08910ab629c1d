"""Fair steps between numbered states, and the bottom components of their graph, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegauge.compilation.kept_code import compiled_and_kept
from tidegauge.spec.kernel.storage import Storage

__all__ = ["FairSteps", "components"]

TARGETS, STARTS = "fair-targets", "fair-starts"
_SCRATCH = ("component", "number", "low", "waiting", "path")
_AT = "edges"


class FairSteps:
    """The fair steps of a search, in arrays that the kernel fills: see `tidegauge.spec.kernel.convergence.Edges`."""

    def __init__(self, array: Callable[[str, type[np.generic]], npt.NDArray[Any]], storage: Storage) -> None:
        """`array` makes an array in the storage, or has it from there."""
        self._storage = storage
        self.targets: npt.NDArray[np.uint32] = array(TARGETS, np.uint32)
        self.starts: npt.NDArray[np.int64] = array(STARTS, np.int64)
        """By state: where its steps begin, which is where those of the one before end."""
        self.count = 0
        self.closed = 0

    @property
    def counts(self) -> dict[str, int]:
        """What of each array is to be saved."""
        return {TARGETS: self.count, STARTS: self.closed + 1}

    def make_room(self, more: int) -> None:
        if self.count + more > len(self.targets):
            self.targets = self._storage.grown(TARGETS, self.count + more)

    def have_states(self, count: int) -> None:
        if count >= len(self.starts):
            self.starts = self._storage.grown(STARTS, count + 1)

    def bottom_components(self) -> Iterator[list[int]]:
        """Components out of which no step leads, each by its states in order."""
        scratch = [self._storage.array(name, np.uint32, self.closed + 1) for name in _SCRATCH]
        at = self._storage.array(_AT, np.int64, self.closed + 1)
        component = scratch[0]
        bottom: Any = _components(self.targets, self.starts, self.closed, at, *scratch)
        states = np.flatnonzero(bottom[component[: self.closed] - 1]) if self.closed else np.zeros(0, np.int64)
        order = states[np.argsort(component[states], kind="stable")]
        if len(order):
            for members in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
                yield members.tolist()
        for name in (*_SCRATCH, _AT):
            self._storage.remove(name)


def components(targets: npt.NDArray[np.uint32], starts: npt.NDArray[np.int64], closed: int) -> npt.NDArray[np.uint32]:
    """The component of each of `closed` states, whose steps are given as those of `FairSteps`."""
    found, *scratch = (np.zeros(closed + 1, np.uint32) for _ in _SCRATCH)
    _components(targets, starts, closed, np.zeros(closed + 1, np.int64), found, *scratch)
    return found[:closed]


@compiled_and_kept()
def _components(targets, starts, closed, at, component, number, low, waiting, path):
    """The component of each state (Tarjan 1972, without recursion), from 1 on; gives which of them no step leaves.

    All arrays are of zeros, and have room for `closed` states.
    """
    waits = depth = count = components = 0
    for root in range(closed):
        if number[root]:
            continue
        path[0], at[0], depth = root, starts[root], 1
        while depth:
            state, edge = path[depth - 1], at[depth - 1]
            if not number[state]:
                count += 1
                number[state] = low[state] = count
                waiting[waits] = state
                waits += 1
            end = starts[state + 1]
            entered = False
            while edge < end:
                target = np.int64(targets[edge])
                edge += 1
                if target >= closed or component[target]:
                    continue
                if not number[target]:
                    at[depth - 1] = edge
                    path[depth], at[depth] = target, starts[target]
                    depth += 1
                    entered = True
                    break
                low[state] = min(low[state], number[target])
            if entered:
                continue
            depth -= 1
            if depth:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[state])
            if low[state] == number[state]:
                components += 1
                while True:
                    waits -= 1
                    component[waiting[waits]] = components
                    if waiting[waits] == state:
                        break
    bottom = np.ones(components, np.bool_)
    for state in range(closed):
        for edge in range(starts[state], starts[state + 1]):
            target = targets[edge]
            if target >= closed or component[target] != component[state]:
                bottom[component[state] - 1] = False
    return bottom
