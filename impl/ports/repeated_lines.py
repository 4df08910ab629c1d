"""Log lines that others can cause as often as they like: so many in a while, and the number of those left out."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from tidegauge.impl.ports.log_lines import log_event


def _trio_time() -> float:
    return trio.current_time() if trio.lowlevel.in_trio_run() else 0.0


class RepeatedLines:
    """Logs at most `most` lines in `seconds`; the first line of the next such time tells how many were left out."""

    def __init__(self, now: Callable[[], float] | None = None, *, most: int = 10, seconds: float = 10.0) -> None:
        """`now` is a clock in seconds that never goes back; without one it is trio's, and stands still elsewhere."""
        self._now = _trio_time if now is None else now
        self._most = most
        self._seconds = seconds
        self._began_at = float("-inf")
        self._logged = 0
        self._left_out = 0

    def log_event(self, logger: logging.Logger, level: int, event: str, /, **details: object) -> None:
        """Log as `log_lines.log_event` does, or count the line as left out."""
        now = self._now()
        if now - self._began_at >= self._seconds:
            self._began_at, self._logged = now, 0
        if self._logged >= self._most:
            self._left_out += 1
            return
        self._logged += 1
        left_out, self._left_out = self._left_out, 0
        log_event(logger, level, event, **details, left_out_before=left_out or None)
