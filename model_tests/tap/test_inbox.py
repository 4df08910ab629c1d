"""What has come is taken in order, and no more comes in when who reads it is too far behind."""

from __future__ import annotations

import socket
import threading
from unittest.mock import patch

import pytest

from tidegauge.impl.tap import inbox
from tidegauge.impl.tap.inbox import Inbox


def test_what_comes_is_taken_in_order_to_the_end() -> None:
    ours, theirs = socket.socketpair()
    one = Inbox(theirs)
    receiving = threading.Thread(target=one.receive)
    receiving.start()
    data = bytes(range(256)) * 10_000

    def send() -> None:
        with ours:
            ours.sendall(data)

    sending = threading.Thread(target=send)
    sending.start()
    taken = b""
    while piece := one.take():
        taken += piece
    assert taken == data
    assert one.take() == b""
    receiving.join()
    sending.join()
    theirs.close()


def sent_within(ours: socket.socket, most: int) -> int:
    """How many bytes go in until a send waits for half a second, or there are enough."""
    ours.settimeout(0.5)
    count = 0
    try:
        while count < most:
            count += ours.send(bytes(64 << 10))
    except TimeoutError:
        pass
    return count


def test_a_frame_that_takes_long_to_read_keeps_nobody_until_too_much_has_come() -> None:
    ours, theirs = socket.socketpair()
    one = Inbox(theirs)
    receiving = threading.Thread(target=one.receive)
    with patch.object(inbox, "MOST_UNREAD", 4 << 20), patch.object(inbox, "steady_ns", lambda: 0):
        receiving.start()
        ours.sendall(b"a frame")
        assert one.take() == b"a frame"  # and it is being read from now on
        assert 4 << 20 <= sent_within(ours, 64 << 20) < 16 << 20
        ours.close()
        while one.take():
            pass
        receiving.join()
    theirs.close()


def test_what_is_not_read_for_too_long_lets_nothing_more_in() -> None:
    ours, theirs = socket.socketpair()
    one = Inbox(theirs)
    receiving = threading.Thread(target=one.receive)
    now = [0]
    with patch.object(inbox, "steady_ns", lambda: now[0]):
        receiving.start()
        ours.sendall(b"a frame")
        assert one.take() == b"a frame"
        assert sent_within(ours, 4 << 20) >= 4 << 20
        now[0] = inbox.MOST_BEHIND_NS + 1
        assert sent_within(ours, 64 << 20) < 4 << 20, "what the system holds between the two"
        ours.close()
        while one.take():
            pass
        receiving.join()
    theirs.close()


def test_after_little_has_come_it_waits_a_moment_for_more_and_not_at_the_end() -> None:
    ours, theirs = socket.socketpair()
    pauses: list[float] = []
    one = Inbox(theirs, pauses.append)
    receiving = threading.Thread(target=one.receive)
    receiving.start()
    ours.sendall(b"a frame")
    assert one.take() == b"a frame"
    ours.close()
    assert one.take() == b""
    receiving.join()
    assert pauses == [inbox.GATHER_SECONDS]
    theirs.close()


@pytest.mark.parametrize(
    ("sent", "pauses"),
    [
        ([0], 1),
        ([inbox.FEW], 1),
        ([1, inbox.FEW - 2, 1], 3),
        ([1, 0, 1, 0, 0, 0], inbox.MOST_WAITS),
    ],
    ids=["nothing", "much", "much in the end", "little"],
)
def test_it_waits_again_while_there_is_little_and_for_so_long_at_most(sent: list[int], pauses: int) -> None:
    ours, theirs = socket.socketpair()
    seen: list[float] = []

    def pause(seconds: float) -> None:
        ours.sendall(bytes(sent[len(seen)]))
        seen.append(seconds)

    Inbox(theirs, pause)._gather()
    assert seen == [inbox.GATHER_SECONDS] * pauses
    ours.close()
    theirs.close()


def test_a_socket_that_is_gone_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    theirs.close()
    pauses: list[float] = []
    Inbox(theirs, pauses.append)._gather()
    assert pauses == [inbox.GATHER_SECONDS]
