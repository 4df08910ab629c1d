"""One operation of what a client tried several times, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from tidegauge.linearizability.history import Outcome
from tidegauge.linearizability.tapped.lines import Sent

CERTAINLY_NOT: Final = frozenset(
    {
        2,  # CORRUPT_MESSAGE
        10,  # MESSAGE_TOO_LARGE
        17,  # INVALID_TOPIC_EXCEPTION
        18,  # RECORD_LIST_TOO_LARGE
        19,  # NOT_ENOUGH_REPLICAS: before the append; 20 is after it
        21,  # INVALID_REQUIRED_ACKS
        29,  # TOPIC_AUTHORIZATION_FAILED
        31,  # CLUSTER_AUTHORIZATION_FAILED
        32,  # INVALID_TIMESTAMP
        42,  # INVALID_REQUEST
        43,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
        45,  # OUT_OF_ORDER_SEQUENCE_NUMBER
        47,  # INVALID_PRODUCER_EPOCH
        48,  # INVALID_TXN_STATE
        53,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        59,  # UNKNOWN_PRODUCER_ID
        76,  # UNSUPPORTED_COMPRESSION_TYPE
        87,  # INVALID_RECORD
        90,  # PRODUCER_FENCED
    }
)
"""Errors with which a broker says that it has appended nothing.

Not among them: NOT_LEADER_OR_FOLLOWER, for a leader that is deposed while its append waits says so as well.
"""

Key = tuple[str, int, int, int, int, int]
_CERTAINTY: Final = {Outcome.OK: 0, Outcome.INFO: 1, Outcome.FAIL: 2}


@attrs.define(eq=False)
class Produce:
    """A batch that was sent, once or again and again, as one operation."""

    sent: Sent
    """The first attempt."""
    outcome: Outcome
    call: int
    returned: int | None = None
    offset: int | None = None
    elsewhere: list[Sent] = attrs.field(factory=list)
    """Attempts that were acknowledged at another offset."""


def outcome_of(sent: Sent) -> Outcome:
    """What a response says of one attempt."""
    if sent.returned is None or (sent.error is None and sent.acks != 0):
        return Outcome.INFO
    if sent.acks == 0:
        return Outcome.OK
    if sent.error:
        return Outcome.FAIL if sent.error in CERTAINLY_NOT else Outcome.INFO
    return Outcome.INFO if sent.offset is None else Outcome.OK


def produces(lines: Iterable[Sent]) -> list[Produce]:
    """The operations. An idempotent producer that sends a batch again, on any connection, does one thing (KIP-98)."""
    found: list[Produce] = []
    again: dict[Key, list[Sent]] = {}
    for sent in lines:
        if not sent.values:
            continue
        if sent.producer is None:
            found.append(_of((sent,)))
        else:
            key = (sent.topic, sent.partition, *sent.producer, len(sent.values))
            again.setdefault(key, []).append(sent)
    found += map(_of, again.values())
    return _without_shapes_that_failed(found)


def _of(attempts: Sequence[Sent]) -> Produce:
    attempts = sorted(attempts, key=lambda one: one.call)
    outcomes = [outcome_of(one) for one in attempts]
    done = [one for one, outcome in zip(attempts, outcomes, strict=True) if outcome is Outcome.OK]
    first, call = attempts[0], attempts[0].call
    if not done:
        failed = all(outcome is Outcome.FAIL for outcome in outcomes)
        returned = max(one.returned or 0 for one in attempts) if failed else None
        return Produce(first, Outcome.FAIL if failed else Outcome.INFO, call, returned)
    offset = done[0].offset
    returned = min(one.returned for one in done if one.offset == offset and one.returned is not None)
    return Produce(first, Outcome.OK, call, returned, offset, [one for one in done if one.offset != offset])


def _without_shapes_that_failed(found: list[Produce]) -> list[Produce]:
    """A batch that was too large is sent again as several: each record stays in the one batch that tells most of it.

    That is one that was appended, else one that may have been, else the last one that failed.
    """
    told: set[tuple[str, int, int]] = set()
    superseded: set[int] = set()
    numbered = [(number, one) for number, one in enumerate(found) if one.sent.producer is not None]
    for number, one in sorted(numbered, key=lambda each: (_CERTAINTY[each[1].outcome], -each[1].call)):
        records = {(one.sent.topic, one.sent.partition, value) for value in one.sent.values}
        if one.outcome is not Outcome.OK and not told.isdisjoint(records):
            superseded.add(number)
        else:
            told |= records
    return [one for number, one in enumerate(found) if number not in superseded]
