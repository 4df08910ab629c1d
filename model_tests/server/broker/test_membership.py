"""A broker's membership (KIP-631, KIP-841): when it registers again, when it is unfenced, and how it leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest
import trio
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
from tidegauge.impl.server.broker.membership import Membership
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.registration import Registration
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.wire.channel import NoResponseError
from tidegauge.impl.wire.primitives import NO_WAIT
from tidegauge.model_tests.simulated import simulated

BACKOFF_MS = 5_000


@attrs.define
class Controller:
    """A controller whose responses to heartbeats are given; None is no response."""

    responses: list[BrokerHeartbeatResponse | None]
    next_epoch: int = 40
    pause: float = 0
    """How many seconds each response to a heartbeat takes."""
    heartbeats: list[tuple[bool, bool]] = attrs.field(factory=list)
    """(want_fence, want_shut_down) of each."""
    held: float = 0
    """How many seconds the response to the next registration takes."""

    async def register(self) -> int:
        self.next_epoch += 1
        epoch, seconds, self.held = self.next_epoch, self.held, 0
        await trio.sleep(seconds)
        return epoch

    async def heartbeat(
        self, metadata_offset: int, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        self.heartbeats.append((want_fence, want_shut_down))
        response = self.responses.pop(0)
        await trio.sleep(self.pause)
        if response is None:
            raise NoResponseError("lost")
        return response


def response(
    error: ErrorCode = ErrorCode.none, *, fenced: bool = False, shut_down: bool = False
) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        throttle_time=NO_WAIT, error_code=error, is_caught_up=True, is_fenced=fenced, should_shut_down=shut_down
    )


def member(
    responses: Iterable[BrokerHeartbeatResponse | None], **settings: Any
) -> tuple[Membership, Registration, Controller]:
    registration, controller = Registration(0, "cluster"), Controller(list(responses))
    config = DynamicConfig(0, ServerConfig(controlled_shutdown_retry_backoff_ms=BACKOFF_MS, **settings))
    link: Any = controller
    tracer = Tracer(None, 0, SimulatedClock())
    return Membership(registration, link, MetadataCache(), config, tracer), registration, controller


@simulated
async def test_a_registration_gives_the_broker_epoch() -> None:
    membership, registration, _ = member([])
    assert not registration.is_registered
    assert await membership.register() == registration.broker_epoch == 41
    assert registration.is_registered


@simulated
async def test_a_response_that_comes_after_that_of_a_later_registration_changes_nothing() -> None:
    membership, registration, controller = member([])
    controller.held = 5
    async with trio.open_nursery() as nursery:
        nursery.start_soon(membership.register)
        await trio.sleep(1)
        assert await membership.register() == registration.broker_epoch == 42
    assert registration.broker_epoch == 42


@simulated
async def test_an_earlier_registration_that_the_controller_took_later_counts() -> None:
    membership, registration, controller = member([])
    controller.held, controller.next_epoch = 5, 50
    async with trio.open_nursery() as nursery:
        nursery.start_soon(membership.register)
        await trio.sleep(1)
        controller.next_epoch = 40
        assert await membership.register() == 41
    assert registration.broker_epoch == 51


@simulated
async def test_a_controller_that_has_lost_the_epoch_that_it_gave_is_believed() -> None:
    """Else the broker would register again and again, and never be taken back."""
    membership, registration, controller = member([response(ErrorCode.stale_broker_epoch)])
    assert await membership.register() == 41
    controller.next_epoch = 30
    assert not await membership.heartbeat()
    assert registration.broker_epoch == 31


@simulated
async def test_a_heartbeat_of_an_epoch_that_the_broker_no_longer_has_is_no_reason_to_register() -> None:
    membership, registration, controller = member([response(ErrorCode.stale_broker_epoch)])
    await membership.register()
    controller.pause = 5
    async with trio.open_nursery() as nursery:
        nursery.start_soon(membership.heartbeat)
        await trio.sleep(1)
        await membership.register()
    assert registration.broker_epoch == controller.next_epoch == 42


@pytest.mark.parametrize("error", [ErrorCode.broker_id_not_registered, ErrorCode.stale_broker_epoch])
def test_a_broker_that_the_controller_does_not_know_registers_again(error: ErrorCode) -> None:
    @simulated
    async def test() -> None:
        membership, registration, _ = member([response(error)])
        assert not await membership.heartbeat()
        assert registration.broker_epoch == 41
        assert not registration.unfenced.is_set()

    test()


@pytest.mark.parametrize(
    ("heartbeat", "unfenced"),
    [(response(), True), (response(fenced=True), False), (response(ErrorCode.unknown_server_error), False)],
)
def test_a_heartbeat_shows_whether_the_broker_is_unfenced(heartbeat: BrokerHeartbeatResponse, unfenced: bool) -> None:
    @simulated
    async def test() -> None:
        membership, registration, _ = member([heartbeat])
        assert await membership.heartbeat() is registration.unfenced.is_set() is unfenced

    test()


@simulated
async def test_a_broker_leaves_as_soon_as_the_controller_permits_it() -> None:
    membership, _, controller = member([response(), None, response(shut_down=True)])
    await membership.register()
    begun = trio.current_time()
    assert await membership.leave()
    assert controller.heartbeats == [(False, True)] * 3
    assert trio.current_time() - begun == 2 * BACKOFF_MS / 1000


@simulated
async def test_with_its_last_request_a_broker_asks_to_be_fenced() -> None:
    membership, _, controller = member([response()] * 3, controlled_shutdown_max_retries=2)
    await membership.register()
    begun = trio.current_time()
    assert not await membership.leave()
    assert controller.heartbeats == [(False, True), (False, True), (True, True)]
    assert trio.current_time() - begun == 2 * BACKOFF_MS / 1000, "it does not wait after the last one"


@simulated
async def test_an_impatient_broker_asks_once() -> None:
    membership, _, controller = member([response()])
    await membership.register()
    assert not await membership.leave(patient=False)
    assert controller.heartbeats == [(True, True)]


@simulated
async def test_an_error_ends_the_shutdown_without_permission() -> None:
    membership, _, controller = member([response(ErrorCode.stale_broker_epoch)])
    await membership.register()
    assert not await membership.leave()
    assert len(controller.heartbeats) == 1


@pytest.mark.parametrize(("enabled", "registers"), [(False, True), (True, False)])
def test_a_broker_asks_only_when_it_has_registered_and_may(enabled: bool, registers: bool) -> None:
    @simulated
    async def test() -> None:
        membership, _, controller = member([], controlled_shutdown_enable=enabled)
        if registers:
            await membership.register()
        assert not await membership.leave()
        assert controller.heartbeats == []

    test()
