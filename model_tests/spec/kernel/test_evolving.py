"""`evolve` does what that of attrs does, and names a field that there is not."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class Place:
    row: int
    _column: int = 0
    width: int = attrs.field(default=9, init=False)


@pytest.mark.parametrize("changes", [{}, {"row": 5}, {"column": 7}, {"row": 5, "column": 7}, {"column": 7, "row": 5}])
def test_a_copy_has_the_changes_and_the_rest_of_the_original(changes: dict[str, int]) -> None:
    place = Place(1, column=2)
    assert evolve(place, **changes) == attrs.evolve(place, **changes)
    assert place == Place(1, column=2)


@pytest.mark.parametrize("name", ["height", "width", "_column"])
def test_a_field_that_there_is_not_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=f"Place has no field '{name}'; it has row, column"):
        evolve(Place(1), **{name: 3})
