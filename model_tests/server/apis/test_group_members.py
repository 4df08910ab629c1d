"""Members of groups over the wire: in every version, through a coordinator's crash, and with clients that go away."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest
import trio
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.static.primitive import i32Timedelta

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.classic.coordinator import NOTHING
from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, Protocol
from tidegauge.impl.server.broker.group_members import WaitingRequest
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, request_class
from tidegauge.impl.wire.primitives import i32
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.server.apis.test_group_offsets import GROUP, coordinator_of, grouped
from tidegauge.model_tests.server.asking import Asker, asker
from tidegauge.model_tests.server.work_in_steps import counted_steps
from tidegauge.model_tests.simulated import simulated

NONE = ErrorCode.none
MANY_LEAVE_FROM = 3
"""The version of LeaveGroup from which it names many members."""
MOST_CALLS = 8_000
"""In one step of a task."""
SESSION = i32Timedelta.parse(timedelta(seconds=10))
REBALANCE = i32Timedelta.parse(timedelta(seconds=60))


class Client:
    """A member as a client sees it: the id and the generation that it was told."""

    def __init__(self, peer: Asker, instance_id: str | None = None) -> None:
        self.peer = peer
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1

    async def ask(self, key: ApiKey, request: Any, version: int | None = None) -> Any:
        version = BROKER_APIS[key].highest if version is None else version
        return await self.peer.ask(convert(request, request_class(key, version)))

    async def join(self, version: int | None = None, **fields: Any) -> Any:
        """A JoinGroup; again with the id where one is given first."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout=SESSION,
            rebalance_timeout=REBALANCE,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b"m"),),
        )
        joined = await self.ask(ApiKey.JOIN_GROUP, dataclasses.replace(request, **fields), version)
        self.member_id = joined.member_id
        if joined.error_code is ErrorCode.member_id_required:
            return await self.join(version, **fields)
        self.generation = joined.generation_id
        return joined

    async def sync(self, assignments: Mapping[str, bytes] = MappingProxyType({}), version: int | None = None) -> Any:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=i32(self.generation),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(SyncGroupRequestAssignment(member_id=k, assignment=v) for k, v in assignments.items()),
        )
        return await self.ask(ApiKey.SYNC_GROUP, request, version)

    async def heartbeat(self, version: int | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=i32(self.generation),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        error: ErrorCode = (await self.ask(ApiKey.HEARTBEAT, request, version)).error_code
        return error

    async def leave(self, version: int = MANY_LEAVE_FROM) -> Any:
        if version < MANY_LEAVE_FROM:
            spoken: Any = request_class(ApiKey.LEAVE_GROUP, version)
            return await self.peer.ask(spoken(group_id=GROUP, member_id=self.member_id))
        gone = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        return await self.ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group_id=GROUP, members=(gone,)), version)

    async def stable(self) -> None:
        """Be the only member of a stable group."""
        joined = await self.join()
        assert (joined.error_code, joined.leader) == (NONE, self.member_id)
        assert (await self.sync({self.member_id: b"all"})).error_code is NONE


def group(cluster: Cluster, coordinator: int) -> ClassicGroup:
    led = cluster.broker(coordinator).groups.led(GROUP)
    assert not isinstance(led, ErrorCode), led
    found = led.state.classic.get(GROUP)
    assert found is not None
    return found


def versions(key: ApiKey) -> range:
    return range(BROKER_APIS[key].lowest, BROKER_APIS[key].highest + 1)


@simulated
async def test_a_member_joins_and_leaves_in_every_version() -> None:
    async with grouped() as asked:
        for version in versions(ApiKey.JOIN_GROUP):
            client = Client(asked.peer)
            joined = await client.join(version)
            assert (joined.error_code, joined.leader, joined.protocol_name) == (NONE, client.member_id, "range")
            assert getattr(joined, "protocol_type", "consumer") == "consumer"
            (one,) = joined.members
            assert (one.member_id, one.metadata) == (client.member_id, b"m")
            synced = await client.sync({client.member_id: b"mine"}, min(version, 5))
            assert (synced.error_code, synced.assignment) == (NONE, b"mine")
            assert await client.heartbeat(min(version, 4)) is NONE
            assert (await client.leave(version=min(version, 5))).error_code is NONE
            assert group(asked.cluster, asked.coordinator).state.value == "Empty"
            assert joined.generation_id == 2 * version + 1


@simulated
async def test_a_coordinator_that_crashes_leaves_the_stable_generation_and_who_waits_finds_another() -> None:
    async with grouped(brokers=3) as asked:
        cluster, first = asked.cluster, Client(asked.peer)
        await first.stable()
        waiting = Client(await asker(cluster, asked.coordinator, "second"))
        ended = trio.Event()

        async def join_and_lose() -> None:
            with pytest.raises((AssertionError, trio.BrokenResourceError, OSError)):
                await waiting.join()
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join_and_lose)
            await trio.sleep(1)
            assert await first.heartbeat() is ErrorCode.rebalance_in_progress
            await cluster.crash(asked.coordinator)
            await ended.wait()
        asks = next(one for one in range(3) if one != asked.coordinator)
        coordinator = asked.coordinator
        while coordinator == asked.coordinator:
            await trio.sleep(0.2)
            coordinator = await coordinator_of(cluster, ask=asks)
        first.peer = await asker(cluster, coordinator)
        assert await first.heartbeat() is NONE, "the rebalance is forgotten"
        assert (await first.sync()).assignment == b"all"
        assert group(cluster, coordinator).generation == first.generation
        await trio.sleep(11)
        assert group(cluster, coordinator).state.value == "Empty", "its session has ended"


