"""The error codes in a response, wherever it has them: of the request as a whole, of each item.

Kafka's responses do the same by their method `errorCounts`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kio.schema.errors import ErrorCode


def has_error(response: Any, error: ErrorCode) -> bool:
    """Whether one of kio's messages has this error code, in itself or in a message within it."""
    for field in dataclasses.fields(response):
        value = getattr(response, field.name)
        if value is error:
            return True
        if isinstance(value, tuple):
            if any(has_error(item, error) for item in value if dataclasses.is_dataclass(item)):
                return True
        elif dataclasses.is_dataclass(value) and has_error(value, error):
            return True
    return False
