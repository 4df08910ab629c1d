"""What the members of one group saw and did: one row an operation, as arrays. docs/history.md documents each column.

A *process* is one life of a client. A *member* is who the assignment is for: processes of one static member are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Outcome

NONE = -1
"""No generation, no partition, no commit."""


class Kind(IntEnum):
    """What a member is told, or does. Those of `DECLARED` take no time: the recorder knows them."""

    MEMBER = 0
    """It is in the generation."""
    EXPECT = 1
    """The leader has this partition to share out in the generation."""
    ASSIGN = 2
    """It is told its assignment: a row for each partition, and one without."""
    RELEASE = 3
    """It does not own the partition any more."""
    COMMIT = 4
    """It commits an offset, for its generation; without one where that is nobody's member."""
    READ = 5
    """It asks which offset is committed."""
    DELIVER = 6
    """Its application is given the record at this offset."""
    SETTLED = 7
    """All has healed. Each offset below this one has a record, and nobody works on the partition any more."""


DECLARED = (Kind.MEMBER, Kind.EXPECT, Kind.RELEASE, Kind.SETTLED)


@attrs.frozen
class GroupRow:
    """One operation; times are nanoseconds, `returned` is None if it never did."""

    kind: Kind
    process: int
    call: int
    returned: int | None = None
    generation: int = NONE
    partition: int = NONE
    offset: int = UNKNOWN
    commit: int = NONE
    """READ: the index of the commit that it has found; the recorder has written it into the commit's metadata."""
    member: int | None = None
    """Whose process it is; None: nobody else's."""
    outcome: Outcome = Outcome.OK

    def __attrs_post_init__(self) -> None:
        if self.returned is not None and self.returned < self.call:
            raise ValueError(
                f"a {self.kind.name.lower()} of process {self.process} returned at {self.returned} before its call at "
                f"{self.call}: take both times from one monotonic clock"
            )


@attrs.frozen(eq=False)
class GroupRows:
    """The rows of one group, as arrays; the index of a row is its place."""

    kind: Ints
    process: Ints
    member: Ints
    generation: Ints
    partition: Ints
    offset: Ints
    commit: Ints
    call: Ints
    returned: Ints
    outcome: Ints

    def __len__(self) -> int:
        return len(self.kind)

    def of(self, kind: Kind) -> Ints:
        """The rows of a kind that are done for certain."""
        return rows_where((self.kind == kind) & (self.outcome == Outcome.OK))

    def told(self, row: int) -> str:
        """A row in words."""
        kind = Kind(int(self.kind[row]))
        verb = {
            Kind.MEMBER: "is a member",
            Kind.EXPECT: "has to share out",
            Kind.ASSIGN: "is assigned",
            Kind.RELEASE: "releases",
            Kind.COMMIT: "commits",
            Kind.READ: "finds committed",
            Kind.DELIVER: "is delivered",
            Kind.SETTLED: "has settled",
        }[kind]
        said = f"#{row} p{self.process[row]} {verb}"
        if kind in (Kind.COMMIT, Kind.DELIVER, Kind.SETTLED, Kind.READ):
            said += f" offset {self.offset[row]}"
        if self.partition[row] != NONE:
            said += f" of partition {self.partition[row]}"
        if self.generation[row] != NONE:
            said += f" in generation {self.generation[row]}"
        until = "never returned" if self.returned[row] == NEVER else str(self.returned[row])
        return f"{said} [{self.call[row]}, {until}]"


def rows_where(flags: Flags) -> Ints:
    """The places at which flags are set."""
    return np.flatnonzero(flags)


def group_history(rows: Iterable[GroupRow]) -> GroupRows:
    """The rows as arrays. Raises ValueError for a row that no recorder can have written."""
    listed: Sequence[GroupRow] = list(rows)
    for place, row in enumerate(listed):
        if problem := _problem(listed, row):
            raise ValueError(f"row {place} is no operation of a group: {problem}")

    def column(values: Iterable[int]) -> npt.NDArray[np.int64]:
        return np.array(list(values), np.int64)

    return GroupRows(
        column(row.kind for row in listed),
        column(row.process for row in listed),
        column(row.process if row.member is None else row.member for row in listed),
        column(row.generation for row in listed),
        column(row.partition for row in listed),
        column(row.offset for row in listed),
        column(row.commit for row in listed),
        column(row.call for row in listed),
        column(row.call if row.kind in DECLARED else NEVER if row.returned is None else row.returned for row in listed),
        column(row.outcome for row in listed),
    )


def _problem(rows: Sequence[GroupRow], row: GroupRow) -> str:
    """Why nobody can have written a row."""
    name = f"row of kind {row.kind.name.lower()}"
    needs_partition = row.kind not in (Kind.MEMBER, Kind.ASSIGN)
    needs_generation = row.kind in (Kind.MEMBER, Kind.EXPECT, Kind.ASSIGN, Kind.DELIVER)
    needs_offset = row.kind in (Kind.COMMIT, Kind.DELIVER, Kind.SETTLED)
    if needs_partition and row.partition < 0:
        return f"it is a {name} without a partition: name it"
    if needs_generation and row.generation < 0:
        return f"it is a {name} without a generation: name it"
    if needs_offset and row.offset < 0:
        return f"it is a {name} without an offset: name it"
    if row.kind is Kind.DELIVER and row.outcome is not Outcome.OK:
        return "a delivery has happened: it is ok"
    if row.commit == NONE:
        return ""
    if row.kind is not Kind.READ:
        return "only a read has found a commit"
    if not 0 <= row.commit < len(rows) or rows[row.commit].kind is not Kind.COMMIT:
        return f"it has found commit {row.commit}, and there is no such commit"
    found = rows[row.commit]
    if (found.partition, found.offset) != (row.partition, row.offset):
        return f"commit {row.commit} is of offset {found.offset} of partition {found.partition}"
    return ""
