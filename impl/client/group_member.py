"""The shell of a group's member: it sends what `Membership` asks, keeps the session, and tells the application.

Theory of operation
-------------------
The application is told within its own calls of `poll`, where nothing else of it runs: before the member joins, what it
has to let go, and when the leader has shared out, what is new. What has to wait for other members waits beside:
JoinGroup and SyncGroup are a task of their own, so that a `poll` may end before they do, and heartbeats are another
one. An application that does not poll for `max_poll_interval_ms` is taken out of the group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId

from tidegauge.impl.client.assignors.subscription import Members, Racks, Subscription
from tidegauge.impl.client.consumer_protocol import (
    CONSUMER,
    MalformedError,
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from tidegauge.impl.client.coordinators import GROUP, MOVED, PASSING, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.member_callbacks import MemberCallbacks, told_once
from tidegauge.impl.client.membership import ENDED, PRESENT, Changes, Identity, Membership, State
from tidegauge.impl.client.positions import Partition
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import i32, millis

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client
    from tidegauge.impl.client.consumer_config import ConsumerConfig

LEAVE_S: Final = 5.0
"""How long a member that goes waits for its coordinator; the session ends by itself."""


class GroupMember:
    """One member of a group, from `subscribe` on until it leaves."""

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
        """Nothing waits on its connections: for metadata."""
        self._client = client
        """Its connections are for the coordinator only, which holds requests until other members come."""
        self._coordinator = coordinator
        self._config = config
        self._group = GroupId(config.group_id)
        self._wanted = wanted
        self._callbacks = callbacks
        topics = wanted if isinstance(wanted, frozenset) else ()
        self.core = Membership(topics, config.assignors, config.group_instance_id, config.client_rack)
        self._is_joining = False
        """Whether a task sends JoinGroup and SyncGroup."""
        self._told: tuple[Identity, tuple[Partition, ...]] | None = None
        """What the leader has given to it, and in which generation: the application has yet to be told."""
        self._changes: Changes | None = None
        """What the application has yet to be told of what the member has now."""
        self._let_go_of: set[Partition] = set()
        """What it was told to let go since the member joined last."""
        self._knows_topics = isinstance(wanted, frozenset)
        self._is_looking = False
        """Whether a task asks for the topics of a pattern."""
        self._last_poll = trio.current_time()

    # --- within the application's calls --------------------------------------------------------------------------

    async def maintain(self, nursery: trio.Nursery) -> None:
        """Do for the group what has to be done while nothing else of the application runs. Raises KafkaError."""
        self._last_poll = trio.current_time()
        if not self._knows_topics:
            if not self._is_looking:
                self._is_looking = True
                nursery.start_soon(self._look_first)
            return
        await self._settle()
        if self.core.state in (State.FENCED, State.REFUSED):
            await self._end()
        while self._has_to_join() and not self._is_joining:
            await self._let_go()
            if self._has_to_join():
                self.core.join()
                self._let_go_of.clear()
                self._callbacks.owns(self.core.owned)
                self._is_joining = True
                nursery.start_soon(self._join)

    def _has_to_join(self) -> bool:
        """What the application was told to let go is not its own any more, whatever it has subscribed to since."""
        return self.core.wants_to_join() or (bool(self._let_go_of) and self.core.state not in ENDED)

    async def _settle(self) -> None:
        """The leader has shared out: tell what goes, and what comes."""
        if self._told is not None:
            (identity, given), self._told = self._told, None
            if self.core.state is State.SYNCING and self.core.identity == identity:
                self._changes = self.core.synced(given)
        if self._changes is not None:
            await self._tell(self._changes)

    async def _tell(self, changes: Changes) -> None:
        if revoked := changes.revoked:
            await self._callbacks.before()
            await told_once(lambda: self._callbacks.revoked(revoked), lambda: self._revoked(changes))
        self._callbacks.owns(self.core.owned)
        await told_once(lambda: self._callbacks.assigned(changes.assigned), self._assigned)

    def _revoked(self, changes: Changes) -> None:
        self._changes = Changes((), changes.assigned)
        self._callbacks.owns(self.core.owned)

    def _assigned(self) -> None:
        self._changes = None

    async def _let_go(self) -> None:
        """Tell what has to be given back before the member joins; while that takes its time, it may become more."""
        if self.core.may_commit():
            await self._callbacks.before()
        while True:
            given = self.core.to_give_back()
            rest = [each for each in given.partitions if each not in self._let_go_of]
            if not rest:
                return
            tell = self._callbacks.lost if given.is_lost else self._callbacks.revoked
            await told_once(partial(tell, rest), partial(self._let_go_of.update, rest))

    async def _end(self) -> None:
        """It is no member any more, and never will be. Raises KafkaError."""
        if had := self.core.owned:
            await told_once(lambda: self._callbacks.lost(had), self._own_nothing)
        if self.core.state is State.FENCED:
            message = f"another process is the static member {self._config.group_instance_id!r} of {self._group!r}"
            raise KafkaError(ErrorCode.fenced_instance_id, message)
        names = ", ".join(one.name for one in self._config.assignors)
        message = f"the other members of {self._group!r} share no assignor with this one, which knows {names}"
        raise KafkaError(ErrorCode.inconsistent_group_protocol, message)

    def _own_nothing(self) -> None:
        self.core.owned = ()
        self._callbacks.owns(())

    async def leave(self) -> None:
        """Give everything back, and go, whatever the application makes of it."""
        owned, is_lost = self.core.owned, self.core.identity.generation < 0
        try:
            if owned:
                await (self._callbacks.lost if is_lost else self._callbacks.revoked)(owned)
        finally:
            self._own_nothing()
            await self._send_leave(self.core.leave(), "the consumer was closed, or unsubscribed")

    # --- topics --------------------------------------------------------------------------------------------------

    def want(self, wanted: frozenset[str] | re.Pattern[str]) -> None:
        """It wants other topics from now on."""
        self._wanted = wanted
        self._knows_topics = isinstance(wanted, frozenset)
        if isinstance(wanted, frozenset):
            self.core.subscribe(wanted)

    async def _look_first(self) -> None:
        """Before it joins, see which topics a pattern matches: `poll` waits for that no longer than its own time."""
        try:
            await self.look_at_topics()
        except KafkaError as error:
            if error.code not in PASSING:
                self._callbacks.failed(error)
        finally:
            self._is_looking = False
            self._callbacks.news()

    async def look_at_topics(self) -> None:
        """See which topics there are that it wants, and, if it leads, how many partitions they have.

        Raises KafkaError.
        """
        topics = () if isinstance(self._wanted, re.Pattern) else tuple(self._wanted)
        names = tuple({*topics, *self.core.known}) if topics else ()
        told = await self._asking.metadata(*names)
        there = _sizes(told)
        if isinstance(self._wanted, re.Pattern):
            visible = {one.name for one in told.topics if not one.is_internal}
            self.core.subscribe(name for name in visible if self._wanted.fullmatch(name))
            self._knows_topics = True
        known = {name: there[name] for name in {*self.core.known, *self.core.topics} if name in there}
        racks = _racks(told)
        if self.core.notices(known, {name: racks[name] for name in known}) or self.core.wants_to_join():
            self._callbacks.news()

    async def _partitions(self, members: Members) -> tuple[Mapping[str, int], Racks]:
        """How many partitions there are of each topic that somebody wants, and in which racks."""
        names = {topic for one in members.values() for topic in one.topics}
        if not names:
            return {}, {}
        told = await self._asking.metadata(*names)
        return _sizes(told), _racks(told)

    # --- to join -------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """JoinGroup and SyncGroup, until the member has its part, or the application has to be asked first."""
        try:
            while not await self._attempt() and self._may_join_again():
                self.core.join()
        finally:
            self._is_joining = False
            self._callbacks.news()

    def _may_join_again(self) -> bool:
        """Whether nobody has to be asked before."""
        is_polled = (trio.current_time() - self._last_poll) * 1000 < self._config.max_poll_interval_ms
        return self.core.state is State.UNJOINED and is_polled and not self.core.to_give_back().partitions

    async def _attempt(self) -> bool:
        """Whether the member has its part."""
        try:
            if not await self._joined():
                return False
            return await self._synced()
        except (KafkaError, UnreachableError, NoResponseError) as error:
            if isinstance(error, KafkaError) and error.code not in PASSING:
                self._callbacks.failed(error)
        except (ValueError, MalformedError) as error:
            self._callbacks.failed(KafkaError(ErrorCode.inconsistent_group_protocol, str(error)))
        await self._again()
        return False

    async def _again(self) -> None:
        """There was no response that helps: the member joins again, after a while."""
        self._coordinator.moved()
        await trio.sleep(self._client.config.retry_backoff_ms / 1000)
        if self.core.state in PRESENT or self.core.state is State.JOINING:
            self.core.failed(ErrorCode.network_exception)

    async def _joined(self) -> bool:
        core, config = self.core, self._config
        protocols = tuple(
            JoinGroupRequestProtocol(
                name=one.name,
                metadata=subscription_bytes(core.says(one), in_user_data=one.tells_owned and not one.is_cooperative),
            )
            for one in config.assignors
        )
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout=millis(config.session_timeout_ms),
            rebalance_timeout=millis(config.max_poll_interval_ms),
            member_id=core.identity.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=CONSUMER,
            protocols=protocols,
            reason="",
        )
        asked = core.identity
        response = await self._coordinator.ask_once(request, config.max_poll_interval_ms)
        if not self._is_joining_as(asked):
            return await self._came_too_late(response.member_id)
        if response.error_code is ErrorCode.member_id_required:
            core.member_id_given(response.member_id)
            return False
        if response.error_code is not ErrorCode.none:
            return await self._refused(response.error_code)
        members: dict[str, Subscription] = {
            one.member_id: subscription_of(one.metadata, one.group_instance_id) for one in response.members
        }
        partitions, racks = await self._partitions(members)
        if not self._is_joining_as(asked):
            return await self._came_too_late(response.member_id)
        identity = Identity(response.member_id, response.generation_id)
        core.joined(identity, response.protocol_name or "", response.leader, members, partitions, racks)
        return True

    def _is_joining_as(self, asked: Identity) -> bool:
        """Whether a response to its JoinGroup is about what the member is now."""
        return self.core.state is State.JOINING and self.core.identity == asked

    async def _came_too_late(self, member_id: str) -> bool:
        """A response to a JoinGroup, when the member has left: others would wait for the id that it was given.

        The coordinator's connections may be another member's by now, whose JoinGroup waits.
        """
        if self.core.state in ENDED and member_id and self._config.group_instance_id is None:
            asking = Coordinator(self._asking, GROUP, self._group)
            await self._leave_by(asking, member_id, "the consumer unsubscribed while it joined")
        return False

    async def _synced(self) -> bool:
        core = self.core
        shares = core.sync()
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=i32(core.identity.generation),
            member_id=core.identity.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=CONSUMER,
            protocol_name=core.protocol,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment_bytes(each))
                for member_id, each in shares.items()
            ),
        )
        asked = core.identity
        response = await self._coordinator.ask_once(request, self._config.max_poll_interval_ms)
        if core.state is not State.SYNCING or core.identity != asked:
            return False
        if response.error_code is not ErrorCode.none:
            return await self._refused(response.error_code)
        self._told = asked, assignment_of(response.assignment)
        return True

    async def _refused(self, error: ErrorCode) -> bool:
        """What a coordinator that is loading, or has moved, says is no word about the member."""
        if error in MOVED:
            await self._again()
        elif error in _OF_MEMBERS:
            self.core.failed(error)
        else:
            self._callbacks.failed(KafkaError(error, f"the coordinator of {self._group!r} takes no such member"))
            await self._again()
        return False

    # --- heartbeats ----------------------------------------------------------------------------------------------

    async def keep_session(self) -> None:
        """Send heartbeats while the application polls; leave the group when it does not."""
        while self.core.state not in ENDED:
            await trio.sleep(self._config.heartbeat_interval_ms / 1000)
            idle_ms = (trio.current_time() - self._last_poll) * 1000
            if idle_ms >= self._config.max_poll_interval_ms and self.core.state in PRESENT:
                reason = f"the application has not polled for {self._config.max_poll_interval_ms} ms"
                await self._send_leave(self.core.expired(), reason)
                self._callbacks.news()
            elif (asked := self.core.heartbeat()) is not None:
                await self._beat(asked)

    async def _beat(self, asked: Identity) -> None:
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=i32(asked.generation),
            member_id=asked.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        try:
            error = (await self._coordinator.ask_once(request)).error_code
        except KafkaError:
            return
        if error in MOVED:
            self._coordinator.moved()
        elif error is not ErrorCode.none:
            self.core.told(error, asked)
            self._callbacks.news()

    async def look_for_changes(self) -> None:
        """Look at the topics now and then."""
        while self.core.state not in ENDED:
            await trio.sleep(self._config.metadata_max_age_ms / 1000)
            try:
                await self.look_at_topics()
            except KafkaError as error:
                if error.code not in PASSING:
                    self._callbacks.failed(error)

    async def _send_leave(self, member_id: str | None, reason: str) -> None:
        """LeaveGroup, on a connection where nothing waits before it."""
        if member_id is None or self._config.group_instance_id is not None:
            return
        with trio.move_on_after(LEAVE_S, shield=True):
            await self._client.aclose()
            await self._leave_by(self._coordinator, member_id, reason)

    async def _leave_by(self, coordinator: Coordinator, member_id: str, reason: str) -> None:
        left = MemberIdentity(member_id=member_id, group_instance_id=None, reason=reason)
        with suppress(KafkaError):
            await coordinator.ask_once(LeaveGroupRequest(group_id=self._group, members=(left,)))


def _sizes(told: Any) -> dict[str, int]:
    """How many partitions each topic of a MetadataResponse has."""
    return {one.name: len(one.partitions) for one in told.topics if one.error_code is ErrorCode.none}


def _racks(told: Any) -> dict[str, tuple[frozenset[str], ...]]:
    """The racks of their replicas; of a broker that is away it is not known."""
    of = {broker.node_id: broker.rack for broker in told.brokers if broker.rack}
    return {
        topic.name: tuple(
            frozenset(of[replica] for replica in one.replica_nodes if replica in of)
            for one in sorted(topic.partitions, key=lambda each: each.partition_index)
        )
        for topic in told.topics
        if topic.error_code is ErrorCode.none
    }


_OF_MEMBERS: Final = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.rebalance_in_progress,
        ErrorCode.fenced_instance_id,
        ErrorCode.inconsistent_group_protocol,
    }
)
"""Errors that are about the member itself."""
