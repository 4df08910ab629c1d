"""Which partition has a name: Java's hash, whose values are known from Java."""

from __future__ import annotations

import pytest

from tidegauge.impl.coordinators.hashing import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99_162_322),
        ("polygenelubricants", -(1 << 31)),
        ("\N{GRINNING FACE}", 1_772_899),  # two units of UTF-16: 0xD83D * 31 + 0xDE00
    ],
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_a_name_has_the_partition_of_its_hash_without_the_sign() -> None:
    assert partition_for("hello", 50) == 22
    assert java_hash("transactional-id") < 0 or java_hash("my-transactional-id") < 0, "one of them is negative"
    for name in ("transactional-id", "my-transactional-id"):
        assert partition_for(name, 50) == abs(java_hash(name)) % 50


def test_the_smallest_hash_has_no_absolute_value_in_java_and_goes_to_partition_0() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert (1 << 31) % 50 != 0
