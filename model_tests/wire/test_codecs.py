"""Requests and responses of every API that is spoken survive the wire, and no bytes harm the decoder."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.apis import SPOKEN, ApiKey, UnknownApiError, request_class, response_class
from tidegauge.impl.wire.codecs import (
    MalformedMessageError,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    peek_request,
    response_correlation_id,
)
from tidegauge.impl.wire.primitives import millis, to_millis, topic_uuid
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.wire.any_message import messages

CORRELATION_IDS = st.integers(0, (1 << 31) - 1)
CLIENT_IDS = st.none() | st.text(max_size=20)
OF_KIO = [api for api in SPOKEN if api not in (ApiKey.PRODUCE, ApiKey.FETCH)]
APIS = pytest.mark.parametrize("api", OF_KIO, ids=lambda api: api.name)
FEW = settings(max_examples=amount(6, deep=12))


@APIS
@FEW
@given(data=st.data(), correlation_id=CORRELATION_IDS, client_id=CLIENT_IDS)
def test_a_request_is_decoded_as_it_was_encoded(
    api: ApiKey, data: st.DataObject, correlation_id: int, client_id: str | None
) -> None:
    message = data.draw(messages(request_class(api, SPOKEN[api])))
    frame = encode_request(message, correlation_id, client_id)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    decoded = decode_request(memoryview(frame)[4:])
    assert (decoded.api_key, decoded.api_version) == (api, SPOKEN[api]) == peek_request(frame[4:])[:2]
    assert (decoded.correlation_id, decoded.client_id, decoded.message) == (correlation_id, client_id, message)


@APIS
@FEW
@given(data=st.data(), correlation_id=CORRELATION_IDS)
def test_a_response_is_decoded_as_it_was_encoded(api: ApiKey, data: st.DataObject, correlation_id: int) -> None:
    message = data.draw(messages(response_class(api, SPOKEN[api])))
    frame = encode_response(message, correlation_id)
    assert response_correlation_id(frame[4:]) == correlation_id
    decoded = decode_response(memoryview(frame)[4:], api, SPOKEN[api])
    assert (decoded.correlation_id, decoded.message) == (correlation_id, message)


def test_an_api_versions_response_has_the_old_header_in_every_version() -> None:
    for version in range(5):
        fields: dict[str, Any] = {"error_code": ErrorCode.none, "api_keys": ()}
        if version:
            fields["throttle_time"] = millis(0)
        frame = encode_response(response_class(ApiKey.API_VERSIONS, version)(**fields), 7)
        assert frame[4:10] == b"\x00\x00\x00\x07\x00\x00"


@given(st.binary(max_size=80))
def test_no_bytes_harm_the_decoder_of_requests(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_request(data)


@APIS
@FEW
@given(data=st.data())
def test_a_damaged_request_is_another_request_or_malformed(api: ApiKey, data: st.DataObject) -> None:
    frame = bytearray(encode_request(data.draw(messages(request_class(api, SPOKEN[api]))), 1, "c")[4:])
    position = data.draw(st.integers(8, len(frame) - 1))
    frame[position] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(MalformedMessageError):
        assert decode_request(bytes(frame)).correlation_id == 1


def test_a_cut_request_is_malformed_wherever_it_is_cut() -> None:
    frame = encode_request(next_request(), 1, "client")[4:]
    for end in range(len(frame)):
        with pytest.raises(MalformedMessageError):
            decode_request(frame[:end])


def test_bytes_behind_a_request_are_not_looked_at() -> None:
    frame = encode_request(next_request(), 1, "client")[4:]
    assert decode_request(frame + b"\x01\x00\x00") == decode_request(frame)


def next_request() -> Any:
    from kio.schema.metadata.v13.request import MetadataRequest

    return MetadataRequest(topics=None, include_topic_authorized_operations=False)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = encode_request(next_request(), 1, None)[4:]
    tags = b"\x02\x00\x03abc\x05\x00"
    decoded = decode_request(frame[:10] + tags + frame[11:])
    assert decoded.message == next_request()
    with pytest.raises(MalformedMessageError, match="beyond the frame"):
        decode_request(frame[:10] + b"\x01\x00\x7f" + frame[11:])


def test_unknown_apis_and_versions_are_named() -> None:
    with pytest.raises(UnknownApiError, match="API key 9999 has no request of version 3"):
        request_class(9999, 3)
    with pytest.raises(MalformedMessageError, match="API key 0 has no response of version 99"):
        decode_response(b"\x00\x00\x00\x01", 0, 99)


def test_the_response_to_an_unsupported_version_is_version_0() -> None:
    message = ApiVersionsResponseV0(error_code=ErrorCode.unsupported_version, api_keys=())
    decoded = decode_response(encode_response(message, 3)[4:], ApiKey.API_VERSIONS, 0)
    assert decoded.message.error_code is ErrorCode.unsupported_version


@given(st.integers(0, (1 << 31) - 1))
def test_spans_of_time_are_whole_milliseconds(count: int) -> None:
    assert to_millis(millis(count)) == count


@given(st.uuids())
def test_topic_ids_are_canonical_text(topic_id: Any) -> None:
    assert topic_uuid(str(topic_id)) == topic_id
