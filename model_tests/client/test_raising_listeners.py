"""A listener that raises, or is cancelled with its `poll`, holds up neither its consumer nor the group.

As with Kafka's consumer, `poll` raises what the listener has raised, and the rebalance goes on with the next one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.positions import Partition
from tidegauge.model_tests.client.test_consumer_groups import FOUR, Listening, Member, running, share, until
from tidegauge.model_tests.simulated import simulated

PROTOCOLS = [
    {"assignor": "range"},
    {"assignor": "cooperative-sticky"},
    {"group_protocol": "consumer"},
]


class FailedError(Exception):
    """What a listener raises."""


class Failing(Listening):
    """Raises once at each kind of call, or takes so long there that its `poll` is cancelled."""

    def __init__(self, *kinds: str, hangs: bool = False) -> None:
        super().__init__()
        self._kinds = set(kinds)
        self._hangs = hangs

    async def _fail(self, kind: str) -> None:
        if kind in self._kinds:
            self._kinds.discard(kind)
            if self._hangs:
                self.told.pop()
                await trio.sleep_forever()
            raise FailedError(kind)

    async def revoked(self, partitions: Sequence[Partition]) -> None:
        await super().revoked(partitions)
        await self._fail("revoked")

    async def lost(self, partitions: Sequence[Partition]) -> None:
        await super().lost(partitions)
        await self._fail("lost")

    async def assigned(self, partitions: Sequence[Partition]) -> None:
        await super().assigned(partitions)
        await self._fail("assigned")


class Patient(Member):
    """Goes on after each error of its listener, and gives no poll more than a second."""

    raised = 0

    async def read(self) -> None:
        with trio.move_on_after(1):
            try:
                await super().read()
            except FailedError:
                self.raised += 1


@asynccontextmanager
async def member(client: Client, listening: Listening, **settings: Any) -> AsyncIterator[Patient]:
    async with Patient(client, **settings) as one:
        one.listening = listening
        await one.join()
        yield one


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("settings", PROTOCOLS)
@simulated
async def test_a_rebalance_goes_on_though_a_listener_fails(settings: dict[str, Any], *, hangs: bool) -> None:
    """Each partition is told as assigned once, and as revoked once, also by a listener that was cancelled."""
    async with running() as (_, client), Patient(client, **settings) as two:
        listening = Failing("revoked", "assigned", hangs=hangs)
        async with member(client, listening, **settings) as one:
            await until(lambda: share(one), one)
            await two.join()
            await until(lambda: share(one, two), one, two)
            await until(lambda: len(listening.told) >= 3, one, two)
            assert one.raised == (0 if hangs else 2)
            kept: set[Partition] = set()
            for kind, partitions in listening.told:
                assert kept.isdisjoint(partitions) if kind == "assigned" else kept.issuperset(partitions)
                kept ^= set(partitions)
            assert kept == one.assignment


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("settings", PROTOCOLS)
@simulated
async def test_who_has_lost_its_partitions_joins_again_though_its_listener_fails(
    settings: dict[str, Any], *, hangs: bool
) -> None:
    listening = Failing("lost", hangs=hangs)
    async with running() as (_, client), member(client, listening, max_poll_interval_ms=2_000, **settings) as one:
        await until(lambda: share(one), one)
        await trio.sleep(8)  # it sends a heartbeat every five seconds
        await until(lambda: len(listening.told) == 3, one)
        assert listening.told == [("assigned", tuple(FOUR)), ("lost", tuple(FOUR)), ("assigned", tuple(FOUR))]
        assert share(one)


@pytest.mark.parametrize("settings", PROTOCOLS)
@simulated
async def test_who_ends_leaves_its_group_though_its_listener_raises(settings: dict[str, Any]) -> None:
    async with running() as (_, client):
        with suppress(FailedError):
            async with member(client, Failing("revoked"), **settings) as one:
                await until(lambda: share(one), one)
        async with member(client, Listening(), **settings) as two:
            with trio.fail_after(4):  # and not for the session time-out, which is 6 s at least
                await until(lambda: share(two), two)
