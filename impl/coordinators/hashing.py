"""Which partition of a coordinator's topic has a transactional id or a group: Java's hash of the string, as in Kafka.

The leader of that partition is the coordinator. Clients do not compute it, but the logs of a Kafka cluster are laid out
by it, and tools that read them ask for it.
"""

from __future__ import annotations

_MIN_INT = -(1 << 31)


def partition_for(name: str, partitions: int) -> int:
    """The partition of a transactional id in `__transaction_state`, or of a group in `__consumer_offsets`."""
    value = java_hash(name)
    return 0 if value == _MIN_INT else abs(value) % partitions


def java_hash(text: str) -> int:
    """What Java's `String.hashCode` returns: over UTF-16 code units, as a signed integer of 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8) + low) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
