"""A wrong rule for each rule of loading groups that the zoo has none for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegauge.model_tests.spec.rule_mutant import RuleMutant, Wrong, always
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.groups.loading.rules import Change
from tidegauge.spec.groups.loading.state import NONE, Group, Holding, Kind, Member, Record
from tidegauge.spec.kernel.evolving import evolve

SMALL: Final = GroupLoading(max_rounds=1)
LEAVING: Final = GroupLoading(members=1, max_changes=2)


def _at_once(machine: Any, right: Wrong, group: Group, number: int) -> Member:
    """A member is where the target has it, whatever others have."""
    return Member(group.target_epoch, Holding.ASSIGNED if group.targets[number] else Holding.NOTHING)


def _without_current(machine: Any, right: Wrong, before: Group | None, after: Group | None) -> Iterator[Change]:
    return (change for change in right(before, after) if change[0] is not Kind.CURRENT)


def _without_tombstones(machine: Any, right: Wrong, group: Group | None, record: Record) -> Group | None:
    after: Group | None = group if record.value is None else right(group, record)
    return after


def _keeps_members(machine: Any, right: Wrong, group: Group, tombstone: Record) -> Group | None:
    after: Group | None = right(group, tombstone)
    return after if after is None or tombstone.kind is not Kind.MEMBER else evolve(after, members=group.members)


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant("gives_it_to_nobody", "rebalanced", lambda m, right, group, owner: right(group, NONE), SMALL,
               "a load has read of two members that have the partition"),
    RuleMutant("takes_what_another_one_has", "is_free", always(True), SMALL, "OneOwner"),
    RuleMutant("is_at_the_target_at_once", "advanced", _at_once, SMALL, "OneOwner"),
    RuleMutant("writes_no_assignments", "changed", _without_current, LEAVING, "LoadedIsWritten"),
    RuleMutant("drops_the_last_of_a_key", "is_replaced", always(True), LEAVING, "LoadedIsWritten"),
    RuleMutant("drops_tombstones_before_values", "is_clean", always(True), LEAVING, "LoadedIsWritten"),
    RuleMutant("drops_tombstones_ahead_of_a_load", "has_had_its_time", always(True), LEAVING, "LoadedIsWritten"),
    RuleMutant("passes_over_tombstones", "replayed", _without_tombstones, LEAVING, "LoadedIsWritten"),
    RuleMutant("keeps_members_that_are_gone", "without", _keeps_members, LEAVING, "LoadedIsWritten"),
)
# fmt: on
