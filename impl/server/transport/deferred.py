"""Handlers that are imported when they are first asked for.

The classes of one API's messages take some milliseconds to make. A broker serves dozens of APIs, of which most runs
need a handful: what is not needed to start and to produce is not imported either.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from importlib import import_module
from typing import Any, TypeAlias

from tidegauge.impl.wire.apis import ApiKey

ServerHandler: TypeAlias = Callable[..., Awaitable[Any]]
"""Called with (broker or controller, request, context)."""


class Deferred:
    """A handler that is imported at its first request."""

    def __init__(self, module: str, name: str, entry: ApiKey | None = None) -> None:
        self._place = module, name, entry

    @cached_property
    def handler(self) -> ServerHandler:
        """The handler itself. Raises ImportError, AttributeError or KeyError when there is none."""
        module, name, entry = self._place
        found = getattr(import_module(f"tidegauge.impl.server.{module}"), name)
        handler: ServerHandler = found if entry is None else found[entry]
        return handler

    def __call__(self, *call: Any) -> Awaitable[Any]:
        return self.handler(*call)


def deferred(module: str, name: str, entry: ApiKey | None = None) -> ServerHandler:
    """The handler `name` of the module `impl.server.<module>`, or an entry of the registry of this name."""
    return Deferred(module, name, entry)
