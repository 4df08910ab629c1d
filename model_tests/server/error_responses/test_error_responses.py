"""The response to a request that fails as a whole names all that the request names, in every version of every API."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from kio.schema.alter_replica_log_dirs.v2 import request as dirs
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest
from kio.static.protocol import Payload

from tidegauge.impl.records.slices import ELEMENT, STEP, at_once
from tidegauge.impl.server.error_responses.table import ERROR_RESPONSES, error_response, function_of
from tidegauge.impl.wire.apis import (
    BROKER_APIS,
    INTER_BROKER_APIS,
    PRODUCE_SERVED_FROM,
    ApiKey,
    canonical_version,
    request_class,
)
from tidegauge.impl.wire.codecs import decode_canonical_request, decode_response, encode_request, encode_response_parts
from tidegauge.impl.wire.element_limits import AT_ONCE, most_elements
from tidegauge.impl.wire.frames import LENGTH
from tidegauge.impl.wire.primitives import TopicName, i16, i32, millis
from tidegauge.model_tests.server.large_requests import (
    SEARCHED,
    arrays,
    frame_of,
    many,
    message_class,
    versions,
)
from tidegauge.model_tests.wire.sample_messages import sample

GOLDEN = Path(__file__).with_name("golden.json")
"""Frames of error responses to `sample` requests, by API: NOT_CONTROLLER with the message "why", and
CLUSTER_AUTHORIZATION_FAILED without one."""
ERROR = ErrorCode.not_controller
VERSIONS = [
    (key, version)
    for key, served in {**BROKER_APIS, **INTER_BROKER_APIS}.items()
    for version in range(served.lowest, served.highest + 1)
    if key is not ApiKey.PRODUCE or version >= PRODUCE_SERVED_FROM
]


NOWHERE_TO_SAY_IT = {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
"""Versions whose response has an error code in items alone, and whose request names none of those."""
FETCH_WITHOUT_ERROR = 6
"""The last version of Fetch whose response has errors in partitions alone."""


def errors(message: Any) -> Iterator[ErrorCode]:
    """Every error code in a message."""
    if isinstance(message, ErrorCode):
        yield message
    elif isinstance(message, tuple | list):
        for item in message:
            yield from errors(item)
    elif dataclasses.is_dataclass(message) or attrs.has(type(message)):
        fields = attrs.fields(type(message)) if attrs.has(type(message)) else dataclasses.fields(message)
        for field in fields:
            yield from errors(getattr(message, field.name))


def received_for(request: Payload, version: int) -> Any:
    """The error response to a request over the wire, as its sender decodes it."""
    key = int(request.__api_key__)
    received = decode_canonical_request(encode_request(request, 7, "me")[LENGTH.size :])
    canonical = error_response(received.message, ERROR, "why")
    parts: list[Any] = encode_response_parts(canonical, version, 7)
    frame = b"".join(parts)
    decoded = decode_response(frame[LENGTH.size :], key, version)
    assert decoded.correlation_id == 7
    return decoded.message


SAMPLE_VALUES = {"string": "t", "int32": 0, "int64": 0, "int8": 0, "bool": False}
MANY = 2 * STEP + 7


class Counted(tuple[Any, ...]):
    """An array of a request that notes what is taken of it."""

    taken = 0

    def __iter__(self) -> Iterator[Any]:
        for item in tuple.__iter__(self):
            Counted.taken += 1
            yield item


def counted(message: Any) -> Any:
    """A message whose arrays are `Counted`."""
    if isinstance(message, tuple):
        return Counted([counted(item) for item in message])
    if not dataclasses.is_dataclass(message) or isinstance(message, type):
        return message
    fields = (field.name for field in dataclasses.fields(message))
    return dataclasses.replace(message, **{name: counted(getattr(message, name)) for name in fields})


@pytest.mark.parametrize("key", set(ERROR_RESPONSES) & set(SEARCHED), ids=lambda key: key.name)
def test_the_error_of_many_elements_is_made_of_few_at_a_time(key: ApiKey) -> None:
    """In whatever array of the request they are; each element takes its units."""
    version = versions(key)[-1]
    message = message_class(key, version)
    for path in (path for path in arrays(message) if path[0] != "topology"):  # no response names it
        count = MANY if most_elements(key) > AT_ONCE else STEP + 1
        frame = frame_of(key, version, many(message, path, count, SAMPLE_VALUES, distinct=True))
        request = counted(decode_canonical_request(frame[LENGTH.size :]).message)
        Counted.taken, before, units = 0, 0, 0
        for step in function_of(key)(request, ERROR, "why"):
            assert isinstance(step, int)
            assert Counted.taken - before <= STEP + len(path), path
            before, units = Counted.taken, units + step
        assert Counted.taken - before < STEP, path
        assert units == ELEMENT * before, path


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_version_of_every_api_gets_the_error_and_nothing_else(key: ApiKey, version: int) -> None:
    found = list(errors(received_for(sample(request_class(key, version)), version)))
    if key is ApiKey.FETCH and version <= FETCH_WITHOUT_ERROR:
        assert found.pop() is ErrorCode.none, "the error of the response as a whole"
    assert bool(found) != ((key, version) in NOWHERE_TO_SAY_IT)
    assert set(found) <= {ERROR}


@pytest.mark.parametrize("key", [*BROKER_APIS, *INTER_BROKER_APIS], ids=lambda key: key.name)
def test_every_api_has_an_error_response_with_the_bytes_that_it_had(key: ApiKey) -> None:
    """With a message and without. An API that is new gets a line in the file, once somebody has looked at it."""
    version = canonical_version(key)
    frame = encode_request(sample(request_class(key, version)), 7, "me")
    request = decode_canonical_request(frame[LENGTH.size :]).message
    made = [
        at_once(function_of(key)(request, ErrorCode.not_controller, "why")),
        at_once(function_of(key)(request, ErrorCode.cluster_authorization_failed, "")),
    ]
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))[key.name]
    for response, expected in zip(made, golden, strict=True):
        parts: list[Any] = encode_response_parts(response, version, 7)
        assert b"".join(parts).hex() == expected, decode_response(bytes.fromhex(expected)[LENGTH.size :], key, version)


def test_the_table_has_the_apis_that_are_served_and_no_others() -> None:
    assert set(ERROR_RESPONSES) == {*BROKER_APIS, *INTER_BROKER_APIS} == set(ApiKey)


def topic_named(name: str) -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(name), num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=()
    )


def test_the_response_names_what_the_request_names() -> None:
    topics = tuple(map(topic_named, ("a", "b")))
    request = CreateTopicsRequest(topics=topics, timeout=millis(1), validate_only=False)
    response = received_for(request, 7)
    assert [(topic.name, topic.error_message, topic.num_partitions) for topic in response.topics] == [
        ("a", "why", -1),
        ("b", "why", -1),
    ]
    assert response.topics[0].configs == (), "never null, or the Java client fails"


def test_an_error_that_is_not_explained_has_its_name_for_a_message() -> None:
    request = CreateTopicsRequest(topics=(topic_named("a"),), timeout=millis(1), validate_only=False)
    response = error_response(request, ErrorCode.cluster_authorization_failed)
    assert response.topics[0].error_message == "Cluster authorization failed."


def test_plain_values_and_lists_within_lists_are_named() -> None:
    def topic(name: str, *partitions: int) -> dirs.AlterReplicaLogDirTopic:
        return dirs.AlterReplicaLogDirTopic(name=TopicName(name), partitions=tuple(i32(p) for p in partitions))

    request = dirs.AlterReplicaLogDirsRequest(
        dirs=(
            dirs.AlterReplicaLogDir(path="/x", topics=(topic("a", 0, 2),)),
            dirs.AlterReplicaLogDir(path="/y", topics=(topic("b", 1),)),
        )
    )
    response = error_response(request, ERROR)
    assert [(r.topic_name, [p.partition_index for p in r.partitions]) for r in response.results] == [
        ("a", [0, 2]),
        ("b", [1]),
    ]


def test_a_request_for_everything_names_nothing() -> None:
    request = MetadataRequest(topics=None, include_topic_authorized_operations=False)
    response = error_response(request, ERROR)
    assert (response.topics, response.error_code) == ((), ERROR)


@pytest.mark.parametrize(
    ("key", "version", "words"),
    [
        (ApiKey.FIND_COORDINATOR, 0, ["node_id=-1"]),
        (ApiKey.FIND_COORDINATOR, 3, ["node_id=-1", "error_message='why'"]),
        (ApiKey.FIND_COORDINATOR, 4, ["key='s'", "key='s2'"]),
        (ApiKey.OFFSET_FETCH, 1, ["name='s'", "name='s2'", "partition_index=2", "committed_offset=-1"]),
        (ApiKey.OFFSET_FETCH, 8, ["group_id='s'", "group_id='s2'", "name='s2'"]),
        (ApiKey.OFFSET_FETCH, 10, ["topic_id=UUID('12345678"]),
        (ApiKey.OFFSET_COMMIT, 9, ["name='s'", "name='s2'"]),
        (ApiKey.OFFSET_COMMIT, 10, ["topic_id=UUID('12345678"]),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3, ["name='s2'", "partition_index=2"]),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 5, ["transactional_id='s'", "name='s2'"]),
        (ApiKey.DELETE_TOPICS, 5, ["name='s'", "name='s2'"]),
        (ApiKey.DELETE_TOPICS, 6, ["name='s2'", "topic_id=UUID('12345678"]),
        (ApiKey.LEAVE_GROUP, 2, []),
        (ApiKey.LEAVE_GROUP, 3, ["member_id='s2'"]),
        (ApiKey.WRITE_TXN_MARKERS, 1, ["producer_id=1", "producer_id=2", "partition_index=2"]),
        (ApiKey.ALTER_CLIENT_QUOTAS, 1, ["entity_type='s'", "entity_name='s2'"]),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, ["resource_name='s2'"]),
        (ApiKey.INIT_PRODUCER_ID, 5, ["producer_id=-1", "producer_epoch=-1"]),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, ["topic='s2'", "partition=2", "end_offset=-1"]),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_items_are_named_where_versions_put_them(key: ApiKey, version: int, words: list[str]) -> None:
    shown = repr(received_for(sample(request_class(key, version)), version))
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_no_partition_of_a_fetch_that_is_refused_has_null_for_its_records(version: int) -> None:
    """Librdkafka takes a null there for a broken response ("invalid MessageSetSize -1"), and disconnects."""
    refused = received_for(sample(request_class(ApiKey.FETCH, version)), version)
    records = [partition.records for topic in refused.topics for partition in topic.partitions]
    assert records
    assert not any(one is None for one in records)
