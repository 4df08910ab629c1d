"""The log lines of groups: what operators may want to know of rebalances."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from tidegauge.impl.coordinators.groups.classic.messages import Note, Noted
from tidegauge.impl.ports.repeated_lines import RepeatedLines

LOGGER: Final = logging.getLogger(__name__)
MOST_LINES: Final = 100
"""In ten seconds: members come and go as they like."""
LONGEST_TEXT: Final = 255
"""Of what clients say, in characters."""


class GroupLines:
    """Tells of the groups of one broker."""

    def __init__(self) -> None:
        self._lines = RepeatedLines(most=MOST_LINES)

    def tell(self, notes: Iterable[Note]) -> None:
        """A line for each."""
        for note in notes:
            self._tell(note)

    def _tell(self, note: Note) -> None:
        lines = self._lines
        details: dict[str, object] = {
            "group": note.group[:LONGEST_TEXT],
            "generation": note.generation,
            "member": note.member[:LONGEST_TEXT] or None,
            "members": note.members or None,
            "why": note.why[:LONGEST_TEXT] or None,
        }
        match note.what:
            case Noted.REBALANCE:
                lines.log_event(LOGGER, logging.INFO, "group rebalances", **details)
            case Noted.STABLE:
                lines.log_event(LOGGER, logging.INFO, "group stable", **details)
            case Noted.EMPTY:
                lines.log_event(LOGGER, logging.INFO, "group empty", **details)
            case Noted.EXPIRED:
                lines.log_event(LOGGER, logging.INFO, "group member expired", **details)
            case Noted.REMOVED:
                lines.log_event(LOGGER, logging.INFO, "group members removed", **details)
            case Noted.REPLACED:
                lines.log_event(LOGGER, logging.INFO, "static member replaced", **details)
            case Noted.STALLED:
                lines.log_event(LOGGER, logging.WARNING, "group stalled", **details)
            case Noted.NOT_WRITTEN:
                lines.log_event(LOGGER, logging.WARNING, "group not written", **details)
            case Noted.GENERATION:
                lines.log_event(LOGGER, logging.DEBUG, "group generation begun", **details)
            case Noted.JOINED:
                lines.log_event(LOGGER, logging.DEBUG, "group member joined", **details)
            case Noted.LEFT:
                lines.log_event(LOGGER, logging.DEBUG, "group member left", **details)
