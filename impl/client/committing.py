"""What a consumer commits, and where its group goes on.

Commits reach the coordinator in the order in which they were asked for, the asynchronous ones too: an older one never
takes the place of a newer one. A commit has the identity that the member has when it is sent; one that is refused is
told to the member, which joins again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.types import GroupId

from tidegauge.impl.client.coordinators import Coordinator
from tidegauge.impl.client.errors import CommitFailedError, KafkaError
from tidegauge.impl.client.membership import GroupMetadata, Identity
from tidegauge.impl.client.positions import Partition, Position
from tidegauge.impl.wire.primitives import TopicName, i32, i64

if TYPE_CHECKING:
    from tidegauge.impl.client.consumer_config import ConsumerConfig

NO_OFFSET: Final = -1
FENCED: Final = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_instance_id,
        ErrorCode.stale_member_epoch,
        ErrorCode.group_id_not_found,
    }
)
"""Errors that say that somebody else may have the partitions; the last one, that the whole group has gone."""


@attrs.define(eq=False)
class Place:
    """A place in the line of commits."""

    before: Place | None
    """None once nobody is before it any more."""
    left: trio.Event = attrs.field(factory=trio.Event)
    """Set when it is nobody's any more: its commit is done, or was given up before its turn."""

    async def turn(self) -> None:
        """Return when every commit before is done: who gives up leaves those before it where they are."""
        while self.before is not None:
            await self.before.left.wait()
            self.before = self.before.before


class Commits:
    """The commits of one consumer."""

    def __init__(
        self,
        coordinator: Coordinator,
        group_id: str,
        config: ConsumerConfig,
        identity: Callable[[], Identity],
        refused: Callable[[ErrorCode, Identity], None],
        committed: Callable[[Mapping[Partition, int]], None],
    ) -> None:
        """`identity` raises KafkaError for a member that may not commit now."""
        self._coordinator = coordinator
        self._group = GroupId(group_id)
        self._config = config
        self._identity = identity
        self._refused = refused
        self._committed = committed
        self._last: Place | None = None
        """The place of the commit that was asked for last."""

    def group_metadata(self) -> GroupMetadata:
        """Whom a commit would be from now. Raises KafkaError where it would be refused."""
        identity = self._identity()
        return GroupMetadata(self._group, identity, self._config.group_instance_id if identity.member_id else None)

    def place(self) -> Place:
        """The next place in the line, for a commit that begins later."""
        self._last = Place(self._last)
        return self._last

    async def until_done(self) -> None:
        """Return when every commit is done that was asked for so far."""
        place = self.place()
        try:
            await place.turn()
        finally:
            place.left.set()

    async def commit(
        self,
        offsets: Mapping[Partition, Position],
        timeout_ms: float | None = None,
        place: Place | None = None,
    ) -> None:
        """Have these positions committed. Raises KafkaError; CommitFailedError if the partitions are another one's.

        `timeout_ms`: for the wait behind earlier commits too.
        """
        place = place or self.place()
        try:
            left_ms = await self._turn(place, timeout_ms)
            if offsets:
                await self._commit(offsets, left_ms)
        finally:
            place.left.set()

    async def _turn(self, place: Place, timeout_ms: float | None) -> float | None:
        """Wait for the commits before; returns what is left of the time. Raises KafkaError if they take longer."""
        if timeout_ms is None:
            await place.turn()
            return None
        deadline = trio.current_time() + timeout_ms / 1000
        with trio.move_on_at(deadline) as scope:
            await place.turn()
        if scope.cancelled_caught:
            raise KafkaError(ErrorCode.request_timed_out, "earlier commits have no response yet, and this was not sent")
        return max(0.0, (deadline - trio.current_time()) * 1000)

    async def _commit(self, offsets: Mapping[Partition, Position], timeout_ms: float | None) -> None:
        asked = self._identity()
        try:
            await self._coordinator.ask(self._request(offsets, asked), _first_error, timeout_ms, is_bounded=True)
        except KafkaError as error:
            if error.code in FENCED or error.code is ErrorCode.rebalance_in_progress:
                is_gone = error.code is ErrorCode.group_id_not_found
                self._refused(ErrorCode.unknown_member_id if is_gone else error.code, asked)
            if error.code in FENCED:
                message = f"{asked.member_id!r} is no member of generation {asked.generation} of {self._group!r}"
                raise CommitFailedError(error.code, message, maybe_done=error.maybe_done) from error
            raise
        self._committed({partition: position.offset for partition, position in offsets.items()})

    def _request(self, offsets: Mapping[Partition, Position], asked: Identity) -> OffsetCommitRequest:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), position in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=i32(number),
                committed_offset=i64(position.offset),
                committed_leader_epoch=i32(position.epoch),
                committed_metadata="",
            )
            topics.setdefault(topic, []).append(one)
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=i32(asked.generation),
            member_id=asked.member_id,
            group_instance_id=self._config.group_instance_id if asked.member_id else None,
            topics=tuple(
                OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(each)) for name, each in topics.items()
            ),
        )

    async def committed(
        self, partitions: Sequence[Partition], timeout_ms: float | None = None
    ) -> dict[Partition, Position | None]:
        """Where the group goes on in each; None where it has committed nothing. Raises KafkaError."""
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        asked = tuple(
            OffsetFetchRequestTopics(name=TopicName(name), partition_indexes=tuple(map(i32, numbers)))
            for name, numbers in topics.items()
        )
        group = OffsetFetchRequestGroup(group_id=self._group, topics=asked)
        request = OffsetFetchRequest(groups=(group,), require_stable=True)
        response = await self._coordinator.ask(request, _first_error_of_group, timeout_ms, is_bounded=True)
        return {
            (topic.name, one.partition_index): _position(one)
            for topic in response.groups[0].topics
            for one in topic.partitions
        }


def _position(told: Any) -> Position | None:
    offset, epoch = int(told.committed_offset), int(told.committed_leader_epoch)
    return None if offset == NO_OFFSET else Position(offset, epoch)


def _first_error(response: Any) -> ErrorCode:
    """The first of the partitions' errors; none where all are committed."""
    errors = (one.error_code for topic in response.topics for one in topic.partitions)
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)


def _first_error_of_group(response: Any) -> ErrorCode:
    (group,) = response.groups
    return group.error_code if group.error_code is not ErrorCode.none else _first_error(group)
