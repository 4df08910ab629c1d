"""Whose a directory is: `meta.properties`, which every log directory of a broker and a controller's directory have.

Theory of operation
-------------------
The file names the cluster, the node and the directory (KIP-631, KIP-858). It is written once, when the node first uses
the directory, and never changed. A cluster's id is made once, by its first controller (`new_cluster_id`).

A start looks at the files of all directories before it changes anything in one of them. A directory that says that it
is another cluster's or another node's, or that has the id of a directory beside it, is a mistake of an operator: the
node does not start (`ForeignLogDirectoryError`). A file that is damaged, or is missing where there are logs, says
nothing of whose the directory is: the directory is left as it is, offline (`DamagedIdentityError`).

A line with a checksum ends the file; it is a comment for Kafka's tools. Without that line the file counts as written by
hand, and its values are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.storage import checkpoints

CHECKSUM: Final = "#crc32c="
VERSION: Final = "1"
HOLDS_DATA: Final = ("-stray", checkpoints.RECOVERY_POINT_CHECKPOINT, checkpoints.LOG_START_OFFSET_CHECKPOINT)
"""How names end that only a directory in use has, besides those of partitions."""


class ForeignLogDirectoryError(Exception):
    """The directory belongs to another cluster or node, or is a copy of another one."""


class DamagedIdentityError(Exception):
    """Nobody can tell whose the directory is: its `meta.properties` is damaged, or missing beside data."""


class Identity(NamedTuple):
    """What `meta.properties` says."""

    cluster_id: str
    node_id: int
    directory_id: UUID

    @property
    def lines(self) -> str:
        """The file's text."""
        text = checkpoints.encode_meta_properties(self.cluster_id, self.node_id, self.directory_id)
        return f"{text}{CHECKSUM}{crc32c(text.encode()):08x}\n"


def new_cluster_id(token: Callable[[int], bytes]) -> str:
    """A random id in Kafka's form: 22 characters of base64, not beginning with '-' (it would look like an option)."""
    while True:
        if not (drawn := checkpoints.encode_uuid(UUID(bytes=token(16), version=4))).startswith("-"):
            return drawn


def is_replicas(name: str) -> bool:
    """Whether a name in a log directory is of something that only a directory in use has."""
    topic, dash, number = name.rpartition("-")
    return bool(dash and topic and number.isascii() and number.isdigit()) or name.endswith(HOLDS_DATA)


def read_identity(
    disk: Disk, path: str, *, node_id: int, cluster_id: str | None, is_data: Callable[[str], bool] = is_replicas
) -> Identity | None:
    """What the directory's `meta.properties` says; None for a directory that is new: nothing in it `is_data`.

    Raises ForeignLogDirectoryError when it is another node's, or another cluster's than `cluster_id` (None: any is
    right), DamagedIdentityError, and OSError.
    """
    if not disk.exists(path):
        return None
    names = disk.list_directory(path)
    if checkpoints.META_PROPERTIES not in names:
        if data := next((name for name in names if is_data(name)), None):
            raise _damaged(path, f"is missing, though {data} is there", node_id, cluster_id)
        return None
    text = checkpoints.read_text(disk, path, checkpoints.META_PROPERTIES)
    identity, reason = _decoded(text)
    if identity is None:
        raise _damaged(path, reason, node_id, cluster_id, text or "")
    for name, theirs, ours in (
        ("node.id", identity.node_id, node_id),
        ("cluster.id", identity.cluster_id, cluster_id),
    ):
        if ours is not None and theirs != ours:
            raise ForeignLogDirectoryError(
                f"{path} belongs to {name}={theirs}, this node has {name}={ours}: nothing in it was changed. Give the "
                "node a directory of its own, or start it with the cluster and the id that the directory belongs to"
            )
    return identity


def _decoded(text: str | None) -> tuple[Identity | None, str]:
    """The identity, or why there is none."""
    if text is None:
        return None, "is no text"
    if not text.strip("\0 \r\n"):
        return None, "is empty"
    body, mark, checksum = text.rpartition(CHECKSUM)
    if mark and checksum.strip() != f"{crc32c(body.encode()):08x}":
        return None, "does not match its checksum"
    found = checkpoints.decode_meta_properties(text)
    if (version := found.get("version")) != VERSION:
        return None, f"has version={version}, not {VERSION}"
    cluster_id, node_id = found.get("cluster.id", ""), found.get("node.id", "")
    if not cluster_id:
        return None, "has no cluster.id"
    if not (node_id.isascii() and node_id.isdecimal()):
        return None, f"has node.id={node_id}, which is no id"
    directory_id = checkpoints.decode_uuid(written := found.get("directory.id", ""))
    if directory_id is None or checkpoints.encode_uuid(directory_id) != written:
        return None, f"has directory.id={written}, which is no id"
    return Identity(cluster_id, int(node_id), directory_id), ""


def _damaged(path: str, reason: str, node_id: int, cluster_id: str | None, text: str = "") -> DamagedIdentityError:
    """What is wrong and what to write; a directory id that the file's text still has is kept."""
    directory_id = checkpoints.decode_uuid(written := checkpoints.decode_meta_properties(text).get("directory.id", ""))
    is_kept = directory_id is not None and checkpoints.encode_uuid(directory_id) == written
    lines = f"cluster.id={cluster_id or 'as in the files of its other nodes'}", f"node.id={node_id}"
    wanted = ", ".join(
        (*lines, f"directory.id={written if is_kept else 'a random uuid in base64'}", f"version={VERSION}")
    )
    return DamagedIdentityError(
        f"{path}/{checkpoints.META_PROPERTIES} {reason}: nothing in {path} was changed. If the directory is this "
        f"node's, write the file again with the lines {wanted}; if it is not, give the node another directory"
    )


def refuse_mixture(identities: Iterable[tuple[str, Identity]]) -> None:
    """Raise ForeignLogDirectoryError for directories (path, identity) of several clusters, or with the same id."""
    known: Sequence[tuple[str, Identity]] = tuple(identities)
    for number, (path, identity) in enumerate(known):
        for other_path, other in known[:number]:
            if identity.cluster_id != other.cluster_id:
                raise ForeignLogDirectoryError(
                    f"{other_path} belongs to cluster.id={other.cluster_id}, {path} to cluster.id="
                    f"{identity.cluster_id}: name directories of one cluster. Nothing in them was changed"
                )
            if identity.directory_id == other.directory_id:
                raise ForeignLogDirectoryError(
                    f"{other_path} and {path} have the same directory.id="
                    f"{checkpoints.encode_uuid(identity.directory_id)}, so one is a copy of the other: take one "
                    "of them out of log.dirs. Nothing in them was changed"
                )


def write_identity(disk: Disk, path: str, identity: Identity) -> None:
    """Make a directory the node's, durably."""
    checkpoints.write_atomically(disk, path, checkpoints.META_PROPERTIES, identity.lines)
