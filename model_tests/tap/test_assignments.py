"""Assignments of groups: whose they are, also where a response names no member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegauge.impl.tap.assignments import beaten, note_heartbeat, note_sync, synced
from tidegauge.impl.tap.exchange import Exchange
from tidegauge.impl.tap.fetches import Sessions
from tidegauge.impl.tap.observer import Observer, Recording
from tidegauge.impl.tap.topic_names import TopicNames
from tidegauge.impl.wire.apis import ApiKey


@pytest.mark.parametrize(
    ("asked", "told", "member"),
    [("", "m-1", "m-1"), ("m-1", "m-1", "m-1"), ("m-1", None, "m-1"), ("", None, None)],
)
def test_a_heartbeat_is_of_the_member_that_asks_or_that_the_response_names(
    asked: str, told: str | None, member: str | None
) -> None:
    exchange = Exchange(1, 0, 68, 0, 1, 10)
    note_heartbeat(exchange, SimpleNamespace(group_id="g", instance_id=None, member_id=asked))
    assignment = SimpleNamespace(topic_partitions=())
    response = SimpleNamespace(error_code=0, assignment=assignment, member_id=told, member_epoch=3)
    lines = beaten(exchange, response, 20, TopicNames())
    assert [line["member"] for line in lines] == ([] if member is None else [member])


def test_an_assignment_that_cannot_be_read_is_told() -> None:
    told: list[dict[str, Any]] = []
    observer = Observer(cast(Recording, SimpleNamespace(emit=told.extend)))
    exchange = Exchange(1, 0, ApiKey.SYNC_GROUP, 5, 1, 10)
    note_sync(exchange, SimpleNamespace(group_id="g", group_instance_id=None, member_id="m", generation_id=1))
    response = SimpleNamespace(error_code=0, protocol_type="consumer", assignment=b"\0\0\0\0\0\7")
    observer.responded(exchange, response, 20, Sessions())
    assert [(line["kind"], line["why"]) for line in told] == [("unread", "an assignment cannot be read")]


def test_an_assignment_of_nobody_is_no_line() -> None:
    exchange = Exchange(1, 0, 14, 5, 1, 10)
    note_sync(exchange, SimpleNamespace(group_id="g", group_instance_id=None, member_id="", generation_id=1))
    assert synced(exchange, SimpleNamespace(error_code=0, protocol_type="consumer", assignment=b""), 20) == []
