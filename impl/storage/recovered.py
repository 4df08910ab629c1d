"""What reading a segment's file from its start has found, besides the segment's own state."""

from __future__ import annotations

from typing import NamedTuple


class Recovered(NamedTuple):
    """What `Segment.recover` has found."""

    cut: int
    """Bytes from the first place on that is not intact, and that may be cut."""
    contiguous_end: int
    """The offset up to which there are batches without a gap between them."""
    last_epoch: int
    """The leader epoch of the last batch."""
    has_markers: bool
    """Whether a transaction's marker is among them."""
