"""A group has members of one protocol, classic or KIP-848's, whichever of two that come at once is first."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol

from tidegauge.impl.server.pace import line
from tidegauge.model_tests.server.apis.test_consumer_groups import Member
from tidegauge.model_tests.server.apis.test_group_members import Client
from tidegauge.model_tests.server.apis.test_group_offsets import GROUP, Asked, grouped
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
async def test_of_two_that_join_by_two_protocols_at_once_one_is_refused(before: str, classic_first: bool) -> None:
    async with grouped(group_initial_rebalance_delay_ms=0) as asked:
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
        assert members == [1]
        assert await asked.fetch(0) == [(-1, "") if before == "nothing" else (3, "")], "offsets stay"


@simulated
async def test_a_group_that_somebody_joins_before_its_tombstone_is_written_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with grouped(group_initial_rebalance_delay_ms=0) as asked:
        await _had(asked, "classic")
        client = Client(await asker(asked.cluster, asked.coordinator))
        members = asked.cluster.broker(asked.coordinator).groups.members
        settled = members.settled

        async def settled_once_joined() -> None:
            monkeypatch.setattr(members, "settled", settled)
            await client.stable()

        monkeypatch.setattr(members, "settled", settled_once_joined)
        assert (await Member(asked.peer, "n").beat()).error_code is ErrorCode.group_id_not_found
        assert await client.heartbeat() is NONE
        written = asked.core().offsets.metadata.get(GROUP)
        assert written is not None
        assert [one.member_id for one in written.members] == [client.member_id]
