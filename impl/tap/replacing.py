"""Replaces the addresses in responses; one that differs from another in its correlation id alone is decoded once.

Clients ask for metadata again and again, and are told the same. A broker that has a port of the tap keeps it, so what
was made of a response once holds for good.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from tidegauge.impl.ports.network import Address
from tidegauge.impl.tap.addresses import Addresses, NoPortError
from tidegauge.impl.tap.endpoints import may_name_endpoints
from tidegauge.impl.tap.loading import loaded
from tidegauge.impl.tap.memory import SMALL
from tidegauge.impl.tap.rewriting import NAME_BROKERS, rewritten
from tidegauge.impl.wire.codecs import decode_response, encode_response
from tidegauge.impl.wire.frames import LENGTH

MOST_KEPT: Final = 64
"""Responses, of `SMALL` bytes at most, of which is kept what was made of them."""
_CORRELATION_ID: Final = slice(LENGTH.size, LENGTH.size + 4)
_BEHIND: Final = slice(LENGTH.size + 4, None)

Kept = tuple[int, int, bytes]
"""API key, version, and all that follows the correlation id."""


class UnknownAddressError(Exception):
    """A response has addresses that cannot be replaced: the client would go past the tap."""


@attrs.define(eq=False)
class Replacing:
    """For all threads."""

    addresses: Addresses
    _kept: dict[Kept, bytes | None] = attrs.field(factory=dict)

    def changed(self, frame: bytes, api_key: int, version: int) -> bytes | None:
        """The response with the tap's own addresses, its length before it; None where there are none to replace.

        Raises MalformedMessageError and UnknownAddressError.
        """
        if api_key not in NAME_BROKERS or len(frame) > SMALL:
            return self._made(frame, api_key, version)
        kind = api_key, version, frame[_BEHIND]
        if kind not in self._kept:
            made = self._made(frame, api_key, version)
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[kind] = made
            return made
        kept = self._kept[kind]
        return None if kept is None else kept[: LENGTH.size] + frame[_CORRELATION_ID] + kept[_BEHIND]

    def _made(self, frame: bytes, api_key: int, version: int) -> bytes | None:
        if not may_name_endpoints(frame, api_key, version):
            return None
        view = memoryview(frame)[LENGTH.size :]
        response = loaded((api_key, version, "response"), lambda: decode_response(view, api_key, version))
        message: Any = rewritten(response.message, api_key, self._local)
        if message is None:
            return None
        number = response.correlation_id
        return loaded((api_key, version, "encoded"), lambda: encode_response(message, number, version=version))

    def _local(self, host: str, port: int) -> Address:
        try:
            return self.addresses.local(host, port)
        except (NoPortError, OSError) as error:
            raise UnknownAddressError(f"no port for a broker that a response names: {error}") from error
