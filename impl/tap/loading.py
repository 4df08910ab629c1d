"""The classes of messages are imported when the first of their kind comes: by one thread at a time.

Python detects a deadlock where two threads import modules that import each other, and lets one of them fail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, canonical_request_class, response_class

T = TypeVar("T")
Kind = tuple[int, int, str]

_LOADING: Final = threading.Lock()
_LOADED: Final[set[Kind]] = set()
NEWEST: Final = 3
"""Versions of an API that most clients speak."""


def loaded(kind: Kind, make: Callable[[], T]) -> T:
    """What `make` makes of a message of this API key, version and direction, alone if it is the first of its kind."""
    if kind in _LOADED:
        return make()
    with _LOADING:
        made = make()
        _LOADED.add(kind)
    return made


def load(keys: frozenset[ApiKey]) -> None:
    """Import what most clients send: the first request of each kind need not wait for that."""
    with _LOADING:
        for key in keys:
            canonical_request_class(key)
            lowest, highest = BROKER_APIS[key]
            for version in range(max(lowest, highest - NEWEST + 1), highest + 1):
                response_class(key, version)
