"""Where the active controller is, as far as a broker knows (KIP-595, KIP-853).

A broker is configured with the addresses of the voters of the metadata log's quorum. It begins with the first of them.
A node that does not lead the log names the leader, its epoch and its endpoint, and the broker turns to that one. A node
that cannot be reached, or that does not know the leader, is left for the next voter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegauge.impl.ports.network import Address

NO_EPOCH: Final = -1


class ActiveController:
    """The address to which a broker sends its requests, and how that changes."""

    def __init__(self, voters: Sequence[Address]) -> None:
        """Raises ValueError without a voter."""
        if not voters:
            raise ValueError("no voter: name the address of at least one controller")
        self._voters = tuple(voters)
        self.address = self._voters[0]
        self.epoch = NO_EPOCH
        """The highest epoch of a leader that a response has named; -1 before that."""

    def redirect(self, epoch: int, address: Address) -> None:
        """A response has named the leader of an epoch. An epoch that is older than the last one is ignored."""
        if epoch >= self.epoch:
            self.epoch, self.address = epoch, address

    def leave(self, address: Address) -> None:
        """The node at `address` is of no use: try the next voter, unless that was done already."""
        if address == self.address:
            place = self._voters.index(address) if address in self._voters else -1
            self.address = self._voters[(place + 1) % len(self._voters)]
