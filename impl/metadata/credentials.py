"""SCRAM credentials: what the cluster knows of a user's password (RFC 5802, section 3; RFC 7677).

A credential lets a server verify a password, and prove to the client that it knows it too; neither the password nor
anything that would let its reader log in can be computed from it.

    SaltedPassword = Hi(password, salt, iterations)
    ClientKey      = HMAC(SaltedPassword, "Client Key")     StoredKey = H(ClientKey)
    ServerKey      = HMAC(SaltedPassword, "Server Key")
"""

from __future__ import annotations

import hmac
from enum import IntEnum
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from typing import Final, NamedTuple

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384


class ScramMechanism(IntEnum):
    """Kafka's codes of SCRAM mechanisms."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name in the SASL registry."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The hash function, as hashlib calls it."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


class ScramCredential(NamedTuple):
    """What a server keeps of one user's password for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def salted_password(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802: the password, made slow to guess."""
    return pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


def keyed(hash_name: str, key: bytes, text: bytes) -> bytes:
    """HMAC() of RFC 5802."""
    return hmac.digest(key, text, hash_name)


def hashed(hash_name: str, text: bytes) -> bytes:
    """H() of RFC 5802."""
    return new_hash(hash_name, text).digest()


def credential(hash_name: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    return ScramCredential(
        salt,
        hashed(hash_name, keyed(hash_name, salted, b"Client Key")),
        keyed(hash_name, salted, b"Server Key"),
        iterations,
    )
