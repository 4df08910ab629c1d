"""Check what the members of groups saw and did, in arrays, the groups of many histories at once."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.groups.assignments import check_assignments
from tidegauge.linearizability.groups.decisions import Decisions
from tidegauge.linearizability.groups.deliveries import check_deliveries
from tidegauge.linearizability.groups.findings import Found
from tidegauge.linearizability.groups.ownership import check_ownership
from tidegauge.linearizability.groups.registers import check_registers
from tidegauge.linearizability.groups.table import GroupTable
from tidegauge.linearizability.history import Operations, blocks
from tidegauge.linearizability.log import BLOCK, Level


def check_groups(operations: Operations, decisions: Decisions, level: Level = Level.KAFKA) -> list[Anomaly]:
    """Every anomaly of the groups; all rows are of groups, well formed, and sorted by history and index.

    `decisions`: what becomes of each row. `level`: whether a read of a committed offset may be late.
    """
    anomalies: list[Anomaly] = []
    for start, stop in blocks(operations, BLOCK):
        table = GroupTable.of(operations.slice(start, stop), decisions.slice(start, stop))
        placed = [one for found in _found(table, level) for one in found.anomalies(table)]
        # By history; the rules are in their order.
        anomalies += [anomaly for _, anomaly in sorted(placed, key=lambda one: int(table.group[one[0]]))]
    return anomalies


def _found(table: GroupTable, level: Level) -> Iterator[Found]:
    yield from check_assignments(table)
    yield from check_ownership(table)
    yield from check_registers(table, level)
    yield from check_deliveries(table)
