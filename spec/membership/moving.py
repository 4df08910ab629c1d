"""The log directories that a replica moves between: their names, and what may happen (`moves`)."""

from __future__ import annotations

from enum import Enum

import attrs

from tidegauge.spec.kernel.machine import Action

DIRECTORIES = (0, 1)


class As(Enum):
    """What a log is called."""

    OWN = "the replica's"
    FUTURE = "future"
    LEFT = "left"


@attrs.frozen(order=True)
class NamedLog:
    """A log in a directory."""

    name: As = attrs.field(order=lambda name: name.value)
    life: int
    """How often the replica had been given when it was made."""
    move: int = 0
    """The number of the move; 0 of the replica's own."""
    records: int = 0


Names = tuple[NamedLog, ...]


class Stage(Enum):
    """How far a move is."""

    NONE = "nothing moves"
    COPYING = "copying"
    PREPARED = "prepared"
    LEAVING = "leaving"
    LEFT = "left"
    ADOPTING = "adopting"


@attrs.frozen
class Disks:
    """One broker with two log directories, and what the controller says of its replica."""

    names: tuple[Names, ...]
    """The logs in each directory, as a process sees them."""
    stable: tuple[Names, ...]
    """As they were synced."""
    written: tuple[int, ...] = (0, 0)
    """The high watermark that each directory's checkpoint has of the replica."""
    full: frozenset[int] = frozenset()
    offline: frozenset[int] = frozenset()
    running: bool = True
    listed: bool = True
    life: int = 1
    """How often the controller has given the replica to the broker."""
    known: int | None = 0
    """The directory that the controller knows."""
    hosted: int | None = 0
    """Where the replica is for the process."""
    is_lost: bool = False
    """Whether the process has lost the replica with its directory."""
    made: bool = False
    """Whether the process has made its log."""
    stage: Stage = Stage.NONE
    source: int = 0
    """Of the move: where it comes from."""
    moves: int = 0
    failures: int = 0
    acknowledged: int = 0
    """Records of this life."""
    noted: int = 0
    """The highest high watermark that was ever written down for the replica in this life."""


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class Append(Action):
    """A record is appended, flushed and acknowledged."""


@attrs.frozen
class WriteDown(Action):
    """The high watermark is written down where the replica is, and no more elsewhere."""


@attrs.frozen
class Begin(Action):
    """The replica is to move to the other directory: an empty future log is made there."""


@attrs.frozen
class Copy(Action):
    """The future log gets all that there is."""


@attrs.frozen
class Prepare(Action):
    """It is flushed, and the high watermark is written down beside it."""


@attrs.frozen
class GiveUp(Action):
    """The move ends; the replica remains where it is."""


@attrs.frozen
class Leave(Action):
    """The log in the source is called one that was left."""


@attrs.frozen
class SyncLeft(Action):
    """The source's names are brought to stable storage."""


@attrs.frozen
class Adopt(Action):
    """The future log is called the replica's."""


@attrs.frozen
class SyncAdopted(Action):
    """The target's names are brought to stable storage: the move is complete."""


@attrs.frozen
class Tell(Action):
    """The controller learns where the replica is."""


@attrs.frozen
class Free(Action):
    """What was left in a directory is removed."""

    directory: int


@attrs.frozen
class Make(Action):
    """The broker makes the log of a replica that it does not have."""

    directory: int


@attrs.frozen
class TakeAway(Action):
    """The controller takes the replica away, and the broker deletes it where it can."""


@attrs.frozen
class Give(Action):
    """The controller gives it back."""


@attrs.frozen
class Fail(Action):
    """A directory fails."""

    directory: int


@attrs.frozen
class Fill(Action):
    """A directory's disk is full."""

    directory: int


@attrs.frozen
class MakeRoom(Action):
    """There is room again."""

    directory: int


@attrs.frozen
class Stop(Action):
    """The process ends; in these directories only those names are left that were synced."""

    forgetful: frozenset[int] = frozenset()


@attrs.frozen
class Start(Action):
    """A process starts; one directory may be offline still."""

    without: int | None = None


SIMPLE = (Append, WriteDown, Begin, Copy, Prepare, GiveUp, Leave, SyncLeft, Adopt, SyncAdopted, Tell, TakeAway, Give)
IN_DIRECTORY = (Free, Make, Fail, Fill, MakeRoom)
