"""A segment's file is read the same through any window, and what cannot be a batch costs no checksum."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import pytest

from tidegauge.impl.ports.disk import File
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import HEADER_SIZE, BatchHeader, checked_header, empty_batch
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.records.payload import Record, build_batch, encode_varint
from tidegauge.impl.storage import survey as surveying
from tidegauge.impl.storage.survey import MAX_RELATIVE_OFFSET, Bounds, DamagedExtent, holds_batch, survey
from tidegauge.model_tests.amounts import stride

EPOCH_POSITION: Final = 12
BATCH_PREFIX: Final = 12
"""Bytes of a batch that its length does not count."""
DELTA_POSITION: Final = 23
LIMIT: Final = 9
BOUNDS: Final = Bounds(0, limit=LIMIT)


def batch(offset: int, epoch: int = 1, size: int = 30) -> bytes:
    """One record at this offset."""
    content = bytearray(build_batch([Record(0, 0, None, b"x" * size)]))
    struct.pack_into(">q", content, 0, offset)
    struct.pack_into(">i", content, EPOCH_POSITION, epoch)
    return bytes(content)


def file_of(content: bytes) -> File:
    file = SimulatedDisk(random.Random(1)).open("tide", create=True)
    file.append(content)
    return file


def found(content: bytes, bounds: Bounds = BOUNDS) -> list[tuple[int, int] | DamagedExtent]:
    """Position and base offset of each batch, and what is damaged."""
    pieces = survey(file_of(content), bounds)
    return [piece if isinstance(piece, DamagedExtent) else (piece[0], piece[1].base_offset) for piece in pieces]


def damaged_in(seed: int) -> bytes:
    """Batches of many sizes, of which some bytes are others, and some are missing."""
    rng = random.Random(seed)
    content = bytearray(b"".join(batch(offset, 1 + offset // 3, rng.randrange(5, 200)) for offset in range(LIMIT)))
    for _ in range(rng.randrange(4)):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    if rng.random() < 0.5:
        at = rng.randrange(len(content))
        del content[at : at + rng.randrange(1, 90)]
    return bytes(content)


@pytest.mark.parametrize("window", [HEADER_SIZE, 100, 333])
def test_a_file_is_read_the_same_through_any_window(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [found(damaged_in(seed)) for seed in range(40)]
    assert any(isinstance(piece, DamagedExtent) for pieces in whole for piece in pieces)
    monkeypatch.setattr(surveying, "_SCAN_BYTES", window)
    assert [found(damaged_in(seed)) for seed in range(40)] == whole


@pytest.mark.parametrize("damage", [b"\0" * 7, b"tide" * 30])
def test_what_is_damaged_held_an_offset_at_least(damage: bytes) -> None:
    """So the batch at the very offset that is missing is none of it, though another one follows; that one is."""
    first, second, third = map(batch, range(3))
    place, behind = len(first), len(first) + len(damage) + len(second)
    pieces = found(first + damage + second + third, BOUNDS._replace(limit=3))
    assert pieces == [(0, 0), DamagedExtent(place, behind - place, 1, 2), (behind, 2)]


def test_only_the_batch_that_a_log_starts_inside_begins_before_the_one_before_it_ends() -> None:
    """Later in the file it is one whose base offset has changed, and its records would have the offsets of others."""
    pairs = [bytearray(build_batch([Record(number, 0, None, b"x") for number in range(2)])) for _ in range(2)]
    for pair in pairs:
        struct.pack_into(">qii", pair, 0, 1, len(pair) - BATCH_PREFIX, 1)
    inside, changed = map(bytes, pairs)
    assert found(inside, Bounds(2)) == [(0, 1)]
    for before, base in ((batch(1), 2), (b"\xff" * 8 + inside[8:], 0)):
        assert found(before, Bounds(base)) == [DamagedExtent(0, len(before), base, base, is_tail=True)]
    first = bytes(8) + inside[8:]
    assert found(first + changed, Bounds(0)) == [(0, 0), DamagedExtent(len(first), len(changed), 2, 2, is_tail=True)]


@pytest.mark.parametrize("limit", [None, 6])
def test_where_a_log_once_ended_is_leapt_over_only_in_a_file_that_another_one_follows(limit: int | None) -> None:
    """A cleaner has left out what was there. In the last file an offset that has grown looks the same."""
    first, second, size = batch(0), batch(3), len(batch(0))
    pieces = found(first + second + b"!" * 80, Bounds(0, limit, flushed_end_offset=2))
    begin, expected = (size, 1) if limit is None else (2 * size, 4)
    behind = DamagedExtent(begin, 2 * size + 80 - begin, expected, expected, is_tail=True)
    assert pieces == [(0, 0), *([] if limit is None else [(size, 3)]), behind]


@pytest.mark.parametrize(
    ("behind", "following", "is_believed"),
    [(batch(4), (), True), (b"", (4,), True), (b"", (5,), False), (b"!" * 80, (4,), False)],
)
def test_a_batch_that_leaps_over_where_the_log_once_ended_is_borne_out_by_what_follows_it(
    behind: bytes, following: tuple[int, ...], is_believed: bool
) -> None:
    """Another batch, or the name of a file where it is the last one."""
    pieces = found(batch(0) + batch(3) + behind, Bounds(0, None, flushed_end_offset=2, following=following))
    assert ((len(batch(0)), 3) in pieces) == is_believed


def test_a_batch_of_an_epoch_before_denies_no_offset() -> None:
    """It is itself what has changed."""
    size = len(batch(0))
    pieces = found(batch(0, 2) + batch(3, 2) + batch(1, 1), Bounds(0))
    assert pieces == [(0, 0), (size, 3), DamagedExtent(2 * size, size, 4, 4, is_tail=True)]


def test_a_batch_that_the_next_one_of_its_epoch_has_to_come_before_is_refused() -> None:
    size = len(batch(0))
    pieces = found(batch(0) + batch(3) + batch(2), Bounds(0))
    assert pieces == [(0, 0), DamagedExtent(size, size, 1, 2), (2 * size, 2)]


def test_a_length_that_leads_back_has_no_batch_read_again() -> None:
    changed, size = bytearray(batch(1)), len(batch(0))
    of_size(-size)(changed)
    assert found(batch(0) + changed + batch(8)) == [(0, 0), DamagedExtent(size, size, 1, 8), (2 * size, 8)]


def test_no_batch_is_looked_for_in_one_that_is_intact_and_refused() -> None:
    """The value of a record may be batches that follow each other."""
    refused = bytearray(build_batch([Record(0, 0, None, batch(5) + batch(6))]))
    struct.pack_into(">i", refused, EPOCH_POSITION, 1)
    size = len(batch(3))
    assert found(batch(3) + refused, Bounds(3)) == [
        (0, 3),
        DamagedExtent(size, len(refused), 4, 4, is_tail=True),
    ]


def test_a_batch_that_leaves_out_nothing_is_believed_though_the_log_is_said_to_have_ended_in_it() -> None:
    pair = bytearray(build_batch([Record(number, 0, None, b"x") for number in range(2)]))
    struct.pack_into(">i", pair, EPOCH_POSITION, 1)
    assert found(bytes(pair), Bounds(0, flushed_end_offset=1)) == [(0, 0)]


@pytest.mark.parametrize("size", [1, 80])
def test_a_batch_without_records_is_found_behind_damage_though_the_file_ends_with_its_header(size: int) -> None:
    last, place = empty_batch(2, 3, 1), len(batch(0))
    assert len(last) == HEADER_SIZE
    pieces = found(batch(0) + b"!" * size + last, Bounds(0, 3))
    assert pieces == [(0, 0), DamagedExtent(place, size, 1, 2), (place + size, 2)]


def checksums(content: bytes, bounds: Bounds, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many are looked at until the file is read; two batches are found in it."""
    counted: list[int] = []

    def counting(buffer: bytes, position: int) -> BatchHeader:
        counted.append(position)
        return checked_header(buffer, position)

    monkeypatch.setattr(surveying, "checked_header", counting)
    assert [piece[1] for piece in found(content, bounds) if not isinstance(piece, DamagedExtent)] == [0, 8]
    return len(counted)


