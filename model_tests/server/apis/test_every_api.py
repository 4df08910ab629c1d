"""Every version of every API that a broker advertises works: sent to a broker over TCP, each has its response.

An ordinary run sends the first and the last version of each, for those between differ in their codecs, which have tests
of their own (`model_tests/wire`).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import trio
from kafka.protocol.broker_version_data import BrokerVersionData
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.response import ListGroupsResponse

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.wire.apis import BROKER_APIS, PRODUCE_SERVED_FROM, ApiKey, request_class
from tidegauge.impl.wire.primitives import NO_WAIT
from tidegauge.model_tests.amounts import ends
from tidegauge.model_tests.server.asking import Asker
from tidegauge.model_tests.server.error_responses.test_error_responses import errors
from tidegauge.model_tests.wire.sample_messages import sample

NEVER = {
    ErrorCode.unknown_server_error,
    ErrorCode.request_timed_out,
    ErrorCode.not_controller,
    ErrorCode.network_exception,
    ErrorCode.corrupt_message,
}
"""Errors that no response of a healthy cluster has."""


async def connected(cluster: Cluster) -> Asker:
    address = cluster.broker(0).address
    return Asker(await trio.open_tcp_stream(address.host, address.port))


@pytest.mark.parametrize("key", [key for key in BROKER_APIS if key in BROKER_HANDLERS], ids=lambda key: key.name)
def test_every_version_has_a_response(key: ApiKey) -> None:
    async def ask_all() -> None:
        async with Cluster(brokers=1, host="tcp") as cluster:
            await cluster.create_topic("t")
            topic_id = UUID(cluster.controller.controller.image.topics["t"].topic_id)
            values = {"string": "t", "uuid": topic_id, "int32": 0, "int64": 0, "int8": 0}
            served = BROKER_APIS[key]
            lowest = PRODUCE_SERVED_FROM if key is ApiKey.PRODUCE else served.lowest
            for version in ends(range(lowest, served.highest + 1)):
                peer = await connected(cluster)
                with trio.fail_after(5):
                    response = await peer.ask(sample(request_class(key, version), values))
                    assert not NEVER & set(errors(response)), f"version {version}: {response}"
                    again = await peer.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"))
                    assert again.error_code is ErrorCode.none, "the connection lives on"
                await peer.stream.aclose()

    trio.run(ask_all)


def test_a_handler_that_fails_harms_nothing_but_its_request(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Any, context: Any) -> Any:
        raise KeyError("nobody foresaw this")

    async def ask() -> None:
        async with Cluster(brokers=1, host="tcp") as cluster:
            broker = cluster.broker(0)
            handlers: Any = next(iter(broker.listeners))._service.handlers
            handlers[ApiKey.CREATE_TOPICS] = fail
            peer = await connected(cluster)
            response = await peer.ask(sample(request_class(ApiKey.CREATE_TOPICS, 7)))
            assert [(topic.name, topic.error_code) for topic in response.topics] == [
                ("s", ErrorCode.unknown_server_error),
                ("s2", ErrorCode.unknown_server_error),
            ]
            assert (await peer.ask(sample(request_class(ApiKey.LIST_GROUPS, 0)))).error_code is ErrorCode.none
            assert broker.failed_requests.last == ["CREATE_TOPICS: KeyError('nobody foresaw this')"]

    trio.run(ask)
    assert "request failed: node=broker-0 api=CREATE_TOPICS version=7" in caplog.text


def test_a_response_that_cannot_be_written_costs_its_connection_and_nothing_else() -> None:
    async def respond_without_a_name(request: Any, context: Any) -> Any:
        nobody: Any = None
        return ListGroupsResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, groups=(nobody,))

    async def ask() -> None:
        async with Cluster(brokers=1, host="tcp") as cluster:
            broker = cluster.broker(0)
            handlers: Any = next(iter(broker.listeners))._service.handlers
            handlers[ApiKey.LIST_GROUPS] = respond_without_a_name
            peer, other = await connected(cluster), await connected(cluster)
            with pytest.raises(AssertionError, match="the broker closed the connection"):
                await peer.ask(sample(request_class(ApiKey.LIST_GROUPS, 5)))
            described = await other.ask(sample(request_class(ApiKey.DESCRIBE_CLUSTER, 2), {"endpoint_type": 1}))
            assert described.error_code is ErrorCode.none
            assert len(broker.failed_requests.last) == 1

    trio.run(ask)


def test_what_is_advertised_is_kafka_4_3() -> None:
    async def ask() -> Any:
        async with Cluster(brokers=1, host="tcp") as cluster:
            peer = await connected(cluster)
            return await peer.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"))

    advertised = {key.api_key: (key.min_version, key.max_version) for key in trio.run(ask).api_keys}
    assert advertised == {int(key): tuple(versions) for key, versions in BROKER_APIS.items()}
    assert BrokerVersionData(api_versions=advertised).broker_version == (4, 3)
