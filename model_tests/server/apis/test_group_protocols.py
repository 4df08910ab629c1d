"""A group goes over from one protocol to the other, member by member, as far as the settings let it."""

from __future__ import annotations

from datetime import timedelta
from struct import pack
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.static.primitive import i32Timedelta

from tidegauge.impl.coordinators.groups.migration.embedded import encode_assignment, read_assignment
from tidegauge.impl.server.pace import line
from tidegauge.model_tests.server.apis.test_consumer_groups import Member
from tidegauge.model_tests.server.apis.test_group_members import Client
from tidegauge.model_tests.server.apis.test_group_offsets import GROUP, Asked, coordinator_of, grouped
from tidegauge.model_tests.server.asking import asker
from tidegauge.model_tests.simulated import simulated

NONE = ErrorCode.none
PASSES = 3
"""Of the loop, until a request that takes many slices is in the middle of them."""
PROTOCOLS = tuple(JoinGroupRequestProtocol(name=f"p{number}", metadata=b"m") for number in range(200))
"""So many that a JoinGroup is read in slices."""
EXPRESSION = {"subscribed_topic_names": (), "subscribed_topic_regex": ".*a.{200}"}
"""One that is held against topics in slices."""


async def _had(asked: Asked, before: str) -> None:
    """The group has had members of a protocol, and committed offsets."""
    if before == "consumer":
        member = Member(asked.peer)
        await member.beat()
        assert await member.commit() is NONE
        await member.beat(member_epoch=-1)
    elif before == "classic":
        client = Client(asked.peer)
        await client.stable()
        assert await asked.commit(
            (0, 3), generation_id_or_member_epoch=client.generation, member_id=client.member_id
        ) == [NONE]
        await client.leave()


async def _in_slices() -> None:
    """Return in the middle of a request's work."""
    before = line().passes
    while line().passes < before + PASSES:
        await trio.lowlevel.checkpoint()


async def _both(asked: Asked, *, classic_first: bool) -> tuple[ErrorCode, ErrorCode]:
    """The errors of a JoinGroup and of a heartbeat; the second is sent while the first, a long one, is served."""
    client, member = Client(await asker(asked.cluster, asked.coordinator)), Member(asked.peer, "n")
    told: dict[str, Any] = {}

    async def join(**fields: Any) -> None:
        told["classic"] = await client.join(version=3, **fields)

    async def beat(**fields: Any) -> None:
        told["consumer"] = await member.beat(**fields)

    async with trio.open_nursery() as nursery:
        if classic_first:
            nursery.start_soon(lambda: join(protocols=PROTOCOLS))
        else:
            nursery.start_soon(lambda: beat(**EXPRESSION))
        await _in_slices()
        nursery.start_soon(beat if classic_first else join)
    return told["classic"].error_code, told["consumer"].error_code


@pytest.mark.parametrize("classic_first", [True, False], ids=["classic first", "consumer first"])
@pytest.mark.parametrize("before", ["nothing", "consumer", "classic"])
@simulated
async def test_of_two_that_join_by_two_protocols_at_once_one_is_refused_where_nobody_goes_over(
    before: str, classic_first: bool
) -> None:
    async with grouped(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy="disabled") as asked:
        for place in range(5):
            await asked.cluster.create_topic(f"{place}".ljust(249, "a"), partitions=1)
        await _had(asked, before)
        classic, consumer = await _both(asked, classic_first=classic_first)
        core = asked.core()
        members = [len(known.members) for known in (core.classic.get(GROUP), core.consumers.get(GROUP)) if known]
        assert (classic, consumer) in (
            (NONE, ErrorCode.group_id_not_found),
            (ErrorCode.inconsistent_group_protocol, NONE),
        )
        assert sorted(members) in ([1], [0, 1]), "a consumer group without members may lie beneath a classic one"
        assert await asked.fetch(0) == [(-1, "") if before == "nothing" else (3, "")], "offsets stay"


# --- going over ------------------------------------------------------------------------------------------------------


def _metadata(*owned: int) -> bytes:
    """A subscription of version 1 to the topic t, with partitions of it that are owned."""
    places = pack(">ih1si", 1, 1, b"t", len(owned)) + pack(f">{len(owned)}i", *owned) if owned else pack(">i", 0)
    return pack(">hih1si", 1, 1, 1, b"t", -1) + places


def _assignment(*partitions: int) -> bytes:
    return encode_assignment([("t", one) for one in partitions], 1)


async def _join(client: Client, *owned: int) -> ErrorCode:
    protocols = (JoinGroupRequestProtocol(name="range", metadata=_metadata(*owned)),)
    error: ErrorCode = (await client.join(protocols=protocols)).error_code
    return error


