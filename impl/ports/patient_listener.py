"""A listening TCP socket that outlives a lack of descriptors: connections wait in the system's queue meanwhile.

Connections are not to take the last descriptors: a node needs some for its files, and one where the first request of an
API has its modules imported. The system gives the lowest number that is free, so one near the limit says that few are.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import sys
from typing import Final

import attrs
import trio

from tidegauge.impl.ports.repeated_lines import RepeatedLines

LOGGER: Final = logging.getLogger(__name__)

WITHOUT_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
RETRY_S: Final = 0.1
MOST_KEPT: Final = 64
"""Descriptors that no connection gets; of a small limit an eighth."""


def descriptors_for_all() -> int:
    """How many descriptors connections may take part in: numbers from there on are kept for others."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - min(MOST_KEPT, limit // 8)


@attrs.define(eq=False, repr=False)
class PatientListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts as `inner` does. Where descriptors or memory are lacking it waits, and says so now and then."""

    inner: trio.abc.Listener[trio.SocketStream]
    address: object
    """What a line names."""
    _lines: RepeatedLines = attrs.field(factory=lambda: RepeatedLines(most=1))

    async def accept(self) -> trio.SocketStream:
        while True:
            try:
                stream = await self.inner.accept()
            except OSError as error:
                number = error.errno
                if number not in WITHOUT_ROOM:
                    raise
                self._tell(number, "it waits and is tried again")
                await trio.sleep(RETRY_S)
                continue
            if stream.socket.fileno() < descriptors_for_all():
                return stream
            stream.socket.close()
            self._tell(errno.EMFILE, "it is closed")
            await trio.sleep(RETRY_S)

    def _tell(self, number: int, becomes: str) -> None:
        self._lines.log_event(
            LOGGER,
            logging.WARNING,
            "connection not accepted",
            address=self.address,
            why=f"{errno.errorcode[number]} ({os.strerror(number)})",
            next=f"{becomes}: close connections, or give the process more descriptors",
        )

    async def aclose(self) -> None:
        await self.inner.aclose()
