"""Sending responses: small parts together, large ones by themselves, and records that lie in a file from there.

Over plain TCP the operating system sends from the file (sendfile); the bytes never come into this process. Over any
other stream they are read a piece at a time, so that a slow reader never costs more memory than a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tidegauge.impl.ports.network import PIECE, send_all, send_file, sends_files
from tidegauge.impl.records.lazy import LazyRecords
from tidegauge.impl.wire.fields import Buffer, Part

if TYPE_CHECKING:
    import trio

SMALL_PART = 32 << 10
"""Bytes up to which copying a part of a response is cheaper than sending it by itself."""


def joined(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts of responses as they are sent: neighbours that are small as one, large ones as they are."""
    small: list[Buffer] = []
    for part in parts:
        if not isinstance(part, LazyRecords) and len(part) <= SMALL_PART:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield part
    if small:
        yield small[0] if len(small) == 1 else b"".join(small)


async def send_parts(stream: trio.abc.Stream, parts: Sequence[Part], progressed: Callable[[], None]) -> None:
    """Send responses; `progressed` is called whenever the peer has taken some bytes.

    Raises what the stream raises, and OSError when lazy records cannot be read any more: then the peer has part of an
    response, and the connection is of no more use.
    """
    for part in joined(parts) if len(parts) > 1 else parts:
        if not isinstance(part, LazyRecords):
            await send_all(stream, part, progressed)  # what is taken at once takes no time
            continue
        if sends_files(stream):
            await send_file(stream, lambda part=part: part.place, len(part), progressed)  # type: ignore[misc]
        else:
            for start in range(0, len(part), PIECE):
                await stream.send_all(part.read(start, min(PIECE, len(part) - start)))
                progressed()
        progressed()
