"""Handlers of requests: how a server finds one, and how it gets the collaborators that it names.

A handler is an async function `(request, context, *, collaborator, …) -> response`. Each keyword-only parameter names a
collaborator of the server, which has them by name in one object. `Handlers` binds them when an API's first request
comes, and imports the handler's module then: the classes of one API's messages take some milliseconds to make, a
broker serves dozens of APIs, and most runs need a handful.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from tidegauge.impl.ports.disk_errors import Extent, extent_of, told
from tidegauge.impl.server.transport.context import Handler
from tidegauge.impl.wire.apis import ApiKey

HandlerFunction: TypeAlias = Callable[..., Awaitable[Any]]
"""`(request, context, *, collaborator, …)`; the response is None where there is none (Produce with acks=0)."""


class Deferred(NamedTuple):
    """A handler that is imported when its API's first request comes."""

    module: str
    """The module's name, from `impl.server` on."""
    name: str

    def load(self) -> HandlerFunction:
        """The handler itself. Raises ImportError or AttributeError when there is none."""
        handler: HandlerFunction = getattr(import_module(f"tidegauge.impl.server.{self.module}"), self.name)
        return handler


Registered: TypeAlias = HandlerFunction | Deferred
"""What a table of handlers holds: a function, or where it is."""


def loaded(registered: Registered) -> HandlerFunction:
    """The handler's function, imported if need be."""
    return registered.load() if isinstance(registered, Deferred) else registered


def collaborators_of(handler: HandlerFunction) -> list[str]:
    """The names of the collaborators that a handler wants: its keyword-only parameters."""
    parameters = inspect.signature(handler).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]


def bind(handler: HandlerFunction, collaborators: object) -> Handler:
    """The handler with its collaborators, which are attributes of `collaborators`."""
    wanted = {name: getattr(collaborators, name) for name in collaborators_of(handler)}
    return partial(handler, **wanted) if wanted else handler


class Handlers(dict[ApiKey, Handler]):
    """A server's handlers by API. One that is looked up for the first time is imported and bound, and then kept."""

    def __init__(
        self,
        registry: Mapping[ApiKey, Registered],
        collaborators: Callable[[], object],
        wrap: Callable[[Handler], Handler] = lambda handler: handler,
    ) -> None:
        """`collaborators` is called at a first request: then the server has them all. `wrap` is called with each
        bound handler.
        """
        self._registry = registry
        self._collaborators = collaborators
        self._wrap = wrap

    def __missing__(self, key: ApiKey) -> Handler:
        try:
            handler = bind(loaded(self._registry[key]), self._collaborators())
        except OSError as error:
            if extent_of(error) is Extent.PASSING:
                raise
            raise ImportError(f"a file of this program: {told(error)}") from error  # no disk of the node's fails
        made = self[key] = self._wrap(handler)
        return made
