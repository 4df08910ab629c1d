"""The codecs of Produce and Fetch against kio's classes: every version, both directions, fields and bytes."""

from __future__ import annotations

import dataclasses
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints
from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.serial.errors import DecodeError

from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.wire import entity_reader as generic
from tidegauge.impl.wire import fetch_codec, produce_codec
from tidegauge.impl.wire import fetch_messages as fetch
from tidegauge.impl.wire import produce_messages as produce
from tidegauge.impl.wire.apis import BROKER_APIS, PRODUCE_SERVED_FROM, ApiKey, request_class, response_class
from tidegauge.impl.wire.codecs import (
    MalformedMessageError,
    decode_request,
    decode_response,
    encode_quickly,
    encode_request,
    encode_response,
    encode_response_parts,
    encoding_response,
)
from tidegauge.impl.wire.message_classes import is_array, is_optional
from tidegauge.impl.wire.primitives import to_millis
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.wire.any_message import messages

VERSIONS = [
    *((ApiKey.PRODUCE, version) for version in range(PRODUCE_SERVED_FROM, BROKER_APIS[ApiKey.PRODUCE].highest + 1)),
    *((ApiKey.FETCH, version) for version in range(4, BROKER_APIS[ApiKey.FETCH].highest + 1)),
]
EVERY_VERSION = pytest.mark.parametrize(("api", "version"), VERSIONS, ids=[f"{api.name}-{v}" for api, v in VERSIONS])
FEW = settings(max_examples=amount(2, deep=4))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def of_version(api: ApiKey, version: int, kind: str) -> st.SearchStrategy[Any]:
    """Messages of kio's class."""
    return messages(request_class(api, version) if kind == "request" else response_class(api, version))


# --- kio's messages as this project's --------------------------------------------------------------------------


def id_of(message: Any) -> str:
    topic_id = getattr(message, "topic_id", None)
    return str(topic_id) if topic_id else ""


def text(message: Any, *names: str) -> str:
    """The field that has one of these names in this version."""
    return next((getattr(message, name) for name in names if hasattr(message, name)), "")


def timestamp(moment: datetime | None) -> int:
    return -1 if moment is None else (moment - EPOCH) // timedelta(milliseconds=1)


def produce_request(message: Any) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        message.acks,
        to_millis(message.timeout),
        [
            produce.ProduceTopic(
                text(topic, "name"),
                id_of(topic),
                [produce.ProducePartition(p.index, p.records) for p in topic.partition_data],
            )
            for topic in message.topic_data
        ],
        message.transactional_id,
    )


def produced(message: Any) -> produce.PartitionProduced:
    leader = getattr(message, "current_leader", None)
    return produce.PartitionProduced(
        message.index,
        message.error_code,
        message.base_offset,
        timestamp(message.log_append_time),
        getattr(message, "log_start_offset", -1),
        [
            produce.RecordErrorIndex(record.batch_index, record.batch_index_error_message)
            for record in getattr(message, "record_errors", ())
        ],
        getattr(message, "error_message", None),
        -1 if leader is None else leader.leader_id,
        -1 if leader is None else leader.leader_epoch,
    )


def produce_response(message: Any) -> produce.ProduceResponse:
    return produce.ProduceResponse(
        [
            produce.TopicProduced(text(topic, "name"), id_of(topic), [produced(p) for p in topic.partition_responses])
            for topic in message.responses
        ],
        to_millis(message.throttle_time),
        endpoints(message),
    )


def endpoints(message: Any) -> list[produce.NodeEndpoint]:
    return [produce.NodeEndpoint(e.node_id, e.host, e.port, e.rack) for e in getattr(message, "node_endpoints", ())]


def fetch_partition(message: Any) -> fetch.FetchPartition:
    directory = getattr(message, "replica_directory_id", None)
    return fetch.FetchPartition(
        message.partition,
        message.fetch_offset,
        message.partition_max_bytes,
        getattr(message, "current_leader_epoch", -1),
        getattr(message, "last_fetched_epoch", -1),
        getattr(message, "log_start_offset", -1),
        str(directory) if directory else "",
        getattr(message, "high_watermark", (1 << 63) - 1),
    )


