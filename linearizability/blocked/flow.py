"""Where the tasks of a judgement run: all that it asks of those who spread them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import attrs

from tidegauge.linearizability.history import Operations

Task = Callable[[int, Operations], Iterable[Any]]
"""What is done with a block, given its number and its rows."""
Meeting = Callable[[int, Sequence[Any]], Iterable[Any]]
"""What is done in a bucket, given its number and the parcels that were sent there, in any order."""


class Flow(Protocol):
    """What tasks have sent on: pairs of a bucket's number and a parcel."""

    def beside(self, other: Flow) -> Flow:
        """What both have sent."""

    def meet(self, buckets: int, task: Meeting) -> Flow:
        """What `task` sends on in each of the `buckets`. Called for those that were sent something."""

    def all(self) -> list[Any]:
        """Everything that was sent, in any order."""


class Blocks(Protocol):
    """The rows of a history in blocks, whose numbers rise with the index; a block may be read more than once."""

    def each(self, task: Task, only: frozenset[int] | None = None) -> Flow:
        """What `task` sends in every block, or in those that are named."""


@attrs.frozen
class Sent:
    """A flow whose tasks run here, one after the other."""

    pairs: tuple[Any, ...]

    def beside(self, other: Flow) -> Sent:
        return Sent((*self.pairs, *other.all()))

    def meet(self, buckets: int, task: Meeting) -> Sent:
        sent: dict[int, list[Any]] = {}
        for bucket, parcel in self.pairs:
            assert 0 <= bucket < buckets, f"there is no bucket {bucket}"
            sent.setdefault(bucket, []).append(parcel)
        return Sent(tuple(pair for bucket, parcels in sent.items() for pair in task(bucket, parcels)))

    def all(self) -> list[Any]:
        return list(self.pairs)


@attrs.frozen(eq=False)
class Cut:
    """A history at hand in blocks that begin at the rows `begins`: for tests, and to see what blocks cost alone."""

    operations: Operations
    begins: tuple[int, ...]

    @classmethod
    def into(cls, operations: Operations, size: int) -> Cut:
        """Blocks of `size` rows."""
        return cls(operations, tuple(range(0, len(operations), size)))

    def each(self, task: Task, only: frozenset[int] | None = None) -> Sent:
        ends = (*self.begins[1:], len(self.operations))
        blocks = enumerate(zip(self.begins, ends, strict=True))
        wanted = [(number, bounds) for number, bounds in blocks if only is None or number in only]
        return Sent(tuple(pair for number, bounds in wanted for pair in task(number, self.operations.slice(*bounds))))
