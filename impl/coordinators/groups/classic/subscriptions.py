"""What consumers tell each other in the metadata of their protocol, as far as a coordinator reads it.

The metadata begin with a version, an int16, and the topics that the consumer subscribes to: an int32 number, and
strings with an int16 length. Later versions have more behind that, and nobody reads it here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegauge.impl.coordinators.fields import FieldReader
from tidegauge.impl.records.batches import RecordError

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""
MOST_TOPICS: Final = 100_000
"""Of all members of a group together: to read more would keep the loop."""


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None where one of them says what cannot be read, or where they are too many."""
    topics: set[str] = set()
    left = MOST_TOPICS
    try:
        for data in set(metadata):
            fields = FieldReader(data)
            fields.int16()
            number = fields.count()
            left -= number
            if left < 0:
                return None
            topics.update(fields.string() for _ in range(number))
    except RecordError:
        return None
    return frozenset(topics)