def fetch_request(message: Any) -> fetch.FetchRequest:
    state = getattr(message, "replica_state", None)
    return fetch.FetchRequest(
        [
            fetch.FetchTopic(text(topic, "topic"), id_of(topic), [fetch_partition(p) for p in topic.partitions])
            for topic in message.topics
        ],
        to_millis(message.max_wait),
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        getattr(message, "session_id", 0),
        getattr(message, "session_epoch", -1),
        [
            fetch.ForgottenTopic(text(topic, "topic"), id_of(topic), list(topic.partitions))
            for topic in getattr(message, "forgotten_topics_data", ())
        ],
        getattr(message, "rack_id", ""),
        message.replica_id if state is None else state.replica_id,
        -1 if state is None else state.replica_epoch,
        getattr(message, "cluster_id", None),
    )


def fetched(message: Any) -> fetch.PartitionFetched:
    aborted = message.aborted_transactions
    result = fetch.PartitionFetched(
        message.partition_index,
        message.error_code,
        message.high_watermark,
        message.last_stable_offset,
        getattr(message, "log_start_offset", -1),
        None if aborted is None else [fetch.AbortedTransaction(a.producer_id, a.first_offset) for a in aborted],
        getattr(message, "preferred_read_replica", -1),
        message.records,
    )
    if hasattr(message, "diverging_epoch"):
        result.diverging_epoch = message.diverging_epoch.epoch
        result.diverging_end_offset = message.diverging_epoch.end_offset
        result.leader_id, result.leader_epoch = message.current_leader.leader_id, message.current_leader.leader_epoch
        result.snapshot_end_offset = message.snapshot_id.end_offset
        result.snapshot_epoch = message.snapshot_id.epoch
    return result


def fetch_response(message: Any) -> fetch.FetchResponse:
    return fetch.FetchResponse(
        [
            fetch.TopicFetched(text(topic, "topic"), id_of(topic), [fetched(p) for p in topic.partitions])
            for topic in message.responses
        ],
        to_millis(message.throttle_time),
        getattr(message, "error_code", ErrorCode.none),
        getattr(message, "session_id", 0),
        endpoints(message),
    )


OURS = {
    (ApiKey.PRODUCE, "request"): produce_request,
    (ApiKey.PRODUCE, "response"): produce_response,
    (ApiKey.FETCH, "request"): fetch_request,
    (ApiKey.FETCH, "response"): fetch_response,
}


# --- the differential tests ----------------------------------------------------------------------------------------


@EVERY_VERSION
@FEW
@given(data=st.data(), client_id=st.none() | st.text(max_size=20))
def test_requests_are_read_and_written_as_kio_does(
    api: ApiKey, version: int, data: st.DataObject, client_id: str | None
) -> None:
    theirs = data.draw(of_version(api, version, "request"))
    ours = OURS[api, "request"](theirs)
    frame = encode_request(theirs, 7, client_id)
    decoded = decode_request(memoryview(frame)[4:])
    assert (decoded.api_version, decoded.correlation_id, decoded.client_id) == (version, 7, client_id)
    assert decoded.message == ours
    assert encode_request(ours, 7, client_id, version=version) == frame


@EVERY_VERSION
@FEW
@given(data=st.data())
def test_responses_are_read_and_written_as_kio_does(api: ApiKey, version: int, data: st.DataObject) -> None:
    theirs = data.draw(of_version(api, version, "response"))
    ours = OURS[api, "response"](theirs)
    frame = encode_response(theirs, 7)
    decoded = decode_response(memoryview(frame)[4:], api, version)
    assert (decoded.correlation_id, decoded.message) == (7, ours)
    assert encode_response(ours, 7, version=version) == frame
    assert b"".join(map(in_memory, encode_response_parts(ours, version, 7))) == frame
    if (parts := encode_quickly(ours, version, 7)) is not None:
        assert b"".join(map(in_memory, parts)) == frame


@EVERY_VERSION
@FEW
@given(data=st.data())
def test_a_damaged_request_is_what_kio_takes_it_for(api: ApiKey, version: int, data: st.DataObject) -> None:
    theirs = data.draw(of_version(api, version, "request"))
    frame = bytearray(encode_request(theirs, 1, "c")[4:])
    position = data.draw(st.integers(12, len(frame) - 1))
    frame[position] ^= 1 << data.draw(st.integers(0, 7))
    ours, theirs = outcome(frame), kios_outcome(api, version, frame)
    assert ours == theirs


def outcome(frame: bytearray) -> Any:
    """The message; None for malformed."""
    try:
        return decode_request(bytes(frame)).message
    except MalformedMessageError:
        return None


