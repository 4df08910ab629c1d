"""The real ports: TCP on the loopback interface, and clocks."""

from __future__ import annotations

import pytest
import trio

from tidegauge.impl.cluster.hosts import SimulatedHost
from tidegauge.impl.ports.clock import SIMULATED_EPOCH_MS, SimulatedClock, SystemClock
from tidegauge.impl.ports.network import Address, TcpNetwork, abort
from tidegauge.model_tests.simulated import simulated

LOOPBACK = Address("127.0.0.1", 0)


async def echo(stream: trio.abc.Stream) -> None:
    async for data in stream:
        await stream.send_all(data)


def test_an_address_is_written_as_clients_take_it() -> None:
    assert [str(Address(host, 9092)) for host in ("localhost", "127.0.0.1", "::1")] == [
        "localhost:9092",
        "127.0.0.1:9092",
        "[::1]:9092",
    ]


def test_tcp_carries_bytes_both_ways_and_refuses_when_nobody_listens() -> None:
    async def main() -> None:
        network = TcpNetwork()
        listener = await network.listen(LOOPBACK)
        assert listener.address.port > 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.serve, echo)
            stream = await network.connect(listener.address)
            await stream.send_all(b"there and back")
            assert await stream.receive_some() == b"there and back"
            await abort(stream)
            nursery.cancel_scope.cancel()
        await listener.aclose()
        with pytest.raises(OSError):  # noqa: PT011 - the system's own words
            await network.connect(listener.address)

    trio.run(main)


def test_an_aborted_tcp_connection_breaks_at_the_peer() -> None:
    async def main() -> None:
        network = TcpNetwork()
        listener = await network.listen(LOOPBACK)
        broken = trio.Event()

        async def read(stream: trio.abc.Stream) -> None:
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some()
            broken.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.serve, read)
            await abort(await network.connect(listener.address))
            with trio.fail_after(10):
                await broken.wait()
            nursery.cancel_scope.cancel()
        await listener.aclose()

    trio.run(main)


@simulated
async def test_a_simulated_clock_counts_virtual_time_from_its_epoch() -> None:
    clock = SimulatedClock()
    assert clock.now_ms() == SIMULATED_EPOCH_MS
    await trio.sleep(1.5)
    assert clock.now_ms() == SIMULATED_EPOCH_MS + 1500
    clock.offset_ms = -500
    assert clock.now_ms() == SIMULATED_EPOCH_MS + 1000


@simulated
async def test_a_step_of_the_wall_clock_does_not_move_the_steady_one() -> None:
    for clock in (SimulatedClock(), SystemClock()):
        wall, steady = clock.now_ms(), clock.steady_ms()
        clock.offset_ms = -86_400_000
        assert clock.now_ms() < wall
        assert clock.steady_ms() >= steady


@simulated
async def test_a_stopped_node_waits_until_it_goes_on() -> None:
    clock = SimulatedClock()
    clock.stop()
    with trio.move_on_after(5) as scope:
        await clock.until_running()
    assert scope.cancelled_caught
    assert clock.is_stopped
    clock.go_on()
    assert not clock.is_stopped
    with trio.fail_after(0):
        await clock.until_running()


def test_the_system_clock_is_in_milliseconds() -> None:
    assert SystemClock().now_ms() > SIMULATED_EPOCH_MS


@simulated
@pytest.mark.parametrize(("after_s", "waits_ms"), [(0.0, 500), (0.002, 498), (0.3, 200), (0.3004, 200), (0.499, 62)])
async def test_waits_of_the_system_clock_end_together_at_multiples_of_their_period(
    after_s: float, waits_ms: int
) -> None:
    """But none is shorter than an eighth, and none ends a little before the multiple: it would be one more."""
    await trio.sleep(after_s)
    assert SystemClock().coalesced_ms(500) == waits_ms


@simulated
async def test_no_wait_is_longer_than_its_period() -> None:
    for step in range(100):
        await trio.sleep(step / 7_000)
        assert [SystemClock().coalesced_ms(period) for period in (0, 1)] == [0, 1]
        for period in (2, 7, 500, 30_000, (1 << 63) - 1):
            assert 0 < SystemClock().coalesced_ms(period) <= period


@simulated
@pytest.mark.parametrize(
    ("after_s", "asks_ms", "holds_ms"),
    [
        (0.004, 496, 496),
        (0.007, 496, 493),
        (0.051, 496, 449),
        (0.549, 450, 401),
        (0.004, 20, 20),
        (0.032, 20, 18),
        (0.036, 20, 20),
    ],
)
async def test_what_the_system_clock_holds_ends_together_with_what_waits(
    after_s: float, asks_ms: int, holds_ms: int
) -> None:
    """A request comes a moment after its sender has looked at the clock. Each is held for most of its time at least."""
    await trio.sleep(after_s)
    assert SystemClock().held_ms(asks_ms) == pytest.approx(holds_ms, abs=0.01)
    assert SimulatedClock().held_ms(asks_ms) == asks_ms


@simulated
async def test_waits_of_simulated_nodes_do_not_end_together_by_rule() -> None:
    await trio.sleep(0.3)
    assert SimulatedClock().coalesced_ms(500) == 500


@simulated
async def test_a_simulated_node_that_joins_later_has_the_time_of_the_others() -> None:
    """Its records would look old otherwise, and their producer idle."""

    host = SimulatedHost(seed=1)
    first = host.clock("broker-0")
    await trio.sleep(5)
    assert host.clock("client").now_ms() == first.now_ms() == SIMULATED_EPOCH_MS + 5_000
