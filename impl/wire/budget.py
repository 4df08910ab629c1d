"""How many elements a request may have, counted while it is read.

A byte or two of a request can stand for an element of an array, which costs a hundred times as much memory and a
microsecond and more at every place that it passes. So a request has a budget of elements, and is refused when it claims
more: before the first of them is read, if the claim is made by one array. Tagged fields count too. Kafka knows no such
limit; nothing of use comes near it.
"""

from __future__ import annotations

from typing import Final

from tidegauge.impl.records.slices import STEP as STEP

MAX_ELEMENTS: Final = 100_000
"""Elements of all arrays of a request, and its tagged fields, together; of most APIs less (`wire.element_limits`)."""
MAX_TAGS: Final = 256
"""Tagged fields of one structure (KIP-482); Kafka has defined less than ten of any."""
SHORT_BYTES: Final = 4096
"""A Produce or Fetch request of no more bytes has no more elements than a slice, and is read at once."""
READ_UNITS: Final = 3
"""Units (`records.slices`) that it takes to read an element, or to convert it to another version."""
WRITE_UNITS: Final = 8
"""The same to write it."""


class TooManyElementsError(ValueError):
    """A message has more elements than it may."""


class Budget:
    """What a message may still have, and what was read since the last step."""

    __slots__ = ("due", "left", "most")

    def __init__(self, most: int = MAX_ELEMENTS) -> None:
        self.most = self.left = most
        self.due = 0
        """Elements since the last step."""

    def claim(self, count: int) -> None:
        """Take so many elements from the budget. Raises TooManyElementsError."""
        self.left -= count
        if self.left < 0:
            raise TooManyElementsError(
                f"{count} elements more: a request of this API has {self.most} at most, send several"
            )

    def step(self) -> int:
        """The units of work that are due now."""
        units = self.due * READ_UNITS
        self.due = 0
        return units