@simulated
async def test_a_coordinator_that_is_replaced_says_so_to_who_waits() -> None:
    async with grouped(brokers=3) as asked:
        cluster, first = asked.cluster, Client(asked.peer)
        await first.stable()
        waiting = Client(await asker(cluster, asked.coordinator, "second"))
        errors: list[ErrorCode] = []

        async def join() -> None:
            errors.append((await waiting.join()).error_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join)
            await trio.sleep(1)
            broker = cluster.broker(asked.coordinator)
            (led,) = (one for one in broker.groups.log if one.state.classic.get(GROUP) is not None)
            broker.groups.log._resign(led.index)
        assert errors == [ErrorCode.not_coordinator]
        assert await first.heartbeat() in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress, NONE)


@simulated
async def test_a_client_that_goes_away_while_it_waits_is_a_member_until_its_session_ends() -> None:
    async with grouped() as asked:
        first = Client(asked.peer)
        await first.stable()
        gone = Client(await asker(asked.cluster, asked.coordinator, "gone"))
        with trio.move_on_after(2):
            await gone.join()
        await gone.peer.stream.aclose()
        await trio.sleep(2)
        assert len(group(asked.cluster, asked.coordinator).members) == 2
        assert (await first.join()).error_code is NONE
        assert (await first.sync()).error_code is NONE
        for _ in range(4):
            await trio.sleep(4)
            if await first.heartbeat() is not NONE:
                break
        assert [one.client_id for one in group(asked.cluster, asked.coordinator).members.values()] == ["asker"]


@simulated
async def test_a_group_is_described_by_its_state_and_deleted_when_it_is_empty() -> None:
    async with grouped(group_initial_rebalance_delay_ms=500) as asked:
        client = Client(asked.peer, "i")
        joining = await asker(asked.cluster, asked.coordinator)

        asked_for = DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=False)

        async def described() -> tuple[Any, ...]:
            (one,) = (await joining.ask(asked_for)).groups
            members = [
                (member.group_instance_id, member.member_metadata, member.member_assignment) for member in one.members
            ]
            return one.group_state, one.protocol_type, one.protocol_data, members

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.join)
            await trio.sleep(0.1)
            assert await described() == ("PreparingRebalance", "consumer", "", [("i", b"", b"")])
        assert (await described())[0] == "CompletingRebalance"
        await client.sync({client.member_id: b"a"})
        assert await described() == ("Stable", "consumer", "range", [("i", b"m", b"a")])
        assert [one[1] for one in await asked.groups()] == ["Stable"]
        await client.leave()
        assert await described() == ("Empty", "consumer", "", [])


@simulated
async def test_what_a_member_may_ask_is_a_matter_of_its_group_and_its_coordinator() -> None:
    async with grouped() as asked:
        client = Client(asked.peer)
        assert await client.heartbeat() is ErrorCode.unknown_member_id
        assert (await client.sync()).error_code is ErrorCode.unknown_member_id
        assert (await client.join(group_id="")).error_code is ErrorCode.invalid_group_id
        short = i32Timedelta.parse(timedelta(seconds=1))
        assert (await client.join(session_timeout=short)).error_code is ErrorCode.invalid_session_timeout


@simulated
async def test_an_assignment_that_no_record_has_room_for_is_nobodys() -> None:
    async with grouped() as asked:
        client = Client(asked.peer)
        large = JoinGroupRequestProtocol(name="range", metadata=b"m" * (2 << 20))
        assert (await client.join(protocols=(large,))).error_code is NONE
        assert (await client.sync({client.member_id: b"a"})).error_code is ErrorCode.unknown_server_error
        assert await client.heartbeat() is ErrorCode.rebalance_in_progress
        assert (await client.leave()).error_code is NONE
        assert group(asked.cluster, asked.coordinator).state.value == "Empty"


@simulated
async def test_many_members_leave_a_few_at_a_time() -> None:
    count = 900
    async with grouped() as asked:
        led = asked.cluster.broker(asked.coordinator).groups.led(GROUP)
        assert not isinstance(led, ErrorCode)
        members = asked.cluster.broker(asked.coordinator).groups.members
        now = asked.cluster.broker(asked.coordinator).groups.moment
        for number in range(count):
            joining = JoinGroup(GROUP, "consumer", (Protocol("range", b"m"),), instance_id=f"i{number}", unique="u")
            led.state.classic.join(joining, WaitingRequest(), now)
        members.carry_out(led, NOTHING)
        gone = tuple(MemberIdentity(member_id="", group_instance_id=f"i{number}") for number in range(count))
        with counted_steps() as steps:
            left = await asked.peer.ask(LeaveGroupRequest(group_id=GROUP, members=gone))
        assert [(one.group_instance_id, one.error_code) for one in left.members] == [
            (f"i{number}", NONE) for number in range(count)
        ]
        assert steps.most < MOST_CALLS
        assert not group(asked.cluster, asked.coordinator).members
