"""A log's configuration, under Kafka's names (dots and all, in `from_properties`) and with Kafka's defaults.

`preallocate` is not among them: files grow as they are written, and indexes are written with the size that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

UNLIMITED = -1
NEVER = (1 << 63) - 1
DELETE = "delete"
COMPACT = "compact"
CLEANUP_POLICIES = (COMPACT, DELETE)
PRODUCER = "producer"
UNCOMPRESSED = "uncompressed"
COMPRESSION_TYPES = (UNCOMPRESSED, "zstd", "lz4", "snappy", "gzip", PRODUCER)
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


def _at_least(minimum: int) -> Callable[[object, attrs.Attribute[int], int], None]:
    def check(_: object, attribute: attrs.Attribute[int], value: int) -> None:
        if value < minimum:
            name = attribute.name.replace("_", ".")
            raise ValueError(f"{name} is {value}: it must be at least {minimum}")

    return check


def _between(least: float, most: float) -> Callable[[object, attrs.Attribute[float], float], None]:
    def check(_: object, attribute: attrs.Attribute[float], value: float) -> None:
        if not least <= value <= most:
            name = attribute.name.replace("_", ".")
            raise ValueError(f"{name} is {value}: it must be between {least} and {most}")

    return check


def _policies(_: object, attribute: attrs.Attribute[frozenset[str]], value: frozenset[str]) -> None:
    if not value <= set(CLEANUP_POLICIES):
        raise ValueError(f"cleanup.policy is {', '.join(sorted(value))!r}: use compact, delete, or both")


def _one_of(*words: str) -> Callable[[object, attrs.Attribute[str], str], None]:
    def check(_: object, attribute: attrs.Attribute[str], value: str) -> None:
        if value not in words:
            raise ValueError(f"{attribute.name.replace('_', '.')} is {value!r}: use one of {', '.join(words)}")

    return check


@attrs.frozen(eq=False, repr=False)
class LogConfig:
    """One partition's settings; topics may override the broker's."""

    segment_bytes: int = attrs.field(default=1 << 30, validator=_at_least(14))
    """A segment that would grow beyond this many bytes is rolled."""
    segment_ms: int = attrs.field(default=7 * 24 * 60 * 60 * 1000, validator=_at_least(1))
    """A segment is rolled by the first append this many ms after its first record."""
    segment_jitter_ms: int = attrs.field(default=0, validator=_at_least(0))
    """segment.ms is shortened by up to this many ms, so that segments that were begun together are not rolled so."""
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
    cleanup_policy: frozenset[str] = attrs.field(default=frozenset({DELETE}), validator=_policies)
    """`delete`: retention by age and size; `compact`: the newest value of each key is kept (KIP-71: both at once)."""
    min_cleanable_dirty_ratio: float = attrs.field(default=0.5, validator=_between(0, 1))
    """A log is compacted when more than this part of its cleanable bytes has not been compacted before."""
    min_compaction_lag_ms: int = attrs.field(default=0, validator=_at_least(0))
    """A record is not compacted away before it is this old (KIP-58)."""
    max_compaction_lag_ms: int = attrs.field(default=NEVER, validator=_at_least(1))
    """A record is compacted at the latest when it is this old (KIP-354)."""
    delete_retention_ms: int = attrs.field(default=24 * 60 * 60 * 1000, validator=_at_least(0))
    """How long a tombstone, or a transaction's marker, stays after the cleaner first met it (KIP-534)."""
    file_delete_delay_ms: int = attrs.field(default=60_000, validator=_at_least(0))
    """How long files stay on disk under a name that ends in `.deleted` or `-delete`."""
    compression_type: str = attrs.field(default=PRODUCER, validator=_one_of(*COMPRESSION_TYPES))
    """How batches are stored: as they came (`producer`), or compressed anew where they came otherwise."""
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = attrs.field(default=CREATE_TIME, validator=_one_of(CREATE_TIME, LOG_APPEND_TIME))
    """Whose time a record carries: its producer's, or that of the leader's append."""
    message_timestamp_before_max_ms: int = attrs.field(default=NEVER, validator=_at_least(0))
    """How much older than the leader's clock a record's CreateTime may be (KIP-937)."""
    message_timestamp_after_max_ms: int = attrs.field(default=60 * 60 * 1000, validator=_at_least(0))
    """How much newer than the leader's clock a record's CreateTime may be (KIP-937)."""

    @property
    def is_compacted(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether segments go by age and size."""
        return DELETE in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """A segment's longest time to grow: a compacted log's has to close before its records are due (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> LogConfig:
        """A configuration from Kafka's property names; values may be text.

        Raises ValueError naming the property and what is allowed.
        """
        known = {field.name.replace("_", "."): field.name for field in attrs.fields(cls)}
        values: dict[str, Any] = {}
        for name, value in properties.items():
            if name not in known:
                raise ValueError(f"{name} is not a setting of a log: use one of {', '.join(known)}")
            parse, kind = _PARSERS.get(name, _WHOLE_NUMBER)
            try:
                values[known[name]] = parse(value)
            except (TypeError, ValueError):
                raise ValueError(f"{name} is {value!r}: it must be {kind}") from None
        return cls(**values)


def _listed(value: Any) -> frozenset[str]:
    names = value.split(",") if isinstance(value, str) else value
    return frozenset(stripped for name in names if (stripped := name.strip()))


_WHOLE_NUMBER: Final[tuple[Callable[[Any], Any], str]] = (int, "a whole number")
_PARSERS: Final[Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "cleanup.policy": (_listed, "compact, delete, or both"),
    "min.cleanable.dirty.ratio": (float, "a number"),
    "compression.type": (str, "a word"),
    "message.timestamp.type": (str, "a word"),
}
