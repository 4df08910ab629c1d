"""The network port: byte streams by address, and TCP.

A node gets a `Network` of its own and knows nothing else of the world outside: it connects to addresses and serves the
streams that others open to its own. Everything above (frames, requests) is written against `trio.abc.Stream`, so the
same broker runs over TCP and over `impl.ports.simulated_network`.

Failures show as trio's stream errors and as OSError, whatever the host: `connect` raises OSError when nobody listens,
`send_all` raises `trio.BrokenResourceError` when the connection is gone, `receive_some` returns b"" at its end.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import sys
import termios
from array import array
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import trio

from tidegauge.impl.ports.patient_listener import PatientListener

PIECE: Final = 256 << 10
"""Bytes that are sent at a time where the stream does not say how much of them the peer has taken."""
_SOCKETS_ARE_FILES: Final = os.name == "posix"
_COUNTS_BYTES: Final = sys.platform == "linux"
"""Whether a socket counts what has come before it is readable: there it also makes room for as many bytes."""
_SOL_SOCKET: Final = socket.SOL_SOCKET
_SO_RCVLOWAT: Final = socket.SO_RCVLOWAT

StreamHandler: TypeAlias = Callable[[trio.abc.Stream], Awaitable[object]]


class Address(NamedTuple):
    """Where a node listens, as it is advertised to clients."""

    host: str
    port: int

    def __str__(self) -> str:
        """As clients take it: an address of IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener(Protocol):
    """A port on which a node accepts connections."""

    @property
    def address(self) -> Address:
        """The address under which others reach this listener."""

    async def serve(self, handler: StreamHandler) -> None:
        """Run `handler` on each accepted stream in a task of its own, until cancelled."""

    async def aclose(self) -> None:
        """Stop listening. Connections that were accepted stay."""


class Network(Protocol):
    """One node's way to the others."""

    async def connect(self, address: Address) -> trio.abc.Stream:
        """Open a stream to `address`. Raises OSError when nothing listens there."""

    async def listen(self, address: Address) -> Listener:
        """Take connections at `address`; port 0 picks a free one. Raises OSError when it is taken."""


def reset(stream: trio.abc.Stream) -> None:
    """Reset a connection at once: what has not been delivered is lost, in both directions."""
    inner = getattr(stream, "transport_stream", stream)  # a TLS stream's own
    if isinstance(inner, trio.SocketStream):
        with contextlib.suppress(OSError):  # the peer was faster
            inner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        inner.socket.close()
    elif isinstance(inner, SupportsAbort):
        inner.abort()


async def abort(stream: trio.abc.Stream) -> None:
    """Reset a connection and close its stream."""
    reset(stream)
    await trio.aclose_forcefully(stream)


def peer_host(stream: trio.abc.Stream) -> str:
    """The address of the peer that opened the connection; "" where the network has none."""
    inner = getattr(stream, "transport_stream", stream)  # a TLS stream's own
    if not isinstance(inner, trio.SocketStream):
        return ""
    with contextlib.suppress(OSError):  # the peer is gone already
        return str(inner.socket.getpeername()[0])
    return ""


@runtime_checkable
class SupportsAbort(Protocol):
    """A stream that knows how to reset its connection."""

    def abort(self) -> None: ...


def send_at_once(stream: trio.abc.Stream, data: bytes | bytearray | memoryview) -> int:
    """Send what the operating system takes without waiting, and without a turn of the scheduler; the bytes taken.

    0 for a stream that is not plain TCP. Raises trio.BrokenResourceError and trio.ClosedResourceError.
    """
    if not isinstance(stream, trio.SocketStream) or not _SOCKETS_ARE_FILES:
        return 0
    try:
        return os.write(stream.socket.fileno(), data)
    except BlockingIOError:
        return 0
    except OSError as error:
        if stream.socket.fileno() < 0:
            raise trio.ClosedResourceError("this stream is closed") from None
        raise trio.BrokenResourceError(f"the connection broke: {error}") from error


def plain_socket(stream: trio.abc.ReceiveStream) -> trio.socket.SocketType | None:
    """The socket of a stream that is plain TCP, where sockets are files; else None."""
    return stream.socket if isinstance(stream, trio.SocketStream) and _SOCKETS_ARE_FILES else None


def receive_at_once(socket: trio.socket.SocketType, into: memoryview) -> int | None:
    """Receive what has come, without a turn of the scheduler: the bytes, 0 at the end; None when nothing has come yet.

    Raises trio.BrokenResourceError and trio.ClosedResourceError.
    """
    try:
        return os.readv(socket.fileno(), (into,))
    except BlockingIOError:
        return None
    except OSError as error:
        if socket.fileno() < 0:
            raise trio.ClosedResourceError("this stream is closed") from None
        raise trio.BrokenResourceError(f"the connection broke: {error}") from error


