"""Values by their keys, such as every message that was ever sent, and how often each is on its way.

A field marked with KEYED holds a tuple of pairs, each a key and its value, in the order of the keys. The fast engine
has a word for each key that it meets: who looks for one message, or sends or takes it, depends on that message alone.
What every pair gives by itself, candidates say, is asked of each (`OfEach`). Who looks at the whole tuple makes it
one word, of which one thing is asked at a time (`tidegauge.spec.kernel.piecemeal`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.piecemeal import one_at_a_time, question
from tidegauge.spec.kernel.sorting import by_class

__all__ = ["KEYED", "OfEach", "Pairs", "in_order", "value_of", "with_value"]

S = TypeVar("S")
K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A", bound=Action)

KEYED: Final[Mapping[object, object]] = {"keyed": True}
"""Metadata of a field of attrs."""
Pairs: TypeAlias = tuple[tuple[K, V], ...]


def in_order(pair: tuple[K, V]) -> tuple[str, Any]:
    """What pairs are sorted by: their keys, by class and then by fields."""
    return by_class(pair[0])


@question
def value_of(pairs: Pairs[K, V], key: K) -> V | None:
    """The value of a key; None for one that is not there."""
    at = bisect_left(pairs, by_class(key), key=in_order)
    return pairs[at][1] if at < len(pairs) and pairs[at][0] == key else None


@one_at_a_time
def with_value(pairs: Pairs[K, V], pair: tuple[K, V]) -> Pairs[K, V]:
    """With that value of that key, whichever it had. No value is None."""
    at = bisect_left(pairs, in_order(pair), key=in_order)
    return (*pairs[:at], pair, *pairs[at + (at < len(pairs) and pairs[at][0] == pair[0]) :])


def _always(key: object) -> bool:
    return True


@attrs.frozen
class OfEach(Generic[S, K, V, A]):
    """Candidates that each pair gives, whatever else there is: a rule as any other, of the tuple that `pairs` finds."""

    pairs: Callable[[S], Pairs[K, V]]
    of: Callable[[K, V], Iterable[A]]
    among: Callable[[K], bool] = _always
    """Whose pairs give any."""

    def __call__(self, state: S) -> Sequence[A]:
        return _of_each(self.pairs(state), self)


@question
def _of_each(pairs: Pairs[K, V], rule: OfEach[Any, K, V, A]) -> tuple[A, ...]:
    """What a rule finds, a question where all pairs are one word: most of them give the same as before."""
    return tuple([action for key, value in pairs if rule.among(key) for action in rule.of(key, value)])
