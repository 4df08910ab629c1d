"""`evolve` does what that of attrs does, and names a field that there is not."""

from __future__ import annotations

import pickle

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


@attrs.frozen(cache_hash=True)
class Record:
    epoch: int
    _value: int = 0


@attrs.frozen
class Positive:
    number: int = attrs.field(converter=int)
    half: float = attrs.field(default=0.0)

    def __attrs_post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError(self.number)


def test_a_copy_is_an_instance_like_any_other() -> None:
    record = Record(1, value=2)
    before = hash(record)
    copy = evolve(record, epoch=3)
    assert before != hash(copy)
    assert (type(copy), copy, hash(copy)) == (Record, Record(3, 2), hash(Record(3, 2)))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        copy.epoch = 4  # type: ignore[misc]
    assert attrs.evolve(copy, value=5) == pickle.loads(pickle.dumps(evolve(copy, value=5))) == Record(3, 5)


def test_what_making_an_instance_does_besides_is_done_for_a_copy() -> None:
    assert evolve(Positive(1), number="2") == Positive(2)
    with pytest.raises(ValueError, match="-1"):
        evolve(Positive(1), number=-1)
