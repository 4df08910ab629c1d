"""A log line says what happened, to which node, and its details; nothing in a value can look like another detail."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.lowlevel

from tidegauge.impl.ports.log_lines import log_error, log_event, logging_as
from tidegauge.impl.ports.repeated_lines import RepeatedLines

LOGGER = logging.getLogger("tidegauge.test_log_lines")


def texts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_line_has_the_node_first_and_then_the_details_in_order(caplog: pytest.LogCaptureFixture) -> None:
    with logging_as("broker-1"):
        log_event(LOGGER, logging.WARNING, "log cut", partition="t-0", to_offset=5, why="torn batch", bytes=None)
    log_event(LOGGER, logging.WARNING, "all quiet")
    assert texts(caplog) == ['log cut: node=broker-1 partition=t-0 to_offset=5 why="torn batch"', "all quiet"]


@pytest.mark.parametrize("hostile", ["a b", 'x" why="y', "two\nlines", "a=b", "", "\x1b[31m", "ü"])
def test_what_a_client_sends_cannot_look_like_anything_else(caplog: pytest.LogCaptureFixture, hostile: str) -> None:
    log_event(LOGGER, logging.WARNING, "slow request", client=hostile, api="FETCH")
    (text,) = texts(caplog)
    assert text.startswith('slow request: client="')
    assert text.endswith('" api=FETCH')
    assert text.isascii()
    assert text.isprintable()


def test_tasks_log_as_the_node_that_started_them(caplog: pytest.LogCaptureFixture) -> None:
    async def task() -> None:
        await trio.lowlevel.checkpoint()
        log_event(LOGGER, logging.WARNING, "here")

    async def nodes() -> None:
        async with trio.open_nursery() as nursery:
            for node in ("broker-0", "broker-1"):
                with logging_as(node):
                    nursery.start_soon(task)

    trio.run(nodes)
    assert sorted(texts(caplog)) == ["here: node=broker-0", "here: node=broker-1"]


def test_an_error_comes_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    log_error(LOGGER, "request failed", KeyError("nobody foresaw this"), api="FETCH")
    assert texts(caplog) == ["request failed: api=FETCH"]
    assert "KeyError: 'nobody foresaw this'" in caplog.text


def test_lines_that_others_cause_are_bounded_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    lines = RepeatedLines(lambda: now, most=2, seconds=10)
    for number in range(5):
        lines.log_event(LOGGER, logging.WARNING, "login refused", number=number)
    now = 10.0
    lines.log_event(LOGGER, logging.WARNING, "login refused", number=5)
    now = 20.0
    lines.log_event(LOGGER, logging.WARNING, "login refused", number=6)
    assert texts(caplog) == [
        "login refused: number=0",
        "login refused: number=1",
        "login refused: number=5 left_out_before=3",
        "login refused: number=6",
    ]
