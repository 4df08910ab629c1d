"""`tidegauge strays`: replicas that no metadata know, listed, and deleted by order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tidegauge.exits import Status, Unusable
from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.server.controller.metadata_log import METADATA_DIRECTORY
from tidegauge.impl.storage.checkpoints import META_PROPERTIES
from tidegauge.impl.storage.strays import delete_stray
from tidegauge.impl.storage.strays import strays as strays_in
from tidegauge.screen import Screen, write_json

Flag = Annotated[bool, Parameter(negative="")]


def strays(
    *,
    data: Path,
    delete: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Flag = False,
) -> Status:
    """List the strays of a broker's log directory, or delete some of them for good; the broker may run meanwhile.

    A stray is a replica that the metadata did not know when its broker read them: nobody can tell whether it was
    deleted. It is kept until it is deleted here. To bring one back, stop the broker and rename the directory to
    TOPIC-PARTITION. It stays only if the metadata know its topic id and partition, and give it to this broker.

    Parameters
    ----------
    data
        The log directory: one of log.dirs, or the directory that the broker was given by --data.
    delete
        The name of a stray to delete, as it is listed; may be given several times.
    json
        Print one JSON document, and nothing else.
    """
    if not data.is_dir():
        raise Unusable(f"--data {data}: that is no directory; name a broker's log directory")
    disk, path = RealDisk(), str(data)
    found = strays_in(disk, path)
    if not found:
        refuse_others(data)
    unknown = sorted(set(delete or []).difference(found))
    if unknown:
        known = ", ".join(found) or "none"
        raise Unusable(f"--delete {unknown[0]}: it is no stray in {path}, where there are {known}; nothing was deleted")
    for name in delete or []:
        delete_stray(disk, path, name)
    left = list(strays_in(disk, path))
    if json:
        document = {"data": path, "deleted": delete or [], "strays": left}
        write_json("strays", Status.HOLDS, document, has_verdict=False)
        return Status.HOLDS
    screen = Screen("strays", json=False)
    for name in delete or []:
        screen.say(f"deleted {name}")
    for name in left:
        screen.say(f"{name}  {sum(file.stat().st_size for file in (data / name).iterdir()):,} bytes")
    if not left:
        screen.say(f"no strays in {path}")
    return Status.HOLDS


def refuse_others(data: Path) -> None:
    """Raise Unusable for a directory that is no broker's log directory: that it has no strays would tell nothing."""
    if is_broker_directory(data):
        return
    within = ", ".join(str(path) for path in sorted(data.iterdir()) if is_broker_directory(path))
    way_out = f"name one of {within}" if within else f"name one of log.dirs: it has a {META_PROPERTIES}"
    raise Unusable(f"--data {data}: that is no log directory of a broker; {way_out}")


def is_broker_directory(path: Path) -> bool:
    """Whether a broker has used the directory; a controller's has the metadata log beside its `meta.properties`."""
    return (path / META_PROPERTIES).is_file() and not (path / METADATA_DIRECTORY).exists()
