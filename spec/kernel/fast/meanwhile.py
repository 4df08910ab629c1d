"""What the search's own thread asks of the machine while other threads walk the tries.

Threads say what they did not know, slice by slice; the machine is asked about it, in the order of slices, while they go
on with other slices. They read arrays of tries and questions meanwhile, so nothing that they might read is written:
what has been learned is held back until all of them are at rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast import packed
from tidegauge.spec.kernel.fast.layout import ShapeError
from tidegauge.spec.kernel.fast.programs import FollowError

__all__ = ["Meanwhile"]

Numbers = npt.NDArray[np.int64]


class Meanwhile:
    """What threads miss in one phase of a `FastSearch`, and what came of it."""

    def __init__(self, search: Any, misses: Numbers) -> None:
        """`misses`: by slice what its thread notes (`tidegauge.spec.kernel.fast.trie_tables.noted`)."""
        self._search, self._misses = search, misses
        self._met: set[tuple[int, int]] = set()
        self._left: list[tuple[int, int]] = []
        """Programs that have yet to run, with their states."""
        self._is_held = not len(search.renamings)
        """With symmetry every new value is renamed, in arrays that threads read: nothing is asked meanwhile."""
        if self._is_held:
            search.tries.hold()
            search.layout.questions.hold()

    def ask(self, each: int, ended: tuple[int, ...]) -> None:
        """Ask about a slice that has ended, the last number of which is how much it has noted, while others go on."""
        for program, state, of in self._misses[each, : ended[-1]].tolist():
            if (program, of) not in self._met:
                self._met.add((program, of))
                self._left.append((program, state))
        if self._is_held and self._left:
            self._is_held = self._run()

    def _run(self) -> bool:
        """Run what is left, up to what the search has to end for, or to begin again: whether there is no such thing."""
        search, left = self._search, self._left
        rows: npt.NDArray[np.uint32] = np.zeros((len(left), len(search.packing.widths)), np.uint32)
        packed.unpacked_all(search.rows, np.array([state for _, state in left]), search.packing.places, rows)
        done = 0
        try:
            for (program, _), row, numbers in zip(left, rows.tolist(), rows, strict=True):
                search.ask(program, row, numbers)
                done += 1
        except (ShapeError, FollowError):
            return False  # it comes again once the threads are at rest, if it has to
        finally:
            del left[:done]
        return True

    def learn(self) -> None:
        """All threads are at rest: have them see what has been learned."""
        search = self._search
        search.tries.release()
        search.layout.questions.release()
        if self._met:
            search.learn()

    def ask_rest(self) -> None:
        """Ask what has not been asked meanwhile."""
        if self._left:
            self._search.ask_all(np.array(self._left, np.int64), len(self._left))
