"""A listening TCP socket that outlives a lack of descriptors: connections wait in the system's queue meanwhile."""

from __future__ import annotations

import errno
import logging
import os
from typing import Final

import attrs
import trio

from tidegauge.impl.ports.repeated_lines import RepeatedLines

LOGGER: Final = logging.getLogger(__name__)

WITHOUT_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
RETRY_S: Final = 0.1


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
                return await self.inner.accept()
            except OSError as error:
                number = error.errno
                if number not in WITHOUT_ROOM:
                    raise
            self._lines.log_event(
                LOGGER,
                logging.WARNING,
                "connection not accepted",
                address=self.address,
                why=f"{errno.errorcode[number]} ({os.strerror(number)})",
                next="it waits and is tried again: close connections, or give the process more descriptors",
            )
            await trio.sleep(RETRY_S)

    async def aclose(self) -> None:
        await self.inner.aclose()
