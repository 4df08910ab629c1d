"""The randomness port: bytes that nobody can guess, or, on the simulated host, that a seed repeats."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import Protocol


class Randomness(Protocol):
    """Where a node's nonces and salts come from."""

    def token(self, size: int) -> bytes:
        """`size` random bytes, other ones at each call."""


class SystemRandomness:
    """The operating system's source, fit for secrets."""

    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)


class SeededRandomness:
    """The same bytes in every run of a seed, for each node its own; fit for simulations and nothing else."""

    def __init__(self, seed: int, node: str) -> None:
        self._name = f"{seed}/randomness/{node}"
        self._drawn = 0

    def token(self, size: int) -> bytes:
        self._drawn += 1
        drawn = b""
        while len(drawn) < size:
            drawn += blake2b(f"{self._name}/{self._drawn}/{len(drawn)}".encode()).digest()
        return drawn[:size]
