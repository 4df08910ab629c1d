"""Who made the record batches that a leader appends, which decides the rules that they are held to."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Origin(Enum):
    """Kafka's AppendOrigin, as far as it makes a difference here."""

    CLIENT = "client"
    """A producer: one batch, held to the rules for producers (KIP-98)."""
    BROKER = "broker"
    """A coordinator or the controller: intact batches, control batches among them, as large as a segment takes."""


CLIENT: Final = Origin.CLIENT
"""By a name of its own, for code that runs for each batch: to look a member up in its enum takes twice as long."""
