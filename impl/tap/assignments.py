"""What a member of a group is told to consume: by SyncGroup, or by ConsumerGroupHeartbeat (KIP-848)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from tidegauge.impl.tap.exchange import Exchange, Line
from tidegauge.impl.tap.topic_names import TopicNames
from tidegauge.impl.wire.codecs import MalformedMessageError
from tidegauge.impl.wire.fields import DAMAGE, read_count, read_string

if TYPE_CHECKING:
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest

CONSUMERS: Final = "consumer"
_VERSION = struct.Struct(">h")


def note_sync(exchange: Exchange, request: SyncGroupRequest) -> None:
    """Note which member of which generation asks."""
    exchange.asked = (
        request.group_id,
        member_name(request.group_instance_id, request.member_id),
        request.generation_id,
    )


def synced(exchange: Exchange, response: Any, at: int) -> list[Line]:
    """The assignment of a member of a classic group. Raises MalformedMessageError for one that cannot be read."""
    kind = getattr(response, "protocol_type", None)
    if response.error_code or (kind or CONSUMERS) != CONSUMERS:
        return []
    topics = partitions_of(memoryview(response.assignment))
    if topics is None:
        raise MalformedMessageError("an assignment cannot be read")
    group, member, generation = exchange.asked
    if member is None:
        return []
    line = exchange.line("assign", group=group, member=member, generation=generation, topics=topics)
    return [{**line, "return": at}]


def partitions_of(assignment: memoryview) -> dict[str, list[int]] | None:
    """The partitions that an assignment of a consumer lists, by topic; None where it cannot be read."""
    if not len(assignment):
        return {}
    topics: dict[str, list[int]] = {}
    try:
        number, position = read_count(assignment, _VERSION.size, flexible=False)
        for _ in range(number):
            name, position = read_string(assignment, position, flexible=False)
            count, position = read_count(assignment, position, flexible=False)
            topics[name] = list(struct.unpack_from(f">{count}i", assignment, position))
            position += 4 * count
    except DAMAGE:
        return None
    return topics


def member_name(instance_id: str | None, member_id: str) -> str | None:
    """Who a member is: a static one (KIP-345) is the same under every member id. None for nobody."""
    return f"instance {instance_id}" if instance_id else member_id or None


def note_heartbeat(exchange: Exchange, request: ConsumerGroupHeartbeatRequest) -> None:
    """Note of which group a member is, and who: responses need not name it again once it has joined."""
    exchange.asked = (request.group_id, request.instance_id, request.member_id)


def beaten(exchange: Exchange, response: Any, at: int, topics: TopicNames) -> list[Line]:
    """The assignment of a member of a consumer group, where the response has a new one."""
    if response.error_code or response.assignment is None:
        return []
    group, instance, member_id = exchange.asked
    member = member_name(instance, response.member_id or member_id)
    if member is None:
        return []
    told: dict[str, list[int]] = {}
    for topic in response.assignment.topic_partitions:
        told[topics.label("", str(topic.topic_id))] = list(topic.partitions)
    line = exchange.line(
        "assign",
        group=group,
        member=member,
        generation=response.member_epoch,
        protocol="consumer",
        topics=told,
    )
    return [{**line, "return": at}]
