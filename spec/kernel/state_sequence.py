"""The states of a search as a sequence, for an engine that makes them again when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

__all__ = ["StateSequence"]

S = TypeVar("S")


class StateSequence(Sequence[S], Generic[S]):
    """States by their numbers: `count` says how many there are now, `made` gives those of some numbers, in order."""

    def __init__(self, count: Callable[[], int], made: Callable[[Sequence[int]], Sequence[S]]) -> None:
        self._count, self._made = count, made

    def __len__(self) -> int:
        return self._count()

    @overload
    def __getitem__(self, index: int) -> S: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[S]: ...
    def __getitem__(self, index: int | slice) -> S | Sequence[S]:
        known = range(len(self))
        if isinstance(index, slice):
            return self._made(known[index])
        (state,) = self._made((known[index],))  # an IndexError where there is none, which ends a loop over all
        return state
