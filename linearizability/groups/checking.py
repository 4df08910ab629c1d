"""Check what the members of a group saw and did: `check_group(rows)` gives what is wrong, each with its witness."""

from __future__ import annotations

from tidegauge.linearizability.groups.assignments import check_assignments
from tidegauge.linearizability.groups.deliveries import check_deliveries
from tidegauge.linearizability.groups.findings import GroupAnomaly, Promise
from tidegauge.linearizability.groups.history import GroupRows
from tidegauge.linearizability.groups.ownership import check_ownership
from tidegauge.linearizability.groups.registers import check_registers
from tidegauge.linearizability.log import Level


def check_group(
    rows: GroupRows, *, promise: Promise = Promise.AT_LEAST_ONCE, level: Level = Level.KAFKA
) -> tuple[GroupAnomaly, ...]:
    """Every anomaly of the group's history; none if it is valid.

    `promise`: how its application commits. `level`: whether a read of a committed offset may be late.
    """
    return (
        *check_assignments(rows),
        *check_ownership(rows),
        *check_registers(rows, level),
        *check_deliveries(rows, promise),
    )
