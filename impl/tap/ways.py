"""What becomes of a request and its response, by API and version."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import attrs

from tidegauge.impl.tap.copies import COPIED_BEFORE, NOT_RECORDED, READS
from tidegauge.impl.tap.rewriting import may_have_addresses
from tidegauge.impl.wire.apis import ApiKey, versions_of

MOST_KEPT: Final = 1000
"""APIs and versions; clients may send any numbers."""
_HANDSHAKE_WITHOUT_HEADERS: Final = 0


@attrs.frozen
class Way:
    """One API, in one version."""

    is_read: bool
    """Whether requests and responses are copied, for who reads them."""
    has_acks: bool
    """Whether a request says if it wants a response."""
    is_copied_before: bool
    """Whether a request is copied before it is passed on, and not with its response."""
    is_left_out: bool
    """Whether nothing of it is recorded, though it may be about records."""
    has_addresses: bool
    """Whether a response may say where brokers are."""
    begins_tokens: bool
    """Whether frames without headers may follow."""


@lru_cache(MOST_KEPT)
def way_of(api_key: int, version: int) -> Way:
    """The way of an API and version, whether there are such or not."""
    return Way(
        is_read=api_key in READS,
        has_acks=api_key == ApiKey.PRODUCE,
        is_copied_before=api_key in COPIED_BEFORE,
        is_left_out=api_key in NOT_RECORDED or versions_of(api_key) is None,
        has_addresses=may_have_addresses(api_key, version),
        begins_tokens=api_key == ApiKey.SASL_HANDSHAKE and version == _HANDSHAKE_WITHOUT_HEADERS,
    )
