"""The one exception of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode


class KafkaError(Exception):
    """An operation failed.

    `code` is Kafka's error code; NETWORK_EXCEPTION means that no response came. `maybe_done` says that the
    operation may have taken effect all the same, or may yet: records of a produce that timed out, say.
    """

    def __init__(self, code: ErrorCode, message: str, *, maybe_done: bool = False) -> None:
        doubt = " (it may have been carried out)" if maybe_done else ""
        super().__init__(f"{code.name.upper()}: {message}{doubt}")
        self.code = code
        self.maybe_done = maybe_done
