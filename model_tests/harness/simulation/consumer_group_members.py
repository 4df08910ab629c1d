"""A simulated member of a consumer group (KIP-848): its heartbeats tell what it owns, and it is told what it is to own.

What it says, and what it makes of responses, are the native client's rules (`impl.client.consumer_membership`). It
gives back what it has to, then owns what is new, and reads what it owns in between. Some commits are late: they are
sent after the next heartbeat, in the epoch before it, which counts for what the member has had since (KIP-1251). Now
and then its application hangs: heartbeats go on, and what it has to give back it does not. In some runs a heartbeat
arrives once more, when its epoch is over and nobody waits for the response. In some it wants another topic for a while,
which there is not, and gives back what it owns.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any, ClassVar, Final
from uuid import UUID

import attrs
import trio
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.types import GroupId
from kio.static.primitive import i32Timedelta

from tidegauge.impl.client.consumer_membership import JOINING_EPOCH, ConsumerMembership, Heartbeat, Place
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.membership import State
from tidegauge.impl.wire.primitives import TopicName, i32, i64
from tidegauge.linearizability.history import UNKNOWN
from tidegauge.model_tests.harness.simulation.recorder import now_ns
from tidegauge.model_tests.harness.simulation.simulated_member import NAME, REBALANCE_S, SimulatedMember

LATE_SHARE: Final = 0.3
REPEATS_SHARE: Final = 0.1
"""Of rounds."""
REBALANCE: Final = i32Timedelta.parse(timedelta(seconds=REBALANCE_S))
ELSEWHERE: Final = "elsewhere"
"""A topic that there is not."""
WANDERS_EACH_S: Final = 1.5
AWAY_S: Final = (0.05, 0.3, 1.0)
"""As long as a heartbeat or two, as an interval between targets, and longer."""
UNCHANGED: Final = i32Timedelta.parse(timedelta(milliseconds=-1))
ONCE: Final = 0
"""A heartbeat without a response is not sent again as it is: the next one says all."""


@attrs.define(eq=False)
class ConsumerGroupMember(SimulatedMember):
    """One life of a client."""

    tells_generation: ClassVar[bool] = False

    expression: str = ""
    """The regular expression of the topics that it wants; "" if it names one."""
    repeats: bool = False
    """Whether heartbeats of former epochs arrive again."""
    hangs_until: float = 0.0
    """Until then only its heartbeats go on."""
    has_settled: bool = False
    """Whether it wants nothing else for a while any more."""
    _membership: ConsumerMembership = attrs.field(init=False)
    _late: list[tuple[int, int, int]] = attrs.field(factory=list)
    """(partition, offset, epoch) of commits that are yet to be sent."""
    _former: Heartbeat | None = None
    """The last heartbeat that it has sent in an epoch that is over."""
    _committing_in: int | None = None
    """The epoch of the commit that is sent, where that is not the member's own."""

    def __attrs_post_init__(self) -> None:
        SimulatedMember.__attrs_post_init__(self)
        self.member_id = str(UUID(int=self.rng.getrandbits(128), version=4))
        self._membership = ConsumerMembership(self.member_id, self._topics, self.instance, self.expression)

    async def act(self) -> None:
        """Say that it lives, own what it is to own, and look at each partition once. Raises KafkaError."""
        await self.beat()
        if self.repeats and self._former is not None and self.rng.random() < REPEATS_SHARE:
            with suppress(KafkaError):
                await self._send(self._former)
        if trio.current_time() < self.hangs_until:
            return
        await self._commit_late_ones()
        self._reconcile()
        if self._membership.state is State.STABLE:
            await self.consume()
            self.worked_at = trio.current_time()

    @property
    def _topics(self) -> tuple[str, ...]:
        """What it names when it is not elsewhere."""
        return () if self.expression else (self.topic,)

    async def wander(self, rng: Random) -> None:
        """Now and then it wants something else for a while, until it has settled down."""
        while not self.has_settled:
            await trio.sleep(rng.uniform(0, 2 * WANDERS_EACH_S))
            if self.has_settled:
                return
            self._membership.subscribe((ELSEWHERE,))
            await trio.sleep(rng.choice(AWAY_S))
            self._membership.subscribe(self._topics, self.expression)

    def settle_down(self) -> None:
        """From now on it wants what it wanted first."""
        self.has_settled = True
        self._membership.subscribe(self._topics, self.expression)

    async def leave(self) -> None:
        """It ends, and says so; its session ends if nobody understands."""
        self.release(list(self.owned))
        epoch = self._membership.leave()
        if epoch is None:
            return
        with suppress(KafkaError):
            await self._send(Heartbeat(epoch, (), "", None, full=False))
            self.has_left = True

    def after_error(self, error: ErrorCode) -> None:
        """What it makes of the error of a fetch or a commit: heartbeats tell what it is."""

    # --- heartbeats --------------------------------------------------------------------------------------------------

    async def beat(self) -> None:
        """Heartbeat, and take what the response says; an error is taken as well."""
        asked = self._membership.send()
        if asked is None:
            return
        try:
            told = await self._send(asked)
        except KafkaError as error:
            self.is_refused |= error.code is ErrorCode.unreleased_instance_id
            self._membership.after_error(asked, error.code)
            self.is_fenced = self._membership.state is State.FENCED
            self.release([one for one in self.owned if one not in self._numbers(self._membership.owned)])
        except trio.Cancelled:
            self._membership.after_loss(asked)
            raise
        else:
            self.is_refused = False
            given = told.assignment
            places = (
                None
                if given is None
                else [(str(t.topic_id), int(n)) for t in given.topic_partitions for n in t.partitions]
            )
            self._membership.after_response(asked, int(told.member_epoch), places)
            if JOINING_EPOCH < asked.epoch < self._membership.epoch:
                self._former = asked
        self.generation = self._membership.epoch

    async def _send(self, beat: Heartbeat) -> Any:
        by_topic: dict[str, list[i32]] = {}
        for topic_id, index in beat.owned or ():
            by_topic.setdefault(topic_id, []).append(i32(index))
        owned = (TopicPartitions(topic_id=UUID(one), partitions=tuple(indexes)) for one, indexes in by_topic.items())
        is_going = beat.epoch < JOINING_EPOCH
        return await self.coordinator.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GroupId(NAME),
                member_id=self.member_id,
                member_epoch=i32(beat.epoch),
                instance_id=self.instance,
                rebalance_timeout=REBALANCE if beat.full else UNCHANGED,
                subscribed_topic_names=None if is_going else tuple(map(TopicName, beat.topics)),
                subscribed_topic_regex=None if is_going else beat.expression,
                topic_partitions=None if beat.owned is None else tuple(owned),
            ),
            lambda response: response.error_code,
            ONCE,
        )

    def _reconcile(self) -> None:
        """Give back what it has to, and own what is new."""
        membership = self._membership
        if membership.assigned is None:
            return
        call, gone = now_ns(), membership.to_give_back()
        self.release(self._numbers(gone))
        membership.gave_back(gone)
        self.owned.update(dict.fromkeys(self._numbers(membership.after_reconciling()), UNKNOWN))
        self.assigned(call, sorted(self.owned))

    def _numbers(self, places: tuple[Place, ...]) -> list[int]:
        return [number for _, number in places]

    # --- records -----------------------------------------------------------------------------------------------------

    async def commit(self, partition: int, offset: int) -> None:
        """Commit where it is, now or after the next heartbeat. Raises KafkaError."""
        if self.rng.random() < LATE_SHARE:
            self._late.append((partition, offset, self.generation))
        else:
            await SimulatedMember.commit(self, partition, offset)

    async def _commit_late_ones(self) -> None:
        late, self._late = self._late, []
        for partition, offset, epoch in late:
            if partition in self.owned:
                self._committing_in = epoch
                try:
                    await SimulatedMember.commit(self, partition, offset)
                finally:
                    self._committing_in = None

    def commit_request(self, partition: int, offset: int, metadata: str) -> OffsetCommitRequest:
        """OffsetCommit of one partition."""
        one = OffsetCommitRequestPartition(
            partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=metadata
        )
        return OffsetCommitRequest(
            group_id=GroupId(NAME),
            generation_id_or_member_epoch=i32(self.generation if self._committing_in is None else self._committing_in),
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=(OffsetCommitRequestTopic(name=TopicName(self.topic), partitions=(one,)),),
        )

    def fetch_request(self, partition: int) -> OffsetFetchRequest:
        """OffsetFetch of one partition, for an offset that is stable."""
        topic = OffsetFetchRequestTopics(name=TopicName(self.topic), partition_indexes=(i32(partition),))
        group = OffsetFetchRequestGroup(
            group_id=GroupId(NAME), member_id=self.member_id, member_epoch=i32(self.generation), topics=(topic,)
        )
        return OffsetFetchRequest(groups=(group,), require_stable=True)
