"""All anomalies of the flagged partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.findings.disagreements import find_disagreements
from tidegauge.linearizability.findings.holes import find_unfillable_holes
from tidegauge.linearizability.findings.known import Known
from tidegauge.linearizability.findings.lengths import find_contradictions
from tidegauge.linearizability.findings.occurrences import Occurrences, in_words
from tidegauge.linearizability.findings.polls import find_poll_anomalies
from tidegauge.linearizability.findings.values import (
    find_bad_reads,
    find_duplicates,
    find_reused_values,
    find_torn_batches,
)
from tidegauge.linearizability.history import Ints, Operations
from tidegauge.linearizability.log import BLOCK, Level
from tidegauge.linearizability.rows import Rows

HOLE_STEPS = 100_000
"""How many steps the search for a filling of the holes takes before it gives up: the verdict is then unknown."""

FINDERS = (
    find_bad_reads,
    find_duplicates,
    find_torn_batches,
    find_disagreements,
    find_contradictions,
    find_poll_anomalies,
)


def look(
    operations: Operations, partitions: Sequence[Ints], level: Level = Level.KAFKA, hole_steps: int = HOLE_STEPS
) -> list[Anomaly]:
    """All anomalies of `partitions`, each given by its rows in order of index: by partition, in its order, and name."""
    anomalies: list[Anomaly] = []
    for some in _gathered(partitions):
        rows = np.concatenate(some)
        # A large history is often one partition: no copy is made of that.
        whole = len(rows) == len(operations) and bool((rows == np.arange(len(rows))).all())
        anomalies.extend(_look(operations if whole else operations.take(rows), level, hole_steps))
    return anomalies


def _gathered(partitions: Sequence[Ints]) -> Iterator[list[Ints]]:
    """The partitions in turns of about as many rows as are screened at once."""
    held: list[Ints] = []
    size = 0
    for rows in partitions:
        held.append(rows)
        size += len(rows)
        if size >= BLOCK:
            yield held
            held, size = [], 0
    if held:
        yield held


def _look(operations: Operations, level: Level, hole_steps: int) -> list[Anomaly]:
    rows = Rows.of(operations)
    reused = list(find_reused_values(rows))
    if not reused:
        return in_words(operations, _found(Known(rows, level), hole_steps))
    # Where a value may be either of two records, nothing else can be told.
    spoiled = np.zeros(rows.groups, np.bool_)
    spoiled[np.concatenate([one.group for one in reused])] = True
    others = operations.take(np.flatnonzero(~spoiled[rows.group]))
    anomalies = in_words(operations, reused)
    if len(others):
        anomalies += in_words(others, _found(Known(Rows.of(others), level), hole_steps))
    first = np.flatnonzero(np.concatenate(([True], rows.group[1:] != rows.group[:-1])))
    places = zip(
        *(column[first].tolist() for column in (operations.history, operations.topic, operations.partition)),
        strict=True,
    )
    order = {(history, operations.topics[topic], number): at for at, (history, topic, number) in enumerate(places)}
    return sorted(anomalies, key=lambda one: order[one.history, one.topic, one.partition])


def _found(known: Known, hole_steps: int) -> Iterator[Occurrences]:
    for finder in FINDERS:
        yield from finder(known)
    yield from find_unfillable_holes(known, hole_steps)
