"""Coordinators that cannot read their logs: where nothing is damaged there are none.

Another broker, or the same one later, may read the log after all, when the cleaner has been there. So a group that
comes together in the end does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog, Led


@contextmanager
def unread_logs() -> Iterator[list[str]]:
    """What the brokers that run meanwhile cannot read, in words. Want of room or descriptors passes, and is none."""
    found: list[str] = []
    tell = CoordinatorLog._tell_not_loaded

    def telling(log: CoordinatorLog[Any], led: Led[Any], error: Exception, *, is_passing: bool) -> None:
        if not is_passing:
            found.append(f"{log.topic}-{led.index} has no coordinator in leader epoch {led.leader_epoch}: {error}")
        tell(log, led, error, is_passing=is_passing)

    with patch.object(CoordinatorLog, "_tell_not_loaded", telling):
        yield found
