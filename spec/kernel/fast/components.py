"""Fair steps between numbered states, and the bottom components of their graph, compiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["FairSteps"]


class FairSteps:
    """The fair steps of a search, in arrays that the kernel fills: see `tidegauge.spec.kernel.convergence.Edges`."""

    def __init__(self) -> None:
        self.targets: npt.NDArray[np.uint32] = np.zeros(1 << 14, np.uint32)
        self.starts: npt.NDArray[np.int64] = np.zeros(1 << 12, np.int64)
        """By state: where its steps begin, which is where those of the one before end."""
        self.count = 0
        self.closed = 0

    def make_room(self, more: int) -> None:
        while self.count + more > len(self.targets):
            self.targets = np.concatenate([self.targets, np.zeros_like(self.targets)])

    def have_states(self, count: int) -> None:
        while count >= len(self.starts):
            self.starts = np.concatenate([self.starts, np.zeros_like(self.starts)])

    def bottom_components(self) -> Iterator[list[int]]:
        """Components out of which no step leads, each by its states in order."""
        component, bottom = _components(self.targets, self.starts, self.closed)
        states = np.flatnonzero(bottom[component]) if self.closed else np.zeros(0, np.int64)
        order = states[np.argsort(component[states], kind="stable")]
        if len(order):
            for members in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
                yield members.tolist()


@njit(cache=True)
def _components(targets, starts, closed):
    """The component of each state (Tarjan 1972, without recursion), and which components no step leaves."""
    number = np.zeros(closed, np.int64)
    low = np.zeros(closed, np.int64)
    component = np.full(closed, -1, np.int64)
    waiting = np.empty(closed, np.int64)
    path = np.empty(closed, np.int64)
    at = np.empty(closed, np.int64)
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
                if target >= closed or component[target] >= 0:
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
                while True:
                    waits -= 1
                    component[waiting[waits]] = components
                    if waiting[waits] == state:
                        break
                components += 1
    bottom = np.ones(components, np.bool_)
    for state in range(closed):
        for edge in range(starts[state], starts[state + 1]):
            target = targets[edge]
            if target >= closed or component[target] != component[state]:
                bottom[component[state]] = False
    return component, bottom
