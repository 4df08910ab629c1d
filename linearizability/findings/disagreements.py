"""Two values at one offset; and the acknowledged one that nobody ever read is lost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.findings.known import Known
from tidegauge.linearizability.findings.occurrences import Occurrences, occurrences
from tidegauge.linearizability.findings.pairs import Sayings, contradicting
from tidegauge.linearizability.history import Kind


def find_disagreements(known: Known) -> Iterator[Occurrences]:
    """Offsets of which two operations say that different values are there, and what was lost by that."""
    held = known.holders
    first = held.value[held.first]
    several = np.zeros(len(held.offset), np.bool_)
    several[held.place[held.value != first[held.place]]] = True
    at = np.flatnonzero(several[held.place])
    at = at[np.argsort(held.place[at], kind="stable")]
    place = held.place[at]
    said = Sayings.of(place, held.group[place], held.value[at], held.row[at], held.offset[place])
    things, one, other = contradicting(said, known.elections)
    values = known.values

    def disagree(k: int) -> str:
        a, b = values[said.what[one[k]]], values[said.what[other[k]]]
        return f"offset {said.offset[one[k]]} holds {a} for one and {b} for the other"

    group = said.group[things]
    yield occurrences(Name.INCONSISTENT_OFFSETS, group, (said.row[one], said.row[other]), disagree)
    both, rivals = np.stack((one, other), axis=1).ravel(), np.stack((other, one), axis=1).ravel()
    acknowledged = known.strong[said.row[both]] & (known.rows.ops.kind[said.row[both]] == Kind.PRODUCE)
    lost = np.flatnonzero(acknowledged & (known.first_sighting[said.what[both]] < 0))
    mine, rival = both[lost], rivals[lost]

    def gone(k: int) -> str:
        value, offset = values[said.what[mine[k]]], said.offset[mine[k]]
        return f"{value} was acknowledged at {offset}, where another value is, and nobody ever read it"

    yield occurrences(Name.LOST_WRITE, np.repeat(group, 2)[lost], (said.row[mine], said.row[rival]), gone)
