"""Verification that a transaction may begin in a partition: its leader asks the coordinator first (KIP-890).

A record of a producer that has no transaction open here is appended only if the coordinator has said that the partition
is in its transaction. It is of one producer epoch. It holds until a record of the producer uses it, or a marker
ends the transaction: one that was asked for before a marker and arrives after it is void (KAFKA-14884). No log has it:
a replica that begins another leader epoch forgets all.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs


@attrs.define(eq=False)
class Verification:
    """A question to the coordinator, and its response."""

    producer_id: int
    epoch: int
    is_confirmed: bool = False
    is_old: bool = False
    """Whether nobody has made use of it for a while."""


class Verifications:
    """What a leader has asked coordinators in its leader epoch, by producer id and epoch."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, dict[int, Verification]] = {}

    def begin(self, producer_id: int, epoch: int) -> Verification:
        """The leader is about to ask. Several requests may wait for one response."""
        return self._of.setdefault(producer_id, {}).setdefault(epoch, Verification(producer_id, epoch))

    def confirm(self, asked: Verification) -> bool:
        """The coordinator has said yes; False if the question is out of date, and the verification void."""
        is_current = self._of.get(asked.producer_id, {}).get(asked.epoch) is asked
        asked.is_confirmed |= is_current
        return is_current

    def is_verified(self, producer_id: int, epoch: int) -> bool:
        """Whether a record of this epoch may begin a transaction."""
        known = self._of.get(producer_id, {}).get(epoch)
        return known is not None and known.is_confirmed

    def end(self, producer_id: int) -> None:
        """A record of the producer, or a marker, has been appended: its verification is used, or true no more."""
        self._of.pop(producer_id, None)

    def forget_old(self) -> None:
        """Forget what has been there since the last time: a producer that comes late is asked about again."""
        for producer_id, epochs in list(self._of.items()):
            kept = {epoch: asked for epoch, asked in epochs.items() if not asked.is_old}
            if kept:
                self._of[producer_id] = kept
            else:
                del self._of[producer_id]
            for asked in kept.values():
                asked.is_old = True

    def __iter__(self) -> Iterator[Verification]:
        """Those that were confirmed."""
        return (asked for epochs in self._of.values() for asked in epochs.values() if asked.is_confirmed)
