"""A consumer that leaves its group: nothing of it stays behind."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.types import GroupId

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.consumer import CLOSE_S
from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.membership import State
from tidegauge.impl.wire.channel import Channel
from tidegauge.model_tests.client.test_consumer_groups import FOUR, Member, running, share, until
from tidegauge.model_tests.simulated import simulated


async def members_of(client: Client) -> list[str]:
    """The member ids that the coordinator knows."""
    request = DescribeGroupsRequest(groups=(GroupId("g"),), include_authorized_operations=False)
    (group,) = (await Coordinator(client, GROUP, "g").ask_once(request)).groups
    return [member.member_id for member in group.members]


@pytest.mark.parametrize("held_up", ["JoinGroupRequest", "MetadataRequest"])
@simulated
async def test_who_unsubscribes_while_it_joins_is_no_member_afterwards(
    held_up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would send heartbeats for it, and the others would go without its partitions until its session ends."""
    async with running() as (_, client), Member(client) as one:
        ask, reached, let = Channel.request, trio.Event(), trio.Event()

        async def asked(self: Channel, message: Any, *more: Any, **named: Any) -> Any:
            response = await ask(self, message, *more, **named)
            joins = one._member is not None and one._member.core.state is State.JOINING
            if joins and not reached.is_set() and type(message).__name__ == held_up:
                reached.set()
                await let.wait()
            return response

        monkeypatch.setattr(Channel, "request", asked)
        await one.join()
        while not reached.is_set():
            await one.read()
        await one.unsubscribe()
        let.set()
        await trio.sleep(1)
        assert await members_of(client) == []
        async with Member(client) as two:
            await two.join()
            with trio.fail_after(3):  # and not for the session time-out, which is 6 s
                await until(lambda: share(two), two)


@simulated
async def test_who_subscribes_again_at_once_is_not_held_up_by_what_it_was() -> None:
    async with running() as (_, client), Member(client) as one:
        await one.join()
        await one.poll(0)
        await one.unsubscribe()
        await one.join()
        with trio.fail_after(3):
            await until(lambda: share(one), one)
        assert await members_of(client) == [one.identity.member_id]


@pytest.mark.parametrize("ends", ["close", "unsubscribe"])
@pytest.mark.parametrize("protocol", ["classic", "consumer", "none"])
@simulated
async def test_what_was_to_be_committed_is_before_a_consumer_ends(protocol: str, ends: str) -> None:
    """And its callback is called, as Kafka's consumer does it when it is closed."""
    told = list[KafkaError | None]()
    at = dict.fromkeys(FOUR, 7)
    async with running() as (_, client):
        settings = {"group_protocol": protocol} if protocol != "none" else {}
        async with Member(client, enable_auto_commit=False, **settings) as one:
            if protocol == "none":
                await one.assign(FOUR)
            else:
                await one.join()
                await until(lambda: share(one), one)
            one.commit_async(dict.fromkeys(FOUR, 6))
            one.commit_async(at, lambda _, error: told.append(error))
            if ends == "unsubscribe":
                await one.unsubscribe()
                assert told == [None]
        assert told == [None]
        async with Member(client) as two:
            assert await two.committed(*FOUR) == at


@simulated
async def test_who_ends_waits_for_its_commits_no_longer_than_for_its_coordinator() -> None:
    async with running() as (cluster, client):
        async with Member(client, enable_auto_commit=False) as one:
            await one.join()
            await until(lambda: share(one), one)
            await cluster.crash(0)
            one.commit_async(dict.fromkeys(FOUR, 7))
            began = trio.current_time()
        assert trio.current_time() - began <= CLOSE_S
