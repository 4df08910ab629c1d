"""States are tuples of numbers and back, whatever their class, and what a step leaves as it was keeps its number."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.shared.values import Values
from tidegauge.spec.registry import REGISTRY


@attrs.frozen
class Only:
    log: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Named:
    log: tuple[int, ...]
    _epoch: int = 0


@attrs.frozen(cache_hash=True)
class Hashed:
    log: tuple[int, ...]
    epoch: int = 0


@attrs.frozen(slots=False)
class Loose:
    log: tuple[int, ...]
    epoch: int = 0


@attrs.frozen
class Counted:
    """Is not what its fields are."""

    log: tuple[int, ...]
    epoch: int = attrs.field(default=0, eq=False)


@attrs.frozen
class Checked:
    log: tuple[int, ...] = attrs.field(validator=attrs.validators.instance_of(tuple))
    epoch: int = 0


PAIRS: list[tuple[Any, Any, int]] = [
    (Only((1, 2)), Only((3,)), 1),
    (Named(log=(1, 2), epoch=4), Named(log=(3,), epoch=4), 2),
    (Hashed((1, 2), 4), Hashed((3,), 4), 2),
    (Loose((1, 2), 4), Loose((3,), 4), 2),
    (Counted((1, 2)), Counted((3,)), 1),
    (Checked((1, 2), 4), Checked((3,), 4), 2),
    ((1, 2), (3,), 1),
]


@pytest.mark.parametrize(("before", "after", "columns"), PAIRS, ids=lambda pair: type(pair).__name__)
def test_a_state_is_made_of_its_key_again(before: Any, after: Any, columns: int) -> None:
    values = Values(before)
    for state in (before, after):
        hash(state)
        key = values.key(state)
        made = values.state(key)
        assert (type(made), made, hash(made), values.key(made)) == (type(state), state, hash(state), key)
        assert len(values.numbers(key)) == len(values.columns) == columns


@pytest.mark.parametrize(("before", "after", "columns"), PAIRS, ids=lambda pair: type(pair).__name__)
def test_the_key_after_a_step_is_that_of_the_state(before: Any, after: Any, columns: int) -> None:
    values = Values(before)
    key = values.key(before)
    numbers = values.numbers(key)
    assert values.key_after(before, numbers, before) == key
    assert values.key_after(before, numbers, after) == values.key(after) != key


def test_the_same_field_is_not_looked_up_again() -> None:
    """Unchanged fields keep the numbers of the state before: their values are neither hashed nor compared."""

    class Unhashable(tuple[int, ...]):
        __slots__ = ()
        hashed = 0

        def __hash__(self) -> int:
            Unhashable.hashed += 1
            return 7

    log = Unhashable((1, 2))
    before = Hashed(log, 1)
    values = Values(before)
    key = values.key(before)
    hashed = Unhashable.hashed
    after = values.key_after(before, values.numbers(key), evolve(before, epoch=2))
    assert [*values.numbers(after)] == [values.numbers(key)[0], 1]
    assert Unhashable.hashed == hashed


@pytest.mark.parametrize(("before", "after", "columns"), PAIRS, ids=lambda pair: type(pair).__name__)
def test_a_state_of_another_class_is_refused(before: Any, after: Any, columns: int) -> None:
    values = Values(before)
    key = values.key(before)
    told = rf"states are of two classes, {type(before).__name__} and str: explore without workers"
    with pytest.raises(TypeError, match=told):
        values.key("another")
    with pytest.raises(TypeError, match=told):
        values.key_after(before, values.numbers(key), "another")


@pytest.mark.parametrize("name", ["recovery", "network", "groups-three", "kraft"])
def test_states_of_models_are_made_again(name: str) -> None:
    machine = REGISTRY.machine(name)
    (state,) = machine.initial()
    values = Values(state)
    key = values.key(state)
    for _ in range(12):
        for _, after in machine.successors(state):
            assert values.state(values.key_after(state, values.numbers(key), after)) == after
        key = values.key_after(state, values.numbers(key), after)
        state = values.state(key)


def test_keys_are_told_by_field_and_made_again() -> None:
    states = [Hashed((number, number), number % 3) for number in range(5)]
    values = Values(states[0])
    keys = [values.key(state) for state in states]
    columns = values.by_field(keys)
    assert [[*column] for column in columns] == [[0, 1, 2, 3, 4], [0, 1, 2, 0, 1]]
    assert values.keys(columns) == keys
    assert not values.keys(values.by_field([]))
    assert not values.hashes([])
    assert values.hashes(keys) == [(hash(state.log), hash(state.epoch)) for state in states]
