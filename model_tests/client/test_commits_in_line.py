"""Commits of a consumer reach the coordinator in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.committing import Commits
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.coordinators import Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.membership import Identity
from tidegauge.impl.client.positions import Position
from tidegauge.model_tests.simulated import simulated


@attrs.define
class Slow:
    """A coordinator that responds to the first commit when it is let."""

    asked: list[int] = attrs.field(factory=list)
    given_ms: list[float | None] = attrs.field(factory=list)
    let: trio.Event = attrs.field(factory=trio.Event)

    async def ask(
        self, request: Any, _error_of: Callable[[Any], ErrorCode], timeout_ms: float | None, *, is_bounded: bool
    ) -> None:
        assert is_bounded
        self.given_ms.append(timeout_ms)
        self.asked.append(request.topics[0].partitions[0].committed_offset)
        await self.let.wait()


def commits(coordinator: Slow) -> Commits:
    config = ConsumerConfig(group_id="g")
    return Commits(cast("Coordinator", coordinator), "g", config, Identity, lambda *_: None, lambda _: None)


def at(offset: int) -> dict[tuple[str, int], Position]:
    return {("t", 0): Position(offset, -1)}


@simulated
async def test_who_gives_up_while_it_waits_lets_no_later_commit_pass_an_earlier_one() -> None:
    """Else the earlier one, if it is sent again, would take the group back."""
    coordinator = Slow()
    line = commits(coordinator)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.commit, at(1))
        await trio.testing.wait_all_tasks_blocked()
        for given_up in (2, 3):
            with trio.move_on_after(1):
                await line.commit(at(given_up))
        nursery.start_soon(line.commit, at(4))
        await trio.testing.wait_all_tasks_blocked()
        assert coordinator.asked == [1]
        coordinator.let.set()
    assert coordinator.asked == [1, 4]


@simulated
async def test_the_time_of_a_commit_is_for_its_wait_too() -> None:
    coordinator = Slow()
    line = commits(coordinator)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.commit, at(1))
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(2), pytest.raises(KafkaError, match="was not sent") as refused:
            await line.commit(at(2), 500)
        assert (refused.value.code, refused.value.maybe_done) == (ErrorCode.request_timed_out, False)
        nursery.start_soon(line.commit, at(3), 5_000)
        await trio.sleep(1)
        coordinator.let.set()
    assert coordinator.asked == [1, 3]
    assert coordinator.given_ms == [None, pytest.approx(4_000)]


@simulated
async def test_a_line_that_is_done_is_forgotten() -> None:
    coordinator = Slow()
    coordinator.let.set()
    line = commits(coordinator)
    for offset in range(3):
        await line.commit(at(offset))
    last = line.place()
    await last.turn()
    assert (coordinator.asked, last.before) == ([0, 1, 2], None)
    assert line.place().before is last