def at_offset(offset: int) -> Callable[[bytearray], None]:
    return lambda content: struct.pack_into(">q", content, 0, offset)


def last_of(delta: int) -> Callable[[bytearray], None]:
    return lambda content: struct.pack_into(">i", content, DELTA_POSITION, delta)


def of_size(size: int) -> Callable[[bytearray], None]:
    return lambda content: struct.pack_into(">i", content, BASE_OFFSET_SIZE, size - BATCH_PREFIX)


@pytest.mark.parametrize(
    ("spoil", "is_looked_at"),
    [
        (at_offset(1), True),
        (at_offset(0), False),
        (at_offset(LIMIT - 1), True),
        (at_offset(LIMIT), False),
        (last_of(0), True),
        (last_of(-1), False),
        (last_of(LIMIT - 3), True),
        (last_of(LIMIT - 2), False),
        (of_size(HEADER_SIZE), True),
        (of_size(HEADER_SIZE - 1), False),
        (of_size(0), False),
        (of_size(2 * len(batch(0))), True),
        (of_size(2 * len(batch(0)) + 1), False),
        (lambda content: struct.pack_into(">i", content, EPOCH_POSITION, 0), True),
        (lambda content: struct.pack_into(">i", content, EPOCH_POSITION, -1), False),
    ],
)
def test_what_cannot_be_a_batch_costs_no_checksum(
    spoil: Callable[[bytearray], None], is_looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a damaged byte, before the next batch: it would be the batch at offset 2, but for what is spoilt."""
    like = bytearray(batch(2))
    like[-1] ^= 1
    spoil(like)
    assert is_looked_for(bytes(like), BOUNDS, monkeypatch) is is_looked_at


def is_looked_for(like: bytes, bounds: Bounds, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether more is looked at than where there are zeroes."""
    zeroes = checksums(batch(0) + b"\x00" + bytes(len(like)) + batch(8), bounds, monkeypatch)
    return checksums(batch(0) + b"\x00" + like + batch(8), bounds, monkeypatch) > zeroes


@pytest.mark.parametrize(("offset", "is_looked_at"), [(MAX_RELATIVE_OFFSET, True), (MAX_RELATIVE_OFFSET + 1, False)])
def test_what_is_too_far_from_the_segments_base_costs_no_checksum(
    offset: int, is_looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    like = batch(offset)[:-1] + b"!"
    assert is_looked_for(like, Bounds(0), monkeypatch) is is_looked_at


@pytest.mark.parametrize("base", [0, 1_000])
def test_no_offset_is_farther_from_its_segments_than_the_index_can_say(base: int) -> None:
    near, far = base + MAX_RELATIVE_OFFSET, base + MAX_RELATIVE_OFFSET + 1
    assert found(batch(base) + batch(near), Bounds(base)) == [(0, base), (len(batch(0)), near)]
    assert [piece for piece in found(batch(base) + batch(far), Bounds(base)) if isinstance(piece, DamagedExtent)]


def test_a_file_that_ends_like_a_batch_begins_is_damaged_to_its_end() -> None:
    content = batch(0) + bytes(HEADER_SIZE) + b"\x02" * 3
    size = len(batch(0))
    assert found(content) == [(0, 0), DamagedExtent(size, len(content) - size, 1, 1, is_tail=True)]


def test_a_file_that_fits_a_window_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_of(b"".join(map(batch, range(LIMIT))))
    positions: list[int] = []
    inner = file.read

    def counting(position: int, size: int) -> bytes:
        positions.append(position)
        return inner(position, size)

    monkeypatch.setattr(file, "read", counting)
    assert len(list(survey(file, BOUNDS))) == LIMIT
    assert positions == [0]
    positions.clear()
    size = len(batch(0))
    monkeypatch.setattr(surveying, "_SCAN_BYTES", 3 * size)
    assert len(list(survey(file, BOUNDS))) == LIMIT
    assert positions == [0, 3 * size, 6 * size], "of a larger one each window is"


def test_a_batch_of_the_epoch_before_it_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one of a new epoch may have changed so that the next one tells."""
    for epochs, looks in (([1] * LIMIT, LIMIT), ([1] * 4 + [2] * 5, LIMIT + 2)):  # the first one's epoch is new, too
        content = b"".join(map(batch, range(LIMIT), epochs))
        assert looked_at(content, monkeypatch) == looks + (epochs[0] == epochs[-1])


def looked_at(content: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many checksums are looked at until all is found."""
    counted: list[int] = []

    def counting(buffer: bytes, position: int) -> BatchHeader:
        counted.append(position)
        return checked_header(buffer, position)

    monkeypatch.setattr(surveying, "checked_header", counting)
    assert len(found(content)) == LIMIT
    return len(counted)


def test_a_damaged_length_has_no_more_read_than_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may say that the batch goes on for gigabytes."""
    content = bytearray(b"".join(map(batch, range(LIMIT))))
    struct.pack_into(">i", content, len(batch(0)) + BASE_OFFSET_SIZE, 1 << 30)
    file, sizes = file_of(bytes(content)), []
    inner = file.read

    def counting(position: int, size: int) -> bytes:
        sizes.append(size)
        return inner(position, size)

    monkeypatch.setattr(surveying, "_SCAN_BYTES", 2 * len(batch(0)))
    monkeypatch.setattr(file, "read", counting)
    assert len(list(survey(file, BOUNDS))) == LIMIT, "the damage stands for one batch"
    assert max(sizes) <= 2 * len(batch(0)) < len(content) // 4


def test_batches_in_the_record_of_a_damaged_batch_are_passed_over_by_its_length() -> None:
    """They follow each other like batches of the log."""
    outer = bytearray(build_batch([Record(1, 0, None, batch(2) + batch(3) + batch(4))]))
    outer[CRC_POSITION] ^= 1
    content = batch(0) + bytes(outer) + batch(2) + batch(3)
    first, size = len(batch(0)), len(batch(2))
    damaged = DamagedExtent(first, len(outer), 1, 2)
    assert found(content) == [(0, 0), damaged, (first + len(outer), 2), (first + len(outer) + size, 3)]


BASE_OFFSET_SIZE: Final = 8
OFFSETS: Final = (0, 260, 263)
"""Where the batches of `several` begin; zeroes in the first bytes of an offset make it another one, and not 0."""
END: Final = 265
CRC_POSITION: Final = 17
CHECKED_FROM: Final = 21


def several() -> bytes:
    """Batches one right after the other, each with a value of its own; the cleaner has taken their other records."""
    content = b""
    for begin, end in pairwise((*OFFSETS, END)):
        one = bytearray(build_batch([Record(begin, 0, None, b"%d" % begin)]))
        struct.pack_into(">i", one, EPOCH_POSITION, 1)
        struct.pack_into(">i", one, DELTA_POSITION, end - begin - 1)
        struct.pack_into(">I", one, CRC_POSITION, crc32c(bytes(one[CHECKED_FROM:])))
        content += one
    return content


@pytest.mark.parametrize("fill", [0x00, 0xFF, 0x02], ids=hex)
@pytest.mark.parametrize("flushed", [0, END], ids=["nothing is known of the end", "the end is known"])
@pytest.mark.parametrize("limit", [None, END], ids=["the last segment", "a closed one"])
def test_no_batch_is_found_at_an_offset_that_it_was_not_written_at(fill: int, flushed: int, limit: int | None) -> None:
    """Bytes anywhere are overwritten, as by a lost sector; the checksum of a batch does not cover its base offset.

    Only at the end of a last segment whose end nobody knows, an offset that was overwritten cannot be told.
    """
    content = several()
    written = {header.crc: header.base_offset for _, header in survey_of(content, Bounds(0, END))}
    assert tuple(written.values()) == OFFSETS
    for start in range(0, len(content), stride(4)):
        for end in range(start + 1, len(content) + 1, 3):
            damaged = content[:start] + bytes([fill]) * (end - start) + content[end:]
            for position, header in survey_of(damaged, Bounds(0, limit, flushed)):
                is_last = position + header.size == len(content) and limit is None and not flushed
                is_hidden = is_last and start < position + BASE_OFFSET_SIZE and end > position
                assert is_hidden or written[header.crc] == header.base_offset, f"[{start}, {end}) is overwritten"


def survey_of(content: bytes, bounds: Bounds) -> list[tuple[int, BatchHeader]]:
    return [piece for piece in survey(file_of(content), bounds) if not isinstance(piece, DamagedExtent)]


def batches_to_the_end(count: int) -> bytes:
    """Headers side by side, each of a batch that would reach to the end, and none of which has the right checksum."""
    content = bytearray()
    for offset in range(count):
        header = bytearray(HEADER_SIZE)
        size = (count - offset) * HEADER_SIZE
        struct.pack_into(">qiib", header, 0, offset, size - BATCH_PREFIX, 1, 2)
        content += header
    return bytes(content)


@pytest.mark.parametrize("search", ["survey", "holds_batch"])
def test_bytes_that_look_like_batches_cost_a_bounded_number_of_checksums(
    search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []

    def counting(buffer: bytes, position: int) -> BatchHeader:
        checked.append(len(buffer) - position)
        return checked_header(buffer, position)

    monkeypatch.setattr(surveying, "checked_header", counting)
    monkeypatch.setattr(surveying, "_ALWAYS_IN_VAIN", 0)
    file = file_of(batches_to_the_end(2_000))
    if search == "survey":
        (damage,) = survey(file, Bounds(0))
        assert isinstance(damage, DamagedExtent)
        assert (damage.position, damage.size, damage.is_tail) == (0, file.size, True)
    else:
        assert holds_batch(file, 0), "where nobody can tell what is cut is kept"
    assert len(checked) < 20
    assert sum(checked) <= 10 * file.size


def test_a_search_is_spent_by_more_bytes_in_vain_than_it_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "_ALWAYS_IN_VAIN", 100)
    reader = surveying._Reader(file_of(batch(0)))
    allowed = 8 * reader.size + 100
    told = []
    for looked_at_in_vain in (allowed - 1, allowed, allowed + 1):
        reader._in_vain = looked_at_in_vain
        told.append(reader.is_spent)
    assert told == [False, False, True]


def test_each_place_that_is_looked_at_counts_as_much_as_a_kibibyte_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing there need look like a batch for the search to end."""
    monkeypatch.setattr(surveying, "_ALWAYS_IN_VAIN", 0)
    reader = surveying._Reader(file_of(b"\x02" * (1 << 12)))
    assert len(list(reader.magic_from(0))) == 8 * (1 << 12) // 1024 + 1


def test_random_bytes_before_a_batch_end_no_search() -> None:
    content = random.Random(3).randbytes(1 << 20) + batch(5)
    file = file_of(content)
    damage, one = found(content, Bounds(0))
    assert isinstance(damage, DamagedExtent)
    assert one == (1 << 20, 5)
    assert holds_batch(file, 0)
    assert not holds_batch(file_of(content[: 1 << 20]), 0)


@pytest.mark.parametrize("behind", [b"", batch(7), b"\x00" * 80], ids=["the end", "a batch", "damage"])
def test_a_batch_behind_damage_is_told_from_one_that_is_the_value_of_a_damaged_record(behind: bytes) -> None:
    """A value has its size before it, and the end of its record behind it; a batch of the log has neither."""
    value = batch(6)
    whole = build_batch([Record(0, 0, None, value)])
    holder = whole[:8] + bytes([whole[8] ^ 1]) + whole[9:]  # its length leads nowhere
    assert holds_batch(file_of(holder + behind), 0)
    assert holds_batch(file_of(holder + behind), 0, 6) == (behind == batch(7))
    assert holds_batch(file_of(holder + value + behind), 0, 6)
    assert not holds_batch(file_of(holder + value + b"\x00" * 80), 0, 7), "that offset is left for it"
    sized = encode_varint(len(value)) + value
    assert holds_batch(file_of(holder + sized + behind), 0, 6) == (behind != b"\x00" * 80), "what follows bears it out"


@pytest.mark.parametrize("behind", [5, 6, 7])
def test_a_batch_with_another_one_behind_it_is_no_value_though_what_stands_before_it_looks_like_its_size(
    behind: int,
) -> None:
    """Wherever that other one begins: its own base offset may have changed."""
    one = batch(6)
    assert holds_batch(file_of(b"\x00" * 80 + encode_varint(len(one)) + one + batch(behind)), 0, 6)


def test_a_value_is_told_by_its_size_though_that_is_all_there_is_before_it() -> None:
    value = batch(6)
    assert not holds_batch(file_of(encode_varint(len(value)) + value + b"\x00" * 80), 0, 6)
