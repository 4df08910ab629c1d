"""A binding is read by the names of its attributes, and a field that it lacks is refused."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.harness.lockstep.field_by_field import FieldByField
from tidegauge.spec.kernel.machine import Action


@attrs.frozen
class Shelf:
    """A state."""

    books: tuple[tuple[int, ...], ...] = ()
    readers: frozenset[str] = frozenset()
    lent: int = 0


class Library(FieldByField[Shelf]):
    """A binding with lists and sets."""

    def __init__(self) -> None:
        self.books = [[1, 2], [3]]
        self.readers = {"Ann"}

    def perform(self, action: Action, before: Shelf) -> None:
        """Nothing happens here."""


class Counted(Library):
    lent = 3


class Uncounted(Library):
    not_compared = frozenset({"lent"})


def test_lists_and_sets_are_read_as_a_state_has_them() -> None:
    assert Counted().abstraction(Shelf()) == Shelf(((1, 2), (3,)), frozenset({"Ann"}), 3)


def test_a_field_that_is_not_compared_is_the_specifications() -> None:
    assert Uncounted().abstraction(Shelf(lent=7)).lent == 7


def test_a_field_that_the_binding_lacks_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Library lacks lent of Shelf: give it attributes of these names, or name"):
        Library().abstraction(Shelf())
