"""KAFKA-5600: a coordinator loads the first record of a group that it reads."""

from __future__ import annotations

from collections.abc import Iterable

from tidegauge.impl.coordinators.groups.classic.messages import Moment, Outcome
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.log_entries import GroupWritten, LogEntry
from tidegauge.impl.coordinators.groups.offsets import GroupOffsets
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles


class RemembersTheFirst(GroupOffsets):
    """What the log says, and of each group what it has said first."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, GroupMetadata] = {}

    def replay(self, entries: Iterable[LogEntry]) -> None:
        for entry in (known := list(entries)):
            if isinstance(entry, GroupWritten) and entry.metadata is not None:
                self.first.setdefault(entry.group, entry.metadata)
        super().replay(known)


class LoadsTheFirstRecord(GroupCoordinator):
    """A group that it knows already stays as it is."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.offsets = RemembersTheFirst()

    def take_over(self, group: str, now: Moment) -> Outcome:
        first = self.offsets.first.get(group) if isinstance(self.offsets, RemembersTheFirst) else None
        return Outcome() if first is None else self.classic.load(group, first, now)


BUG = CoreBug("kafka_5600", GroupRoles(coordinator=LoadsTheFirstRecord))
