"""The newest offset of each key, in a fixed amount of memory: what compaction knows of a log's dirty part.

Theory of operation
-------------------
A slot takes 24 bytes however long the key is: the key's MD5 digest (16 bytes) and its offset (8). Two keys with one
digest count as one; with 128 bits that does not happen by accident, and only a client that may write to the topic could
bring it about. Slots are probed in an order that the digest itself gives, window after window of four bytes, then one
after the other. The map is never filled beyond its load factor, for near the end every probe is long.

The offset is kept plus one, so that zero bytes are a free slot and a fresh map costs nothing but address space.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Final

SLOT_SIZE: Final = 24
DIGEST_SIZE: Final = 16
NOT_FOUND: Final = -1

_OFFSET = struct.Struct(">q")
_WINDOWS = tuple(range(DIGEST_SIZE - 3))


def bytes_for(keys: int, load_factor: float) -> int:
    """Bytes of a map that has room for so many keys."""
    return SLOT_SIZE * (math.ceil(keys / load_factor) + 2)


class OffsetMap:
    """Keys and their newest offsets; holds at most `capacity` keys."""

    def __init__(self, memory_bytes: int, load_factor: float = 0.9) -> None:
        """Raises ValueError when the memory has no room for a single key at this load factor."""
        if not 0 < load_factor <= 1:
            raise ValueError(f"a load factor of {load_factor}: it must be above 0 and at most 1")
        self.slots = memory_bytes // SLOT_SIZE
        self.capacity = min(int(self.slots * load_factor), self.slots - 1)  # a search ends at a free slot
        if self.capacity < 1:
            raise ValueError(
                f"{memory_bytes} bytes at a load factor of {load_factor} have room for no key of {SLOT_SIZE} bytes"
            )
        self.latest_offset = NOT_FOUND
        """Every record up to here has been taken in."""
        self.probes = 0
        """Slots looked at so far."""
        self._size = 0
        self._memory = bytearray(self.slots * SLOT_SIZE)

    def __len__(self) -> int:
        return self._size

    @property
    def is_full(self) -> bool:
        """Whether a key that is not in the map has no place any more."""
        return self._size >= self.capacity

    def put(self, key: bytes, offset: int) -> bool:
        """Note a key's offset, which has to be larger than those before; False when there is no place for a new key."""
        digest = _digest(key)
        position, known = self._find(digest)
        if not known:
            if self.is_full:
                return False
            self._memory[position : position + DIGEST_SIZE] = digest
            self._size += 1
        _OFFSET.pack_into(self._memory, position + DIGEST_SIZE, offset + 1)
        return True

    def get(self, key: bytes) -> int:
        """The newest offset of a key; -1 when the map does not have it."""
        position, known = self._find(_digest(key))
        return int(_OFFSET.unpack_from(self._memory, position + DIGEST_SIZE)[0]) - 1 if known else NOT_FOUND

    def _find(self, digest: bytes) -> tuple[int, bool]:
        """Where the digest is, or would go, and which of the two."""
        memory, slots = self._memory, self.slots
        for window in _WINDOWS:
            slot = int.from_bytes(digest[window : window + 4], "big") % slots
            position = slot * SLOT_SIZE
            self.probes += 1
            if memory[position : position + DIGEST_SIZE] == digest:
                return position, True
            if not any(memory[position + DIGEST_SIZE : position + SLOT_SIZE]):
                return position, False
        while True:
            slot = slot + 1 if slot + 1 < slots else 0
            position = slot * SLOT_SIZE
            self.probes += 1
            if memory[position : position + DIGEST_SIZE] == digest:
                return position, True
            if not any(memory[position + DIGEST_SIZE : position + SLOT_SIZE]):
                return position, False


def _digest(key: bytes) -> bytes:
    return hashlib.md5(key, usedforsecurity=False).digest()