def waiting_bytes(socket: trio.socket.SocketType) -> int:
    """Bytes that have come and nobody has received; 0 where the system does not tell."""
    if not _COUNTS_BYTES or socket.fileno() < 0:
        return 0
    count = array("i", [0])
    with contextlib.suppress(OSError):  # closed meanwhile: who reads finds out
        fcntl.ioctl(socket.fileno(), termios.FIONREAD, count)
    return count[0]


def wake_at(socket: trio.socket.SocketType, least: int) -> None:
    """From now on who waits to read is woken when so many bytes have come, or when no more come."""
    if _COUNTS_BYTES:
        with contextlib.suppress(OSError):  # closed meanwhile: who reads finds out
            socket.setsockopt(_SOL_SOCKET, _SO_RCVLOWAT, least)


async def send_all(
    stream: trio.abc.Stream, data: bytes | bytearray | memoryview, progressed: Callable[[], None] = lambda: None
) -> bool:
    """Send all of it, on a stream that one task at a time sends on; whether that had to wait (else: no checkpoint).

    `progressed` is called when the peer, which had to be waited for, has taken some.
    """
    sent = send_at_once(stream, data)
    if sent == len(data):
        return False
    rest = memoryview(data)[sent:]
    if (socket := plain_socket(stream)) is None:
        for start in range(0, len(rest), PIECE):
            await stream.send_all(rest[start : start + PIECE])
            progressed()
        return True
    while rest:
        await trio.lowlevel.wait_writable(socket)
        rest = rest[send_at_once(stream, rest) :]
        progressed()
    return True


def sends_files(stream: trio.abc.Stream) -> bool:
    """Whether `send_file` works on this stream: plain TCP, where the operating system can do it."""
    return isinstance(stream, trio.SocketStream) and hasattr(os, "sendfile")


async def send_file(
    stream: trio.abc.Stream, place: Callable[[], tuple[int, int]], size: int, progressed: Callable[[], None]
) -> None:
    """Send `size` bytes of a file without reading them.

    It waits only where the peer is slow. `place` gives (descriptor, position of the first byte) and is asked anew for
    each piece; `progressed` is called when the peer has taken some. Raises trio.BrokenResourceError when the connection
    is gone, OSError when the file ends before.
    """
    assert isinstance(stream, trio.SocketStream), "only sockets take files"
    await trio.lowlevel.checkpoint_if_cancelled()  # a server that has stopped has closed its files
    sent = 0
    while sent < size:
        descriptor, position = place()
        try:
            count = os.sendfile(stream.socket.fileno(), descriptor, position + sent, size - sent)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(stream.socket)
            continue
        except (BrokenPipeError, ConnectionError) as error:
            raise trio.BrokenResourceError(f"the connection broke: {error}") from error
        if count == 0:
            raise OSError(errno.EIO, f"{sent} of {size} bytes are left of what was to be sent: the file was cut")
        sent += count
        progressed()


class TcpListener:
    """A listening TCP socket."""

    def __init__(self, listener: trio.SocketListener, address: Address) -> None:
        self._listener = listener
        self.address = address

    async def serve(self, handler: StreamHandler) -> None:
        await trio.serve_listeners(handler, [PatientListener(self._listener, self.address)])

    async def aclose(self) -> None:
        await self._listener.aclose()


def _numbered(error: OSError) -> OSError:
    """The error with the system's number, which trio's for all attempts to connect has in its cause."""
    if error.errno is not None:
        return error
    cause = error.__cause__
    each = cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,)
    numbers = [one.errno for one in each if isinstance(one, OSError) and one.errno is not None]
    return OSError(numbers[0], os.strerror(numbers[0])) if numbers else error


class TcpNetwork:
    """TCP sockets of the operating system, without Nagle's delay."""

    async def connect(self, address: Address) -> trio.abc.Stream:
        try:
            stream = await trio.open_tcp_stream(address.host, address.port)
        except OSError as error:
            raise _numbered(error) from error
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        return stream

    async def listen(self, address: Address) -> Listener:
        try:
            listeners = await trio.open_tcp_listeners(address.port, host=address.host)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                reason = "something else listens there; choose another port"
            elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
                reason = f"{reason}; name an address of this machine"
            raise OSError(error.errno, f"cannot listen on {address}: {reason}") from None
        if not listeners:
            raise OSError(errno.EADDRNOTAVAIL, f"cannot listen on {address}: the host has no address")
        for spare in listeners[1:]:
            await spare.aclose()
        port = listeners[0].socket.getsockname()[1]
        return TcpListener(listeners[0], Address(address.host, port))
