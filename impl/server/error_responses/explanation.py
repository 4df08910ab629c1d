"""The message that explains an error to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode


def explained(error: ErrorCode, message: str) -> str:
    """The message, or the error's name as a sentence where there is none: every error of Kafka has a text, and clients
    show it.
    """
    return message or f"{error.name.replace('_', ' ').capitalize()}."


def explain_error(error: ErrorCode, message: str | None = None) -> str | None:
    """The text beside an error code in a response: none beside NONE, and never an empty one beside an error."""
    return explained(error, message or "") if error.value else None
