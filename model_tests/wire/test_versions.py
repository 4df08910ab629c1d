"""A version whose fields the canonical class has is read and written without converting: the result is the same."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.wire.apis import (
    BROKER_APIS,
    INTER_BROKER_APIS,
    ApiKey,
    canonical_request_class,
    canonical_version,
    request_class,
    response_class,
)
from tidegauge.impl.wire.codecs import (
    decode_canonical_request,
    decode_request,
    encode_request,
    encode_response,
    encode_response_parts,
)
from tidegauge.impl.wire.offset_unions import AnyOffsetCommitResponse, AnyOffsetFetchResponse
from tidegauge.impl.wire.unions import AnyMetadataResponse
from tidegauge.impl.wire.versions import convert, holds
from tidegauge.model_tests.wire.sample_messages import sample

VERSIONS = [
    (api, version)
    for api, versions in {**BROKER_APIS, **INTER_BROKER_APIS}.items()
    if api not in (ApiKey.PRODUCE, ApiKey.FETCH)  # whose messages have one class for all versions
    for version in range(versions.lowest, versions.highest + 1)
]
UNITED: dict[ApiKey, Any] = {
    ApiKey.METADATA: AnyMetadataResponse,
    ApiKey.OFFSET_COMMIT: AnyOffsetCommitResponse,
    ApiKey.OFFSET_FETCH: AnyOffsetFetchResponse,
}


def canonical_response_class(api: ApiKey) -> Any:
    return UNITED.get(api) or response_class(api, canonical_version(api))


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_a_request_of_any_version_is_read_as_if_it_were_converted(api: ApiKey, version: int) -> None:
    frame = encode_request(sample(request_class(api, version)), 7, "client")[4:]
    expected = convert(decode_request(frame).message, canonical_request_class(api))
    found = decode_canonical_request(frame).message
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_a_response_of_any_version_is_written_as_if_it_were_converted(api: ApiKey, version: int) -> None:
    message = sample(canonical_response_class(api), {"records": b"r"})
    found = b"".join(map(in_memory, encode_response_parts(message, version, 7)))
    assert found == encode_response(convert(message, response_class(api, version)), 7)


def test_only_what_stands_in_another_place_or_is_gone_is_converted() -> None:
    both = {"ADD_PARTITIONS_TO_TXN", "FIND_COORDINATOR", "LEAVE_GROUP", "OFFSET_FETCH", "UPDATE_FEATURES"}
    requests = {
        api for api, version in VERSIONS if not holds(canonical_request_class(api), request_class(api, version))
    }
    responses = {
        api for api, version in VERSIONS if not holds(canonical_response_class(api), response_class(api, version))
    }
    assert {api.name for api in requests} == both | {"ALTER_PARTITION", "DELETE_TOPICS"}
    assert {api.name for api in responses} == both
