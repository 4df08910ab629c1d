"""The hash of a group's topics is Kafka's (KIP-1101). The numbers are hash4j's, of the bytes that Kafka hashes."""

from __future__ import annotations

import pytest

from tidegauge.impl.coordinators.groups.consumer.metadata_hash import group_hash, racks_bytes, topic_hash

ID = "01234567-89ab-cdef-fedc-ba9876543210"
FOO, BAR = 4_231_092_367_357_902_416, 8_733_119_781_167_439_863


@pytest.mark.parametrize(
    ("topic_id", "name", "racks", "expected"),
    [
        pytest.param(ID, "foo", [["rack1", "rack0"], ["rack2", "rack1"]], FOO, id="racks in order"),
        pytest.param("11111111-1111-1111-2222-222222222222", "bar", [[]], BAR, id="no racks"),
        pytest.param("00000000-0000-0000-0000-000000000000", "empty", [], 728_769_691_835_767_132, id="no partitions"),
        pytest.param(ID, "foo", [["r", "r"]], 2_883_780_561_648_472_600, id="a rack twice"),
        pytest.param(ID, "foo", [["\ue000", "\U0001f600"]], 4_767_223_826_197_171_634, id="order of UTF-16"),
        pytest.param(ID, "té", [["é"]], 480_043_309_326_700_168, id="beyond ASCII"),
    ],
)
def test_the_hash_of_a_topic_is_kafkas(topic_id: str, name: str, racks: list[list[str]], expected: int) -> None:
    assert topic_hash(name, topic_id, [racks_bytes(each) for each in racks]) == expected


def test_a_text_is_as_long_as_it_has_code_units_of_utf_16() -> None:
    assert racks_bytes(["\uffff"]) == bytes.fromhex("01000000 ffff 01000000")
    assert racks_bytes(["\U00010000"]) == bytes.fromhex("02000000 00d800dc 02000000")


def test_the_hash_of_a_group_is_kafkas() -> None:
    assert group_hash({}) == 0
    assert group_hash({"foo": FOO}) == -3_651_539_661_068_893_492
    assert group_hash({"foo": FOO, "bar": BAR}) == group_hash({"bar": BAR, "foo": FOO}) == -556_879_919_459_959_918
    assert group_hash({"foo": 456, "bar": 123}) == 1_482_712_172_080_382_793
