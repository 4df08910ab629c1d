"""Requests that took a node long: each gets a line in the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.wire.codecs import api_name

if TYPE_CHECKING:
    from tidegauge.impl.server.transport.context import RequestContext

LOGGER: Final = logging.getLogger(__name__)

SLOW_S: Final = 1.0
"""Seconds of handling after which a request counts as slow; what it waits for others does not count."""


def _repeated_lines() -> RepeatedLines:
    return RepeatedLines(trio.current_time)


@attrs.frozen(eq=False, repr=False)
class SlowRequests:
    """The slow requests of one node."""

    _lines: RepeatedLines = attrs.field(factory=_repeated_lines)

    def log(self, context: RequestContext, seconds: float) -> None:
        """Log a request whose handling took more than `SLOW_S`."""
        self._lines.log_event(
            LOGGER,
            logging.WARNING,
            "slow request",
            api=api_name(context.api_key),
            version=context.api_version,
            client=context.client_id,
            peer=context.client_host or None,
            seconds=seconds,
            why="its handler, the disk or other requests took that long",
        )
