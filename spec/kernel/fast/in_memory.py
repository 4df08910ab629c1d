"""States in memory: what a search has without a storage of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["InMemory"]


class InMemory:
    """Arrays in memory, and no checkpoint."""

    memory: int | None = None

    def __init__(self) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def array(self, name: str, kind: type[np.generic], count: int, lanes: int = 0) -> npt.NDArray[Any]:
        made = self._arrays[name] = np.zeros((count, lanes) if lanes else count, kind)
        return made

    def grown(self, name: str, least: int) -> npt.NDArray[Any]:
        """It has twice the room as often as needed: all that it has is copied."""
        before = self._arrays[name]
        count = max(1, len(before))
        while count < least:
            count *= 2
        larger = self._arrays[name] = np.zeros((count, *before.shape[1:]), before.dtype)
        larger[: len(before)] = before
        return larger

    def remove(self, name: str) -> None:
        del self._arrays[name]

    def release(self) -> None:
        """Memory is given back by itself."""

    def is_due(self) -> bool:
        return False

    def save(self, counts: Mapping[str, int], content: Mapping[str, Any]) -> None:
        """Nothing outlives the search."""

    def saved(self) -> None:
        """Nothing was saved."""

    def opened(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def begin(self) -> None:
        self._arrays.clear()
