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


UNCHECKED: Final = ((4, 8), (12, 16))
"""Where a batch's base offset and leader epoch are, which its checksum does not cover; not where they grow absurdly."""


def grows_unseen(content: bytes, position: int, bit: int) -> bool:
    """Whether no check finds this flipped bit in the last segment of a log, if that was not flushed.

    The base offset or the leader epoch of the very last batch grows, and nothing follows that would contradict it.
    """
    batches: list[BatchExtent] = []
    with suppress(CorruptRecordError):  # damaged before
        batches.extend(extents(content))
    if not batches:
        return False
    within = position - batches[-1].position
    is_sign = bit == 7 and within in {first for first, _ in UNCHECKED}
    grows = not content[position] >> bit & 1 and not is_sign
    return grows and any(first <= within < end for first, end in UNCHECKED)


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
