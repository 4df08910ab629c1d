"""A consumer group's committed offsets, for an application that assigns partitions itself (KIP-447).

    group = GroupOffsets(client, "billing")
    offset = await group.committed("orders", partition)

They are committed as a part of transactions (`Transaction.commit_offsets`), and told only where no open transaction
may yet change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.types import GroupId

from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.wire.primitives import TopicName, i32

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client

NO_OFFSET = -1


class CommittedOffset(NamedTuple):
    """Where a group goes on, and what was kept beside that."""

    offset: int
    metadata: str


class GroupOffsets:
    """The offsets of one group."""

    def __init__(self, client: Client, group: str) -> None:
        """Raises ValueError for a group without a name."""
        if not group:
            raise ValueError("the group is empty: name the one that the application's processes share")
        self._group = group
        self._coordinator = Coordinator(client, GROUP, group)

    async def committed(self, topic: str, partition: int = 0, *, timeout_ms: float | None = None) -> int | None:
        """The offset that the group goes on from; None if it has committed none. Raises KafkaError."""
        found = await self.committed_with_metadata(topic, partition, timeout_ms=timeout_ms)
        return None if found is None else found.offset

    async def committed_with_metadata(
        self, topic: str, partition: int = 0, *, timeout_ms: float | None = None
    ) -> CommittedOffset | None:
        """The same with the metadata that it was committed with ("" if with none)."""
        asked = OffsetFetchRequestTopics(name=TopicName(topic), partition_indexes=(i32(partition),))
        group = OffsetFetchRequestGroup(group_id=GroupId(self._group), topics=(asked,))
        request = OffsetFetchRequest(groups=(group,), require_stable=True)
        response = await self._coordinator.ask(request, _error_of, timeout_ms, is_bounded=True)
        found = response.groups[0].topics[0].partitions[0]
        offset = int(found.committed_offset)
        return None if offset == NO_OFFSET else CommittedOffset(offset, found.metadata or "")


def _error_of(response: Any) -> ErrorCode:
    (group,) = response.groups
    error: ErrorCode = group.error_code
    return error if error is not ErrorCode.none else group.topics[0].partitions[0].error_code
