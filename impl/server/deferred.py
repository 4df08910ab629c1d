"""Handlers that are imported when they are first asked for.

The classes of one API's messages take some milliseconds to make. A broker serves dozens of APIs, of which most runs
need a handful: what is not needed to start and to produce is not imported either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

ServerHandler: TypeAlias = Callable[..., Awaitable[Any]]
"""Called with (broker or controller, request, context)."""


def deferred(module: str, name: str) -> ServerHandler:
    """The handler `name` of the module `impl.server.<module>`, imported at its first request."""

    @cache
    def handler() -> ServerHandler:
        found: ServerHandler = getattr(import_module(f"impl.server.{module}"), name)
        return found

    def handle(*call: Any) -> Awaitable[Any]:
        return handler()(*call)

    handle.__qualname__ = f"{module}.{name}"
    return handle
