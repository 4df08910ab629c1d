"""Refused logins in the log: who tried where, from which host, and why it failed. So many lines and no more.

Anybody who can connect can fail to log in, as often as they like.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from tidegauge.impl.ports.repeated_lines import RepeatedLines

LOGGER: Final = logging.getLogger(__name__)


class FailedLogins:
    """The refused logins at one listener."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._lines = RepeatedLines(trio.current_time)

    def note(self, host: str, reason: str) -> None:
        """Somebody from this host was refused."""
        self._lines.log_event(
            LOGGER,
            logging.WARNING,
            "login refused",
            listener=self._listener,
            peer=host or None,
            why=reason,
            next="the connection is closed",
        )

    def note_broken_off(self, host: str, mechanism: str) -> None:
        """Somebody from this host has left in the midst of an exchange."""
        self._lines.log_event(
            LOGGER,
            logging.WARNING,
            "login broken off",
            listener=self._listener,
            peer=host or None,
            why=f"the peer left before authentication by {mechanism} was over",
            next="if it is one of yours, compare its credentials, or its cluster secret, with this node's",
        )
