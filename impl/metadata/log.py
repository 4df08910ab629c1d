"""The metadata log, as the controller uses it: records are proposed, and count once they are committed.

The log is a list of decisions. A decision is a list of records that is committed as a whole or not at all. An offset
counts records. One node at a time may append, the *leader*; each leader has an epoch of its own, higher than all before
(KIP-595). A quorum of one commits when its own disk has the records. A quorum of many commits when a majority has them;
it offers the same operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidegauge.impl.metadata.records import MetadataRecord

NO_LEADER_ID = -1


class Leadership(NamedTuple):
    """Who may append to the metadata log: one node in each epoch. A `leader_id` of -1: no leader is known."""

    leader_id: int
    epoch: int


class NotLeaderError(Exception):
    """The log has another leader, so that this node cannot append."""


class MetadataLog(Protocol):
    """What the controller's node needs of its log."""

    @property
    def leadership(self) -> Leadership:
        """The leader as far as this node knows."""

    @property
    def end_offset(self) -> int:
        """The number of committed records: the offset that the next record gets."""

    async def leadership_after(self, known: Leadership) -> Leadership:
        """Wait until the leadership is not `known` (any more), and return it."""

    async def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append one decision, and return the end offset when it is committed.

        Raises OSError when the log cannot take it, and NotLeaderError when this node does not lead (any more); the
        decision may still be committed later then, in an epoch of this leader, by another one.
        """

    def read(self, offset: int) -> Sequence[MetadataRecord]:
        """The committed records from `offset` on."""
