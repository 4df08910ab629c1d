"""Whether a Produce request asks for no response, of all its versions and of what is no request."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.tap.acks import Acks, asks_for_none
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic

HIGHEST = BROKER_APIS[ApiKey.PRODUCE][1]


def peeking(frame: bytes) -> Callable[[int], bytes]:
    return lambda count: frame[:count]


@given(
    st.integers(3, HIGHEST),
    st.sampled_from((0, 1, -1)),
    st.text(max_size=300) | st.none(),
    st.text(max_size=300) | st.none(),
)
def test_acks_are_found_in_every_version(version: int, acks: int, client: str | None, transaction: str | None) -> None:
    topics = [ProduceTopic("orders", "", [ProducePartition(0, build_batch([Record(0, 1, None, b"value")]))])]
    request = ProduceRequest(acks, 1000, topics, transactional_id=transaction)
    frame = encode_request(request, 7, client, version=version)[4:]
    assert asks_for_none(peeking(frame), version) == (acks == 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_before_transactions_begin_with_acks(version: int) -> None:
    head = b"\0\0\0" + bytes([version]) + b"\0\0\0\7\0\2me"
    assert asks_for_none(peeking(head + b"\0\0\0\0\3\xe8"), version)
    assert not asks_for_none(peeking(head + b"\0\1\0\0\3\xe8"), version)


def test_tagged_fields_of_the_header_are_passed_over() -> None:
    head = b"\0\0\0\x09\0\0\0\7\xff\xff"
    assert asks_for_none(peeking(head + b"\x02\0\x01x\x05\x02yz" + b"\0" + b"\0\0"), 9)
    assert not asks_for_none(peeking(head + b"\x02\0\x01x\x05\x02yz" + b"\0" + b"\xff\xff"), 9)


@given(st.binary(max_size=600), st.integers(0, 20))
def test_whatever_bytes_come_there_is_a_verdict(frame: bytes, version: int) -> None:
    assert asks_for_none(peeking(frame), version) in (True, False)


@pytest.mark.parametrize(
    "frame", [b"", b"\0" * 8, b"\0" * 8 + b"\x7f\xff", b"\0" * 8 + b"\xff\xff\xff\xff\xff\xff\xff"]
)
def test_what_cannot_be_read_asks_for_a_response(frame: bytes) -> None:
    assert not asks_for_none(peeking(frame), 9)


TEXTS = st.sampled_from(["", "me", "you", "m" * 300])


@given(st.lists(st.tuples(st.integers(3, HIGHEST), st.sampled_from((0, 1, -1)), TEXTS, TEXTS | st.none()), max_size=12))
def test_requests_of_a_connection_are_read_as_each_alone(requests: list[tuple[int, int, str, str | None]]) -> None:
    acks = Acks()
    for number, (version, wanted, client, transaction) in enumerate(requests):
        request = ProduceRequest(wanted, 1000, [ProduceTopic("orders", "", [])], transactional_id=transaction)
        frame = encode_request(request, number, client, version=version)
        assert acks.are_none(frame, version) == (wanted == 0)


@given(st.lists(st.tuples(st.binary(max_size=30), st.integers(0, 20)), max_size=8))
def test_whatever_bytes_come_one_after_the_other_each_has_the_verdict_of_its_own(
    frames: list[tuple[bytes, int]],
) -> None:
    acks = Acks()
    for body, version in frames:
        frame = bytes(12) + body
        assert acks.are_none(frame, version) == asks_for_none(peeking(frame[4:]), version)
