"""Whether a response may say where leaders are: as often as its decoded message does, and where it cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.impl.tap.endpoints import _LAYOUTS, may_name_endpoints
from tidegauge.impl.tap.rewriting import NAME_LEADERS_FROM
from tidegauge.impl.tap.skipping import after_tagged
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, response_class
from tidegauge.impl.wire.codecs import MalformedMessageError, decode_response, encode_response
from tidegauge.impl.wire.fetch_messages import FetchResponse, PartitionFetched, TopicFetched
from tidegauge.impl.wire.frames import LENGTH
from tidegauge.impl.wire.produce_messages import NodeEndpoint, PartitionProduced, ProduceResponse, TopicProduced
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.wire.any_message import messages

VERSIONS = [
    (key, version)
    for key in (ApiKey.PRODUCE, ApiKey.FETCH)
    for version in range(NAME_LEADERS_FROM[key], BROKER_APIS[key].highest + 1)
]
EVERY_VERSION = pytest.mark.parametrize(("key", "version"), VERSIONS, ids=[f"{key.name}-{n}" for key, n in VERSIONS])
ID = "00000000-0000-0000-0000-000000000007"
ENDPOINT = NodeEndpoint(1, "broker-1", 9092, "rack")


def response(key: ApiKey, endpoints: list[NodeEndpoint], partitions: int = 2) -> Any:
    """A response of two topics."""
    if key == ApiKey.PRODUCE:
        produced = [PartitionProduced(number, error_message="no" * number) for number in range(partitions)]
        return ProduceResponse([TopicProduced("orders", ID, produced)] * 2, 0, endpoints)
    fetched = [PartitionFetched(number, records=bytes(300 * number), leader_id=number) for number in range(partitions)]
    return FetchResponse([TopicFetched("orders", ID, fetched)] * 2, node_endpoints=endpoints)


@EVERY_VERSION
def test_it_says_so_where_leaders_are_named_and_nowhere_else(key: ApiKey, version: int) -> None:
    @settings(max_examples=amount(15, deep=300))
    @given(messages(response_class(key, version)), st.integers(0, (1 << 31) - 1))
    def check(message: Any, correlation_id: int) -> None:
        frame = encode_response(message, correlation_id)
        assert may_name_endpoints(frame, key, version) == bool(message.node_endpoints)

    check()
    for partitions in (0, 1, 200):
        plain = encode_response(response(key, [], partitions), 7, version=version)
        assert not may_name_endpoints(plain, key, version)
        assert may_name_endpoints(
            encode_response(response(key, [ENDPOINT], partitions), 7, version=version), key, version
        )


@EVERY_VERSION
def test_no_damage_hides_a_leader_that_can_be_read(key: ApiKey, version: int) -> None:
    whole = encode_response(response(key, [ENDPOINT]), 7, version=version)

    @settings(max_examples=amount(60, deep=3000))
    @given(st.integers(LENGTH.size, len(whole) - 1), st.integers(1, 255), st.integers(0, 12))
    def check(place: int, bits: int, cut: int) -> None:
        frame = bytearray(whole[: len(whole) - cut])
        if place < len(frame):
            frame[place] ^= bits
        try:
            named = decode_response(memoryview(frame)[LENGTH.size :], key, version).message.node_endpoints
        except MalformedMessageError:
            named = []
        assert may_name_endpoints(bytes(frame), key, version) or not named

    check()


def of_one_partition(key: ApiKey, endpoints: list[NodeEndpoint], name: str, records: int, leader: int) -> Any:
    if key == ApiKey.PRODUCE:
        produced = PartitionProduced(0, base_offset=7, leader_id=leader)
        return ProduceResponse([TopicProduced(name, ID, [produced])], 0, endpoints)
    fetched = PartitionFetched(0, records=bytes(records), leader_id=leader)
    return FetchResponse([TopicFetched(name, ID, [fetched])], node_endpoints=endpoints)


@EVERY_VERSION
@pytest.mark.parametrize("name", ["", "o", "o" * 126, "o" * 127, "o" * 249])
@pytest.mark.parametrize("records", [0, 126, 127, 20_000])
@pytest.mark.parametrize("leader", [-1, 3])
def test_of_one_partition_it_says_so_as_well(key: ApiKey, version: int, name: str, records: int, leader: int) -> None:
    plain = encode_response(of_one_partition(key, [], name, records, leader), 7, version=version)
    assert not may_name_endpoints(plain, key, version)
    named = encode_response(of_one_partition(key, [ENDPOINT], name, records, leader), 7, version=version)
    assert may_name_endpoints(named, key, version)


@EVERY_VERSION
@pytest.mark.parametrize("endpoints", [[], [ENDPOINT]], ids=["none", "one"])
@pytest.mark.parametrize("leader", [-1, 3])
def test_no_damage_to_one_partition_hides_a_leader_that_can_be_read(
    key: ApiKey, version: int, endpoints: list[NodeEndpoint], leader: int
) -> None:
    """Whichever byte is another one."""
    whole = encode_response(of_one_partition(key, endpoints, "o", 20, leader), 7, version=version)
    for place in range(LENGTH.size, len(whole)):
        for byte in {0, 1, 2, 3, 127, 128, 255, whole[place] ^ 1} - {whole[place]}:
            frame = whole[:place] + bytes((byte,)) + whole[place + 1 :]
            if may_name_endpoints(frame, key, version):
                continue
            try:
                read = decode_response(memoryview(frame)[LENGTH.size :], key, version).message
            except MalformedMessageError:
                continue
            assert not read.node_endpoints, (place, byte)


@EVERY_VERSION
def test_of_what_looks_plain_the_end_is_where_its_fields_end(key: ApiKey, version: int) -> None:
    is_plain, after_fields = _LAYOUTS[key]
    plain = encode_response(of_one_partition(key, [], "o", 20, -1), 7, version=version)
    assert is_plain(plain, version)
    others = [encode_response(of_one_partition(key, [ENDPOINT], "o", 20, 3), 7, version=version), plain + b"\0"]
    for whole in (plain, plain[:-1], *others):
        for place in range(LENGTH.size, len(whole)):
            for byte in {0, 1, 2, 3, 127, 128, 255, whole[place] ^ 1}:
                frame = whole[:place] + bytes((byte,)) + whole[place + 1 :]
                if looks(is_plain, frame, version):
                    position = after_fields(frame, after_tagged(frame, LENGTH.size + 4), version)
                    assert position + 1 == len(frame), (place, byte)


def looks(is_plain: Callable[[bytes, int], bool], frame: bytes, version: int) -> bool:
    try:
        return is_plain(frame, version)
    except IndexError:
        return False


def test_a_topic_with_a_long_name_is_none_of_one_with_a_short_name() -> None:
    """Its length has two bytes; as one byte the first of them leads to where a plain response has its fields."""
    frame = bytearray(300)
    for place, byte in {9: 2, 10: 0xFA, 11: 1, 260: 2, 291: 1}.items():
        frame[place] = byte
    assert may_name_endpoints(bytes(frame), ApiKey.PRODUCE, 12)


@EVERY_VERSION
@given(st.binary(max_size=200))
def test_whatever_bytes_come_there_is_a_verdict(key: ApiKey, version: int, frame: bytes) -> None:
    assert may_name_endpoints(frame, key, version) in (True, False)


@EVERY_VERSION
def test_what_ends_too_soon_or_too_late_may_name_one(key: ApiKey, version: int) -> None:
    frame = encode_response(response(key, []), 7, version=version)
    assert not may_name_endpoints(frame, key, version)
    assert all(may_name_endpoints(frame[:size], key, version) for size in range(len(frame)))
    assert may_name_endpoints(frame + b"\0", key, version)


def test_any_other_response_may_name_one() -> None:
    assert may_name_endpoints(b"", ApiKey.METADATA, 12)
    assert may_name_endpoints(b"", ApiKey.SHARE_FETCH, 1)
