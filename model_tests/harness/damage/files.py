"""Ways to damage a file: what a disk makes of its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Final, TypeAlias

from tidegauge.impl.records.batches import BatchExtent, CorruptRecordError, extents

Change: TypeAlias = Callable[[bytes, Random], bytes | None]
"""What becomes of a file's bytes; None: the file is gone."""

PAGE: Final = 64
"""What counts as a page in files as small as a campaign's."""
HUGE: Final = "9" * 15


def flipped(content: bytes, position: int, rng: Random) -> bytes:
    """With one bit of a byte the other way round."""
    damaged = bytearray(content)
    damaged[position] ^= 1 << rng.randrange(8)
    return bytes(damaged)


BASE_OFFSET: Final = (4, 8)
LEADER_EPOCH: Final = (12, 16)
"""Where a batch has what its checksum does not cover, and another batch would have to contradict."""


def stays_unseen(content: bytes, position: int, bit: int) -> bool:
    """Whether no check finds this flipped bit in the last segment of a log, if that was not flushed.

    It is in the very last batch, and nothing follows that would contradict it: the base offset grows, though not
    absurdly, or the leader epoch is another one that may follow that of the batch before.
    """
    batches: list[BatchExtent] = []
    with suppress(CorruptRecordError):  # damaged before
        batches.extend(extents(content))
    if not batches:
        return False
    within = position - batches[-1].position
    if BASE_OFFSET[0] <= within < BASE_OFFSET[1]:
        return not content[position] >> bit & 1 and not (within == BASE_OFFSET[0] and bit == 7)
    if LEADER_EPOCH[0] <= within < LEADER_EPOCH[1]:
        flipped_epoch = bytearray(content)
        flipped_epoch[position] ^= 1 << bit
        before = _epoch(content, batches[-2]) if len(batches) > 1 else 0
        return _epoch(flipped_epoch, batches[-1]) >= before
    return False


def _epoch(content: bytes | bytearray, batch: BatchExtent) -> int:
    first, end = (batch.position + place for place in LEADER_EPOCH)
    return int.from_bytes(content[first:end], "big", signed=True)


def in_a_batch(first: int, last: int) -> Change:
    """A flipped bit at one of these positions [first, last) of a batch that is not the file's first or last."""

    def change(content: bytes, rng: Random) -> bytes:
        found = list(extents(content))
        batch = rng.choice(found[1:-1] or found)
        return flipped(content, batch.position + rng.randrange(first, min(last, batch.size)), rng)

    return change


def lifted(position: int) -> Change:
    """A batch, not the first or last of the file, whose field at this position has grown beyond all that follows."""

    def change(content: bytes, rng: Random) -> bytes:
        damaged = bytearray(content)
        found = list(extents(content))
        damaged[rng.choice(found[1:-1] or found).position + position] |= 0x40
        return bytes(damaged)

    return change


def somewhere(content: bytes, rng: Random) -> bytes:
    """A flipped bit anywhere."""
    return flipped(content, rng.randrange(len(content)), rng) if content else b"\1"


def half(content: bytes, rng: Random) -> bytes:
    """The first part of the file; where a segment of four batches has three, one of them is torn."""
    return content[: len(content) * 5 // 8]


def zeroes_from_a_page_on(content: bytes, rng: Random) -> bytes:
    """The file's length, with zeroes from some page on."""
    start = rng.randrange(1, max(2, len(content) // PAGE)) * PAGE
    return content[:start] + bytes(max(0, len(content) - start))


def missing(content: bytes, rng: Random) -> None:
    """Nothing."""


def garbage(content: bytes, rng: Random) -> bytes:
    """As many bytes of nothing in particular."""
    return rng.randbytes(max(8, len(content)))


def emptied(content: bytes, rng: Random) -> bytes:
    """A file without bytes."""
    return b""


def zeroed(content: bytes, rng: Random) -> bytes:
    """Zeroes for every byte."""
    return bytes(len(content) or 8)


SEGMENT: Final[Mapping[str, Change]] = {
    "base offset": lifted(3),
    "length": in_a_batch(8, 12),
    "leader epoch": lifted(12),
    "magic": in_a_batch(16, 17),
    "CRC": in_a_batch(17, 21),
    "header": in_a_batch(21, 61),
    "value byte": in_a_batch(80, 110),
    "half a file": half,
    "zeroes from a page on": zeroes_from_a_page_on,
    "missing": missing,
}
ANY_FILE: Final[Mapping[str, Change]] = {
    "a flipped bit": somewhere,
    "half a file": half,
    "zeroes": zeroed,
    "missing": missing,
}
TEXT: Final[Mapping[str, Change]] = {"garbage": garbage, "empty": emptied, "zeroes": zeroed, "missing": missing}
