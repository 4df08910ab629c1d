"""Frames of an authentication that have no header: what follows SaslHandshake 0, as clients before Kafka 1.0 sent it.

From version 1 on tokens come in SaslAuthenticate requests, which have headers like all others.
"""

from __future__ import annotations

from typing import Final

from tidegauge.impl.tap.loading import loaded
from tidegauge.impl.wire.codecs import MalformedMessageError, decode_canonical

TOKENS: Final = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""How many frames a client sends, and a broker back, by mechanism."""


def tokens_after(frame: memoryview, api_key: int, version: int) -> int | None:
    """How many frames without headers follow a SaslHandshake request of version 0; None where nobody can say."""
    try:
        kind = api_key, version, "request"
        _, request = loaded(kind, lambda: decode_canonical(frame, api_key, version))
    except MalformedMessageError:
        return None
    return TOKENS.get(request.mechanism.upper())
