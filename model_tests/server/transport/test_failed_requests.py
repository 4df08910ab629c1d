"""A handler that fails in a way that nobody foresaw: its request is told so, and nothing else is harmed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode as E

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.topics import Topics
from tidegauge.impl.ports.clock import SystemClock
from tidegauge.impl.server.trace.events import RequestFailed
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.server.transport.failed_requests import MOST, FailedRequests
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.server.apis.test_topics import create, new
from tidegauge.model_tests.server.asking import asking
from tidegauge.model_tests.simulated import simulated

FAILED = "CREATE_TOPICS: KeyError('nobody foresaw this')"


async def created(peer: Any, name: str) -> E:
    (created,) = (await peer.ask(create(new(name, 1)))).topics
    error: E = created.error_code
    return error


@simulated
async def test_a_controller_whose_handler_fails_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("nobody foresaw this")

    async with asking(1) as (cluster, peer):
        with monkeypatch.context() as patched:
            patched.setattr(Topics, "create", fail)
            assert await created(peer, "a") is E.unknown_server_error
        assert cluster.controller.failed_requests.last == [FAILED]
        assert [one.decision.api for one in cluster.trace if isinstance(one.decision, RequestFailed)] == [
            "CREATE_TOPICS"
        ]
        assert await created(peer, "a") is E.none


@simulated
async def test_what_fails_because_the_server_has_stopped_meanwhile_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files are closed, and its tasks go on to their next checkpoint."""

    async with asking(1) as (cluster, peer):

        def stop_and_fail(*_: Any, **__: Any) -> None:
            cluster.controller.halt("it was time")
            raise ValueError("the log is closed")

        with monkeypatch.context() as patched, trio.move_on_after(5):
            patched.setattr(Topics, "create", stop_and_fail)
            await created(peer, "a")
        assert cluster.controller.halted == "it was time"
        assert not cluster.controller.failed_requests.last
    assert "the log is closed" not in caplog.text


@simulated
async def test_a_decision_that_fails_before_it_is_proposed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Topics.create

    def fail_late(*arguments: Any, **named: Any) -> None:
        create(*arguments, **named)
        raise KeyError("nobody foresaw this")

    async with asking(1) as (cluster, peer):
        end_offset = cluster.controller.log.end_offset
        with monkeypatch.context() as patched:
            patched.setattr(Topics, "create", fail_late)
            assert await created(peer, "a") is E.unknown_server_error
        assert (cluster.controller.halted, cluster.controller.log.end_offset) == (None, end_offset)
        assert "a" not in cluster.controller.controller.image.topics
        assert await created(peer, "a") is E.none


@simulated
async def test_a_committed_decision_that_cannot_be_applied_ends_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its image and its log differ: the next controller goes by the log."""

    def fail(*_: Any) -> None:
        raise KeyError("nobody foresaw this")

    async with asking(1) as (cluster, peer):
        with monkeypatch.context() as patched:
            patched.setattr(Controller, "apply", fail)
            assert await created(peer, "a") in (E.unknown_server_error, E.request_timed_out)
        halted = "a committed decision cannot be applied: KeyError('nobody foresaw this')"
        assert cluster.controller.halted == halted
        await cluster.restart_controller()
        assert "a" in cluster.controller.controller.image.topics
        assert await created(peer, "b") is E.none


def test_the_last_hundred_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    context: Any = SimpleNamespace(api_key=ApiKey.CREATE_TOPICS, api_version=7, client_id=None)
    failed = FailedRequests(Tracer(None, 0, SystemClock()))
    for number in range(MOST + 1):
        failed.note(context, KeyError(number))
    assert (len(failed.last), failed.last[-1]) == (MOST, f"CREATE_TOPICS: KeyError({MOST})")
    assert "request failed: api=CREATE_TOPICS version=7" in caplog.text
