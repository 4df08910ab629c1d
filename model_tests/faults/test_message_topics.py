"""The topics and partitions that messages name: taken out, put together, changed; in every API that names topics."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from tidegauge.impl.faults.request_topics import CREATE_TOPICS, FETCH, METADATA, REQUEST_TOPICS
from tidegauge.impl.faults.response_topics import PRODUCE, RESPONSE_TOPICS
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, canonical_version, request_class
from tidegauge.impl.wire.codecs import decode_canonical_request, encode_request
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from tidegauge.impl.wire.frames import LENGTH
from tidegauge.impl.wire.message_classes import blank
from tidegauge.impl.wire.primitives import TopicName, i16, i32, millis
from tidegauge.impl.wire.produce_messages import PartitionProduced, ProduceResponse, TopicProduced
from tidegauge.model_tests.wire.sample_messages import sample

NAMED_BY_ID = "by id"


def no_ids(_: object) -> None:
    return None


def is_t1(topic: str, partition: int | None) -> bool:
    return topic == "t" and partition in (None, 1)


def test_partitions_are_taken_out_of_a_request_by_name_and_by_id() -> None:
    partitions = [FetchPartition(0, 0, 1), FetchPartition(1, 0, 1)]
    fetch = FetchRequest([FetchTopic("", "some-id", partitions), FetchTopic("u", "", partitions)], 1, 1)
    rest, taken = FETCH.split(fetch, is_t1, lambda topic_id: {"some-id": "t"}.get(str(topic_id)))
    assert rest is not None
    assert taken is not None
    assert FETCH.split(fetch, lambda *_: False, no_ids) == (fetch, None)
    assert [(t.name, t.topic_id, [p.index for p in t.partitions]) for t in rest.topics] == [
        ("", "some-id", [0]),
        ("u", "", [0, 1]),
    ]
    assert [(t.topic_id, [p.index for p in t.partitions]) for t in taken.topics] == [("some-id", [1])]


def test_topics_without_partitions_are_taken_as_a_whole() -> None:
    topics = tuple(
        CreatableTopic(
            name=TopicName(name), num_partitions=i32(2), replication_factor=i16(1), assignments=(), configs=()
        )
        for name in ("t", "u")
    )
    request = CreateTopicsRequest(topics=topics, timeout=millis(1), validate_only=False)
    rest, taken = CREATE_TOPICS.split(request, is_t1, no_ids)
    assert rest is not None
    assert taken is not None
    assert ([t.name for t in rest.topics], [t.name for t in taken.topics]) == (["u"], ["t"])


def test_a_message_that_names_nothing_stays_whole() -> None:
    request = dataclasses.replace(blank(MetadataRequest), topics=None)
    assert METADATA.split(request, lambda *_: True, no_ids) == (request, None)
    named = dataclasses.replace(request, topics=(dataclasses.replace(blank(MetadataRequestTopic), name="t"),))
    assert METADATA.split(named, is_t1, no_ids) == (None, named)


def response_to(*topics: tuple[str, list[int]]) -> ProduceResponse:
    return ProduceResponse(
        [TopicProduced(name, "", [PartitionProduced(i) for i in indexes]) for name, indexes in topics]
    )


def shape(response: ProduceResponse) -> list[tuple[str, list[int]]]:
    return [(topic.name, [partition.index for partition in topic.partitions]) for topic in response.topics]


def test_responses_are_merged_topic_by_topic() -> None:
    merged = PRODUCE.merge(response_to(("t", [0]), ("u", [3])), response_to(("t", [1, 2]), ("v", [4])))
    assert shape(merged) == [("t", [0, 1, 2]), ("u", [3]), ("v", [4])]


def test_partitions_of_a_response_are_changed_in_place() -> None:
    whole = response_to(("t", [0, 1]), ("u", [1]))
    changed = PRODUCE.change_partitions(
        whole, is_t1, no_ids, lambda partition: PartitionProduced(partition.index, base_offset=9)
    )
    assert {(t.name, p.index): p.base_offset for t in changed.topics for p in t.partitions} == {
        ("t", 0): -1,
        ("t", 1): 9,
        ("u", 1): -1,
    }
    assert PRODUCE.change_partitions(whole, lambda *_: False, no_ids, lambda partition: partition) is whole


# --- every API -------------------------------------------------------------------------------------------------------


def name_of(topic_id: object) -> str | None:
    """The name of the topic whose id samples have."""
    return NAMED_BY_ID if str(topic_id).startswith("12345678-") else None


def request_of(key: ApiKey) -> Any:
    """A canonical request with two of everything."""
    frame = encode_request(sample(request_class(key, canonical_version(key))), 7, "me")
    return decode_canonical_request(frame[LENGTH.size :]).message


def named(topics: Any, message: Any) -> set[tuple[str, int | None]]:
    """What a message names, by splitting it."""
    seen: set[tuple[str, int | None]] = set()

    def note(topic: str, partition: int | None) -> bool:
        seen.add((topic, partition))
        return False

    assert topics.split(message, note, name_of) == (message, None)
    return seen


def test_requests_that_have_topics_are_in_the_table() -> None:
    for key in BROKER_APIS:
        request = request_of(key)
        assert hasattr(request, "topics") == (key in REQUEST_TOPICS), key.name


@pytest.mark.parametrize("key", REQUEST_TOPICS, ids=lambda key: key.name)
def test_the_error_response_names_what_the_request_names(key: ApiKey) -> None:
    request = request_of(key)
    requested = named(REQUEST_TOPICS[key], request)
    topics = RESPONSE_TOPICS.get(key)
    if topics is None:
        assert key is ApiKey.DESCRIBE_LOG_DIRS, "its response names log directories"
        return
    response = error_response(request, ErrorCode.not_controller)
    assert {topic for topic, _ in requested} & {"s", "s2", NAMED_BY_ID}
    if topics.get(response):
        assert {topic for topic, _ in named(topics, response)} == {topic for topic, _ in requested}


@pytest.mark.parametrize("key", REQUEST_TOPICS, ids=lambda key: key.name)
def test_what_is_taken_out_of_a_request_and_merged_again_is_all_there(key: ApiKey) -> None:
    topics, request = REQUEST_TOPICS[key], request_of(key)
    one = sorted(named(topics, request), key=str)[0]
    rest, taken = topics.split(request, lambda *name: name == one, name_of)
    assert taken is not None
    assert named(topics, taken) == {one}
    if rest is not None:
        assert one not in named(topics, rest)
        assert named(topics, topics.merge(rest, taken)) == named(topics, request)
