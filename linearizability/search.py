"""The general search: is there any order of the operations that explains what was seen?

Wing and Gong (1993) with Lowe's memory (2017): walk the history's calls and returns in order of time; linearize an
operation whose call has been passed, and take it back when a return is met whose operation was not linearized. A set
of linearized operations with the state after them is tried once. Linearizability is local, so each partition is
searched by itself. The work is exponential in the operations that overlap, hence the limits, and the third verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Generic, Protocol, TypeVar

import attrs

S = TypeVar("S", bound=Hashable)
O_contra = TypeVar("O_contra", contravariant=True)
T = TypeVar("T")


class Model(Protocol[S, O_contra]):
    """A sequential object."""

    def initial(self) -> S:
        """The state before any operation."""

    def step(self, state: S, operation: O_contra) -> S | None:
        """The state after `operation` with its result, or None if it cannot have that result in `state`."""


@attrs.frozen
class Call(Generic[T]):
    """An operation and its interval; one that never returned may take effect at any later time, or never."""

    operation: T
    call: int
    returned: int | None = None


class SearchVerdict(Enum):
    """Linearizable, not linearizable, or not decided within the limits."""

    OK = "ok"
    ILLEGAL = "illegal"
    UNKNOWN = "unknown"


@attrs.frozen
class Result:
    """`order`: the calls, by number, in an order that explains them; for ILLEGAL the longest such prefix found."""

    verdict: SearchVerdict
    order: tuple[int, ...]
    steps: int


@attrs.frozen
class Limits:
    """When to give up: after so many steps, remembered configurations, or nanoseconds of the clock handed in."""

    steps: int = 10_000_000
    configurations: int = 2_000_000
    nanoseconds: int | None = None
    clock: Callable[[], int] | None = None

    def __attrs_post_init__(self) -> None:
        if self.nanoseconds is not None and self.clock is None:
            raise ValueError("a limit in nanoseconds needs a clock: pass Limits(clock=time.monotonic_ns, ...)")


def search(model: Model[S, T], calls: Sequence[Call[T]], limits: Limits | None = None) -> Result:
    """Decide whether `calls` are linearizable as operations on `model`."""
    return _Search(model, calls, limits or Limits()).run()


def search_partitions(
    model: Model[S, T], partitions: Mapping[Hashable, Sequence[Call[T]]], limits: Limits | None = None
) -> dict[Hashable, Result]:
    """Search each partition by itself: all are linearizable exactly if the whole is."""
    return {key: search(model, calls, limits) for key, calls in partitions.items()}


class _Search(Generic[S, T]):
    def __init__(self, model: Model[S, T], calls: Sequence[Call[T]], limits: Limits) -> None:
        self.model = model
        self.calls = calls
        self.limits = limits
        self.next, self.previous, self.events = _events(calls)
        self.deadline: int | None = None
        if limits.nanoseconds is not None and limits.clock is not None:
            self.deadline = limits.clock() + limits.nanoseconds

    def over(self, steps: int, remembered: int) -> bool:
        if steps > self.limits.steps or remembered > self.limits.configurations:
            return True
        # Reading the clock costs more than a step.
        if self.deadline is None or steps % 1024:
            return False
        assert self.limits.clock is not None
        return self.limits.clock() > self.deadline

    def run(self) -> Result:
        state = self.model.initial()
        done = 0
        order: list[tuple[int, S]] = []
        best: tuple[int, ...] = ()
        seen: set[tuple[int, S]] = {(0, state)}
        open_returns = sum(one.returned is not None for one in self.calls)
        steps = 0
        at = self.next[0]
        while open_returns:
            steps += 1
            if self.over(steps, len(seen)):
                return Result(SearchVerdict.UNKNOWN, best, steps)
            number, is_call = self.events[at]
            if is_call:
                after = self.model.step(state, self.calls[number].operation)
                if after is not None and (done | 1 << number, after) not in seen:
                    order.append((number, state))
                    state, done = after, done | 1 << number
                    seen.add((done, state))
                    open_returns -= self._lift(number)
                    if len(order) > len(best):
                        best = tuple(taken for taken, _ in order)
                    at = self.next[0]
                    continue
                at = self.next[at]
                continue
            # A return was met: its operation must come earlier, so the last choice was wrong.
            if not order:
                return Result(SearchVerdict.ILLEGAL, best, steps)
            number, state = order.pop()
            done &= ~(1 << number)
            open_returns += self._unlift(number)
            at = self.next[2 * number + 1]
        return Result(SearchVerdict.OK, tuple(taken for taken, _ in order), steps)

    def _lift(self, number: int) -> int:
        """Take a linearized operation's events out of the list; 1 if it has a return."""
        self._unlink(2 * number + 1)
        if self.calls[number].returned is None:
            return 0
        self._unlink(2 * number + 2)
        return 1

    def _unlift(self, number: int) -> int:
        if self.calls[number].returned is None:
            self._relink(2 * number + 1)
            return 0
        self._relink(2 * number + 2)
        self._relink(2 * number + 1)
        return 1

    def _unlink(self, event: int) -> None:
        self.next[self.previous[event]] = self.next[event]
        self.previous[self.next[event]] = self.previous[event]

    def _relink(self, event: int) -> None:
        self.next[self.previous[event]] = event
        self.previous[self.next[event]] = event


def _events(calls: Sequence[Call[T]]) -> tuple[list[int], list[int], list[tuple[int, bool]]]:
    """A doubly linked list of calls and returns in order of time, with its head at 0; at one time calls come first."""
    times: list[tuple[int, int, int]] = []
    for number, one in enumerate(calls):
        times.append((one.call, 0, 2 * number + 1))
        if one.returned is not None:
            times.append((one.returned, 1, 2 * number + 2))
    times.sort()
    ordered = [event for _, _, event in times]
    following = [0] * (2 * len(calls) + 1)
    previous = [0] * (2 * len(calls) + 1)
    for before, after in _ring([0, *ordered]):
        following[before] = after
        previous[after] = before
    events = [(0, False)] + [(number, is_call) for number in range(len(calls)) for is_call in (True, False)]
    return following, previous, events


def _ring(items: Sequence[int]) -> Iterable[tuple[int, int]]:
    return zip(items, [*items[1:], items[0]], strict=True)
