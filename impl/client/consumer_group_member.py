"""The shell of a member of a consumer group (KIP-848): it sends the heartbeats, and tells the application.

The application is told within its own calls of `poll`: what it has to let go, what it has lost, what is new. Heartbeats
go on beside it, in a task of their own. A member that has lost what it owned joins again when the application knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import trio
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from tidegauge.impl.client.consumer_membership import ConsumerMembership, Heartbeat, Place, is_fenced_by
from tidegauge.impl.client.coordinators import MOVED, PASSING, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.group_member import LEAVE_S
from tidegauge.impl.client.member_callbacks import MemberCallbacks, told_once
from tidegauge.impl.client.membership import ENDED, State
from tidegauge.impl.client.positions import Partition
from tidegauge.impl.wire.primitives import TopicName, i32, millis, to_millis

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client
    from tidegauge.impl.client.consumer_config import ConsumerConfig


class ConsumerGroupMember:
    """One member of a consumer group, from `subscribe` on until it leaves; its calls are those of `GroupMember`."""

    def __init__(
        self,
        asking: Client,
        client: Client,
        coordinator: Coordinator,
        config: ConsumerConfig,
        wanted: frozenset[str] | re.Pattern[str],
        callbacks: MemberCallbacks,
    ) -> None:
        assert config.group_id is not None, "a member has a group"
        self._asking = asking
        self._client = client
        self._coordinator = coordinator
        self._config = config
        self._group = GroupId(config.group_id)
        self._callbacks = callbacks
        member_id = str(UUID(bytes=client.randomness.token(16), version=4))
        self.core = ConsumerMembership(member_id, (), config.group_instance_id)
        self.core.subscribe(*_subscription(wanted))
        self._has: tuple[Place, ...] = ()
        """What the application has, as far as it was told."""
        self._lost: tuple[Place, ...] = ()
        """What it has lost, and has yet to be told of."""
        self._new: tuple[Place, ...] | None = None
        """What is new, and it has yet to be told of."""
        self._names: dict[str, str] = {}
        """Of topics, by id."""
        self._interval_s = config.heartbeat_interval_ms / 1000
        """Until the coordinator says another one."""
        self._due = trio.Event()
        """A heartbeat has something new to say."""
        self._last_poll = trio.current_time()

    # --- within the application's calls --------------------------------------------------------------------------

    async def maintain(self, nursery: trio.Nursery) -> None:
        """Do for the group what has to be done while nothing else of the application runs. Raises KafkaError."""
        self._last_poll = trio.current_time()
        await self._tell_new()
        await self._lose()
        if self.core.state is State.FENCED:
            message = f"another process is the static member {self._config.group_instance_id!r} of {self._group!r}"
            raise KafkaError(ErrorCode.fenced_instance_id, message)
        while self.core.assigned is not None and self._are_known(self.core.assigned):
            await self._reconcile()
            await self._lose()

    async def _lose(self) -> None:
        """Tell what the member owned when it was fenced."""
        if gone := self._has_lost():
            self._has = self.core.owned
            self._callbacks.owns(self._named(self._has))
            self._lost += gone
        if self._lost:
            await told_once(lambda: self._callbacks.lost(self._named(self._lost)), self._told_of_losses)

    def _told_of_losses(self) -> None:
        self._lost = ()
        self._due.set()

    def _has_lost(self) -> tuple[Place, ...]:
        """What the application has, and the member no longer owns."""
        if self._has is self.core.owned:  # nearly always: this is asked in every poll
            return ()
        owned = frozenset(self.core.owned)
        return tuple(each for each in self._has if each not in owned)

    async def _reconcile(self) -> None:
        """Have the application let go what goes, and then own what comes; heartbeats go on meanwhile."""
        core = self.core
        gone = core.to_give_back()
        if gone:
            await self._callbacks.before()
            await told_once(lambda: self._callbacks.revoked(self._named(gone)), lambda: self._gave_back(gone))
        if core.assigned is None or core.to_give_back() or not self._are_known(core.assigned):
            return
        self._new = core.after_reconciling()
        self._has = core.owned
        self._callbacks.owns(self._named(self._has))
        self._due.set()
        await self._tell_new()

    def _gave_back(self, gone: tuple[Place, ...]) -> None:
        self.core.gave_back(gone)
        given = frozenset(gone)
        self._has = tuple(each for each in self._has if each not in given)
        self._callbacks.owns(self._named(self._has))

    async def _tell_new(self) -> None:
        """Tell what the member owns now and did not before."""
        if (new := self._new) is not None:
            await told_once(lambda: self._callbacks.assigned(self._named(new)), self._told_of_new)

    def _told_of_new(self) -> None:
        self._new = None

    async def leave(self) -> None:
        """Give everything back, and go, whatever the application makes of it."""
        try:
            await self._lose()
            if self._has:
                await self._callbacks.revoked(self._named(self._has))
        finally:
            self._has = ()
            self._callbacks.owns(())
            await self._send_leave(self.core.leave())

    # --- topics --------------------------------------------------------------------------------------------------

    def want(self, wanted: frozenset[str] | re.Pattern[str]) -> None:
        """It wants other topics from now on. Raises ValueError for a pattern with flags that the coordinator lacks."""
        self.core.subscribe(*_subscription(wanted))
        self._due.set()

    async def look_for_changes(self) -> None:
        """The coordinator looks at the topics."""

    async def _look(self) -> None:
        """See how the topics are called."""
        try:
            found = (await self._asking.metadata()).topics
        except KafkaError as error:
            if error.code not in PASSING:
                self._callbacks.failed(error)
            return
        self._names.update((str(one.topic_id), one.name) for one in found if one.error_code is ErrorCode.none)

    def _are_known(self, places: Iterable[Place]) -> bool:
        return all(topic_id in self._names for topic_id, _ in places)

    def _named(self, places: Iterable[Place]) -> tuple[Partition, ...]:
        return tuple((self._names[topic_id], number) for topic_id, number in places)

    # --- heartbeats ----------------------------------------------------------------------------------------------

    async def keep_session(self) -> None:
        """Send heartbeats while the application polls; leave the group when it does not."""
        while self.core.state not in ENDED:
            self._due = trio.Event()
            idle_ms = (trio.current_time() - self._last_poll) * 1000
            has_lost = not self.core.may_commit() and bool(self._lost or self._has_lost())
            wait_s = self._interval_s
            if idle_ms >= self._config.max_poll_interval_ms:
                await self._send_leave(self.core.expired())
                self._callbacks.news()
            elif not has_lost and (asked := self.core.send()) is not None:
                wait_s = await self._beat(asked)
            with trio.move_on_after(wait_s):
                await self._due.wait()

    async def _beat(self, asked: Heartbeat) -> float:
        """Send a heartbeat; returns how long the next one waits, in seconds, if nothing is new."""
        retry_s = self._client.config.retry_backoff_ms / 1000
        try:
            response = await self._coordinator.ask_once(self._request(asked))
        except KafkaError as failure:
            self.core.after_loss(asked)
            if failure.code not in MOVED:
                self._callbacks.failed(failure)
            return retry_s
        error = response.error_code
        if error is ErrorCode.none:
            await self._beaten(asked, response)
            return self._interval_s
        self.core.after_error(asked, error)
        if error in MOVED:
            self._coordinator.moved()
        elif not is_fenced_by(asked, error) and error is not ErrorCode.fenced_instance_id:
            self._callbacks.failed(KafkaError(error, response.error_message or f"{self._group!r} takes no such member"))
            return self._interval_s
        self._callbacks.news()
        return retry_s

    async def _beaten(self, asked: Heartbeat, response: Any) -> None:
        self._interval_s = to_millis(response.heartbeat_interval) / 1000
        told = response.assignment
        places = (
            None if told is None else [(str(one.topic_id), n) for one in told.topic_partitions for n in one.partitions]
        )
        self.core.after_response(asked, response.member_epoch, places)
        if self.core.assigned is not None and not self._are_known(self.core.assigned):
            await self._look()
        self._callbacks.news()

    def _request(self, asked: Heartbeat) -> ConsumerGroupHeartbeatRequest:
        config, is_new = self._config, asked.full or asked.wanted != self.core.asked
        says_expression = is_new and (asked.expression or self.core.asked[1])
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.core.member_id,
            member_epoch=i32(asked.epoch),
            instance_id=config.group_instance_id,
            rack_id=(config.client_rack or None) if asked.full else None,
            rebalance_timeout=millis(config.max_poll_interval_ms if asked.full else -1),
            subscribed_topic_names=tuple(map(TopicName, asked.topics)) if is_new else None,
            subscribed_topic_regex=asked.expression if says_expression else None,
            server_assignor=config.group_remote_assignor if asked.full else None,
            topic_partitions=None if asked.owned is None else _by_topic(asked.owned),
        )

    async def _send_leave(self, epoch: int | None) -> None:
        """On a connection where nothing waits before it."""
        if epoch is None:
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.core.member_id,
            member_epoch=i32(epoch),
            instance_id=self._config.group_instance_id,
            topic_partitions=None,
        )
        with trio.move_on_after(LEAVE_S, shield=True):
            await self._client.aclose()
            try:
                await self._coordinator.ask_once(request)
            except KafkaError:
                return


def _subscription(wanted: frozenset[str] | re.Pattern[str]) -> tuple[frozenset[str], str]:
    """Names, and the regular expression of others, which the coordinator resolves as RE2 does.

    Raises ValueError for flags that are not RE2's.
    """
    if not isinstance(wanted, re.Pattern):
        return wanted, ""
    if wanted.flags & ~(re.UNICODE | re.IGNORECASE | re.DOTALL):
        raise ValueError(f"{wanted!r}: of the flags only IGNORECASE and DOTALL can be told to the coordinator")
    return frozenset(), f"(?i){wanted.pattern}" if wanted.flags & re.IGNORECASE else wanted.pattern


def _by_topic(places: Iterable[Place]) -> tuple[TopicPartitions, ...]:
    found: dict[str, list[int]] = {}
    for topic_id, number in places:
        found.setdefault(topic_id, []).append(number)
    return tuple(
        TopicPartitions(topic_id=UUID(topic_id), partitions=tuple(map(i32, numbers)))
        for topic_id, numbers in found.items()
    )
