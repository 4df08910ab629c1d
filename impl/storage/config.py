"""A log's configuration, under Kafka's names (dots and all, in `from_properties`) and with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

UNLIMITED = -1
NEVER = (1 << 63) - 1


def _at_least(minimum: int) -> Callable[[object, attrs.Attribute[int], int], None]:
    def check(_: object, attribute: attrs.Attribute[int], value: int) -> None:
        if value < minimum:
            name = attribute.name.replace("_", ".")
            raise ValueError(f"{name} is {value}: it must be at least {minimum}")

    return check


@attrs.frozen
class LogConfig:
    """One partition's settings; topics may override the broker's."""

    segment_bytes: int = attrs.field(default=1 << 30, validator=_at_least(14))
    """A segment that would grow beyond this many bytes is rolled."""
    segment_ms: int = attrs.field(default=7 * 24 * 60 * 60 * 1000, validator=_at_least(1))
    """A segment is rolled by the first append this many ms after its first record."""
    segment_index_bytes: int = attrs.field(default=10 << 20, validator=_at_least(12))
    """A segment whose index would grow beyond this many bytes is rolled."""
    index_interval_bytes: int = attrs.field(default=4096, validator=_at_least(0))
    """Bytes of log between two index entries, at least."""
    flush_messages: int = attrs.field(default=NEVER, validator=_at_least(1))
    """Sync once this many records are unflushed; by default durability comes from replication."""
    flush_ms: int = attrs.field(default=NEVER, validator=_at_least(0))
    """Sync once a record has been unflushed for this many ms."""
    retention_bytes: int = attrs.field(default=UNLIMITED, validator=_at_least(UNLIMITED))
    """Oldest segments go while the log is larger than this; -1: no limit."""
    retention_ms: int = attrs.field(default=7 * 24 * 60 * 60 * 1000, validator=_at_least(UNLIMITED))
    """Segments go whose newest record is older than this; -1: no limit."""
    max_message_bytes: int = attrs.field(default=(1 << 20) + 12, validator=_at_least(0))
    """Largest batch taken from a client, in bytes."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str | int]) -> LogConfig:
        """A configuration from Kafka's property names. Raises ValueError naming the property and what is allowed."""
        known = {field.name.replace("_", "."): field.name for field in attrs.fields(cls)}
        values: dict[str, int] = {}
        for name, value in properties.items():
            if name not in known:
                raise ValueError(f"{name} is not a setting of a log: use one of {', '.join(known)}")
            try:
                values[known[name]] = int(value)
            except ValueError:
                raise ValueError(f"{name} is {value!r}: it must be a whole number") from None
        return cls(**values)
