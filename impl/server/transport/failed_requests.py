"""Requests whose handlers failed unexpectedly: logged and kept, because each is a bug."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from tidegauge.impl.ports.log_lines import log_error
from tidegauge.impl.server import trace
from tidegauge.impl.wire.codecs import api_name

if TYPE_CHECKING:
    from tidegauge.impl.server.trace.tracer import Tracer
    from tidegauge.impl.server.transport.context import RequestContext

LOGGER: Final = logging.getLogger(__name__)
MOST: Final = 100


@attrs.define(eq=False, repr=False)
class FailedRequests:
    """The failed requests of one node. Their clients have got UNKNOWN_SERVER_ERROR; nothing else was harmed."""

    tracer: Tracer
    last: list[str] = attrs.field(factory=list)
    """The last hundred of them, the latest at the end: API and error."""

    def note(self, context: RequestContext, error: Exception) -> None:
        name = api_name(context.api_key)
        self.last = [*self.last[1 - MOST :], f"{name}: {error!r}"]
        if self.tracer.trace is not None:
            self.tracer.record(trace.events.RequestFailed, api=name, error=repr(error))
        log_error(
            LOGGER,
            "request failed",
            error,
            api=name,
            version=context.api_version,
            client=context.client_id,
            why="an error that no code expects; its traceback follows",
            next="its client has got UNKNOWN_SERVER_ERROR; nothing else was harmed",
        )
