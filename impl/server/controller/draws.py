"""Random numbers of a controller: functions of the cluster's seed and of what each number is for."""

from __future__ import annotations

from hashlib import blake2b


class Draws:
    """A seed, and any number of independent random numbers from it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def draw(self, *purpose: str) -> int:
        """A random number of 128 bits; the same for the same seed and purpose."""
        digest = blake2b("/".join((str(self.seed), *purpose)).encode(), digest_size=16).digest()
        return int.from_bytes(digest, "big")

    def topic_id(self, name: str, metadata_offset: int) -> str:
        """A topic id in the form of a random UUID (version 4), another one for each creation of the name."""
        number = self.draw("topic id", name, str(metadata_offset))
        text = f"{number & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
