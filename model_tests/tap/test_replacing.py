"""Responses whose addresses are replaced, and those that say the same once more: for them nothing is decoded again."""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest.mock import patch

import pytest

from tidegauge.impl.ports.network import Address
from tidegauge.impl.tap import replacing
from tidegauge.impl.tap.addresses import NoPortError
from tidegauge.impl.tap.replacing import MOST_KEPT, Replacing, UnknownAddressError
from tidegauge.impl.wire.apis import ApiKey, response_class
from tidegauge.impl.wire.codecs import MalformedMessageError, decode_response, encode_response
from tidegauge.model_tests.tap.test_rewriting import HERE, KIO, THERE, sample


class Ports:
    """In place of addresses: the tap's own, and how often somebody asked."""

    asked = 0

    def local(self, host: str, port: int) -> Address:
        self.asked += 1
        if (host, port) != THERE:
            raise NoPortError("no port is left")
        return HERE


def replacing_with(ports: Ports) -> Replacing:
    found: Any = ports
    return Replacing(found)


@pytest.mark.parametrize(("key", "version"), KIO, ids=lambda one: getattr(one, "name", str(one)))
def test_the_same_response_to_a_later_request_is_made_as_the_first_was(key: ApiKey, version: int) -> None:
    message = sample(response_class(key, version))
    ports = Ports()
    one = replacing_with(ports)
    for number in (3, 4, 0x7FFFFFFF, 3):
        changed = one.changed(encode_response(message, number), key, version)
        assert changed == replacing_with(Ports()).changed(encode_response(message, number), key, version)
        assert changed is not None
        assert decode_response(changed[4:], key, version).correlation_id == number
        assert int.from_bytes(changed[:4], "big") == len(changed) - 4


def test_a_response_that_is_kept_is_not_decoded_again() -> None:
    message = sample(response_class(ApiKey.METADATA, 12))
    ports = Ports()
    one = replacing_with(ports)
    one.changed(encode_response(message, 1), ApiKey.METADATA, 12)
    asked = ports.asked
    with patch.object(replacing, "decode_response", side_effect=AssertionError("decoded again")):
        assert one.changed(encode_response(message, 2), ApiKey.METADATA, 12) is not None
    assert ports.asked == asked > 0


def test_another_version_or_another_api_with_the_same_bytes_is_another_response() -> None:
    one = replacing_with(Ports())
    frame = encode_response(sample(response_class(ApiKey.METADATA, 2)), 1)
    assert one.changed(frame, ApiKey.METADATA, 2) is not None
    with pytest.raises(MalformedMessageError):
        one.changed(frame, ApiKey.METADATA, 12)
    with pytest.raises(MalformedMessageError):
        one.changed(frame, ApiKey.DESCRIBE_CLUSTER, 0)


def test_a_response_without_an_address_is_kept_too() -> None:
    nobody = dataclasses.replace(sample(response_class(ApiKey.FIND_COORDINATOR, 2)), host="", port=-1)
    one = replacing_with(Ports())
    assert one.changed(encode_response(nobody, 1), ApiKey.FIND_COORDINATOR, 2) is None
    with patch.object(replacing, "decode_response", side_effect=AssertionError("decoded again")):
        assert one.changed(encode_response(nobody, 2), ApiKey.FIND_COORDINATOR, 2) is None


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\0", b"\0\0\0\4\0\0\0\1", b"\0\0\0\5\0\0\0\1\xff"])
def test_what_cannot_be_read_is_told_each_time(frame: bytes) -> None:
    one = replacing_with(Ports())
    for _ in range(2):
        with pytest.raises(MalformedMessageError):
            one.changed(frame, ApiKey.METADATA, 12)


def test_a_broker_without_a_port_is_asked_for_again() -> None:
    message = sample(response_class(ApiKey.FIND_COORDINATOR, 2))
    one = replacing_with(Ports())
    for _ in range(2):
        with pytest.raises(UnknownAddressError, match="no port is left"):
            one.changed(encode_response(dataclasses.replace(message, host="another"), 1), ApiKey.FIND_COORDINATOR, 2)


def test_so_many_responses_are_kept_and_none_that_is_large() -> None:
    message = sample(response_class(ApiKey.FIND_COORDINATOR, 2))
    one = replacing_with(Ports())
    for number in range(3 * MOST_KEPT):
        different = dataclasses.replace(message, error_message=f"number {number}")
        assert one.changed(encode_response(different, 1), ApiKey.FIND_COORDINATOR, 2) is not None
        assert 1 <= len(one._kept) <= MOST_KEPT
    kept = dict(one._kept)
    with patch.object(replacing, "SMALL", 1000):
        large = encode_response(dataclasses.replace(message, error_message="x" * 1000), 1)
        assert one.changed(large, ApiKey.FIND_COORDINATOR, 2) is not None
    assert one._kept == kept
