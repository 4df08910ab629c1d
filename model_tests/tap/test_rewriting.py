"""Addresses in responses, of every version that has them: the tap's own in their place, and nothing else changed."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.network import Address
from tidegauge.impl.tap.rewriting import NAME_BROKERS, NAME_LEADERS_FROM, may_have_addresses, rewritten
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, response_class
from tidegauge.impl.wire.codecs import decode_response, encode_response
from tidegauge.impl.wire.fetch_messages import FetchResponse
from tidegauge.impl.wire.message_classes import is_array, nested_class
from tidegauge.impl.wire.produce_messages import NodeEndpoint, ProduceResponse

HERE = Address("tap.example", 19_092)
THERE = Address("broker-1.inside.example", 9092)


def local(host: str, port: int) -> Address:
    assert (host, port) == THERE
    return HERE


def sample(message_class: Any) -> Any:
    """A message of kio's class with one element in each array, whose hosts and ports are those of a broker."""
    import dataclasses
    import typing

    hints = typing.get_type_hints(message_class)
    values = {}
    for field in dataclasses.fields(message_class):
        hint = hints[field.name]
        nested = nested_class(hint)
        if nested is not None:
            values[field.name] = (sample(nested),) if is_array(hint) else sample(nested)
        elif field.name == "host":
            values[field.name] = THERE.host
        elif field.name == "port":
            values[field.name] = THERE.port
        elif field.default is not dataclasses.MISSING:
            values[field.name] = field.default
        else:
            values[field.name] = plain(hint, field.metadata["kafka_type"])
    return message_class(**values)


def plain(hint: Any, kafka_type: str) -> Any:
    import datetime
    import uuid

    if is_array(hint):
        return ()
    return {
        "string": "text",
        "bool": False,
        "error_code": ErrorCode.none,
        "uuid": uuid.UUID(int=7),
        "timedelta_i32": datetime.timedelta(0),
        "records": b"",
        "bytes": b"",
    }.get(kafka_type, 7)


KIO = [
    (key, version)
    for key in (*sorted(NAME_BROKERS), ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
    for version in range(BROKER_APIS[key].lowest, BROKER_APIS[key].highest + 1)
]


@pytest.mark.parametrize(("key", "version"), KIO, ids=lambda one: getattr(one, "name", str(one)))
def test_a_client_is_told_where_the_tap_listens(key: ApiKey, version: int) -> None:
    assert may_have_addresses(key, version)
    before = sample(response_class(key, version))
    frame = encode_response(before, 3)
    message = decode_response(frame[4:], key, version).message
    changed = rewritten(message, key, local)
    assert changed is not None
    after = decode_response(encode_response(changed, 3)[4:], key, version)
    assert after.correlation_id == 3
    text = repr(after.message)
    assert THERE.host not in text
    assert HERE.host in text
    assert text.replace(HERE.host, THERE.host).replace(str(HERE.port), str(THERE.port)) == repr(message)


@pytest.mark.parametrize(
    ("key", "message"),
    [(ApiKey.PRODUCE, ProduceResponse([])), (ApiKey.FETCH, FetchResponse([]))],
)
def test_leaders_beside_an_error_are_told_so_too(key: ApiKey, message: Any) -> None:
    for version in range(NAME_LEADERS_FROM[key], BROKER_APIS[key].highest + 1):
        endpoints = [NodeEndpoint(1, THERE.host, THERE.port, "rack")]
        changed = rewritten(attrs.evolve(message, node_endpoints=endpoints), key, local)
        frame = encode_response(changed, 3, version=version)
        found = decode_response(frame[4:], key, version).message
        assert found.node_endpoints == [NodeEndpoint(1, HERE.host, HERE.port, "rack")]
    assert not may_have_addresses(key, NAME_LEADERS_FROM[key] - 1)
    assert rewritten(message, key, local) is None, "nothing to change"


def test_a_coordinator_that_is_not_there_stays_so() -> None:
    before = sample(response_class(ApiKey.FIND_COORDINATOR, 2))
    import dataclasses

    nobody = dataclasses.replace(before, host="", port=-1)
    assert rewritten(nobody, ApiKey.FIND_COORDINATOR, local) is None
    assert not may_have_addresses(ApiKey.API_VERSIONS, 4)
    assert not may_have_addresses(999, 0)
