"""Invariants, and properties of steps, that say the same of each process, or of each of whatever is numbered.

What is asked of one process reads less of a state than what is asked of all, and so there are fewer combinations of
what it reads. The fast engine asks of one after the other; everywhere else such an invariant is one as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

__all__ = ["holds_of_each", "parts_of"]

P = ParamSpec("P")
H = TypeVar("H", bound=Callable[..., bool])
_PARTS: Final = "__parts__"


def holds_of_each(numbers: Iterable[int], rule: Callable[Concatenate[int, P], bool]) -> Callable[P, bool]:
    """What holds in a state, or of a step, if the rule holds of each number there."""
    numbers = tuple(numbers)

    def holds(*asked: P.args, **named: P.kwargs) -> bool:
        return all(rule(number, *asked, **named) for number in numbers)

    holds.__doc__ = rule.__doc__
    setattr(holds, _PARTS, [partial(rule, number) for number in numbers])
    return holds


def parts_of(holds: H) -> Sequence[H]:
    """What holds if and only if a property does, all together: the property itself, or of each number one."""
    found: Sequence[Any] = getattr(holds, _PARTS, [holds])
    return found
