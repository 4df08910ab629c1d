"""A simulated member of a classic group: it joins, shares out if it leads, delivers and commits.

Theory of operation
-------------------
Its subscription says who it is in the history, and what it owns; an assignment is a
list of partitions. A cooperative member goes on with what it owns while it joins, and the leader gives nothing away
that another one has (KIP-429): who had to give something back joins again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any, ClassVar, Final

import attrs
import trio
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId
from kio.static.primitive import i32Timedelta

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.wire.primitives import TopicName, i32, i64
from tidegauge.linearizability.history import UNKNOWN, Kind
from tidegauge.linearizability.membership import NONE
from tidegauge.model_tests.harness.simulation.recorder import now_ns
from tidegauge.model_tests.harness.simulation.simulated_member import NAME, REBALANCE_S, SESSION_S, SimulatedMember

PROTOCOL: Final = "shared"
HANGS_SHARE: Final = 0.2
HANGS_OFTEN_SHARE: Final = 0.5
HANGS_S: Final = 1.5 * REBALANCE_S
BEATS_EACH_S: Final = SESSION_S / 5
REJOINS: Final = (ErrorCode.rebalance_in_progress, ErrorCode.unknown_member_id, ErrorCode.illegal_generation)


def listed(values: Iterable[int]) -> bytes:
    """Numbers as they are on the wire."""
    return b" ".join(b"%d" % value for value in values)


def numbers(text: bytes) -> list[int]:
    """The numbers of `listed`."""
    return [int(value) for value in text.split()]


@attrs.frozen
class Said:
    """A member, as its subscription tells of it."""

    process: int
    member: int
    owned: tuple[int, ...]
    generation: int

    def encoded(self) -> bytes:
        return listed((self.process, self.member, self.generation, *self.owned))

    @classmethod
    def decoded(cls, text: bytes) -> Said:
        process, member, generation, *owned = numbers(text)
        return cls(process, member, tuple(owned), generation)


def shares(members: Mapping[str, Said], partitions: int) -> dict[str, list[int]]:
    """What the leader gives to each: what it has, as far as that is fair, and the rest by who has least.

    Nobody is given what another one says that it has, in the latest generation of which anybody says so.
    """
    latest = max(one.generation for one in members.values())
    claims: dict[int, list[str]] = {}
    for name, said in members.items():
        for partition in said.owned if said.generation == latest else ():
            claims.setdefault(partition, []).append(name)
    owners = {partition: names[0] for partition, names in claims.items() if len(names) == 1}
    most = -(-partitions // len(members))
    target: dict[str, list[int]] = {name: [] for name in members}
    left = []
    for partition in range(partitions):
        owner = owners.get(partition)
        if owner is not None and len(target[owner]) < most:
            target[owner].append(partition)
        else:
            left.append(partition)
    for partition in left:
        target[min(target, key=lambda name: len(target[name]))].append(partition)
    return {name: [one for one in given if owners.get(one, name) == name] for name, given in target.items()}


@attrs.define(eq=False)
class GroupMember(SimulatedMember):
    """One life of a client."""

    tells_generation: ClassVar[bool] = True

    is_cooperative: bool = False
    has_to_join: bool = True
    hangs: Random | None = None
    """Draws after which JoinGroup its application hangs while its heartbeats go on; None if it never does."""
    hangs_often: bool = False

    async def act(self) -> None:
        """Be in the next generation, or look at each partition once. Raises KafkaError."""
        await (self._join() if self.has_to_join else self._work())

    async def leave(self) -> None:
        """It ends, and says so; its session ends if nobody understands."""
        leaving = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        with suppress(KafkaError):
            await self.ask(LeaveGroupRequest(group_id=GroupId(NAME), members=(leaving,)))
            self.has_left = True

    def after_error(self, error: ErrorCode) -> None:
        """What it makes of an error."""
        self.is_fenced |= error is ErrorCode.fenced_instance_id
        if error in REJOINS:
            self.has_to_join = True
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self.release(list(self.owned))
            self.generation = NONE
        if error is ErrorCode.unknown_member_id:
            self.member_id = ""

    # --- generations -------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Be in the next generation, with what it gives. Raises KafkaError."""
        if not self.is_cooperative:
            self.release(list(self.owned))
        joined = await self.ask(
            JoinGroupRequest(
                group_id=GroupId(NAME),
                session_timeout=i32Timedelta.parse(timedelta(seconds=SESSION_S)),
                rebalance_timeout=i32Timedelta.parse(timedelta(seconds=REBALANCE_S)),
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=self.metadata()),),
            )
        )
        self.member_id = joined.member_id
        if joined.error_code is ErrorCode.member_id_required:
            return
        self.generation = int(joined.generation_id)
        given = self.share_out(joined) if joined.members else {}
        share = HANGS_OFTEN_SHARE if self.hangs_often else HANGS_SHARE
        if self.hangs is not None and self.hangs.random() < share:
            await self._hang()
        await self._sync(given)

    async def _hang(self) -> None:
        """Its application asks for no assignment for longer than members are waited for; heartbeats go on."""
        until = trio.current_time() + HANGS_S
        while trio.current_time() < until:
            with suppress(KafkaError):
                await self.ask(self._heartbeat_request())
            await trio.sleep(BEATS_EACH_S)

    def metadata(self) -> bytes:
        """What it says of itself."""
        return Said(self.process, self.member, tuple(self.owned), self.generation).encoded()

    def assignment(self, partitions: Sequence[int]) -> bytes:
        """What the leader gives to a member."""
        return listed(partitions)

    def given(self, assignment: bytes) -> list[int]:
        """What a member is given."""
        return numbers(assignment)

    def share_out(self, joined: Any) -> dict[str, list[int]]:
        """The leader is told who is in the generation."""
        members = {one.member_id: Said.decoded(one.metadata) for one in joined.members}
        for one in members.values():
            self.recorder.declare(Kind.MEMBER, one.process, generation=self.generation, member=one.member)
        everything = tuple(range(self.partitions))
        self.recorder.declare(Kind.EXPECT, self.process, generation=self.generation, values=everything)
        return shares(members, self.partitions)

    async def _sync(self, given: Mapping[str, Sequence[int]]) -> None:
        """Have the assignment, and go on from what is committed. Raises KafkaError."""
        call = now_ns()
        synced = await self.ask(
            SyncGroupRequest(
                group_id=GroupId(NAME),
                generation_id=i32(self.generation),
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name=PROTOCOL,
                assignments=tuple(
                    SyncGroupRequestAssignment(member_id=name, assignment=self.assignment(partitions))
                    for name, partitions in given.items()
                ),
            )
        )
        assigned = self.given(synced.assignment)
        self.assigned(call, assigned)
        revoked = [partition for partition in self.owned if partition not in assigned]
        self.release(revoked)
        self.has_to_join = bool(revoked)
        self.owned.update({partition: UNKNOWN for partition in assigned if partition not in self.owned})

    # --- records -----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Look at each partition once, and say that it lives. Raises KafkaError."""
        await self.consume()
        await self.beat()
        self.worked_at = trio.current_time()

    async def beat(self) -> None:
        """Heartbeat. Raises KafkaError."""
        await self.ask(self._heartbeat_request())

    def _heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=GroupId(NAME),
            generation_id=i32(self.generation),
            member_id=self.member_id,
            group_instance_id=self.instance,
        )

    def commit_request(self, partition: int, offset: int, metadata: str) -> OffsetCommitRequest:
        """OffsetCommit of one partition."""
        one = OffsetCommitRequestPartition(
            partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=metadata
        )
        return OffsetCommitRequest(
            group_id=GroupId(NAME),
            generation_id_or_member_epoch=i32(self.generation),
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=(OffsetCommitRequestTopic(name=TopicName(self.topic), partitions=(one,)),),
        )

    def fetch_request(self, partition: int) -> OffsetFetchRequest:
        """OffsetFetch of one partition, for an offset that is stable."""
        topic = OffsetFetchRequestTopics(name=TopicName(self.topic), partition_indexes=(i32(partition),))
        group = OffsetFetchRequestGroup(group_id=GroupId(NAME), topics=(topic,))
        return OffsetFetchRequest(groups=(group,), require_stable=True)
