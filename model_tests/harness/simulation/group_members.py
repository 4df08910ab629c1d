"""A simulated member of a classic group: it joins, shares out if it leads, delivers and commits.

Theory of operation
-------------------
It is a consumer in small, and sequential: a round looks at each partition that it owns, delivers what is there,
commits, and sends a heartbeat. Its subscription says who it is in the history, and what it owns; an assignment is a
list of partitions. A cooperative member goes on with what it owns while it joins, and the leader gives nothing away
that another one has (KIP-429): who had to give something back joins again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any, Final

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

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.wire.primitives import TopicName, i32, i64
from tidegauge.linearizability.history import UNKNOWN, Kind
from tidegauge.linearizability.membership import NONE
from tidegauge.model_tests.harness.simulation.group_recorder import GroupRecorder
from tidegauge.model_tests.harness.simulation.recorder import now_ns

NAME: Final = "billing"
PROTOCOL: Final = "shared"
SESSION_S: Final = 1.0
REBALANCE_S: Final = 1.5
WAIT_MS: Final = 3_000
"""Longer than a JoinGroup waits, and a little for a coordinator that is looked for."""
COMMITS_SHARE: Final = 0.8
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
class GroupMember:
    """One life of a client."""

    client: Client
    recorder: GroupRecorder
    topic: str
    partitions: int
    process: int
    member: int
    """Its number in the history; that of all processes of a static member."""
    instance: str | None
    is_cooperative: bool
    rng: Random
    member_id: str = ""
    generation: int = NONE
    owned: dict[int, int] = attrs.field(factory=dict)
    """Partition -> where it goes on."""
    is_fenced: bool = False
    has_to_join: bool = True
    paused_until: float = 0.0
    """Until then it does nothing."""
    leaves_at: float = math.inf
    has_left: bool = False
    worked_at: float = 0.0
    """When it had last looked at all that it owns, and said that it lives."""

    coordinator: Coordinator = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.coordinator = Coordinator(self.client, GROUP, NAME)

    async def live(self, rest: float) -> None:
        """Until it is cancelled, or fenced, or leaves."""
        try:
            while not self.is_fenced:
                await trio.sleep_until(self.paused_until)
                if trio.current_time() >= self.leaves_at:
                    await self._leave()
                    return
                try:
                    if self.has_to_join:
                        await self._join()
                    else:
                        await self._work()
                except KafkaError as error:
                    self._after(error.code)
                await trio.sleep(self.rng.uniform(0, rest))
        finally:
            self._release(list(self.owned))

    async def _leave(self) -> None:
        """It ends, and says so; its session ends if nobody understands."""
        leaving = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        with suppress(KafkaError):
            await self._ask(LeaveGroupRequest(group_id=GroupId(NAME), members=(leaving,)))
            self.has_left = True

    def _after(self, error: ErrorCode) -> None:
        """What it makes of an error."""
        self.is_fenced |= error is ErrorCode.fenced_instance_id
        if error in REJOINS:
            self.has_to_join = True
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self._release(list(self.owned))
            self.generation = NONE
        if error is ErrorCode.unknown_member_id:
            self.member_id = ""

    def _release(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            del self.owned[partition]
        self.recorder.released(self.process, partitions)

    # --- generations -------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Be in the next generation, with what it gives. Raises KafkaError."""
        if not self.is_cooperative:
            self._release(list(self.owned))
        said = Said(self.process, self.member, tuple(self.owned), self.generation)
        joined = await self._ask(
            JoinGroupRequest(
                group_id=GroupId(NAME),
                session_timeout=i32Timedelta.parse(timedelta(seconds=SESSION_S)),
                rebalance_timeout=i32Timedelta.parse(timedelta(seconds=REBALANCE_S)),
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=said.encoded()),),
            )
        )
        self.member_id = joined.member_id
        if joined.error_code is ErrorCode.member_id_required:
            return
        self.generation = int(joined.generation_id)
        given = self._share_out(joined) if joined.members else {}
        await self._sync(given)

    def _share_out(self, joined: Any) -> dict[str, list[int]]:
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
        synced = await self._ask(
            SyncGroupRequest(
                group_id=GroupId(NAME),
                generation_id=i32(self.generation),
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name=PROTOCOL,
                assignments=tuple(
                    SyncGroupRequestAssignment(member_id=name, assignment=listed(partitions))
                    for name, partitions in given.items()
                ),
            )
        )
        assigned = numbers(synced.assignment)
        self.recorder.assigned(self.process, call, assigned, generation=self.generation, member=self.member)
        revoked = [partition for partition in self.owned if partition not in assigned]
        self._release(revoked)
        self.has_to_join = bool(revoked)
        self.owned.update({partition: UNKNOWN for partition in assigned if partition not in self.owned})

    # --- records -----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Look at each partition once. Raises KafkaError."""
        for partition in list(self.owned):
            if self.owned[partition] == UNKNOWN:
                self.owned[partition] = await self._committed(partition)
            position = self.owned[partition]
            fetched = await self.client.fetch(self.topic, position, partition=partition, max_wait_ms=10)
            self.recorder.delivered(self.process, partition, fetched, generation=self.generation)
            self.owned[partition] = fetched.next_offset
            if fetched.next_offset > position and self.rng.random() < COMMITS_SHARE:
                await self._commit(partition, fetched.next_offset)
        await self._ask(
            HeartbeatRequest(
                group_id=GroupId(NAME),
                generation_id=i32(self.generation),
                member_id=self.member_id,
                group_instance_id=self.instance,
            )
        )

        self.worked_at = trio.current_time()

    async def commit_all(self) -> None:
        """Commit where it is. Raises KafkaError."""
        for partition, position in self.owned.items():
            if position > 0:
                await self._commit(partition, position)

    async def _commit(self, partition: int, offset: int) -> None:
        async def run(metadata: str) -> Any:
            one = OffsetCommitRequestPartition(
                partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=metadata
            )
            topic = OffsetCommitRequestTopic(name=TopicName(self.topic), partitions=(one,))
            request = OffsetCommitRequest(
                group_id=GroupId(NAME),
                generation_id_or_member_epoch=i32(self.generation),
                member_id=self.member_id,
                group_instance_id=self.instance,
                topics=(topic,),
            )
            return await self._ask(request)

        said = {"generation": self.generation, "member": self.member}
        await self.recorder.commit(self.process, partition, offset, run, **said)

    async def _committed(self, partition: int) -> int:
        """Where the group goes on. Raises KafkaError."""
        call = now_ns()
        topic = OffsetFetchRequestTopics(name=TopicName(self.topic), partition_indexes=(i32(partition),))
        group = OffsetFetchRequestGroup(group_id=GroupId(NAME), topics=(topic,))
        response = await self._ask(OffsetFetchRequest(groups=(group,), require_stable=True))
        found = response.groups[0].topics[0].partitions[0]
        offset = int(found.committed_offset)
        self.recorder.found(self.process, call, partition, offset, None if offset == UNKNOWN else int(found.metadata))
        return max(0, offset)

    async def _ask(self, request: Any) -> Any:
        return await self.coordinator.ask(request, error_of, WAIT_MS)


def error_of(response: Any) -> ErrorCode:
    """The error of a response; that an id was given first is none."""
    found = response
    if hasattr(response, "groups"):
        (group,) = response.groups
        found = group.topics[0].partitions[0] if group.error_code is ErrorCode.none else group
    elif hasattr(response, "topics"):
        found = response.topics[0].partitions[0]
    error: ErrorCode = found.error_code
    return ErrorCode.none if error is ErrorCode.member_id_required else error
