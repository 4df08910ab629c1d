"""The hash of the topics that a group reads (KIP-1101): another one begins an epoch of the group.

Theory of operation
-------------------
Of each topic it has what an assignor may decide by, so that nothing of that has to be in the group's records::

    int8 0        how the rest is put together
    uuid          the topic's id, each half as an int64
    string        its name
    int32         how many partitions it has
    of each       its index int32; of each of its replicas' racks, in order, the length int32, and the rack as a string

Numbers are little endian; a string is its UTF-16 code units, little endian, and then how many they are, as an int32.
The hash is XXH3 of 64 bits. That of a group is of its topics' hashes, each an int64, in the order of their names. A
group without topics has 0. Kafka puts the same bytes together: its coordinators and ours agree on what has changed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from xxhash import xxh3_64_intdigest

_VERSION: Final = b"\0"
_HALVES: Final = struct.Struct(">QQ")
_LITTLE_HALVES: Final = struct.Struct("<QQ")
_INT32: Final = struct.Struct("<i")
_HASH: Final = struct.Struct("<q")
_DIGEST: Final = struct.Struct("<Q")


def topic_hash(name: str, topic_id: str, racks: Sequence[bytes]) -> int:
    """The hash of a topic, as an int64. `racks`: of each partition, `racks_bytes`."""
    parts = [_VERSION, _LITTLE_HALVES.pack(*_HALVES.unpack(UUID(topic_id).bytes)), _string(name)]
    parts.append(_INT32.pack(len(racks)))
    for index, each in enumerate(racks):
        parts += _INT32.pack(index), each
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def racks_bytes(racks: Iterable[str]) -> bytes:
    """What there is to say of the racks of a partition's replicas; one in which two are counts twice."""
    return b"".join(_INT32.pack(_units(rack)) + _string(rack) for rack in sorted(racks, key=_order))


def group_hash(topics: Mapping[str, int]) -> int:
    """The hash of a group, as an int64, of its topics' hashes by name; 0 without topics."""
    if not topics:
        return 0
    parts = (_HASH.pack(topics[name]) for name in sorted(topics, key=_order))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def _string(text: str) -> bytes:
    return text.encode("utf-16-le") + _INT32.pack(_units(text))


def _units(text: str) -> int:
    """How many UTF-16 code units a text has."""
    return len(text) + sum(character > "\uffff" for character in text)


def _order(text: str) -> bytes:
    """Texts are in the order of their UTF-16 code units."""
    return text.encode("utf-16-be")


def _signed(number: int) -> int:
    return int(_HASH.unpack(_DIGEST.pack(number))[0])