def kios_outcome(api: ApiKey, version: int, frame: bytes | bytearray) -> Any:
    """The message that kio reads, as this project's; None if it raises or leaves bytes over.

    Where kio's reader is not as Kafka's, the generic reader of `impl.wire` stands in for it: kio refuses tagged fields
    that it does not know, which Kafka skips (KIP-482), and takes null for an array that may not be null, which Kafka
    refuses.
    """
    message_class: Any = request_class(api, version)
    start = 11 + (message_class.__header_schema__.__version__ >= 2)
    try:
        message, size = entity_reader(message_class)(bytes(frame), start)
        if has_forbidden_null(message):
            return None
    except KeyError:
        try:
            message, size = generic.entity_reader(message_class)(bytes(frame), start)
        except (DecodeError, ValueError):
            return None
    except Exception:
        return None
    return OURS[api, "request"](message) if start + size == len(frame) else None


def has_forbidden_null(message: Any) -> bool:
    """Whether an array of a message is null that may not be."""
    hints = get_type_hints(type(message))
    for field in dataclasses.fields(message):
        value, hint = getattr(message, field.name), hints[field.name]
        if is_array(hint) and value is None and not is_optional(hint):
            return True
        nested = value if isinstance(value, tuple) else (value,)
        if any(dataclasses.is_dataclass(item) and has_forbidden_null(item) for item in nested):
            return True
    return False


def small_fetch_18() -> bytes:
    """A request of one topic, with one partition that has a tagged field: 16 bytes, its directory's id."""
    partition = fetch.FetchPartition(0, 0, 0, directory_id="f728b4fa-4248-5e3a-0a5d-2f346baa9455")
    topic = fetch.FetchTopic("", "e3e70682-c209-4cac-629f-6fbed82c07cd", [partition])
    return encode_request(fetch.FetchRequest([topic], 0, 0), 1, "c", version=18)[4:]


def test_a_tagged_field_that_nobody_knows_is_skipped() -> None:
    """Found by Hypothesis as a difference: kio's reader raises, but Kafka skips what it does not know (KIP-482)."""
    frame = bytearray(small_fetch_18())
    at = frame.index(b"\x01\x00\x10\xf7") + 1
    frame[at] = 2
    read = outcome(frame)
    assert read.topics[0].partitions[0].directory_id == ""
    assert read == kios_outcome(ApiKey.FETCH, 18, frame)
    assert outcome(FOUND_UNKNOWN_TAG) == kios_outcome(ApiKey.FETCH, 18, FOUND_UNKNOWN_TAG) is not None


def test_an_array_that_may_not_be_null_is_malformed_when_it_is() -> None:
    """Found by Hypothesis as a difference: kio's reader gives None, but Kafka refuses it."""
    frame = bytearray(small_fetch_18())
    at = frame.index(UUID("e3e70682-c209-4cac-629f-6fbed82c07cd").bytes) + 16
    assert frame[at] == 2, "one partition, plus one"
    frame[at] = 0
    assert outcome(frame) is None
    assert kios_outcome(ApiKey.FETCH, 18, bytes(frame[: at + 1]) + b"\0\1\1\0") is None
    assert outcome(bytearray(bytes(frame[: at + 1]) + b"\0\1\1\0")) is None


FOUND_UNKNOWN_TAG = bytearray.fromhex(
    "00010012000000010001630000000000000000007fffffff0000000000ffffffff0300000000000000000000000000000000"
    "0100e3e70682c2094cac629f6fbed82c07cd0300000000ffffffff0000000000000000ffffffffffffffffffffffff000000"
    "00010010f728b4fa42485e3a0a5d2f346baa945500000000ffffffff0000000000000000ffffffffffffffffffffffff0000"
    "0000010210eb1167b367a9c3787c65c1e582e2e66200010100"
)
"""The request that Hypothesis found, with the damaged byte in it."""


@EVERY_VERSION
@FEW
@given(data=st.data())
def test_a_truncated_request_or_response_is_malformed(api: ApiKey, version: int, data: st.DataObject) -> None:
    request = encode_request(data.draw(of_version(api, version, "request")), 1, "c")[4:]
    end = data.draw(st.integers(0, len(request) - 1))
    with pytest.raises(MalformedMessageError):
        decode_request(request[:end])
    response = encode_response(data.draw(of_version(api, version, "response")), 1)[4:]
    end = data.draw(st.integers(0, len(response) - 1))
    with pytest.raises(MalformedMessageError):
        decode_response(response[:end], api, version)


SINGLE: dict[str, dict[str, Any]] = {
    "as most are": {},
    "a transactional id": {"transactional_id": "t"},
    "an empty transactional id": {"transactional_id": ""},
    "no records": {"records": None},
    "empty records": {"records": b""},
    "a long name": {"name": "n" * 126},
    "a longer name": {"name": "n" * 127},
    "no name": {"name": ""},
    "no partition": {"partitions": []},
    "no topic": {"topics": []},
    "many records": {"records": bytes(20_000)},
}


