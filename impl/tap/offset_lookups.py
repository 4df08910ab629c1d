"""What ListOffsets asks for and is told, of the ends of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegauge.impl.tap.ends import Ends
from tidegauge.impl.tap.exchange import Exchange, Line
from tidegauge.impl.tap.topic_names import INTERNAL, TopicNames

if TYPE_CHECKING:
    from kio.schema.list_offsets.v11.request import ListOffsetsRequest

LATEST: Final = -1
"""In place of a timestamp: the end."""


def note_request(exchange: Exchange, request: ListOffsetsRequest) -> None:
    """Note which ends a client asks for."""
    if request.replica_id < 0:
        ends = {
            (topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
            if partition.timestamp == LATEST
        }
        exchange.asked = (int(request.isolation_level), ends)


def responded(exchange: Exchange, response: Any, at: int, topics: TopicNames, known: Ends) -> list[Line]:
    """An operation for each end that a broker tells."""
    if exchange.asked is None:
        return []
    isolation, ends = exchange.asked
    lines: list[Line] = []
    for topic in response.topics:
        for partition in topic.partitions:
            asked = (topic.name, partition.partition_index) in ends
            if asked and not partition.error_code and partition.offset >= 0 and topic.name not in INTERNAL:
                line = exchange.line(
                    "list_offsets", len(lines), topic=topics.label(topic.name), partition=partition.partition_index
                )
                known.learn(line["topic"], partition.partition_index, partition.offset)
                lines.append({**line, "return": at, "isolation": isolation, "offset": partition.offset})
    return lines
