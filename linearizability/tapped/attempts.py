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
    """A batch that was too large is sent again as several: what of it was never appended is left out."""
    counts: dict[tuple[str, int, int], int] = {}
    for one in found:
        if one.sent.producer is not None:
            for value in one.sent.values:
                key = one.sent.topic, one.sent.partition, value
                counts[key] = counts.get(key, 0) + 1

    def is_superseded(one: Produce) -> bool:
        sent = one.sent
        if sent.producer is None or one.outcome is Outcome.OK:
            return False
        return any(counts[sent.topic, sent.partition, value] > 1 for value in sent.values)

    return [one for one in found if not is_superseded(one)]
