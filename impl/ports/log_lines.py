"""The log lines of a node: what happened, to which node, and its details, under the standard `logging` names.

A line is `what happened: node=broker-1 partition=orders-0 why="..." next="..."`. Every module has the logger of its
own name, so that an embedding program chooses by `logging` what it wants to see. `docs/logging.md` lists every line
with its level; a test holds the list. A value is quoted where a reader could take it for something else: what a client
sends can neither begin a new line nor look like another detail.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, Protocol, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

NODE: Final[ContextVar[str]] = ContextVar("node", default="")
"""The node whose task runs: `broker-1`; tasks inherit it from the one that started them."""


@contextmanager
def logging_as(node: str) -> Iterator[None]:
    """Within, and in the tasks that are started within, lines are those of this node: `broker-1`."""
    token = NODE.set(node)
    try:
        yield
    finally:
        NODE.reset(token)


class Named(Protocol):
    """Something of a node."""

    @property
    def log_name(self) -> str:
        """The node's name in log lines; "" where it has none."""
        ...


def logging_as_its_node(method: F) -> F:
    """A method, sync or async, whose lines are those of its object's node, whatever task calls it."""
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def awaited(self: Named, *args: Any, **kwargs: Any) -> Any:
            with logging_as(self.log_name or NODE.get()):
                return await method(self, *args, **kwargs)

        return cast("F", awaited)

    @wraps(method)
    def called(self: Named, *args: Any, **kwargs: Any) -> Any:
        with logging_as(self.log_name or NODE.get()):
            return method(self, *args, **kwargs)

    return cast("F", called)


_BARE: Final = re.compile(r"[A-Za-z0-9_.:/\[\],+-]+")


def log_event(logger: logging.Logger, level: int, event: str, /, **details: object) -> None:
    """Log what happened, with its details in the order given; a detail that is None is left out.

    By convention `partition` is `topic-0`, `why` the reason, `next` what the node or its operator does now.
    """
    if logger.isEnabledFor(level):
        logger.log(level, "%s", line_of(event, details), stacklevel=2)


def log_error(logger: logging.Logger, event: str, error: BaseException, /, **details: object) -> None:
    """Log an error that nobody foresaw, with its traceback."""
    if logger.isEnabledFor(logging.ERROR):
        logger.error("%s", line_of(event, details), exc_info=error, stacklevel=2)


def drop_lines_without_handler() -> None:
    """Write no lines unless somebody adds a handler: by itself Python writes warnings to standard error.

    For commands that inject the faults themselves: what nodes say of them would hide what the command says.
    """
    logger = logging.getLogger("tidegauge")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def line_of(event: str, details: dict[str, object]) -> str:
    """The text of a line."""
    node = NODE.get()
    told = {"node": node or None, **details}
    pairs = " ".join(f"{name}={_value(value)}" for name, value in told.items() if value is not None)
    return f"{event}: {pairs}" if pairs else event


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)
