"""An operator of the group of a simulated run: removes static members, and in the end deletes offsets and the group."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

import trio
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.types import GroupId

from tidegauge.impl.client.client import ClientConfig
from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.wire.primitives import TopicName, i32
from tidegauge.model_tests.harness.simulation.simulated_member import NAME
from tidegauge.model_tests.harness.simulation.workload import TOPIC

CONFIG: Final = ClientConfig(request_timeout_ms=600, default_api_timeout_ms=2_500, retry_backoff_ms=50)
REMOVES_EACH_S: Final = 2.0
WAIT_MS: Final = 10_000


class GroupOperator:
    """Who administers the group."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._rng = Random(f"operator/{seed}")

    async def remove_now_and_then(self, instances: int, is_over: Callable[[], bool]) -> None:
        """A static member is removed, which may have a process that goes on: that joins again."""
        async with self._cluster.client("operator", config=CONFIG) as client:
            coordinator = Coordinator(client, GROUP, NAME)
            while instances and not is_over():
                await trio.sleep(self._rng.uniform(0, 2 * REMOVES_EACH_S))
                leaving = MemberIdentity(member_id="", group_instance_id=f"static-{self._rng.randrange(instances)}")
                if not is_over():
                    with suppress(KafkaError):
                        request = LeaveGroupRequest(group_id=GroupId(NAME), members=(leaving,))
                        await coordinator.ask(request, lambda response: response.error_code, 0)

    async def delete(self) -> None:
        """The offset of a partition goes, and then the group, which has no members any more. Raises KafkaError."""
        async with self._cluster.client("operator", config=CONFIG) as client:
            coordinator = Coordinator(client, GROUP, NAME)
            partitions = (OffsetDeleteRequestPartition(partition_index=i32(0)),)
            topics = (OffsetDeleteRequestTopic(name=TopicName(TOPIC), partitions=partitions),)
            request = OffsetDeleteRequest(group_id=GroupId(NAME), topics=topics)
            await coordinator.ask(request, lambda response: response.error_code, WAIT_MS)
            await coordinator.ask(DeleteGroupsRequest(groups_names=(GroupId(NAME),)), _deleted, WAIT_MS)


def _deleted(response: Any) -> ErrorCode:
    """One that had no response may have been carried out."""
    error: ErrorCode = response.results[0].error_code
    return ErrorCode.none if error is ErrorCode.group_id_not_found else error