async def _told(client: Client) -> tuple[ErrorCode, frozenset[tuple[str, int]]]:
    """The response to a SyncGroup."""
    told = await client.sync()
    return told.error_code, read_assignment(told.assignment)


async def _classic(asked: Asked) -> Client:
    """A member of a stable classic group that has both partitions."""
    client = Client(await asker(asked.cluster, asked.coordinator))
    assert await _join(client) is NONE
    assert (await client.sync({client.member_id: _assignment(0, 1)})).error_code is NONE
    return client


@simulated
async def test_a_group_goes_over_with_its_members_and_back_with_those_that_are_left() -> None:
    async with grouped(group_initial_rebalance_delay_ms=0) as asked:
        classic, consumer = await _classic(asked), Member(asked.peer, "n")
        assert (await consumer.beat()).error_code is NONE
        assert consumer.partitions == [], "the classic member has to give back first"
        assert await classic.heartbeat() is ErrorCode.rebalance_in_progress
        assert await _join(classic, 0, 1) is NONE
        error, kept = await _told(classic)
        assert (error, len(kept)) == (NONE, 1)
        ((_, partition),) = kept
        assert await classic.heartbeat() is ErrorCode.rebalance_in_progress, (
            "it has not said yet that it has given back"
        )
        assert await _join(classic, partition) is NONE
        assert await _told(classic) == (NONE, kept)
        assert await classic.heartbeat() is NONE
        await consumer.beat()
        assert consumer.partitions == [1 - partition]
        assert await consumer.commit(partition=1 - partition) is NONE
        assert await asked.commit(
            (partition, 3), generation_id_or_member_epoch=classic.generation, member_id=classic.member_id
        ) == [NONE]
        assert asked.core().offsets.metadata == {}, "the classic group has a tombstone"

        generation = classic.generation
        await consumer.beat(member_epoch=-1)
        written = asked.core().offsets.metadata[GROUP]
        assert (written.generation, written.leader) == (generation, None)
        assert asked.core().consumers.committed == {}
        assert await classic.heartbeat() is ErrorCode.rebalance_in_progress
        assert await _join(classic, partition) is NONE
        assert classic.generation == generation + 1
        assert (await classic.sync({classic.member_id: _assignment(0, 1)})).error_code is NONE
        assert await classic.heartbeat() is NONE


@simulated
async def test_a_group_that_has_gone_over_outlives_its_coordinator() -> None:
    async with grouped(3, group_initial_rebalance_delay_ms=0) as asked:
        classic, consumer = await _classic(asked), Member(asked.peer, "n")
        assert (await consumer.beat()).error_code is NONE
        await asked.cluster.crash(asked.coordinator)
        coordinator, asks = asked.coordinator, next(n for n in range(3) if n != asked.coordinator)
        while coordinator == asked.coordinator:
            await trio.sleep(0.2)
            coordinator = await coordinator_of(asked.cluster, ask=asks)
        classic.peer = consumer.peer = await asker(asked.cluster, coordinator)
        assert await classic.heartbeat() is ErrorCode.rebalance_in_progress
        assert await _join(classic, 0, 1) is NONE
        error, kept = await _told(classic)
        assert (error, len(kept)) == (NONE, 1)


@simulated
async def test_a_classic_member_that_claims_what_is_anothers_is_no_member_any_more() -> None:
    async with grouped(group_initial_rebalance_delay_ms=0) as asked:
        consumer, classic = Member(asked.peer, "n"), Client(await asker(asked.cluster, asked.coordinator))
        await consumer.beat()
        assert consumer.partitions == [0, 1]
        assert await _join(classic, 0) is ErrorCode.unknown_member_id
        assert await _join(classic) is NONE
        assert await _told(classic) == (NONE, frozenset())


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
@simulated
async def test_a_classic_group_stays_one_where_the_settings_say_so(policy: str) -> None:
    async with grouped(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy) as asked:
        classic, consumer = await _classic(asked), Member(asked.peer, "n")
        assert (await consumer.beat()).error_code is ErrorCode.group_id_not_found
        assert await classic.heartbeat() is NONE


@simulated
async def test_a_join_that_is_refused_leaves_an_empty_consumer_group_as_it_was() -> None:
    async with grouped(group_initial_rebalance_delay_ms=0) as asked:
        await _had(asked, "consumer")
        before = asked.core().consumers.committed[GROUP]
        client = Client(await asker(asked.cluster, asked.coordinator))
        assert (await client.join(session_timeout=i32Timedelta.parse(timedelta(0)))).error_code is (
            ErrorCode.invalid_session_timeout
        )
        assert asked.core().consumers.committed[GROUP] is before
        assert (await Member(asked.peer, "n").beat()).member_epoch == before.epoch + 1
