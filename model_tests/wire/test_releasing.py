"""Messages of many elements are freed in slices, all of them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import attrs
import pytest

from tidegauge.impl.wire.releasing import MANY, MANY_UNITS, releasing


@attrs.define(slots=False)
class Element:
    """One that can be watched."""

    number: int


@attrs.define(slots=False)
class Inner:
    """One with elements of its own."""

    elements: list[Element]


@attrs.define(slots=False)
class Message:
    """Two arrays, of which one nests, and none where there may be one."""

    inner: list[Inner]
    flat: tuple[Element, ...]
    none: list[Element] | None = None


def message(inner: int, each: int, flat: int) -> tuple[Message, list[weakref.ref[Any]]]:
    """A message, and references to all that is in it."""
    made = Message(
        [Inner([Element(number) for number in range(each)]) for _ in range(inner)], tuple(map(Element, range(flat)))
    )
    elements = [*made.flat, *(element for one in made.inner for element in one.elements), *made.inner]
    return made, [weakref.ref(one) for one in elements]


@pytest.mark.parametrize(
    ("inner", "each", "flat"), [(1, 5 * MANY, 0), (5 * MANY, 1, 0), (5 * MANY, 0, 0), (70, 70, 3), (0, 0, 4 * MANY)]
)
def test_a_message_is_freed_in_slices_and_no_slice_frees_many(inner: int, each: int, flat: int) -> None:
    gc.disable()
    try:
        made, refs = message(inner, each, flat)
        work = releasing(None, made)
        del made
        left = sum(ref() is not None for ref in refs)
        slices = 0
        for units in work:
            now = sum(ref() is not None for ref in refs)
            assert left - now <= 2 * MANY, "a slice is short"
            assert isinstance(units, int)
            assert 0 < units <= 4 * MANY_UNITS
            left, slices = now, slices + 1
        assert not any(ref() is not None for ref in refs)
        assert left <= 2 * MANY, "nor does the end"
        assert slices >= len(refs) // (2 * MANY)
    finally:
        gc.enable()


def test_what_somebody_else_refers_to_stays() -> None:
    made, _ = message(1, 3, 2)
    kept = made.flat
    work = releasing(made)
    del made
    list(work)
    assert [one.number for one in kept] == [0, 1]
