"""The small text files beside the logs, in Kafka's formats, and how they are replaced.

Theory of operation
-------------------
Five checkpoints are a version line, a count line and one entry a line: `leader-epoch-checkpoint` (epoch, start
offset) in a partition's directory; `replication-offset-checkpoint` (high watermarks),
`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and `cleaner-offset-checkpoint` (topic, partition,
offset) in the log directory.
`partition.metadata` and `meta.properties` are key-value lines. Decoders return None for text that is damaged: each of
these files can be rebuilt or done without, and the caller knows how. Encoders and decoders are pure;
`write_atomically` does the I/O.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

import attrs

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry

LOGGER: Final = logging.getLogger(__name__)

MOST_BYTES: Final = 64 << 20
"""Of a file that is read as a whole: a larger one was not written here."""

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"

RANDOM: Final = 4
"""The version of a UUID that was drawn."""
_VERSION = "0"
_LARGEST = (1 << 63) - 1
_NUMBER = r"(\d{1,19})"
_EPOCH_ENTRY = re.compile(f"{_NUMBER} {_NUMBER}", re.ASCII)
_OFFSET_ENTRY = re.compile(f"([^ ]*) {_NUMBER} {_NUMBER}", re.ASCII)

TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]


@attrs.define(eq=False, repr=False)
class Checkpoint:
    """One checkpoint file: what is written later is newer, whichever thread comes first."""

    disk: Disk
    directory: str
    name: str
    on_disk: Offsets = attrs.field(factory=dict)
    """What the file holds: as it was read, or written since."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _number: int = 0
    _written: int = 0

    def write(self, offsets: Offsets) -> None:
        """Replace it, durably. Raises OSError."""
        self.begin_write(offsets)()

    def forget(self, key: TopicPartition) -> None:
        """Write it without a partition, durably, if it holds one. Raises OSError."""
        if key in self.on_disk:
            self.write({other: offset for other, offset in self.on_disk.items() if other != key})

    def begin_write(self, offsets: Offsets) -> Callable[[], None]:
        """What `write` would do now, for later, in any thread; nothing when newer ones have been written by then."""
        self._number += 1
        number, text, written = self._number, encode_offsets(offsets), dict(offsets)

        def write() -> None:
            with self._lock:
                if number > self._written:
                    write_atomically(self.disk, self.directory, self.name, text)
                    self._written, self.on_disk = number, written

        return write


def write_atomically(disk: Disk, directory: str, name: str, text: str) -> None:
    """Replace a file so that a crash shows either the old text or the new, and the new once this returned."""
    path = f"{directory}/{name}"
    temporary = f"{path}.tmp"
    file = disk.open_apart(temporary, create=True)
    try:
        if file.size:  # left by a crash
            file.truncate(0)
        file.append(text.encode())
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(directory)


def read_text(disk: Disk, directory: str, name: str) -> str | None:
    """The text of a file; None when there is none, it is too large, or it is not text (a NUL byte is none)."""
    try:
        content = disk.read_whole(f"{directory}/{name}", MOST_BYTES)
        return None if content is None or b"\0" in content else content.decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def encode_entries(entries: Iterable[str]) -> str:
    """A checkpoint's text: version, count, entries."""
    lines = list(entries)
    return "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"


def decode_entries(text: str, entry: re.Pattern[str]) -> list[re.Match[str]] | None:
    """A checkpoint's entries; None when the text is damaged."""
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != _VERSION or lines[1] != str(len(lines) - 2):
        return None
    entries = [found for line in lines[2:] if (found := entry.fullmatch(line))]
    return entries if len(entries) == len(lines) - 2 else None


def encode_leader_epochs(entries: Iterable[EpochEntry]) -> str:
    return encode_entries(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def decode_leader_epochs(text: str) -> list[EpochEntry] | None:
    """The entries, strictly increasing in epoch and offset; None when the text is damaged."""
    found = decode_entries(text, _EPOCH_ENTRY)
    if found is None:
        return None
    entries = []
    least_epoch = least_offset = 0
    for one in found:
        epoch, start_offset = one.groups()
        entries.append(entry := EpochEntry(int(epoch), int(start_offset)))
        if not (least_epoch <= entry.epoch <= _LARGEST and least_offset <= entry.start_offset <= _LARGEST):
            return None
        least_epoch, least_offset = entry.epoch + 1, entry.start_offset + 1
    return entries


def encode_offsets(offsets: Offsets) -> str:
    return encode_entries(f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))


def decode_offsets(text: str) -> dict[TopicPartition, int] | None:
    """Offsets by partition; None when the text is damaged."""
    found = decode_entries(text, _OFFSET_ENTRY)
    if found is None:
        return None
    rows = [one.groups() for one in found]
    offsets = {(sys.intern(topic), int(partition)): int(offset) for topic, partition, offset in rows}
    largest = max((max(partition, offset) for (_, partition), offset in offsets.items()), default=0)
    return offsets if largest <= _LARGEST else None


def read_offsets(disk: Disk, directory: str, name: str) -> dict[TopicPartition, int]:
    """Offsets by partition from a checkpoint; none when the file is missing or damaged."""
    return read_known_offsets(disk, directory, name) or {}


def read_known_offsets(disk: Disk, directory: str, name: str) -> dict[TopicPartition, int] | None:
    """The same; None when the file is missing or damaged."""
    text = read_text(disk, directory, name)
    offsets = decode_offsets(text) if text is not None else None
    if offsets is None and disk.exists(f"{directory}/{name}"):
        log_event(
            LOGGER,
            logging.ERROR,
            "checkpoint rejected",
            file=f"{directory}/{name}",
            why="it is no list of partitions and offsets",
            next="its partitions count as if nothing had been written down for them",
        )
    return offsets


def encode_uuid(value: UUID) -> str:
    """Kafka's way to print a UUID: base64 with '-' and '_', without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID | None:
    """The UUID printed so; None when it is not one."""
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except ValueError:
        return None


def is_almost(one: UUID, other: UUID) -> bool:
    """Whether one differs from the other, a random UUID, in a character or two as they are printed: none drawn does."""
    pairs = zip(encode_uuid(one), encode_uuid(other), strict=True)
    return other.version == RANDOM and one != other and sum(a != b for a, b in pairs) <= 2


def encode_partition_metadata(topic_id: UUID) -> str:
    return f"version: {_VERSION}\ntopic_id: {encode_uuid(topic_id)}"


@lru_cache(maxsize=64)  # all partitions of a topic have the same
def decode_partition_metadata(text: str) -> UUID | None:
    """The topic's id; None when the text is damaged."""
    fields = _decode_pairs(text, ":")
    if fields.get("version") != _VERSION:
        return None
    return decode_uuid(fields.get("topic_id", ""))


def encode_meta_properties(cluster_id: str, node_id: int, directory_id: UUID) -> str:
    """`meta.properties` version 1 (KIP-631, KIP-858): to which cluster, node and directory the files belong."""
    pairs = {"cluster.id": cluster_id, "directory.id": encode_uuid(directory_id), "node.id": node_id, "version": 1}
    return "".join(f"{name}={value}\n" for name, value in pairs.items())


def decode_meta_properties(text: str) -> dict[str, str]:
    """The properties by name; comments are skipped."""
    return _decode_pairs(text, "=")


def _decode_pairs(text: str, separator: str) -> dict[str, str]:
    pairs = (line.partition(separator) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def decode_clean_shutdown(text: str) -> int:
    """The broker epoch in a note of a clean shutdown; -1 when it says none."""
    try:
        note = json.loads(text)
        return int(note["brokerEpoch"])
    except (ValueError, TypeError, KeyError):
        return -1
