"""The bytes of the transaction log, against records written down field by field, and against each other."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.impl.coordinators.transactions.log_format import (
    TransactionLogError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    value_version,
    version_of,
)
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata, TransactionStatus

EMPTY = TransactionMetadata(producer_id=4_711, epoch=3, timeout_ms=60_000, last_update_ms=0x0102030405060708)
ONGOING = TransactionMetadata(
    producer_id=1,
    epoch=2,
    status=TransactionStatus.ONGOING,
    timeout_ms=3,
    previous_producer_id=1,
    next_producer_id=9,
    partitions=frozenset({TopicPartition("tide", 1), TopicPartition("tide", 0), TopicPartition("ebb", 300)}),
    last_update_ms=5,
    start_ms=4,
    client_version=2,
)

EMPTY_HEAD = "0000000000001267 0003 0000ea60 00"
ONGOING_HEAD = "0000000000000001 0002 00000003 01"


def test_a_value_tells_its_version_and_a_tombstone_has_none() -> None:
    assert [version_of(value) for value in (encode_value(EMPTY, 0), encode_value(EMPTY, 1), None)] == [0, 1, -1]


def test_the_key_is_kafkas() -> None:
    assert encode_key("ab") == bytes.fromhex("0000 0002 6162")
    assert decode_key(encode_key("grün")) == "grün"


def test_a_value_without_a_transaction_is_kafkas_in_both_versions() -> None:
    times = "0102030405060708 ffffffffffffffff"
    assert encode_value(EMPTY, 0) == bytes.fromhex(f"0000 {EMPTY_HEAD} ffffffff {times}")
    assert encode_value(EMPTY, 1) == bytes.fromhex(f"0001 {EMPTY_HEAD} 00 {times} 00")


def test_a_value_with_partitions_and_tags_is_kafkas() -> None:
    old = "00000002  0003 656262 00000001 0000012c  0004 74696465 00000002 00000000 00000001"
    new = "03  04 656262 02 0000012c 00  05 74696465 03 00000000 00000001 00"
    times = "0000000000000005 0000000000000004"
    tags = "03  00 08 0000000000000001  01 08 0000000000000009  02 02 0002"
    assert encode_value(ONGOING, 0) == bytes.fromhex(f"0000 {ONGOING_HEAD} {old} {times}")
    assert encode_value(ONGOING, 1) == bytes.fromhex(f"0001 {ONGOING_HEAD} {new} {times} {tags}")


def test_a_tag_that_is_not_known_is_passed_over() -> None:
    value = encode_value(EMPTY, 1)
    assert decode_value(value[:-1] + bytes.fromhex("01 04 02 0007")) == EMPTY


def test_a_transaction_that_was_taken_over_has_its_own_epoch_and_that_of_its_new_process() -> None:
    """As KIP-939 has it: the next producer epoch, under the tag 3, is that of who ends the transaction."""
    taken_over = attrs.evolve(
        ONGOING, producer_id=9, epoch=7, ongoing_producer_id=1, ongoing_epoch=2, next_producer_id=-1, partitions=set()
    )
    times = "0000000000000005 0000000000000004"
    tags = "04  00 08 0000000000000001  01 08 0000000000000009  02 02 0002  03 02 0007"
    assert encode_value(taken_over) == bytes.fromhex(f"0001 {ONGOING_HEAD} 01 {times} {tags}")
    assert decode_value(encode_value(taken_over)) == taken_over
    assert value_version(0, taken_over) == 1, "version 0 would forget who ends it"


def test_a_tag_that_is_not_known_is_read_to_its_end() -> None:
    with pytest.raises(TransactionLogError, match="a field of 2 bytes where 1 of"):
        decode_value(encode_value(EMPTY, 1)[:-1] + bytes.fromhex("01 04 02 00"))


def test_versions_that_are_not_known_are_passed_over() -> None:
    assert decode_key(bytes.fromhex("0001 0002 6162")) is None
    assert decode_value(bytes.fromhex("0002 00")) is None
    assert [value_version(level, TransactionMetadata(1)) for level in (0, 1, 2)] == [0, 1, 1]


@pytest.mark.parametrize("cut", range(1, len(encode_value(ONGOING))))
def test_a_value_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(TransactionLogError):
        decode_value(encode_value(ONGOING)[:cut])


@pytest.mark.parametrize("length", [126, 127, 128, 16_383])
def test_a_length_of_several_bytes_is_read_as_written(length: int) -> None:
    known = attrs.evolve(ONGOING, partitions=frozenset({TopicPartition("x" * length, 0)}))
    value = encode_value(known)
    assert decode_value(value) == known
    assert value[18:20].hex() == {126: "7f78", 127: "8001", 128: "8101", 16_383: "8080"}[length]


def test_a_length_below_zero_is_refused() -> None:
    value = encode_value(ONGOING, 0)
    with pytest.raises(TransactionLogError, match="null that may not be"):
        decode_value(value.replace(b"\0\3ebb", b"\xff\xffebb"))


def test_a_status_that_is_not_known_is_refused() -> None:
    with pytest.raises(TransactionLogError, match="17"):
        decode_value(encode_value(EMPTY).replace(b"\xea\x60\x00", b"\xea\x60\x11"))


LONG = st.integers(-1, (1 << 63) - 1)
PARTITIONS = st.frozensets(st.builds(TopicPartition, st.text(max_size=200), st.integers(0, 1 << 20)), max_size=5)


@given(
    known=st.builds(
        TransactionMetadata,
        producer_id=LONG,
        epoch=st.integers(-1, 32_767),
        status=st.sampled_from(list(TransactionStatus)[1:6]),
        timeout_ms=st.integers(0, (1 << 31) - 1),
        previous_producer_id=LONG,
        next_producer_id=LONG,
        partitions=PARTITIONS,
        last_update_ms=LONG,
        start_ms=LONG,
        client_version=st.integers(0, 2),
    )
)
@settings(max_examples=60)
def test_what_is_written_is_read(known: TransactionMetadata) -> None:
    assert decode_value(encode_value(known)) == known
    old = decode_value(encode_value(known, 0))
    assert old is not None
    assert (old.producer_id, old.epoch, old.status, old.partitions, old.start_ms) == (
        known.producer_id,
        known.epoch,
        known.status,
        known.partitions,
        known.start_ms,
    )
