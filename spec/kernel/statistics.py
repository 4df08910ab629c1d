"""What a state space looks like: how many steps lead out of a state, what found new states at which depth, symmetry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import exp, log

import attrs

__all__ = ["Statistics", "by_depth", "estimated_states"]

_LATEST = 6
"""Ratios between levels that an estimate looks at."""
_FLATTEST = -0.005
"""By so much the logarithm of that ratio has to decline from one level to the next, while levels grow."""
_MOST = 10**15
"""States that nobody waits for."""


@attrs.frozen
class Statistics:
    """Of the states that a search has expanded to their last step."""

    out_degrees: Mapping[int, int]
    """By the number of steps out of a state: so many states. Steps count wherever they lead; TLC's outdegree counts
    those to new states."""
    found_by_depth: tuple[Mapping[str, int], ...]
    """For each level but the first, by action: steps that led to a state not seen before."""
    orbit_sizes: Mapping[int, int]
    """With symmetry, by the number of states in an orbit: so many orbits."""

    @property
    def mean_out_degree(self) -> float:
        states = sum(self.out_degrees.values())
        return sum(steps * count for steps, count in self.out_degrees.items()) / states if states else 0.0

    def out_degree_of(self, share: float) -> int:
        """The number of steps that this share of the states does not exceed."""
        states, seen = sum(self.out_degrees.values()), 0
        for steps, count in sorted(self.out_degrees.items()):
            seen += count
            if seen >= share * states:
                return steps
        return 0

    @property
    def symmetric_share(self) -> float | None:
        """The share of orbits that have fewer states than there are renamings: some renaming changes nothing in them.

        None without symmetry. The largest orbit is taken for one without such a renaming.
        """
        if not self.orbit_sizes:
            return None
        return 1 - self.orbit_sizes[max(self.orbit_sizes)] / sum(self.orbit_sizes.values())


def by_depth(names: Sequence[str], found: Iterable[Sequence[int]]) -> tuple[Mapping[str, int], ...]:
    """By level what each action has found, from its counts at each level's end; levels without a state are left out."""
    rows = [
        {name: new - old for name, old, new in zip(names, before, after, strict=True) if new > old}
        for before, after in pairwise([[0] * len(names), *found])
    ]
    return tuple(row for row in rows if row)


def estimated_states(levels: Sequence[int]) -> int | None:
    """About how many states a search will have visited, from the sizes of its levels so far; None if they don't say.

    The levels of a search grow, ever more slowly, and then decline. The logarithm of the ratio of each to the one
    before is taken to go on along a straight line, which is fitted to the latest (least squares). It is a guess: a
    space with a second summit is larger.
    """
    if len(levels) <= _LATEST:
        return None
    ratios = [log(after / before) for before, after in pairwise(levels[-_LATEST - 1 :])]
    middle, mean = (_LATEST - 1) / 2, sum(ratios) / _LATEST
    spread = sum((place - middle) ** 2 for place in range(_LATEST))
    slope = min(0.0, sum((place - middle) * (ratio - mean) for place, ratio in enumerate(ratios)) / spread)
    ratio, size, total = mean + slope * middle, float(levels[-1]), sum(levels)
    if ratio >= 0 and slope > _FLATTEST:
        return None
    while size >= 1 and total < _MOST:
        ratio += slope
        size *= exp(ratio)
        total += int(size)
        if ratio > _FLATTEST and not slope:
            return None
    return total if total < _MOST else None
