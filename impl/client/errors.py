"""The exceptions of the client: `KafkaError`, and for what only a consumer meets, kinds of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.client.positions import Truncation


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


class NoPositionError(KafkaError):
    """There is nothing to go on from in these partitions, and `auto_offset_reset` is none: seek, or commit first."""

    def __init__(self, code: ErrorCode, message: str, partitions: tuple[tuple[str, int], ...]) -> None:
        super().__init__(code, message)
        self.partitions = partitions


class TruncatedError(KafkaError):
    """What was read is in the log no more (KIP-320), and `auto_offset_reset` is none: seek to where to go on."""

    def __init__(self, code: ErrorCode, message: str, truncation: Truncation) -> None:
        super().__init__(code, message)
        self.truncation = truncation


class CommitFailedError(KafkaError):
    """The consumer is no member of this generation any more: somebody else may have its partitions.

    What was read since the last commit will be read again, by whom it was given to.
    """


class WakeupError(Exception):
    """Somebody has called `wakeup`: nothing was lost, and the consumer may go on."""
