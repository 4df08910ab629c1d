"""Assignments of groups: whose they are, also where a response names no member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.types import GroupId

from tidegauge.impl.tap.assignments import beaten, note_heartbeat, note_sync, synced
from tidegauge.impl.tap.exchange import Exchange
from tidegauge.impl.tap.fetches import Sessions
from tidegauge.impl.tap.observer import Observer, Recording
from tidegauge.impl.tap.topic_names import TopicNames
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.primitives import i32


def sync_of(member_id: str) -> SyncGroupRequest:
    return SyncGroupRequest(group_id=GroupId("g"), generation_id=i32(1), member_id=member_id, assignments=())


@pytest.mark.parametrize(
    ("asked", "told", "member"),
    [("", "m-1", "m-1"), ("m-1", "m-1", "m-1"), ("m-1", None, "m-1"), ("", None, None)],
)
def test_a_heartbeat_is_of_the_member_that_asks_or_that_the_response_names(
    asked: str, told: str | None, member: str | None
) -> None:
    exchange = Exchange(1, 0, 68, 0, 10)
    request = ConsumerGroupHeartbeatRequest(
        group_id=GroupId("g"), member_id=asked, member_epoch=i32(0), topic_partitions=None
    )
    note_heartbeat(exchange, request)
    assignment = SimpleNamespace(topic_partitions=())
    response = SimpleNamespace(error_code=0, assignment=assignment, member_id=told, member_epoch=3)
    lines = beaten(exchange, response, 20, TopicNames())
    assert [line["member"] for line in lines] == ([] if member is None else [member])


def test_an_assignment_that_cannot_be_read_is_told() -> None:
    told: list[dict[str, Any]] = []
    observer = Observer(cast(Recording, SimpleNamespace(emit=told.extend)))
    exchange = Exchange(1, 0, ApiKey.SYNC_GROUP, 5, 10)
    note_sync(exchange, sync_of("m"))
    response = SimpleNamespace(error_code=0, protocol_type="consumer", assignment=b"\0\0\0\0\0\7")
    observer.note_response(exchange, response, 20, Sessions())
    assert [(line["kind"], line["why"]) for line in told] == [("unread", "an assignment cannot be read")]


def test_an_assignment_of_nobody_is_no_line() -> None:
    exchange = Exchange(1, 0, 14, 5, 10)
    note_sync(exchange, sync_of(""))
    assert synced(exchange, SimpleNamespace(error_code=0, protocol_type="consumer", assignment=b""), 20) == []
