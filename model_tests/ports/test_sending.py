"""Sending over real sockets: at once where the system takes it, from files, and what a lost peer or a cut file does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from tidegauge.impl.ports.disk import RealDisk, RealFile
from tidegauge.impl.ports.network import Address, TcpNetwork, send_all, send_at_once, send_file, sends_files
from tidegauge.impl.server.transport.sending import send_parts
from tidegauge.impl.storage.reading import LAZY_BYTES, FileRegion, region

CONTENT = bytes(range(256)) * 4096
"""1 MiB."""


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[trio.abc.Stream, trio.abc.Stream]]:
    """Both ends of a TCP connection."""
    network = TcpNetwork()
    listener = await network.listen(Address("127.0.0.1", 0))
    accepted: list[trio.abc.Stream] = []
    arrived, over = trio.Event(), trio.Event()

    async def keep(stream: trio.abc.Stream) -> None:
        accepted.append(stream)
        arrived.set()
        await over.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, keep)
        ours = await network.connect(listener.address)
        await arrived.wait()
        yield ours, accepted[0]
        over.set()
        await ours.aclose()
        nursery.cancel_scope.cancel()
    await listener.aclose()


async def received(stream: trio.abc.Stream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (more := await stream.receive_some()):
        data += more
    return bytes(data)


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    made = RealDisk().open(str(tmp_path / "log"), create=True)
    made.append(CONTENT)
    return made


def test_what_a_slow_peer_takes_of_a_large_part_is_progress_before_it_has_all() -> None:
    async def run() -> None:
        progressed: list[int] = []
        async with connected() as (ours, theirs), trio.open_nursery() as nursery:
            taken = 0
            nursery.start_soon(send_parts, theirs, [bytes(64 << 20)], lambda: progressed.append(taken))
            while taken < 64 << 20:
                taken += len(await ours.receive_some(1 << 20))
        assert len(progressed) > 2
        assert progressed[0] < 32 << 20

    trio.run(run)


def test_what_is_large_is_handed_out_as_a_place_and_what_is_small_as_bytes(file: RealFile) -> None:
    lazy = region(file, 5, LAZY_BYTES)
    assert isinstance(lazy, FileRegion)
    assert (len(lazy), lazy.read_all()) == (LAZY_BYTES, CONTENT[5 : 5 + LAZY_BYTES])
    assert lazy.read(10, 4) == CONTENT[15:19]
    assert region(file, 5, LAZY_BYTES - 1) == CONTENT[5 : 4 + LAZY_BYTES]


def test_a_place_that_is_gone_says_so(file: RealFile) -> None:
    lazy = region(file, 0, len(CONTENT))
    assert isinstance(lazy, FileRegion)
    file.truncate(LAZY_BYTES)
    with pytest.raises(OSError, match="the log was cut"):
        lazy.read_all()
    file.close()
    with pytest.raises(OSError, match="closed"):
        lazy.read(0, 1)
    with pytest.raises(OSError, match="closed"):
        _ = lazy.place


def test_bytes_are_sent_at_once_and_a_full_connection_waits() -> None:
    async def main() -> None:
        async with connected() as (ours, theirs):
            assert send_at_once(ours, b"hello") == 5
            assert await received(theirs, 5) == b"hello"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_all, ours, CONTENT * 16)
                await trio.testing.wait_all_tasks_blocked(0.01)
                assert send_at_once(ours, b"x") == 0, "the system takes no more until the peer reads"
                assert await received(theirs, len(CONTENT) * 16) == CONTENT * 16
            await ours.aclose()
            with pytest.raises(trio.ClosedResourceError):
                send_at_once(ours, b"x")

    trio.run(main)


def test_a_lost_peer_is_a_broken_connection(file: RealFile) -> None:
    async def main() -> None:
        async with connected() as (ours, theirs):
            await theirs.aclose()
            with pytest.raises(trio.BrokenResourceError):
                await send_all(ours, CONTENT * 64)
            with pytest.raises(trio.BrokenResourceError):
                await send_file(ours, lambda: (file.descriptor(), 0), len(CONTENT), lambda: None)

    trio.run(main)


def test_records_go_from_the_file_to_the_socket(file: RealFile) -> None:
    async def main() -> None:
        async with connected() as (ours, theirs), trio.open_nursery() as nursery:
            assert sends_files(ours)
            lazy = region(file, 7, len(CONTENT) - 7)
            nursery.start_soon(send_parts, ours, [b"head", lazy, b"tail"], lambda: None)
            whole = b"head" + CONTENT[7:] + b"tail"
            assert await received(theirs, len(whole)) == whole

    trio.run(main)


def test_records_that_the_system_takes_at_once_are_sent_in_one_turn(file: RealFile) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with connected() as (ours, theirs), trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            await trio.lowlevel.checkpoint()
            before = turns
            await send_parts(ours, [b"head", region(file, 0, LAZY_BYTES), b"tail"], lambda: None)
            assert turns == before
            assert await received(theirs, LAZY_BYTES + 8) == b"head" + CONTENT[:LAZY_BYTES] + b"tail"
            nursery.cancel_scope.cancel()
            with pytest.raises(trio.Cancelled):  # a server that has stopped has closed its files
                await send_parts(ours, [region(file, 0, LAZY_BYTES)], lambda: None)

    trio.run(main)


def test_a_file_that_was_truncated_ends_the_response_and_not_the_broker(file: RealFile) -> None:
    async def main() -> None:
        async with connected() as (ours, _):
            lazy = region(file, 0, len(CONTENT))
            file.truncate(LAZY_BYTES)
            with pytest.raises(OSError, match="the file was cut"):
                await send_parts(ours, [lazy], lambda: None)

    trio.run(main)
