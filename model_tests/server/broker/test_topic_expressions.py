"""Expressions are held against topics in slices, and once: a client chooses them, and a cluster has many topics."""

from __future__ import annotations

import pytest
import trio

from tidegauge.impl.coordinators.name_patterns import PatternError
from tidegauge.impl.server.broker.topic_expressions import TopicExpressions
from tidegauge.impl.server.pace import SLICE, Pace
from tidegauge.model_tests.simulated import simulated

DEAR = ".*a.{200}"
"""Each character of a long name takes it a step of many places."""


class Counted(Pace):
    """Notes how much is done at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: list[int] = []

    async def pause(self) -> None:
        self.slices.append(self.spent)
        await super().pause()


def names(count: int) -> dict[str, None]:
    return {f"{index:03}".ljust(249, "a"): None for index in range(count)}


@simulated
async def test_others_have_their_turn_while_an_expression_is_held_against_topics() -> None:
    expressions, pace = TopicExpressions(), Counted()
    await expressions.learn([DEAR], names(20), pace)
    assert len(pace.slices) > 20
    assert max(pace.slices) < 3 * SLICE
    assert expressions.matching(DEAR, names(20)) == names(20).keys()


@simulated
async def test_only_topics_that_are_new_take_time_and_those_that_are_gone_are_forgotten() -> None:
    expressions, pace = TopicExpressions(), Counted()
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(expressions.learn, [DEAR], names(20), pace)
    once = len(pace.slices)
    await expressions.learn([DEAR], names(20), pace)
    assert len(pace.slices) == once, "five that ask at once, and one later, have it done once"
    await expressions.learn([DEAR], names(21), pace)
    assert once < len(pace.slices) < once + 10
    assert expressions.matching(DEAR, names(2)) == names(2).keys()
    assert expressions.matching(DEAR, names(3)) == names(3).keys()


@simulated
async def test_what_is_no_expression_is_told_when_it_is_matched() -> None:
    expressions = TopicExpressions()
    await expressions.learn(["("], names(1), Counted())
    with pytest.raises(PatternError):
        expressions.matching("(", names(1))
