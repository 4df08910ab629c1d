"""How a command ends."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The exit status of every command."""

    HOLDS = 0
    VIOLATED = 1
    COULD_NOT_RUN = 2
    INTERRUPTED = 130


def in_one_line(error: BaseException) -> str:
    """What an error says, in one line and without the system's number for it."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


class Unusable(Exception):  # noqa: N818 - what the user gave, not an error of ours
    """Input that a command can't work with; one line with the thing, the value and the way out."""
