"""The least that three brokers can do with a message: its bytes received, checked and written three times, no protocol.

One process and one thread, as our brokers of a cluster are. A frame is received into memory that is used again, its
CRC-32C computed, and the frame written to a file. From there two connections send it on (sendfile), and at the other
end of each it is received, checked and written once more. Then four bytes say so. `large_messages` has this beside the
brokers: what they take longer is theirs, and not the machine's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidegauge.impl.records.checksum import crc32c

FOLLOWERS: Final = 2
LENGTH: Final = struct.Struct(">i")
MOST: Final = 2 << 20
"""Bytes of a frame."""
ACKNOWLEDGED: Final = b"done"


class Copy:
    """One copy of the frames: the memory that they are received into, and the file that they are written to."""

    def __init__(self, path: Path) -> None:
        self.memory = memoryview(bytearray(MOST))
        self.file = os.open(path, os.O_RDWR | os.O_CREAT)
        self.size = 0

    def take(self, size: int) -> int:
        """Check and write what was received; returns where it lies."""
        frame = self.memory[:size]
        crc32c(frame)
        written = os.pwrite(self.file, frame, self.size)
        assert written == size, "a file takes all of a frame at once"
        self.size += size
        return self.size - size


class Link:
    """A connection from the first copy to another one, with both its ends."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._out = socket.create_connection(listener.getsockname())
            self._in, _ = listener.accept()
        self._out.setblocking(False)
        self._in.setblocking(False)

    def send(self, source: Copy, position: int, size: int) -> None:
        """Bring a frame from the file of the first copy into this one."""
        sent = received = 0
        while received < size:
            with contextlib.suppress(BlockingIOError):
                while sent < size:
                    sent += os.sendfile(self._out.fileno(), source.file, position + sent, size - sent)
            with contextlib.suppress(BlockingIOError):
                while received < size:
                    received += self._in.recv_into(self.copy.memory[received:size])
        self.copy.take(size)


def serve(directory: Path) -> None:
    """Take the frames of one client after the other, until standard input ends."""
    first = Copy(directory / "0")
    links = [Link(Copy(directory / str(number))) for number in range(1, 1 + FOLLOWERS)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        client, _ = listener.accept()
        with client:
            while (size := receive(client, first.memory)) > 0:
                position = first.take(size)
                for link in links:
                    link.send(first, position, size)
                client.sendall(ACKNOWLEDGED)


def receive(client: socket.socket, into: memoryview) -> int:
    """The size of the next frame, which is received; 0 when the client has closed."""
    head = client.recv(LENGTH.size, socket.MSG_WAITALL)
    if not head:
        return 0
    size, received = int(LENGTH.unpack(head)[0]), 0
    while received < size:
        received += client.recv_into(into[received:size])
    return size


@contextlib.contextmanager
def server(directory: str | None) -> Iterator[tuple[socket.socket, int]]:
    """A connection to such a process, and its id. Its files lie in `directory`, and are removed."""
    with tempfile.TemporaryDirectory(dir=directory) as made:
        command = [sys.executable, "-m", "benchmarks.beside.bytes_alone", made]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            with socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as connection:
                yield connection, process.pid
            process.wait(timeout=20)


def send(connection: socket.socket, size: int, frames: int, in_flight: int) -> float:
    """Seconds until so many frames are acknowledged, of which some are in flight."""
    frame = LENGTH.pack(size) + bytes(size)
    begun, acknowledged = time.perf_counter(), 0
    for number in range(frames):
        if number >= in_flight:
            acknowledged += len(connection.recv(len(ACKNOWLEDGED), socket.MSG_WAITALL)) // len(ACKNOWLEDGED)
        connection.sendall(frame)
    while acknowledged < frames:
        acknowledged += len(connection.recv(len(ACKNOWLEDGED), socket.MSG_WAITALL)) // len(ACKNOWLEDGED)
    return time.perf_counter() - begun


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
