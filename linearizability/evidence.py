"""What one operation proves: whether its records must not be lost, and until when it may take effect."""

from __future__ import annotations

from tidegauge.linearizability.history import NEVER, UNKNOWN, Kind, Operation, Outcome


def until(operation: Operation) -> int:
    """The end of the interval in which the operation took effect; an unknown one may do so at any later time.

    So may a produce with acks=0 or 1: what one leader has lost, another one may have.
    """
    may_be_lost = operation.kind is Kind.PRODUCE and operation.acks != -1
    if operation.outcome is Outcome.INFO or operation.returned is None or may_be_lost:
        return NEVER
    return operation.returned


def is_strong(operation: Operation) -> bool:
    """An acknowledged produce that must not be lost."""
    return operation.outcome is Outcome.OK and operation.acks == -1 and operation.offset != UNKNOWN


def is_weak(operation: Operation) -> bool:
    """An acknowledged produce that may be lost, but is nowhere but at its offset."""
    return operation.outcome is Outcome.OK and operation.acks != -1 and operation.offset != UNKNOWN