@pytest.mark.parametrize("version", [8, 9, 12, 13])
@pytest.mark.parametrize("kind", SINGLE)
def test_requests_of_one_partition_are_read_as_they_were_written(kind: str, version: int) -> None:
    """And so they are with bytes behind them, and cut anywhere they are malformed."""
    more = SINGLE[kind]
    partitions = more.get("partitions", [produce.ProducePartition(7, more.get("records", b"r" * 61))])
    topic_id = "" if version < 13 else "11111111-1111-4111-8111-111111111111"
    topic = produce.ProduceTopic(more.get("name", "topic") if version < 13 else "", topic_id, partitions)
    request = produce.ProduceRequest(-1, 30_000, more.get("topics", [topic]), more.get("transactional_id"))
    frame = encode_request(request, 1, "c", version=version)[4:]
    assert decode_request(frame).message == request
    assert decode_request(frame + b"\0\0\0").message == request
    for end in range(len(frame) - 40 if len(frame) > 1_000 else 12, len(frame)):
        with pytest.raises(MalformedMessageError):
            decode_request(frame[:end])


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_a_request_of_one_partition_with_any_bit_changed_is_what_it_is_by_the_field(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, topic_id = ("topic", "") if version < 13 else ("", "11111111-1111-4111-8111-111111111111")
    topic = produce.ProduceTopic(name, topic_id, [produce.ProducePartition(7, b"\2" * 70)])
    frame = encode_request(produce.ProduceRequest(-1, 2, [topic]), 1, "c", version=version)[4:]
    changed = []
    for position in range(12, len(frame)):
        for bit in range(8):
            changed.append(bytearray(frame))
            changed[-1][position] ^= 1 << bit
    in_one_go = [outcome(each) for each in changed]
    monkeypatch.setattr(produce_codec, "_decode_one", lambda *_: None)
    monkeypatch.setattr(produce_codec, "_decode_one_legacy", lambda *_: None)
    assert in_one_go == [outcome(each) for each in changed]


@pytest.mark.parametrize("version", range(15, 19))
def test_a_fetch_that_names_nothing_is_the_same_in_one_go_and_by_the_field(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any bit changed, with bytes behind it, and for any other field that has a value."""
    plain = fetch.FetchRequest([], 499, 1, 1 << 20, 1, 7, 8, replica_id=2, replica_epoch=1 << 40)
    forgotten = [fetch.ForgottenTopic("", "e3e70682-c209-4cac-629f-6fbed82c07cd", [1])]
    others: list[dict[str, Any]] = [{"rack_id": "r"}, {"cluster_id": ""}, {"forgotten": forgotten}]
    others += [{"replica_id": -1}, {"replica_id": -1, "replica_epoch": -1}]
    written = [attrs.evolve(plain, **other) for other in ({}, *others)]
    frames = [encode_request(request, 1, "c", version=version)[4:] for request in written]
    changed = []
    for position in range(12, len(frames[0])):
        for bit in range(8):
            changed.append(bytearray(frames[0]))
            changed[-1][position] ^= 1 << bit
    read = [bytearray(frame) for frame in (*frames, frames[0] + b"\0", *changed)]
    in_one_go = [outcome(each) for each in read]
    assert in_one_go[: len(written)] == written
    monkeypatch.setattr(fetch_codec, "_names_nothing", lambda _: False)
    monkeypatch.setattr(fetch_codec, "_AS_NOTHING_NAMED", ())
    assert frames == [encode_request(request, 1, "c", version=version)[4:] for request in written]
    assert in_one_go == [outcome(each) for each in read]


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.fetch_session_id_not_found])
def test_a_fetch_response_of_nothing_is_the_same_in_one_go_and_by_the_field(version: int, error: ErrorCode) -> None:
    response = fetch.FetchResponse([], throttle_time_ms=9, error_code=error, session_id=1 << 30)
    parts = encode_quickly(response, version, 1)
    assert parts is not None
    assert b"".join(map(in_memory, parts)) == encode_response(response, 1, version=version)


@pytest.mark.parametrize("version", [3, 8])
def test_a_name_of_negative_length_is_malformed_though_the_rest_would_fit(version: int) -> None:
    header = encode_request(produce.ProduceRequest(-1, 2, []), 1, "c", version=version)[4:15]
    overlapping = struct.pack(">hhiih", -1, -1, 2, 1, -6) + struct.pack(">hi", 0, 70) + bytes(70)
    with pytest.raises(MalformedMessageError):
        decode_request(header + overlapping)


BY_THE_FIELD = ("leader_id", "leader_epoch", "error_message", "record_errors")


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"index": 7, "base_offset": 1 << 40, "log_append_time_ms": 5, "log_start_offset": 3},
        {"error_code": ErrorCode.request_timed_out},
        {"leader_id": 2},
        {"leader_epoch": 2},
        {"error_message": ""},
        {"record_errors": [produce.RecordErrorIndex(1, None)]},
    ],
)
def test_a_response_for_one_partition_is_the_same_in_one_go_and_by_the_field(
    version: int, changed: dict[str, Any]
) -> None:
    name, topic_id = ("topic" * 30, "") if version < 13 else ("", "11111111-1111-4111-8111-111111111111")
    partition = produce.PartitionProduced(**{"index": 0, **changed})
    response = produce.ProduceResponse([produce.TopicProduced(name, topic_id, [partition])], throttle_time_ms=9)
    parts = encode_quickly(response, version, 1)
    assert parts is not None
    assert b"".join(map(in_memory, parts)) == encode_response(response, 1, version=version)
    in_one_go = produce_codec.encode_one(response, version, 1) is not None
    assert in_one_go == (version >= 9 and changed.keys().isdisjoint(BY_THE_FIELD))


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize(
    ("changed", "is_usual"),
    [
        ({}, True),
        ({"records": b""}, True),
        ({"aborted_transactions": []}, True),
        ({"index": 7, "high_watermark": 1 << 40, "last_stable_offset": 5, "log_start_offset": 3}, True),
        ({"preferred_read_replica": 2}, True),
        ({"records": None}, False),
        ({"aborted_transactions": [fetch.AbortedTransaction(1, 2)]}, False),
        ({"error_code": ErrorCode.offset_out_of_range}, False),
        ({"diverging_epoch": 0}, False),
        ({"diverging_end_offset": 2}, False),
        ({"leader_id": 2}, False),
        ({"snapshot_end_offset": 2}, False),
    ],
)
def test_a_fetch_response_for_one_partition_is_the_same_in_one_go_and_by_the_field(
    version: int, changed: dict[str, Any], is_usual: bool
) -> None:
    name, topic_id = ("topic" * 30, "") if version < 13 else ("", "11111111-1111-4111-8111-111111111111")
    partition = fetch.PartitionFetched(**{"index": 0, "records": b"r" * 200, **changed})
    topics = [fetch.TopicFetched(name, topic_id, [partition])]
    response = fetch.FetchResponse(topics, throttle_time_ms=9, session_id=4)
    frame = encode_response(response, 1, version=version)
    parts = encode_quickly(response, version, 1)
    assert parts is not None
    assert b"".join(map(in_memory, parts)) == frame
    in_one_go = fetch_codec.encode_one(response, version, 1)
    assert (in_one_go is not None) == (version >= 12 and is_usual)
    by_the_field = fetch_codec.encode_response(response, version)
    assert frame.endswith(b"".join(map(in_memory, by_the_field)))


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_response_of_many_aborted_transactions_is_encoded_in_slices(version: int) -> None:
    aborted = [fetch.AbortedTransaction(number, 2 * number) for number in range(1_000)]
    partition = fetch.PartitionFetched(0, aborted_transactions=aborted)
    response = fetch.FetchResponse([fetch.TopicFetched("t", "", [partition])])
    assert encode_quickly(response, version, 1) is None
    work = encoding_response(response, version, 1)
    assert sum(1 for _ in work) > 10
    frame = encode_response(response, 1, version=version)
    decoded = decode_response(frame[4:], ApiKey.FETCH, version)
    assert decoded.message.topics[0].partitions[0].aborted_transactions == aborted


def test_records_are_not_copied() -> None:
    records = bytes(1000)
    request = produce.ProduceRequest(
        -1, 1, [produce.ProduceTopic("t", "", [produce.ProducePartition(0, memoryview(records))])]
    )
    frame = encode_request(request, 1, None, version=9)
    (topic,) = decode_request(frame).message.topics if len(frame) == 4 else decode_request(frame[4:]).message.topics
    view = topic.partitions[0].records
    assert isinstance(view, memoryview)
    response = fetch.FetchResponse([fetch.TopicFetched("t", "", [fetch.PartitionFetched(0, records=records)])])
    assert any(part is records for part in encode_response_parts(response, 12, 1))
