"""The log of the faults that a program has injected into a cluster: the first thing to read when a test fails."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import attrs
import trio

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class FaultApplied(NamedTuple):
    """One call: when, in seconds since the cluster began to start, and what, as it would be written in Python."""

    at_s: float
    call: str

    def __str__(self) -> str:
        return f"{self.at_s:9.3f} s  {self.call}"


@attrs.define(eq=False, repr=False)
class FaultLog:
    """The calls to one cluster, in order.

    `started_ms` is what the nodes' clocks showed when the cluster began to start, in ms. It relates the times of their
    decisions to those of the calls.
    """

    started_ms: int
    started: float = attrs.field(factory=trio.current_time)
    entries: list[FaultApplied] = attrs.field(factory=list)

    def add(self, call: str) -> int:
        """Write a call down, and return which entry it is."""
        self.entries.append(FaultApplied(trio.current_time() - self.started, call))
        return len(self.entries) - 1

    def add_error(self, entry: int, error: Exception) -> None:
        """Write down what a call has raised: it may have injected nothing."""
        applied = self.entries[entry]
        self.entries[entry] = applied._replace(call=f"{applied.call}, which raised {type(error).__name__}: {error}")


class Logged(Protocol):
    """An object with a fault log."""

    @property
    def fault_log(self) -> FaultLog: ...


S = TypeVar("S", bound=Logged)


def logged(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method write each call to the fault log before it is carried out, and then what it has raised."""

    @functools.wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        log = self.fault_log
        entry = log.add(as_written(method.__name__, args, kwargs))
        try:
            result = method(self, *args, **kwargs)
        except Exception as error:
            log.add_error(entry, error)
            raise
        return cast("R", _awaited(log, entry, result)) if isinstance(result, Coroutine) else result

    return cast("Callable[Concatenate[S, P], R]", call)


async def _awaited(log: FaultLog, entry: int, result: Coroutine[Any, Any, T]) -> T:
    try:
        return await result
    except Exception as error:
        log.add_error(entry, error)
        raise


def as_written(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A call as it would be written in Python."""
    given = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    return f"{name}({', '.join(given)})"
