"""A listener without descriptors: it says so in one line, and serves when there are some again."""

from __future__ import annotations

import errno
import logging
import os
import resource

import attrs
import pytest
import trio
import trio.testing

from tidegauge.impl.ports import patient_listener
from tidegauge.impl.ports.network import Address
from tidegauge.impl.ports.patient_listener import PatientListener, descriptors_for_all

ADDRESS = Address("127.0.0.1", 9092)


@attrs.define(eq=False)
class Refusing(trio.abc.Listener[trio.SocketStream]):
    """Accepts after so many errors."""

    number: int
    refusals: int

    async def accept(self) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        if self.refusals:
            self.refusals -= 1
            raise OSError(self.number, os.strerror(self.number))
        near, far = trio.socket.socketpair()
        far.close()
        return trio.SocketStream(near)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_a_lack_of_descriptors_is_told_in_words_and_outlived(caplog: pytest.LogCaptureFixture, number: int) -> None:
    async def main() -> None:
        async with PatientListener(Refusing(number, refusals=150), ADDRESS) as listener:
            await (await listener.accept()).aclose()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    first, second = caplog.records  # 15 seconds of it
    assert first.levelno == logging.WARNING
    assert first.exc_info is None
    assert first.getMessage().startswith(
        f'connection not accepted: address=127.0.0.1:9092 why="{errno.errorcode[number]} ({os.strerror(number)})" next='
    )
    assert "left_out_before=" in second.getMessage()


def test_any_other_error_is_raised() -> None:
    async def main() -> None:
        async with PatientListener(Refusing(errno.EBADF, refusals=1), ADDRESS) as listener:
            with pytest.raises(OSError, match="Bad file descriptor"):
                await listener.accept()

    trio.run(main)


def test_the_last_descriptors_are_not_for_connections(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with PatientListener(Refusing(0, refusals=0), ADDRESS) as listener:
            held = [await listener.accept()]
            bound = held[0].socket.fileno() + 4
            monkeypatch.setattr(patient_listener, "descriptors_for_all", lambda: bound)
            with trio.move_on_after(5) as scope:
                while True:
                    held.append(await listener.accept())
            assert scope.cancelled_caught
            assert 1 <= len(held) <= 5
            assert max(stream.socket.fileno() for stream in held) < bound
            for stream in held[1:]:
                await stream.aclose()
            await (await listener.accept()).aclose()
            await held[0].aclose()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert 'why="EMFILE (Too many open files)" next="it is closed: ' in caplog.text


@pytest.mark.parametrize(("limit", "kept"), [(24, 3), (256, 32), (1_024, 64), (1 << 20, 64)])
def test_an_eighth_is_kept_of_a_small_limit(monkeypatch: pytest.MonkeyPatch, limit: int, kept: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert descriptors_for_all() == limit - kept
