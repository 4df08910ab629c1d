"""The offset map against a dictionary, and its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.impl.storage.offset_map import SLOT_SIZE, OffsetMap, bytes_for


@given(keys=st.lists(st.binary(max_size=3), max_size=80), slots=st.integers(2, 60))
def test_it_knows_the_newest_offset_of_each_key_until_it_is_full(keys: list[bytes], slots: int) -> None:
    offsets = OffsetMap(slots * SLOT_SIZE, load_factor=1.0)
    expected: dict[bytes, int] = {}
    for offset, key in enumerate(keys):
        if offsets.put(key, offset):
            expected[key] = offset
        else:
            assert key not in expected
            assert len(offsets) == offsets.capacity == slots - 1
    assert len(offsets) == len(expected)
    assert {key: offsets.get(key) for key in keys} == {key: expected.get(key, -1) for key in keys}


@given(keys=st.integers(1, 10_000), load_factor=st.floats(0.01, 1))
def test_it_has_room_for_as_many_keys_as_its_bytes_are_asked_for(keys: int, load_factor: float) -> None:
    size = bytes_for(keys, load_factor)
    assert keys <= OffsetMap(size, load_factor).capacity
    assert size <= SLOT_SIZE * (keys / load_factor + 3)


def test_a_key_takes_24_bytes_and_the_load_factor_bounds_them() -> None:
    assert OffsetMap(24 * 1000, 0.9).capacity == 900
    assert OffsetMap(24 * 1000 + 23, 0.5).slots == 1000


def test_searches_stay_short_at_the_load_factor() -> None:
    offsets = OffsetMap(24 * 20_000)
    for number in range(offsets.capacity):
        assert offsets.put(b"%d" % number, number)
    assert offsets.probes < 4 * offsets.capacity
    assert not offsets.put(b"one more", 1)


@pytest.mark.parametrize(("memory", "load_factor"), [(24, 1.0), (0, 0.9), (240, 0.0), (240, 1.5)])
def test_a_map_without_room_is_refused(memory: int, load_factor: float) -> None:
    with pytest.raises(ValueError, match="load factor"):
        OffsetMap(memory, load_factor)
