"""What a verdict does not cover of one partition, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.linearizability.coverage import Gap
from tidegauge.linearizability.evidence import is_strong
from tidegauge.linearizability.history import NEVER, Kind, Operation
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.linearizability.row_by_row.evidence import Evidence


def gap(rows: Sequence[Operation]) -> Gap:
    """What is not covered of one partition, given its operations in order of index."""
    evidence = Evidence(rows, Level.KAFKA)
    must: dict[int, int] = {}
    confirmed: set[int] = set()
    for row in (*filter(is_strong, evidence.produces), *evidence.fetches):
        for value, offset in zip(row.values, row.placed, strict=True):
            if value in evidence.writes and offset < evidence.exposed_from(row):
                must[value] = min(offset, must.get(value, NEVER))
        if row.kind is Kind.FETCH and row.call >= evidence.settled:
            confirmed.update(row.values)
    lost = [offset for value, offset in must.items() if value not in confirmed]
    reads = [one for one in evidence.at_least if one.operation.kind is not Kind.PRODUCE]
    known = [one.length for one in reads if one.operation.call >= evidence.settled]
    reached = max((min(one.length, evidence.exposed_from(one.operation)) for one in evidence.at_least), default=0)
    return Gap(
        history=rows[0].history,
        topic=rows[0].topic,
        partition=rows[0].partition,
        records=len(must),
        unconfirmed=len(lost),
        first=min(lost, default=None),
        open_end=reached > max([evidence.log_start, *known]),
        settled=evidence.settled != NEVER,
    )
