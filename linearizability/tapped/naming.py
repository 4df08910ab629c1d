"""Which record each one is that a client has sent or was given, in one partition.

An idempotent producer's record has a value that no other record of the partition has. Any other may have its contents
in common with others, and so the same value: where such a record is, by the response to its batch or by a fetch, is a
part of its name here. A batch of which no response tells the place is taken to be where a fetch has found records with
its contents, side by side, of which no response says that they are another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from tidegauge.linearizability.history import Outcome
from tidegauge.linearizability.tapped.attempts import Produce
from tidegauge.linearizability.tapped.lines import IDEMPOTENT, Fetched

_STRIDE: Final = 0x1E3779B97F4A7C15
_BELOW: Final = 1 << 62
_NOWHERE: Final = 1 << 59
"""Offsets from here on stand for batches of which nobody knows where they are; names repeat after twice as many."""
MOST_TRIED: Final = 64
"""Places that are tried for a batch."""


def named(value: int, offset: int) -> int:
    """The name of a record with this value at this offset; two low bits are the value's own."""
    if value & IDEMPOTENT:
        return value
    return ((value >> 2) + (offset + 1) * _STRIDE) * 4 % _BELOW | value & 3


@attrs.define(eq=False)
class Sightings:
    """The records of one partition that fetches have returned."""

    at: dict[int, dict[int, int]] = attrs.field(factory=dict)
    """By offset, each value that was read there, and when the first of those fetches had returned."""
    places: dict[int, list[int]] = attrs.field(factory=dict)
    """Where each value was read that may be of several records."""

    @classmethod
    def of(cls, fetches: Iterable[Fetched]) -> Sightings:
        """What fetches have returned."""
        seen = cls()
        for fetch in fetches:
            for value, offset in zip(fetch.values, fetch.offsets, strict=True):
                there = seen.at.setdefault(offset, {})
                if value not in there:
                    there[value] = fetch.returned
                    if not value & IDEMPOTENT:
                        seen.places.setdefault(value, []).append(offset)
                elif fetch.returned < there[value]:
                    there[value] = fetch.returned
        return seen


def names(produces: Sequence[Produce], sightings: Sightings) -> list[tuple[int, ...]]:
    """The names of the records of each batch."""
    claimed: set[tuple[int, int]] = set()
    for one in produces:
        if one.outcome is Outcome.OK and one.offset is not None:
            claimed.update(_placed(one.sent.values, one.offset))
    found: list[tuple[int, ...] | None] = []
    for one in produces:
        placed = one.outcome is Outcome.OK and one.offset is not None
        found.append(_named(one.sent.values, one.offset or 0) if placed or _is_unique(one) else None)
    # Who sent first is where the lowest of the places is that are left; what failed may have what nobody else has.
    left = [number for number, one in enumerate(found) if one is None]
    left.sort(key=lambda number: (produces[number].outcome is Outcome.FAIL, produces[number].call))
    nowhere = _NOWHERE
    for number in left:
        one = produces[number]
        base = _place(one, sightings, claimed)
        if base is None:
            base = nowhere
            nowhere += len(one.sent.values)
        else:
            claimed.update(_placed(one.sent.values, base))
        found[number] = _named(one.sent.values, base)
    return [one for one in found if one is not None]


def _is_unique(produce: Produce) -> bool:
    return bool(produce.sent.values[0] & IDEMPOTENT)


def _placed(values: Sequence[int], base: int) -> Iterable[tuple[int, int]]:
    return ((value, base + number) for number, value in enumerate(values))


def _named(values: Sequence[int], base: int) -> tuple[int, ...]:
    return tuple(named(value, base + number) for number, value in enumerate(values))


def _place(produce: Produce, sightings: Sightings, claimed: set[tuple[int, int]]) -> int | None:
    """The lowest place at which a fetch has found the batch, as far as it was read, and which is nobody else's."""
    values = produce.sent.values
    bases: set[int] = set()
    for number, value in enumerate(values[:MOST_TRIED]):
        for offset in sightings.places.get(value, ())[:MOST_TRIED]:
            bases.add(offset - number)
    for base in sorted(bases)[:MOST_TRIED]:
        if base >= 0 and all(_may_be(place, produce.call, sightings, claimed) for place in _placed(values, base)):
            return base
    return None


def _may_be(place: tuple[int, int], call: int, sightings: Sightings, claimed: set[tuple[int, int]]) -> bool:
    value, offset = place
    there = sightings.at.get(offset)
    if there is None:
        return True
    return value in there and there[value] >= call and place not in claimed
