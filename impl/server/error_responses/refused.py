"""To refuse a request: its API's error response, made in slices while others have their turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.server.pace import Pace

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

Q = TypeVar("Q")
R = TypeVar("R")


async def refused(
    pace: Pace,
    request: Q,
    error_response: Callable[[Q, ErrorCode, str], Sliced[R]],
    error: ErrorCode,
    message: str = "",
) -> R:
    """The error response to a request."""
    return await pace.finish(error_response(request, error, message))
