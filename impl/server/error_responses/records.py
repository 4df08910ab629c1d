"""Error responses: Produce and Fetch, whose messages are the project's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.records.slices import Sliced, done
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire import fetch_messages, produce_messages

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.wire.fetch_messages import FetchRequest, FetchResponse
    from tidegauge.impl.wire.produce_messages import ProduceRequest, ProduceResponse


def produce_error(request: ProduceRequest, error: ErrorCode, message: str = "") -> Sliced[ProduceResponse]:
    """Every partition of the request, with the error."""
    return done(produce_messages.produce_error(request, error, explained(error, message)))


def fetch_error(request: FetchRequest, error: ErrorCode, _: str = "") -> Sliced[FetchResponse]:
    """The error, for the request and for every partition of it."""
    return done(fetch_messages.fetch_error(request, error))
