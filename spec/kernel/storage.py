"""Where a search keeps its states: a port, as a search itself opens no file.

Without one the states are in memory. With one (`tidegauge.model_tests.harness.storage`) they are in files, which the
system reads and writes as it has room, and a checkpoint is saved now and then, from which a later search goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["CheckpointError", "Storage", "StorageError"]


class StorageError(Exception):
    """States that cannot be kept, such as on a full disk; says what remains."""


class CheckpointError(Exception):
    """A checkpoint from which this search cannot go on, and why."""


class Storage(Protocol):
    """Arrays by name, and the checkpoint. Each method may raise StorageError."""

    memory: int | None
    """Bytes of memory that the states may take; None for no limit."""

    def array(self, name: str, kind: type[np.generic], count: int, lanes: int = 0) -> npt.NDArray[Any]:
        """A new array of zeros under that name, in the place of the one before; with `lanes` of two dimensions."""

    def grown(self, name: str, least: int) -> npt.NDArray[Any]:
        """The array of that name with room for `least` or more, its content as it was."""

    def remove(self, name: str) -> None:
        """The array is not needed any more."""

    def release(self) -> None:
        """Nothing is being read at the moment: memory may be given back."""

    def is_due(self) -> bool:
        """Whether a checkpoint is to be saved."""

    def save(self, counts: Mapping[str, int], content: Mapping[str, Any]) -> None:
        """Save a checkpoint: the first `counts[name]` of each array, and `content`.

        What was saved of an array is not changed any more; only more is added, or another array takes its place.
        """

    def saved(self) -> Mapping[str, Any] | None:
        """The content of the checkpoint to go on from, whose arrays are those of this storage; None for a new search.

        Raises CheckpointError.
        """

    def opened(self, name: str) -> npt.NDArray[Any]:
        """An array of the checkpoint to go on from."""

    def begin(self) -> None:
        """The search begins anew: nothing of what was kept is needed."""
