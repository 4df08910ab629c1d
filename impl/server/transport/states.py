"""The states of a connection, and the table of its transitions.

    state      the connection's task                                            its move      has a turn
    READING    waits for the peer's next frame                                   the peer's    no
    READY      goes on without a turn: with a frame, or after a wait             the server's  no
    QUEUED     waits for a turn: `queued.max.requests` are being handled         the server's  no
    HANDLING   handles requests, one after the other                             the server's  yes
    WAITING    waits on behalf of the peer: for records, for the controller, …   the server's  no
    SENDING    sends responses                                                   the peer's    no
    CLOSED     has ended                                                         nobody's      no

A connection keeps its turn for all requests that it has read together, and gives it up when it leaves HANDLING: nobody
waits for a turn because another peer is slow, or because records have not come. What is left of a request after its
wait needs no turn. While it is the peer's move a connection may be idle. The frames of a gate (`security.sasl_gate`)
are taken in READY or HANDLING, and need no turn.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ConnectionState(IntEnum):
    """What a connection's task does."""

    READING = 0
    READY = 1
    QUEUED = 2
    HANDLING = 3
    WAITING = 4
    SENDING = 5
    CLOSED = 6


READING, READY, QUEUED = ConnectionState.READING, ConnectionState.READY, ConnectionState.QUEUED
HANDLING, WAITING = ConnectionState.HANDLING, ConnectionState.WAITING
SENDING, CLOSED = ConnectionState.SENDING, ConnectionState.CLOSED

NEXT: Final[tuple[frozenset[ConnectionState], ...]] = (
    frozenset({READY, CLOSED}),
    frozenset({READING, QUEUED, HANDLING, WAITING, SENDING, CLOSED}),
    frozenset({HANDLING, CLOSED}),
    frozenset({READING, WAITING, SENDING, CLOSED}),
    frozenset({READY, CLOSED}),
    frozenset({READY, CLOSED}),
    frozenset(),
)
"""The states that may follow each state, in the order of `ConnectionState`."""

PEERS_MOVE: Final = frozenset({READING, SENDING})
"""The states in which a connection may be idle."""
