"""Damage done to valid bytes, all of it decided by a random generator."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

INTERESTING: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""Where integers, lengths and counts change their meaning."""


def _flip_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] = rng.randrange(256)


def _set_integer(data: bytearray, rng: random.Random) -> None:
    form = rng.choice((">B", ">H", ">I"))
    size = struct.calcsize(form)
    if len(data) >= size:
        value = rng.choice(INTERESTING) & ((1 << 8 * size) - 1)
        struct.pack_into(form, data, rng.randrange(len(data) - size + 1), value)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _remove(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.randrange(1, 9)]


def _insert(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:start] = rng.randbytes(rng.randrange(1, 9))


def _repeat(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    data[start:start] = data[start : start + rng.randrange(1, 33)]


WAYS: Final[Sequence[Callable[[bytearray, random.Random], None]]] = (
    _flip_bit,
    _set_byte,
    _set_integer,
    _cut,
    _remove,
    _insert,
    _repeat,
)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A copy with one to four injuries."""
    copy = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if copy:
            rng.choice(WAYS)(copy, rng)
    return bytes(copy)
