"""What ends transactions, and what groups commit and ask for: EndTxn, TxnOffsetCommit, OffsetCommit, OffsetFetch.

Requests are canonical; responses are of the client's version, which may lack some fields.
What a commit has in its metadata is the application's own and may be long: a digest stands for it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tidegauge.impl.tap.assignments import member_name
from tidegauge.impl.tap.exchange import Exchange, Line
from tidegauge.impl.tap.topic_names import TopicNames
from tidegauge.impl.wire.fields import NO_ID

if TYPE_CHECKING:
    from kio.schema.end_txn.v5.request import EndTxnRequest
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest

    from tidegauge.impl.wire.offset_unions import AnyOffsetCommitRequest, AnyOffsetFetchRequest

NO_OFFSET = -1


def note_end(exchange: Exchange, request: EndTxnRequest) -> None:
    """Note which transaction a producer ends, and how."""
    producer = [request.producer_id, request.producer_epoch]
    exchange.lines = [exchange.line("end", producer=producer, commit=bool(request.committed))]


def note_commits(exchange: Exchange, request: AnyOffsetCommitRequest, topics: TopicNames) -> None:
    """Note which offsets a member of a group commits."""
    _note_commits(exchange, request, request.generation_id_or_member_epoch, None, topics)


def note_commits_of_transaction(exchange: Exchange, request: TxnOffsetCommitRequest, topics: TopicNames) -> None:
    """Note which offsets a member of a group commits in its producer's transaction."""
    _note_commits(exchange, request, request.generation_id, [request.producer_id, request.producer_epoch], topics)


def _note_commits(
    exchange: Exchange,
    request: AnyOffsetCommitRequest | TxnOffsetCommitRequest,
    generation: int,
    producer: list[int] | None,
    topics: TopicNames,
) -> None:
    lines: list[Line] = []
    places = []
    for topic in request.topics:
        name, topic_id = topic.name or "", id_of(topic)
        for partition in topic.partitions:
            places.append((name, topic_id, partition.partition_index))
            lines.append(
                exchange.line(
                    "commit_offsets",
                    len(lines),
                    group=request.group_id,
                    member=member_name(request.group_instance_id, request.member_id),
                    generation=generation if generation >= 0 else None,
                    producer=producer,
                    topic=topics.label(name, topic_id),
                    partition=partition.partition_index,
                    offset=partition.committed_offset,
                    metadata=digest(partition.committed_metadata),
                )
            )
    exchange.asked, exchange.lines = places, lines


def id_of(topic: Any) -> str:
    """The id of a topic in a message that may have none."""
    topic_id = getattr(topic, "topic_id", None)
    return NO_ID if topic_id is None else str(topic_id)


def digest(metadata: str | None) -> str | None:
    """What stands for a commit's metadata; None for none."""
    return blake2b(metadata.encode(), digest_size=6).hexdigest() if metadata else None


def ended(exchange: Exchange, response: Any, at: int) -> list[Line]:
    """The end of the transaction with its outcome."""
    return [{**line, "return": at, "error": int(response.error_code)} for line in exchange.lines or ()]


def committed(exchange: Exchange, response: Any, at: int) -> list[Line]:
    """The commits with their outcomes."""
    said = {
        (getattr(topic, "name", None) or "", id_of(topic), partition.partition_index): int(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }
    lines = []
    for place, line in zip(exchange.asked, exchange.lines or (), strict=True):
        error = said.get(place)
        lines.append(line if error is None else {**line, "return": at, "error": error})
    return lines


def note_reads(exchange: Exchange, request: AnyOffsetFetchRequest) -> None:
    """Note of which group offsets are asked for, and whether stable ones (KIP-447)."""
    exchange.asked = (request.groups[0].group_id if request.groups else "", bool(request.require_stable))


def found(exchange: Exchange, response: Any, at: int, topics: TopicNames) -> list[Line]:
    """What is committed, as a member is told."""
    lines: list[Line] = []
    group_id, stable = exchange.asked
    groups = getattr(response, "groups", None)
    if groups is None:
        groups = (response,)
    for group in groups:
        if int(getattr(group, "error_code", 0)):
            continue
        for topic in group.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    continue
                line = exchange.line(
                    "read_offsets",
                    len(lines),
                    group=getattr(group, "group_id", group_id),
                    topic=topics.label(getattr(topic, "name", None) or "", id_of(topic)),
                    partition=partition.partition_index,
                    stable=stable or None,
                    offset=None if partition.committed_offset == NO_OFFSET else partition.committed_offset,
                    metadata=digest(partition.metadata),
                )
                lines.append({**line, "return": at})
    return lines
