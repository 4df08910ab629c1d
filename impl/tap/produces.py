"""What a Produce request sends, and what its response says."""

from __future__ import annotations

from typing import Final

from tidegauge.impl.records.batches import NO_PRODUCER_ID, Buffer, RecordError, checked_headers
from tidegauge.impl.tap.ends import Ends
from tidegauge.impl.tap.exchange import Exchange, Line
from tidegauge.impl.tap.identities import identities
from tidegauge.impl.tap.topic_names import INTERNAL, TopicNames
from tidegauge.impl.wire.produce_messages import ProduceRequest, ProduceResponse

Place = tuple[str, str, int]
"""A topic's name or its id, as in the request, and a partition."""
ALL_ACKS: Final = -1


def note_request(exchange: Exchange, request: ProduceRequest, topics: TopicNames) -> None:
    """Note what is sent: an operation for each batch."""
    lines: list[Line] = []
    places: list[Place] = []
    for topic in request.topics:
        label = topics.label(topic.name, topic.topic_id)
        if label in INTERNAL:
            continue
        for sent in topic.partitions:
            for fields in _batches(sent.records or b""):
                places.append((topic.name, topic.topic_id, sent.index))
                lines.append(
                    exchange.line("produce", len(lines), topic=label, partition=sent.index, acks=request.acks, **fields)
                )
    exchange.asked = places
    exchange.lines = lines


def _batches(records: Buffer) -> list[Line]:
    """What each batch of one partition holds; `note` says why one could not be read."""
    try:
        headers = checked_headers(records)
    except RecordError as error:
        return [{"note": f"not read: {error}"}]
    found, position = [], 0
    for header in headers:
        fields: Line = {}
        if header.producer_id != NO_PRODUCER_ID:
            fields["producer"] = [header.producer_id, header.producer_epoch, header.base_sequence]
        if header.is_transactional:
            fields["transactional"] = True
        try:
            _, fields["values"] = identities(memoryview(records)[position:], header)
        except RecordError as error:
            fields["note"] = f"not read: {error}"
        found.append(fields)
        position += header.size
    return found


def sent(exchange: Exchange, at: int) -> list[Line]:
    """The operations of a request without a response, which has been passed on."""
    return [{**line, "return": at} for line in exchange.lines or ()]


def responded(exchange: Exchange, response: ProduceResponse, at: int, ends: Ends) -> list[Line]:
    """The operations with what the response says of them."""
    said = {
        (topic.name, topic.topic_id, partition.index): partition
        for topic in response.topics
        for partition in topic.partitions
    }
    lines = []
    for place, line in zip(exchange.asked, exchange.lines or (), strict=True):
        partition = said.get(place)
        if partition is None:
            lines.append(line)
        else:
            end: Line = {"return": at, "error": int(partition.error_code)}
            if partition.base_offset >= 0 and not partition.error_code:
                end["offset"] = partition.base_offset
                if line["acks"] == ALL_ACKS:
                    ends.learn(line["topic"], line["partition"], partition.base_offset + len(line.get("values", ())))
            lines.append({**line, **end})
    return lines
