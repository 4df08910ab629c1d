"""Log lines on standard error: `2026-01-31T12:00:00.123Z WARNING tidegauge.impl.…: what happened: node=broker-1 …`."""

from __future__ import annotations

import logging
import time
from typing import Literal

from tidegauge.screen import error_stream

LogLevel = Literal["debug", "info", "warning", "error"]


class _Lines(logging.Formatter):
    """One line each, in UTC; a traceback follows on lines of its own."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def write_log_lines(level: LogLevel) -> None:
    """Write the lines of this level and above to standard error, until the process ends."""
    handler = logging.StreamHandler(error_stream())
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("tidegauge")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
