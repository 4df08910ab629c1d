"""How often each perturbation may happen in one behaviour, by the name of its action.

A machine bounds what harms and what an operator does by hand. It never bounds what heals. An action says by
`Action.bounded_as` under which name it is counted; a name that no action of the machine has is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tidegauge.spec.kernel.piecemeal import one_at_a_time, question

Spent: TypeAlias = tuple[tuple[str, int], ...]
"""How often each perturbation has happened: (name, count), by name, without those that have not."""


UNBOUNDED = 1_000_000_000
"""As often as it happens: more than any run has actions."""


class Bounds(Mapping[str, int]):
    """The most that each perturbation may happen, for example `Bounds(Crash=1, ShrinkIsr=2)`.

    A name that is not given is bounded by 0: it does not happen. Equal bounds are equal, hash alike and print alike.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[str, int] | None = None, /, **more: int) -> None:
        """Raises ValueError for a bound that is no whole number of at least 0."""
        given = {**(counts or {}), **more}
        for name, count in given.items():
            if type(count) is not int or count < 0:
                raise ValueError(f"the bound {name}={count!r} is no whole number of at least 0")
        self._counts = {name: given[name] for name in sorted(given) if given[name]}

    def __getitem__(self, name: str) -> int:
        return self._counts.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, name: object) -> bool:
        return name in self._counts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and self._counts == other._counts

    def __hash__(self) -> int:
        return hash(tuple(self._counts.items()))

    def __repr__(self) -> str:
        return f"Bounds({', '.join(f'{name}={count}' for name, count in self._counts.items())})"

    def __reduce__(self) -> tuple[object, ...]:
        return Bounds, (self._counts,)

    def allow(self, name: str, spent: Spent) -> bool:
        """Whether the perturbation may happen once more."""
        most = self._counts.get(name)
        return most is not None and is_left(spent, name, most)

    def check(self, machine: str, names: Iterable[str]) -> None:
        """Raise ValueError for a bound on what is no perturbation of the machine."""
        known = tuple(dict.fromkeys(names))
        if unknown := [name for name in self._counts if name not in known]:
            raise ValueError(f"{machine} has no perturbation {', '.join(unknown)}; it has {', '.join(known) or 'none'}")


@question
def is_left(spent: Spent, name: str, most: int) -> bool:
    """Whether the perturbation has happened less often."""
    for kind, count in spent:
        if kind == name:
            return count < most
    return True


@one_at_a_time
def spend(spent: Spent, name: str) -> Spent:
    """The counts after the perturbation has happened once more."""
    counts = dict(spent)
    counts[name] = counts.get(name, 0) + 1
    return tuple(sorted(counts.items()))


@question
def times(spent: Spent, name: str) -> int:
    """How often the perturbation has happened."""
    return dict(spent).get(name, 0)
