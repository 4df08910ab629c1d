"""A consumer: the partitions that its group gives it, or that it is assigned, read from where they were left.

    async with Consumer(client, ConsumerConfig(group_id="billing", auto_offset_reset="earliest")) as consumer:
        await consumer.subscribe(["orders"])
        for record in await consumer.poll(1_000):
            ...

Theory of operation
-------------------
The application calls `poll` again and again; everything that is about its partitions happens in there: listeners,
commits before a rebalance, positions. What only waits is done beside it by tasks of the consumer: fetches ahead of
`poll`, lookups of positions, JoinGroup and SyncGroup, heartbeats. They tell `poll` that there is news.

What `poll` returned counts as done when `poll` is called the next time: an automatic commit never has more than that.
Fetches, coordinator and everything else have connections of their own, since a broker handles the requests of one
connection in order, and holds some of them.

One task at a time may use a consumer; another one gets an error, but for `wakeup`, which is for others.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.committing import Commits, Place
from tidegauge.impl.client.consumer_config import CONSUMER, ConsumerConfig
from tidegauge.impl.client.consumer_group_member import ConsumerGroupMember
from tidegauge.impl.client.consumer_record import ConsumerInterceptor, ConsumerRecord, Offsets, RebalanceListener
from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.client.errors import CommitFailedError, KafkaError, WakeupError
from tidegauge.impl.client.group_member import GroupMember
from tidegauge.impl.client.member_callbacks import MemberCallbacks, told_once
from tidegauge.impl.client.membership import ENDED, GroupMetadata, Identity
from tidegauge.impl.client.offset_lookups import OffsetLookups
from tidegauge.impl.client.positions import EARLIEST, LATEST, Partition, Position, Positions, Truncation
from tidegauge.impl.client.prefetching import Prefetching
from tidegauge.impl.client.requests import ListedOffset
from tidegauge.impl.ports.background_tasks import BackgroundTasks, require_trio
from tidegauge.impl.ports.log_lines import log_error

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client

LOGGER: Final = logging.getLogger(__name__)
Callback = Callable[[Offsets, KafkaError | None], None]
CLOSE_S: Final = 10.0
"""How long a consumer that ends waits for its last commit, and for its coordinator."""


class Consumer:
    """Reads partitions, alone or in a group; to be used as `async with`."""

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig | None = None,
        *,
        interceptors: Sequence[ConsumerInterceptor] = (),
    ) -> None:
        """`client` is asked for metadata and offsets; for the rest the consumer makes others like it."""
        self.config = config or ConsumerConfig()
        self._client = client
        self._interceptors = tuple(interceptors)
        self._listener = RebalanceListener()
        self._positions = Positions()
        self._fetching = client.another()
        self._coordinating = client.another()
        now_ms = client._clock.now_ms
        self._prefetching = Prefetching(self._fetching, self.config, self._positions, now_ms, self._news, self._failed)
        self._commits: Commits | None = None
        if self.config.group_id is not None:
            self._coordinator = Coordinator(self._coordinating, GROUP, self.config.group_id)
            self._commits = Commits(
                self._coordinator, self.config.group_id, self.config, self._identity, self._refused, self._on_commit
            )
        committed = None if self._commits is None else self._commits.committed
        self._lookups = OffsetLookups(
            client, self.config, self._positions, now_ms, self._news, self._failed, self._was_truncated, committed
        )
        self._member: GroupMember | ConsumerGroupMember | None = None
        self._membership = trio.CancelScope()
        self._failures: dict[str, KafkaError] = {}
        self._truncations: deque[Truncation] = deque()
        self._completed: deque[tuple[Callback, Offsets, KafkaError | None]] = deque()
        self._next_commit = 0.0
        self._user: trio.lowlevel.Task | None = None
        self._is_woken = False
        self._changed = trio.Event()
        self._work = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        require_trio("a consumer")
        await self._stack.enter_async_context(self._fetching)
        await self._stack.enter_async_context(self._coordinating)
        self._nursery = await self._stack.enter_async_context(BackgroundTasks())
        self._nursery.start_soon(self._pump)
        self._nursery.start_soon(self._look_at_leaders)
        self._next_commit = trio.current_time() + self.config.auto_commit_interval_ms / 1000
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, if that is automatic, and leave the group."""
        self._user = None
        try:
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._stop()
        finally:
            await self._stack.__aexit__(kind, error, trace)
            self._nursery = None

    # --- what to read --------------------------------------------------------------------------------------------

    async def subscribe(
        self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Share these topics, or all whose names match as a whole, with the other members of the group.

        Takes the place of an earlier subscription. Raises RuntimeError for a consumer that was assigned partitions.
        """
        with self._used():
            if isinstance(topics, str):
                raise ValueError(f"the topics are {topics!r}: give a list of names, or a compiled pattern")
            if self.config.group_id is None:
                raise RuntimeError("the consumer has no group: set group_id, or assign partitions")
            if self._member is None and list(self._positions):
                raise RuntimeError("partitions are assigned: unsubscribe before you subscribe")
            wanted = topics if isinstance(topics, re.Pattern) else frozenset(topics)
            if not isinstance(wanted, re.Pattern) and not wanted:
                await self._stop()
                return
            self._listener = listener or RebalanceListener()
            if self._member is not None and self._member.core.state not in ENDED:
                self._member.want(wanted)
                return
            self._member = self._new_member(wanted)
            self._membership = trio.CancelScope()
            self._running.start_soon(self._be_member, self._member, self._membership)

    def _new_member(self, wanted: frozenset[str] | re.Pattern[str]) -> GroupMember | ConsumerGroupMember:
        kind = ConsumerGroupMember if self.config.group_protocol == CONSUMER else GroupMember
        return kind(
            self._client,
            self._coordinating,
            self._coordinator,
            self.config,
            wanted,
            MemberCallbacks(
                news=self._news,
                failed=self._failed,
                owns=self._owns,
                before=self._commit_before,
                revoked=lambda partitions: self._listener.revoked(partitions),
                lost=lambda partitions: self._listener.lost(partitions),
                assigned=lambda partitions: self._listener.assigned(partitions),
            ),
        )

    async def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions, whatever others read. What was polled of others is committed, if that is automatic.

        Raises RuntimeError for a consumer that has subscribed.
        """
        with self._used():
            if self._member is not None:
                raise RuntimeError("the consumer has subscribed: unsubscribe before you assign partitions")
            if self.config.enable_auto_commit and self._commits is not None and list(self._positions):
                self._begin_commit(self._positions.consumed(), None)
            self._owns(tuple(partitions))

    async def unsubscribe(self) -> None:
        """Leave the group, or give up what was assigned."""
        with self._used():
            await self._stop()

    @property
    def assignment(self) -> frozenset[Partition]:
        """The partitions that it reads."""
        return frozenset(self._positions)

    @property
    def identity(self) -> Identity:
        """Its member id and generation, while it has them."""
        return Identity() if self._member is None else self._member.core.identity

    # --- to read -------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0, *, max_records: int | None = None) -> tuple[ConsumerRecord, ...]:
        """The next records; none if there are none within that time. Raises KafkaError and WakeupError."""
        with self._used():
            if self._member is None and not list(self._positions):
                raise RuntimeError("there is nothing to read: subscribe, or assign partitions")
            deadline = trio.current_time() + timeout_ms / 1000
            while True:
                self._changed = trio.Event()
                await self._maintain()
                records = self._prefetching.take(max_records or self.config.max_poll_records)
                if records:
                    await self._begin_next()
                    return self._intercepted(tuple(records))
                self._work.set()
                if trio.current_time() >= deadline:
                    await trio.lowlevel.checkpoint()
                    return ()
                with trio.move_on_at(deadline):
                    await self._changed.wait()

    async def _maintain(self) -> None:
        """Everything that happens within `poll` but to read."""
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("the consumer was woken up")
        self._complete()
        if self.config.enable_auto_commit and trio.current_time() >= self._next_commit:
            self._next_commit = trio.current_time() + self.config.auto_commit_interval_ms / 1000
            if self._commits is not None and (self._member is None or self._member.core.may_commit()):
                self._begin_commit(self._positions.consumed(), None)
        if self._member is not None:
            await self._member.maintain(self._running)
        while self._truncations:
            await told_once(partial(self._listener.truncated, self._truncations[0]), self._truncations.popleft)
        if self._failures:
            raise self._failures.pop(next(iter(self._failures)))

    async def _begin_next(self) -> None:
        """The fetches of what comes next are sent before the application has what there is.

        Positions are behind that already: a `poll` that is cancelled must not end here.
        """
        self._prefetching.begin(self._running)
        for _ in range(2):  # in the first round a new task may come behind this one
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _intercepted(self, records: tuple[ConsumerRecord, ...]) -> tuple[ConsumerRecord, ...]:
        """What interceptors make of records. Positions are behind them by now: one that raises is passed over."""
        for interceptor in self._interceptors:
            try:
                records = interceptor.on_consume(records)
            except Exception as error:
                self._interceptor_failed(interceptor, error, "what it was given is polled")
        return records

    def _interceptor_failed(self, interceptor: ConsumerInterceptor, error: Exception, what: str) -> None:
        name = type(interceptor).__name__
        log_error(LOGGER, "interceptor failed", error, client=self._client.client_id, interceptor=name, next=what)

    def wakeup(self) -> None:
        """Have `poll` raise WakeupError: the one that waits now, or the next one. Any task may call this."""
        self._is_woken = True
        self._news()

    # --- positions -----------------------------------------------------------------------------------------------

    def seek(self, partition: Partition, offset: int, leader_epoch: int = -1) -> None:
        """Read on from there; an epoch is that of the record before, and is asked about first."""
        with self._used(partition):
            if offset < 0:
                raise ValueError(f"the offset is {offset}: give one that is not negative")
            self._positions.seek(partition, Position(offset, leader_epoch))

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Read on from the first record; of all partitions, if none is named."""
        with self._used(*partitions):
            for partition in partitions or tuple(self._positions):
                self._positions.reset(partition, EARLIEST)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Read on behind the last record; of all partitions, if none is named."""
        with self._used(*partitions):
            for partition in partitions or tuple(self._positions):
                self._positions.reset(partition, LATEST)

    async def position(self, partition: Partition, timeout_ms: float | None = None) -> int:
        """The offset that is read next. Raises KafkaError, TooSlowError among others if that is not known in time."""
        with self._used(partition):
            limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
            with trio.fail_after(limit_ms / 1000):
                while (found := self._positions.position(partition)) is None:
                    if self._failures:
                        raise self._failures.pop(next(iter(self._failures)))
                    self._changed = trio.Event()
                    self._work.set()
                    await self._changed.wait()
            return found.offset

    def pause(self, *partitions: Partition) -> None:
        """Read nothing of these for a while; they stay its own."""
        with self._used(*partitions):
            for partition in partitions:
                self._positions.pause(partition)

    def resume(self, *partitions: Partition) -> None:
        """Read on in these."""
        with self._used(*partitions):
            for partition in partitions:
                self._positions.resume(partition)
            self._work.set()

    @property
    def paused(self) -> frozenset[Partition]:
        """The partitions of which nothing is read for a while."""
        return frozenset(one for one in self._positions if self._positions.is_paused(one))

    async def offset_at(self, partition: Partition, timestamp: int, timeout_ms: float | None = None) -> ListedOffset:
        """The offset of EARLIEST (-2), LATEST (-1), or the first record at or after a time. Raises KafkaError."""
        return await self._lookups.offset_at(partition, timestamp, timeout_ms)

    # --- commits -------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None = None, *, timeout_ms: float | None = None) -> None:
        """Commit what was polled, or these offsets, and wait for it.

        Raises KafkaError; CommitFailedError where the partitions are somebody else's by now.
        """
        with self._used():
            await self._group_commits.commit(self._to_commit(offsets), timeout_ms)
            self._complete()

    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> None:
        """Commit what was polled, or these offsets; `callback` is called within a later `poll` or `commit`."""
        with self._used():
            self._begin_commit(self._to_commit(offsets), callback)

    async def committed(self, *partitions: Partition, timeout_ms: float | None = None) -> dict[Partition, int | None]:
        """The offsets from which the group goes on; None where it has committed nothing. Raises KafkaError."""
        with self._used():
            found = await self._group_commits.committed(partitions, timeout_ms)
            return {one: None if (at := found[one]) is None else at.offset for one in partitions}

    def group_metadata(self) -> GroupMetadata:
        """Whom offsets in a transaction are from: asked after `poll`, and given to `Transaction.commit_offsets`.

        Without a subscription it says the group alone. Raises RuntimeError without a group; KafkaError, and
        CommitFailedError where the partitions are somebody else's by now: then nothing is to be committed.
        """
        return self._group_commits.group_metadata()

    @property
    def _group_commits(self) -> Commits:
        if self._commits is None:
            raise RuntimeError("the consumer has no group to commit for: set group_id")
        return self._commits

    def _to_commit(self, offsets: Offsets | None) -> Mapping[Partition, Position]:
        if offsets is None:
            return self._positions.consumed()
        return {partition: Position(offset) for partition, offset in offsets.items()}

    def _begin_commit(self, offsets: Mapping[Partition, Position], callback: Callback | None) -> None:
        self._running.start_soon(self._commit, offsets, callback, self._group_commits.place())

    async def _commit(self, offsets: Mapping[Partition, Position], callback: Callback | None, place: Place) -> None:
        failure: KafkaError | None = None
        try:
            await self._group_commits.commit(offsets, place=place)
        except KafkaError as error:
            failure = error
        if callback is not None:
            told = {partition: position.offset for partition, position in offsets.items()}
            self._completed.append((callback, told, failure))
        self._news()

    def _complete(self) -> None:
        """Tell of asynchronous commits that are done."""
        while self._completed:
            callback, offsets, error = self._completed.popleft()
            callback(offsets, error)

    async def _commit_before(self) -> None:
        """The automatic commit before partitions are given back; if it fails they are read again."""
        if self.config.enable_auto_commit and self._commits is not None:
            with trio.move_on_after(CLOSE_S / 2):
                try:
                    await self._commits.commit(self._positions.consumed())
                except KafkaError:
                    return

    def _identity(self) -> Identity:
        """Whom a commit is from. Raises KafkaError for a member that has no part of a generation now."""
        if self._member is None:
            return Identity()
        core = self._member.core
        if core.may_commit():
            return core.identity
        if core.identity.generation < 0:
            message = "the consumer is no member of its group now: somebody else may have its partitions"
            raise CommitFailedError(ErrorCode.unknown_member_id, message)
        raise KafkaError(ErrorCode.rebalance_in_progress, "the group shares out anew: poll, and commit after that")

    def _refused(self, error: ErrorCode, asked: Identity) -> None:
        if self._member is not None:
            self._member.core.told(error, asked)

    def _on_commit(self, offsets: Offsets) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception as error:
                self._interceptor_failed(interceptor, error, "the offsets are committed")

    # --- what goes on beside -------------------------------------------------------------------------------------

    @property
    def _running(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("the consumer is not running: use it within `async with consumer:`")
        return self._nursery

    @contextmanager
    def _used(self, *partitions: Partition) -> Iterator[None]:
        """Used by this task, and no other one; a listener may use it again. Raises RuntimeError and ValueError."""
        task, former = trio.lowlevel.current_task(), self._user
        if former is not None and former is not task:
            raise RuntimeError(f"the task {former.name!r} uses the consumer: one task at a time may")
        assert self._running
        for partition in partitions:
            if partition not in self._positions:
                raise ValueError(f"{partition} is not assigned to the consumer: it has {sorted(self._positions)}")
        self._user = task
        try:
            yield
        finally:
            self._user = former

    def _news(self) -> None:
        """Something has changed: `poll` looks again, and what is needed now is asked for."""
        self._changed.set()
        self._work.set()

    def _failed(self, error: KafkaError) -> None:
        """An error that the application has to be told, once."""
        self._failures[str(error)] = error
        self._news()

    def _was_truncated(self, truncation: Truncation) -> None:
        self._truncations.append(truncation)
        self._news()

    def _owns(self, partitions: Sequence[Partition]) -> None:
        self._positions.assign(partitions)
        self._work.set()

    async def _pump(self) -> None:
        """Ask for all that is needed and not asked for, whenever something has changed."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            self._lookups.begin(self._running)
            self._prefetching.begin(self._running)

    async def _look_at_leaders(self) -> None:
        """Learn anew who leads, now and then: a leader of a later epoch is asked for what was read (KIP-320)."""
        while True:
            await trio.sleep(self.config.metadata_max_age_ms / 1000)
            for topic in {topic for topic, _ in self._positions}:
                self._fetching._routes.forget(topic)
            self._work.set()

    async def _be_member(self, member: GroupMember | ConsumerGroupMember, scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(member.keep_session)
                nursery.start_soon(member.look_for_changes)

    async def _stop(self) -> None:
        """Leave the group, if it is in one, and read nothing."""
        member = self._member
        await self._commit_last()
        if member is None:
            self._owns(())
        else:
            try:
                await member.leave()
            finally:
                self._member = None
                self._membership.cancel()
        self._complete()

    async def _commit_last(self) -> None:
        """The last automatic commit, and all that were asked for before: a member that has left may commit nothing."""
        with trio.move_on_after(CLOSE_S / 2):
            if self._member is None or self._member.core.may_commit():
                await self._commit_before()
            if self._commits is not None:
                await self._commits.until_done()
