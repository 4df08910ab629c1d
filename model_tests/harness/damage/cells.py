"""The cells of a damage campaign: which file is damaged how, in which segment, after which stop; and what is promised.

A cell names one partition's file; a pair has a damaged segment and a damaged checkpoint of the directory beside it.
Most of what may be damaged has the same promise: the classes are here, and `docs/durability.md` has their tables, which
a test compares with `table` and `table_of_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    PASSED_OVER = "passed over, told"
    """Readers go on behind what is missing, as behind what a cleaner has left out; it is told."""
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
    log_start: int = 0
    """Where the partition's log starts: what lies before was deleted."""

    def promise(self, stop: Stop, replicas: int) -> Promise:
        return self.promises[2 * (stop is Stop.KILLED) + (replicas > 1)]


_RECOVERED = (Promise.RECOVERED,) * 4
_REFUSED = (Promise.REFUSED, Promise.REPAIRED, Promise.REFUSED, Promise.REPAIRED)
_CUT = (Promise.REFUSED, Promise.REPAIRED, Promise.CUT, Promise.REPAIRED)
_LOST = (Promise.GONE, Promise.REPAIRED, Promise.GONE, Promise.REPAIRED)
_PASSED_OVER = (Promise.PASSED_OVER, Promise.REPAIRED, Promise.PASSED_OVER, Promise.REPAIRED)


def kinds(*, cleaned: bool = False) -> Iterator[Kind]:
    """Every kind of damage to a partition's own files; a cleaner was at it, or not."""
    for damage, change in files.SEGMENT.items():
        is_left_out = cleaned and damage == "missing"  # or lost: nothing tells
        yield Kind("closed segment", damage, change, "{closed}.log", _PASSED_OVER if is_left_out else _REFUSED)
    for damage, change in files.SEGMENT.items():
        yield Kind("active segment", damage, change, "{active}.log", _CUT)
    for damage in BELOW_START:
        change = files.SEGMENT[damage]
        yield Kind("segment, below the log start", damage, change, "{closed}.log", _RECOVERED, log_start=LOG_START)
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
BELOW_START = ("length", "magic", "CRC", "header", "value byte")
"""What leaves the batches behind it as they are."""
LOG_START = 7
"""In a closed segment, behind its third batch."""


def _text(text: str) -> Change:
    return lambda content, rng: text.encode()


RECOVERY_POINT, CLEANED_TO = "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"
CHECKPOINTS = (
    RECOVERY_POINT,
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    CLEANED_TO,
)
"""Files of a log directory, with a line for each partition; whatever happens to them, the records are there."""
CHECKPOINT_DAMAGE = ("garbage", "empty", "zeroes", "missing", "a huge number", "half a file", "a flipped bit")
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""What a clean stop leaves behind."""
ALL = "all of these"
BESIDE: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in (*CHECKPOINTS, CLEAN_SHUTDOWN)},
    ALL: (*CHECKPOINTS, CLEAN_SHUTDOWN),
}
"""What is damaged beside a segment."""


@attrs.frozen
class Pair:
    """A damaged segment, and in its directory a damaged checkpoint, or all of them."""

    beside: str
    damage: str
    kind: Kind
    cleaned: bool = False
    """Whether a cleaner was at the log."""

    def promised(self, stop: Stop, replicas: int) -> frozenset[Promise]:
        """What may become of it: one thing, unless a flipped bit may leave a line as it was.

        A log that is short, and of whose end nothing is left that knows, is fetched like any follower's.
        """
        alone = self.kind.promise(stop, replicas)
        together = promise_beside(self.beside, self.damage, self.kind, stop, replicas, cleaned=self.cleaned)
        found = {alone, together} if self.damage == "a flipped bit" else {together}
        if together is Promise.REPAIRED and self.kind.damage == "missing":
            found.add(Promise.RECOVERED)
        return frozenset(found)


def segment_kinds(*, cleaned: bool = False) -> list[Kind]:
    """The kinds of damage to segments."""
    return [kind for kind in kinds(cleaned=cleaned) if kind.file in ("closed segment", "active segment")]


def promise_beside(
    beside: str, damage: str, kind: Kind, stop: Stop, replicas: int, *, cleaned: bool = False
) -> Promise:
    """What becomes of a damaged segment whose directory has a damaged checkpoint.

    With the recovery point nothing tells what a crash may take. What a clean stop leaves then is whole but for what is
    damaged, and the high watermark and the snapshots of the producers tell where it ended. The note of a clean stop
    says so by being there, whatever is in it: without that and the recovery point the log ends where it can be read.
    What a cleaner was at is on stable storage, whatever the recovery point says. If its mark is lost, no cleaner was.
    """
    if cleaned and beside in (CLEANED_TO, ALL):
        (kind,) = (one for one in segment_kinds() if (one.file, one.damage) == (kind.file, kind.damage))
    if cleaned and beside == RECOVERY_POINT and kind.file == "closed segment":
        return kind.promise(stop, replicas)
    if replicas > 1 or beside not in (RECOVERY_POINT, ALL):
        return kind.promise(stop, replicas)
    is_known_clean = stop is Stop.CLEAN and not (beside == ALL and damage == "missing")
    return kind.promise(stop, replicas) if is_known_clean else Promise.CUT


LOST, SPOILT = "missing", "garbage"
"""Of the damage to checkpoints, what has promises of its own and what stands for all else."""


def table_of_pairs() -> str:
    """The promises for pairs, as the page has them."""
    lines = [_head("damaged as well | segment"), "|---" * 6 + "|"]
    rows: dict[tuple[str, tuple[Promise, ...]], list[str]] = {}
    for file in ("closed segment", "active segment"):
        (kind, *_) = (one for one in segment_kinds() if one.file == file)
        for beside in BESIDE:
            for damage in (LOST, SPOILT):
                promises = tuple(promise_beside(beside, damage, kind, stop, n) for stop in Stop for n in (1, 3))
                name = f"`{beside}`"
                if beside == ALL:
                    name = f"{beside} ({'missing' if damage == LOST else 'there, but damaged'})"
                names = rows.setdefault((file, promises), [])
                names.extend([] if name in names else [name])
    for (file, promises), names in rows.items():
        lines.append(f"| {', '.join(names)} | {file} | " + " | ".join(promise.value for promise in promises) + " |")
    return "\n".join(lines) + "\n"


def _head(first: str) -> str:
    return (
        f"| {first} | "
        + " | ".join(f"{stop.value}, {replicas}" for stop in Stop for replicas in ("one replica", "three"))
        + " |"
    )


def table() -> str:
    """The promises, as the page has them."""
    lines = [_head("file | damage"), "|---" * 6 + "|"]
    rows: dict[tuple[str, tuple[Promise, ...]], list[str]] = {}
    plain = {(kind.file, kind.damage): kind for kind in kinds()}
    for kind in plain.values():
        rows.setdefault((kind.file, kind.promises), []).append(kind.damage)
    for kind in kinds(cleaned=True):
        if kind.promises != plain[kind.file, kind.damage].promises:
            rows.setdefault((f"{kind.file} of a log that a cleaner was at", kind.promises), []).append(kind.damage)
    for (file, promises), damages in rows.items():
        cells = " | ".join(promise.value for promise in promises)
        lines.append(f"| {file} | {', '.join(damages)} | {cells} |")
    for name in CHECKPOINTS:
        lines.append(f"| `{name}` | {', '.join(CHECKPOINT_DAMAGE)} | " + " | ".join(["recovered"] * 4) + " |")
    return "\n".join(lines) + "\n"
