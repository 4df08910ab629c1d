"""Requests about share and streams groups fail as in a Kafka that has none."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.server.transport.authorization import CLUSTER_NAME, Operation, ResourceType
from tidegauge.impl.server.transport.handlers import Deferred
from tidegauge.impl.wire.apis import ApiKey, canonical_version, request_class
from tidegauge.impl.wire.primitives import i8
from tidegauge.model_tests.server.asking import asker, asking, forbid
from tidegauge.model_tests.server.error_responses.test_error_responses import errors
from tidegauge.model_tests.simulated import simulated
from tidegauge.model_tests.wire.sample_messages import sample

SHARE = 2
ABSENT = [
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    *(key for key, found in BROKER_HANDLERS.items() if isinstance(found, Deferred) and "absent" in found.module),
]
"""APIs of what a broker does not have."""


@simulated
async def test_no_broker_is_the_coordinator_of_a_share_group() -> None:
    async with asking() as (_, peer):
        for key_type in (SHARE, 9):
            request = FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=("x",))
            refused = (await peer.ask(request)).coordinators[0]
            assert refused.error_code is ErrorCode.invalid_request


EXPECTED = {
    ApiKey.SHARE_GROUP_HEARTBEAT: ErrorCode.unsupported_version,
    ApiKey.SHARE_FETCH: ErrorCode.unsupported_version,
    ApiKey.STREAMS_GROUP_HEARTBEAT: ErrorCode.unsupported_version,
    ApiKey.STREAMS_GROUP_DESCRIBE: ErrorCode.unsupported_version,
    ApiKey.ADD_RAFT_VOTER: ErrorCode.unsupported_version,
    ApiKey.REMOVE_RAFT_VOTER: ErrorCode.unsupported_version,
}


@pytest.mark.parametrize(("key", "error"), EXPECTED.items(), ids=lambda value: value.name)
@simulated
async def test_what_there_is_not_is_said_by_its_error_everywhere(key: ApiKey, error: ErrorCode) -> None:
    async with asking() as (_, peer):
        response: Any = await peer.ask(sample(request_class(key, canonical_version(key))))
        assert set(errors(response)) - {ErrorCode.none} == {error}


@pytest.mark.parametrize("key", ABSENT, ids=lambda key: key.name)
@simulated
async def test_who_may_not_ask_is_told_nothing(key: ApiKey) -> None:
    denials = {
        ErrorCode.group_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
    async with asking() as (cluster, _):
        everything = [
            (operation, kind, "*" if kind is not ResourceType.CLUSTER else CLUSTER_NAME)
            for kind in (ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
            for operation in Operation
        ]
        forbid(cluster, *everything)
        peer = await asker(cluster)
        response = await peer.ask(sample(request_class(key, canonical_version(key)), {"int8": 0}))
        assert set(errors(response)) - {ErrorCode.none} <= denials
        assert set(errors(response)) & denials
