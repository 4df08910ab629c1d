"""The simulated network: whole frames, faults from the seed, and a harness that holds every frame in its hand."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tidegauge.impl.ports.network import Address, abort
from tidegauge.impl.ports.simulated_network import LinkFaults, SimulatedNetwork
from tidegauge.impl.wire.frames import LENGTH, FrameReader
from tidegauge.model_tests.simulated import simulated

HERE = Address("server", 9092)


def frame(text: str) -> bytes:
    payload = text.encode().ljust(12, b".")
    return LENGTH.pack(len(payload)) + payload


def text(payload: bytes | bytearray | memoryview | None) -> str | None:
    return None if payload is None else bytes(payload).decode().rstrip(".")


@asynccontextmanager
async def link(network: SimulatedNetwork) -> AsyncIterator[tuple[trio.abc.Stream, trio.abc.Stream]]:
    """A client's stream, and the server's end of it."""
    ends: list[trio.abc.Stream] = []

    async def accept(stream: trio.abc.Stream) -> None:
        ends.append(stream)
        await trio.sleep_forever()

    listener = await network.host("server").listen(HERE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, accept)
        nursery.start_soon(network.run)
        client = await network.host("client").connect(HERE)
        await trio.testing.wait_all_tasks_blocked()
        yield client, ends[0]
        nursery.cancel_scope.cancel()


async def arrivals(stream: trio.abc.Stream, seconds: float = 1.0) -> list[str | None]:
    """What arrives within so many seconds, None for the end of the stream."""
    reader = FrameReader(stream, 1 << 20)
    found: list[str | None] = []
    with trio.move_on_after(seconds):
        while not found or found[-1] is not None:
            found.append(text(await reader.read_frame()))
    return found


@simulated
async def test_frames_arrive_whole_however_they_were_sent() -> None:
    async with link(SimulatedNetwork(1)) as (client, server):
        everything = frame("a") + frame("b")
        for nth in range(len(everything)):
            await client.send_all(everything[nth : nth + 1])
        await client.send_all(frame("c") + frame("d"))
        assert await arrivals(server) == ["a", "b", "c", "d"]


@simulated
async def test_what_is_no_frame_passes_as_it_is() -> None:
    async with link(SimulatedNetwork(1)) as (client, server):
        await client.send_all(b"\xff\xff\xff\xffgarbage")
        assert await server.receive_some() == b"\xff\xff\xff\xffgarbage"
        await client.send_all(b"\x00\x00\x00\x09torn")
        await client.aclose()
        assert await server.receive_some() == b"\x00\x00\x00\x09torn"
        assert await server.receive_some() == b""


async def outcomes(seed: int, others: int) -> list[str | None]:
    """What becomes of twenty frames while `others` frames travel the other way."""
    network = SimulatedNetwork(seed)
    network.set_faults(LinkFaults(loss=0.3, duplicate=0.3, reorder=0.3, delay_ms=(1, 9)))
    async with link(network) as (client, server):
        for nth in range(20):
            await client.send_all(frame(str(nth)))
            if nth < others:
                await server.send_all(frame("other"))
        return await arrivals(server)


@simulated
async def test_what_happens_to_a_frame_depends_on_seed_link_and_number_only() -> None:
    first = await outcomes(7, others=0)
    assert first == await outcomes(7, others=0)
    assert sorted(map(str, first)) == sorted(map(str, await outcomes(7, others=9)))
    assert first != await outcomes(8, others=0)
    assert len(set(first)) < 20, "nothing was lost"
    assert len(first) > len(set(first)), "nothing was duplicated"
    assert [int(n or 0) for n in dict.fromkeys(first)] != sorted(int(n or 0) for n in set(first)), "nothing overtook"


@simulated
async def test_delay_keeps_the_order_of_a_connection() -> None:
    network = SimulatedNetwork(3)
    network.set_faults(LinkFaults(delay_ms=(1, 50)), source="client", destination="server")
    async with link(network) as (client, server):
        for nth in range(20):
            await client.send_all(frame(str(nth)))
        begun = trio.current_time()
        assert await arrivals(server) == [str(nth) for nth in range(20)]
        assert network.counters["delayed"] == 20
        assert trio.current_time() > begun


@simulated
async def test_the_more_exact_rule_wins() -> None:
    network = SimulatedNetwork(3)
    network.set_faults(LinkFaults(loss=1.0))
    network.set_faults(LinkFaults(), source="client")
    async with link(network) as (client, server):
        await client.send_all(frame("there"))
        await server.send_all(frame("back"))
        assert await arrivals(server) == ["there"]
        assert await arrivals(client) == []


@simulated
async def test_a_partition_may_be_asymmetric() -> None:
    network = SimulatedNetwork(1)
    async with link(network) as (client, server):
        network.block("server", "client")
        await client.send_all(frame("there"))
        await server.send_all(frame("back"))
        assert await arrivals(server) == ["there"]
        assert await arrivals(client) == []
        with pytest.raises(OSError, match="server:9092"):
            await network.host("client").connect(HERE)
        network.heal()
        await server.send_all(frame("again"))
        assert await arrivals(client) == ["back", "again"]


@simulated
async def test_an_isolated_node_is_cut_off_from_nodes_to_come() -> None:
    network = SimulatedNetwork(1)
    async with link(network) as (client, server):
        network.isolate("server")
        await client.send_all(frame("late"))
        with pytest.raises(OSError, match="server:9092"):
            await network.host("newcomer").connect(HERE)
        assert await arrivals(server) == []
        network.heal("server")
        assert await arrivals(server) == ["late"]


@simulated
async def test_what_is_sent_into_a_partition_is_lost_with_its_connection() -> None:
    network = SimulatedNetwork(1)
    async with link(network) as (client, server):
        await client.send_all(frame("before"))
        network.isolate("server")
        await client.send_all(frame("into the partition"))
        await abort(client)
        network.heal()
        assert await arrivals(server) == ["before", None]


@simulated
async def test_groups_are_partitioned_both_ways() -> None:
    network = SimulatedNetwork(1)
    network.partition(["a", "b"], ["c"])
    assert network.is_blocked("a", "c")
    assert network.is_blocked("c", "b")
    assert not network.is_blocked("a", "b")


@simulated
async def test_what_is_sent_to_a_paused_node_piles_up() -> None:
    network = SimulatedNetwork(1)
    async with link(network) as (client, server):
        network.pause("server")
        for nth in range(3):
            await client.send_all(frame(str(nth)))
        assert await arrivals(server) == []
        with trio.move_on_after(5) as scope:
            await server.send_all(frame("zombie"))
        assert scope.cancelled_caught, "a stopped process does not send"
        network.resume("server")
        assert await arrivals(server) == ["0", "1", "2"]


@simulated
async def test_a_crash_ends_the_connection_at_the_peer() -> None:
    network = SimulatedNetwork(1)
    async with link(network) as (client, server):
        network.crash("server")
        assert await arrivals(client) == [None]
        with pytest.raises(trio.BrokenResourceError):
            await client.send_all(frame("late"))
        with pytest.raises(trio.ClosedResourceError):
            await server.send_all(frame("dead"))
        with pytest.raises(ConnectionRefusedError):
            await network.host("client").connect(HERE)


@pytest.mark.parametrize(("lose_sent", "arrives"), [(True, [None]), (False, ["sent", None])])
@simulated
async def test_what_a_node_had_sent_outlives_its_process_not_its_machine(
    lose_sent: bool, arrives: list[str | None]
) -> None:
    network = SimulatedNetwork(1)
    network.set_faults(LinkFaults(delay_ms=(20, 20)))
    async with link(network) as (client, server):
        await server.send_all(frame("sent"))
        network.crash("server", lose_sent=lose_sent)
        assert await arrivals(client) == arrives


@simulated
async def test_a_crash_takes_along_what_a_paused_peer_has_not_read() -> None:
    network = SimulatedNetwork(1)
    async with link(network) as (client, server):
        network.pause("client")
        await server.send_all(frame("unread"))
        network.crash("server")
        network.resume("client")
        assert await arrivals(client) == [None]


@simulated
async def test_a_crash_behind_a_partition_shows_when_it_heals() -> None:
    network = SimulatedNetwork(1)
    async with link(network) as (client, _):
        network.isolate("server")
        network.crash("server")
        assert await arrivals(client) == []
        network.heal()
        assert await arrivals(client) == [None]


@simulated
async def test_a_reset_loses_what_is_on_its_way_and_what_was_not_read() -> None:
    network = SimulatedNetwork(1)
    async with link(network) as (client, server):
        await client.send_all(frame("unread"))
        network.set_faults(LinkFaults(delay_ms=(20, 20)))
        await client.send_all(frame("on its way"))
        assert network.reset("client", "server") == 1
        assert await arrivals(server) == [None]
        assert network.reset("client", "nobody") == 0


@simulated
async def test_a_closed_connection_delivers_what_was_sent() -> None:
    async with link(SimulatedNetwork(1)) as (client, server):
        await client.send_all(frame("kept"))
        await client.aclose()
        assert await arrivals(server) == ["kept", None]


@simulated
async def test_an_aborted_connection_loses_what_was_sent() -> None:
    async with link(SimulatedNetwork(1)) as (client, server):
        await client.send_all(frame("lost"))
        await abort(client)
        assert await arrivals(server) == [None]


@simulated
async def test_a_held_frame_waits_for_the_harness() -> None:
    network = SimulatedNetwork(1)
    hold = network.hold(lambda held: held.source == "client")
    async with link(network) as (client, server):
        for name in ("first", "second", "third"):
            await client.send_all(frame(name))
        await server.send_all(frame("free"))
        assert await arrivals(client) == ["free"]
        assert await arrivals(server) == []
        first, second, third = network.in_flight
        assert (first.destination, first.connection_id, first.is_request) == ("server", third.connection_id, True)
        assert network.release(third)
        copy = network.duplicate(second)
        network.drop(first)
        assert network.release(second)
        assert network.release(copy)
        assert await arrivals(server) == ["third", "second", "second"]
        assert network.in_flight == []
        with pytest.raises(ValueError, match="not in flight"):
            network.release(first)
        network.unhold(hold)
        await client.send_all(frame("free"))
        assert await arrivals(server) == ["free"]


@simulated
async def test_the_end_of_a_stream_waits_behind_held_frames() -> None:
    network = SimulatedNetwork(1)
    network.hold()
    async with link(network) as (client, server):
        await client.send_all(frame("last"))
        await client.aclose()
        assert await arrivals(server) == []
        network.release(network.in_flight[0])
        assert await arrivals(server) == ["last", None]


@simulated
async def test_a_crash_takes_held_frames_along() -> None:
    network = SimulatedNetwork(1)
    network.hold()
    async with link(network) as (client, server):
        await client.send_all(frame("to the dead"))
        await server.send_all(frame("from the dead"))
        network.crash("server")
        assert network.in_flight == []


@simulated
@pytest.mark.parametrize("lose_sent", [True, False], ids=["machine", "process"])
async def test_a_crash_of_the_machine_takes_along_what_it_had_sent_before_it_closed_a_connection(
    lose_sent: bool,
) -> None:
    network = SimulatedNetwork(1)
    network.hold()
    async with link(network) as (client, server):
        await server.send_all(frame("from the process before"))
        await server.aclose()
        network.crash("server", lose_sent=lose_sent)
        assert len(network.in_flight) == (not lose_sent)
        for held in [*network.in_flight]:
            network.release(held)
        assert await arrivals(client) == ([] if lose_sent else ["from the process before"]) + [None]


@simulated
async def test_a_writer_waits_for_a_reader_that_is_far_behind() -> None:
    network = SimulatedNetwork(1)
    big = LENGTH.pack(12 << 20) + bytes(12 << 20)
    async with link(network) as (client, server):
        with trio.move_on_after(10) as scope:
            for _ in range(9):
                await client.send_all(big)
        assert scope.cancelled_caught, "memory would grow without bound"
        while await server.receive_some(1 << 20):
            if network.counters["sent"] == 3:
                break
            with trio.move_on_after(0.1):
                await client.send_all(big)


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ({"loss": 1.5}, "loss is a probability between 0 and 1, not 1.5"),
        ({"duplicate": -0.1}, "duplicate is a probability"),
        ({"delay_ms": (5, 1)}, r"delay_ms is \(least, most\) in milliseconds"),
    ],
)
def test_impossible_faults_are_refused(fault: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        LinkFaults(**fault)  # type: ignore[arg-type]


@simulated
async def test_an_address_can_be_taken_once() -> None:
    network = SimulatedNetwork(1)
    await network.host("server").listen(HERE)
    with pytest.raises(OSError, match="server:9092"):
        await network.host("server").listen(HERE)
    free = await network.host("server").listen(Address("server", 0))
    assert free.address == Address("server", 9093)
    await free.aclose()
    with pytest.raises(ConnectionRefusedError):
        await network.host("client").connect(free.address)


@simulated
async def test_a_request_is_under_way_until_its_receiver_has_responded_or_closed() -> None:
    network, under_way = SimulatedNetwork(1), [("client", "server", 20)]
    request, response = LENGTH.pack(8) + struct.pack(">hhi", 20, 6, 7), LENGTH.pack(4) + struct.pack(">i", 7)
    async with link(network) as (client, server):
        await client.send_all(request)
        assert list(network.under_way()) == under_way
        await server.send_all(response)
        assert list(network.under_way()) == []
    network = SimulatedNetwork(1)
    network.hold()
    async with link(network) as (client, server):
        await client.send_all(request)
        await client.aclose()
        assert list(network.under_way()) == under_way, "on its way"
        network.release(network.in_flight[0])
        assert list(network.under_way()) == under_way, "its receiver has it"
        await server.aclose()
        assert list(network.under_way()) == []


@simulated
async def test_a_request_that_is_lost_is_not_under_way() -> None:
    network = SimulatedNetwork(1)
    network.set_faults(LinkFaults(loss=1.0))
    async with link(network) as (client, _):
        await client.send_all(LENGTH.pack(8) + struct.pack(">hhi", 20, 6, 7))
        assert list(network.under_way()) == []
