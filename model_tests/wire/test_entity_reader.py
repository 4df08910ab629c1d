"""The reader of messages agrees with kio's on what is intact, and takes no memory on the word of what is not."""

from __future__ import annotations

import dataclasses
import io
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kio import serial
from kio.schema.describe_transactions.v0.response import TransactionState
from kio.schema.produce.v9.response import PartitionProduceResponse
from kio.serial.errors import DecodeError
from kio.static.protocol import Payload

from tidegauge.impl.records.slices import at_once
from tidegauge.impl.wire.apis import BROKER_APIS, INTER_BROKER_APIS, ApiKey, request_class, response_class
from tidegauge.impl.wire.entity_reader import entity_reader
from tidegauge.impl.wire.entity_writer import entity_writing
from tidegauge.impl.wire.message_classes import NO_MOMENT, blank, moment, moment_ms
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.wire.any_message import messages


@cache
def every_message() -> list[type[Payload]]:
    """Their classes. To import them takes seconds, so that a process does which runs these tests."""
    return [
        message_class
        for api, versions in {**BROKER_APIS, **INTER_BROKER_APIS}.items()
        if api not in (ApiKey.PRODUCE, ApiKey.FETCH)  # they have codecs of their own
        for version in range(versions.lowest, versions.highest + 1)
        for message_class in (request_class(api, version), response_class(api, version))
    ]


def encoded(message: Any) -> bytes:
    buffer = io.BytesIO()
    serial.entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


@settings(max_examples=amount(50, deep=200))
@given(data=st.data(), before=st.binary(max_size=3))
@pytest.mark.parametrize("part", range(4))
def test_a_message_is_read_as_kio_reads_it(part: int, data: st.DataObject, before: bytes) -> None:
    message_class = data.draw(st.sampled_from(every_message()[part::4]))
    body = encoded(data.draw(messages(message_class)))
    try:
        theirs = serial.entity_reader(message_class)(body, 0)
    except ValueError:  # a span of time beyond what kio's reader takes
        assume(False)
    assert theirs[1] == len(body)
    assert entity_reader(message_class)(memoryview(before + body + b"more"), len(before)) == theirs


@settings(max_examples=amount(50, deep=200))
@given(data=st.data())
def test_a_message_that_is_cut_short_is_refused(data: st.DataObject) -> None:
    message_class = data.draw(st.sampled_from(every_message()))
    body = encoded(data.draw(messages(message_class)))
    if body:
        with pytest.raises((DecodeError, ValueError)):
            entity_reader(message_class)(body[: data.draw(st.integers(0, len(body) - 1))], 0)


@pytest.mark.parametrize("claimed", [b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff", b"\x80\x00\x00\x00"])
def test_an_array_that_claims_more_than_is_there_is_refused_before_memory_is_taken(claimed: bytes) -> None:
    metadata = request_class(ApiKey.METADATA, 1)
    with pytest.raises(DecodeError, match="an array of"):
        entity_reader(metadata)(claimed, 0)


def test_a_compact_array_that_claims_more_than_is_there_is_refused_before_memory_is_taken() -> None:
    metadata = request_class(ApiKey.METADATA, 12)
    with pytest.raises(DecodeError, match="an array of"):
        entity_reader(metadata)(b"\xff\xff\xff\xff\x07\x00", 0)


def test_unknown_tagged_fields_are_skipped() -> None:
    message_class = request_class(ApiKey.METADATA, 12)
    message, size = entity_reader(message_class)(b"\x01\x01\x00\x02\x07\x03abc\x09\x00", 0)
    assert (message.topics, size) == ((), 11)
    with pytest.raises(DecodeError, match="tagged field 7 of 100 bytes"):
        entity_reader(message_class)(b"\x01\x01\x00\x01\x07\x64abc", 0)


def rewritten(message: Payload) -> Any:
    """The message as it is read from what is written of it."""
    buffer = io.BytesIO()
    at_once(entity_writing(type(message))(buffer, message))
    return entity_reader(type(message))(buffer.getvalue(), 0)[0]


EDGES = st.sampled_from([-(1 << 63), -62_135_596_800_001, -2, 253_402_300_800_000, (1 << 63) - 1])


@given(ms=st.integers(-(1 << 63), (1 << 63) - 1) | EDGES)
def test_any_time_is_written_and_read_though_kio_has_no_value_for_it(ms: int) -> None:
    described = dataclasses.replace(blank(TransactionState), transaction_start_time=moment(ms))
    assert moment_ms(rewritten(described).transaction_start_time) == ms
    time = None if ms == NO_MOMENT else moment(ms)
    produced = dataclasses.replace(blank(PartitionProduceResponse), log_append_time=time)
    assert rewritten(produced).log_append_time == time


@pytest.mark.parametrize(("ms", "read"), [(-(1 << 63), timedelta.min), ((1 << 63) - 1, timedelta.max)])
def test_a_span_of_time_that_is_longer_than_any_is_read_as_the_longest(ms: int, read: timedelta) -> None:
    renewal = request_class(ApiKey.RENEW_DELEGATION_TOKEN, 1)
    found, _ = entity_reader(renewal)(bytes(4) + ms.to_bytes(8, "big", signed=True), 0)
    assert found.renew_period == read
