"""The cells of a damage campaign: which file is damaged how, in which segment, after which stop; and what is promised.

A cell names one partition's file. Most of what may be damaged has the same promise: the classes are here, and
`docs/durability.md` has their table, which a test compares with `table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import attrs

from tidegauge.model_tests.harness.damage import files
from tidegauge.model_tests.harness.damage.files import Change


class Promise(Enum):
    """What becomes of a damaged partition's records."""

    RECOVERED = "recovered"
    """Every record is there, without another replica."""
    CUT = "recovered up to it"
    """The log ends before what is not intact, which was not flushed; it is told."""
    REFUSED = "refused with words"
    """The damaged offsets are refused and told, all others are served, and the log goes on at its end."""
    REPAIRED = "repaired from a replica"
    """Every record is there again, and the replica is in sync."""
    GONE = "gone, told"
    """Nothing of the file is left and no other replica is there: it is told, and the partition begins anew."""


class Stop(Enum):
    """How the broker's last process ended."""

    CLEAN = "clean stop"
    KILLED = "`kill -9`"


@attrs.frozen
class Kind:
    """One kind of file with one kind of damage."""

    file: str
    damage: str
    change: Change
    where: str
    """Which file of the partition: its name; for segments and indexes with `{closed}` or `{active}` as base offset."""
    promises: tuple[Promise, Promise, Promise, Promise]
    """Clean stop and one replica, clean and three, killed and one, killed and three."""

    def promise(self, stop: Stop, replicas: int) -> Promise:
        return self.promises[2 * (stop is Stop.KILLED) + (replicas > 1)]


_RECOVERED = (Promise.RECOVERED,) * 4
_REFUSED = (Promise.REFUSED, Promise.REPAIRED, Promise.REFUSED, Promise.REPAIRED)
_CUT = (Promise.REFUSED, Promise.REPAIRED, Promise.CUT, Promise.REPAIRED)
_LOST = (Promise.GONE, Promise.REPAIRED, Promise.GONE, Promise.REPAIRED)


def kinds() -> Iterator[Kind]:
    """Every kind of damage to a partition's own files."""
    for damage, change in files.SEGMENT.items():
        yield Kind("closed segment", damage, change, "{closed}.log", _REFUSED)
    for damage, change in files.SEGMENT.items():
        yield Kind("active segment", damage, change, "{active}.log", _CUT)
    yield Kind("stray segment", "empty", files.emptied, "{stray}.log", _RECOVERED)
    yield Kind("stray segment", "garbage", files.garbage, "{stray}.log", _RECOVERED)
    for name, suffix in (("offset index", "index"), ("time index", "timeindex"), ("producer snapshot", "snapshot")):
        for damage, change in files.ANY_FILE.items():
            yield Kind(name, damage, change, f"{{closed}}.{suffix}", _RECOVERED)
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        for damage, change in files.TEXT.items():
            yield Kind(name, damage, change, name, _RECOVERED)
    yield Kind("leader-epoch-checkpoint", "a huge offset", _text("0\n1\n0 " + files.HUGE + "\n"), _EPOCHS, _RECOVERED)
    yield Kind("leader-epoch-checkpoint", "a huge epoch", _text("0\n1\n99999999 0\n"), _EPOCHS, _RECOVERED)
    yield Kind("the partition's directory", "missing", files.missing, "", _LOST)


UNDAMAGED = Kind("none", "none", lambda content, rng: content, "{closed}.log", _RECOVERED)
"""For partitions of which only the directory's checkpoints are damaged."""
_EPOCHS = "leader-epoch-checkpoint"


def _text(text: str) -> Change:
    return lambda content, rng: text.encode()


CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
"""Files of a log directory, with a line for each partition; whatever happens to them, the records are there."""
CHECKPOINT_DAMAGE = ("garbage", "empty", "zeroes", "missing", "a huge number", "half a file")


def table() -> str:
    """The promises, as the page has them."""
    head = "| file | damage | " + " | ".join(
        f"{stop.value}, {replicas}" for stop in Stop for replicas in ("one replica", "three")
    )
    lines = [head + " |", "|---" * 6 + "|"]
    rows: dict[tuple[str, tuple[Promise, ...]], list[str]] = {}
    for kind in kinds():
        rows.setdefault((kind.file, kind.promises), []).append(kind.damage)
    for (file, promises), damages in rows.items():
        cells = " | ".join(promise.value for promise in promises)
        lines.append(f"| {file} | {', '.join(damages)} | {cells} |")
    for name in CHECKPOINTS:
        lines.append(f"| `{name}` | {', '.join(CHECKPOINT_DAMAGE)} | " + " | ".join(["recovered"] * 4) + " |")
    return "\n".join(lines) + "\n"
