"""What happens to a log, its files and what is written down beside them."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery.epoch_lies import SpoilEpochs
from tidegauge.spec.recovery.state import Rot

FAR: Final[int] = 1 << 40
"""An offset that no log has."""


@attrs.frozen
class Append(Action):
    """A batch of so many records, by the leader of before or by a new one."""

    fair: ClassVar[bool] = False

    records: int
    by_new_leader: bool = False


@attrs.frozen
class Roll(Action):
    """The active segment is closed."""

    fair: ClassVar[bool] = False


@attrs.frozen
class Flush(Action):
    """All is brought to stable storage; `noted`: and the recovery point is written down."""

    fair: ClassVar[bool] = False

    noted: bool


@attrs.frozen
class NoteHighWatermark(Action):
    """The high watermark is written down; here it is the log's end."""

    fair: ClassVar[bool] = False


@attrs.frozen
class StartAt(Action):
    """The log starts there from now on, and segments before go."""

    fair: ClassVar[bool] = False

    offset: int


@attrs.frozen
class Truncate(Action):
    """All from a batch on is removed, durably."""

    fair: ClassVar[bool] = False

    offset: int


@attrs.frozen
class StartAnew(Action):
    """All is removed, durably, and the log starts there, as its leader's does; the epoch before is known, or not."""

    fair: ClassVar[bool] = False

    offset: int
    knows_epoch: bool


@attrs.frozen
class AppendAcross(Action):
    """The first batch of a log that has started anew begins before it: its leader's log starts inside that one."""

    fair: ClassVar[bool] = False

    by_new_leader: bool = False


@attrs.frozen
class Repair(Action):
    """A damaged log ends before what is damaged, durably; that and all behind it is kept apart."""


@attrs.frozen
class Close(Action):
    """A shutdown in order: all is flushed, and the recovery point and the log start are written down."""

    fair: ClassVar[bool] = False


@attrs.frozen
class Crash(Action):
    """The files up to number `file` keep what was not synced; of that one `kept` batches stay, the last one `torn`.

    Of later files nothing stays that was not synced, or, where the disk wrote them `first`, all.
    """

    fair: ClassVar[bool] = False

    file: int
    kept: int
    torn: bool
    first: bool


@attrs.frozen
class Spoil(Action):
    """A batch is damaged."""

    fair: ClassVar[bool] = False

    base: int
    number: int
    rot: Rot


@attrs.frozen
class Meet(Action):
    """A batch of an open log is damaged, and a reader who looks at its checksum meets that."""

    fair: ClassVar[bool] = False

    base: int
    number: int
    rot: Rot


@attrs.frozen
class LoseSegment(Action):
    """The files of a segment are gone, but for the snapshot of the producers."""

    fair: ClassVar[bool] = False

    base: int


@attrs.frozen
class MakeUp(Action):
    """There is a file that nobody has written, empty or with something in it that is no batch."""

    fair: ClassVar[bool] = False

    base: int
    is_empty: bool


@attrs.frozen
class MakeUpSnapshot(Action):
    """There is a snapshot of producers that is named after an offset that no log has, or one beyond the log's end."""

    fair: ClassVar[bool] = False

    is_near: bool = False


@attrs.frozen
class LoseEpochs(Action):
    """The file of leader epochs is gone, or holds something else."""

    fair: ClassVar[bool] = False

    is_there: bool


@attrs.frozen
class LosePoint(Action):
    """The recovery point is gone."""

    fair: ClassVar[bool] = False


@attrs.frozen
class LowerPoint(Action):
    """The recovery point that was written down is an earlier offset."""

    fair: ClassVar[bool] = False

    offset: int


@attrs.frozen
class SpoilPoint(Action):
    """The recovery point that was written down is one that no log has."""

    fair: ClassVar[bool] = False


@attrs.frozen
class SpoilStart(Action):
    """The log start that was written down is one that no log has."""

    fair: ClassVar[bool] = False


@attrs.frozen
class SpoilHighWatermark(Action):
    """The high watermark that was written down is one that no log has."""

    fair: ClassVar[bool] = False


@attrs.frozen
class LoseStart(Action):
    """The log start that was written down is gone."""

    fair: ClassVar[bool] = False


@attrs.frozen
class Open(Action):
    """A process opens the log; it may choose to read all of it."""

    reads_all: bool


DAMAGE = (
    Spoil,
    LoseSegment,
    MakeUp,
    MakeUpSnapshot,
    LoseEpochs,
    LosePoint,
    LowerPoint,
    SpoilPoint,
    SpoilStart,
    SpoilHighWatermark,
    LoseStart,
    SpoilEpochs,
)
