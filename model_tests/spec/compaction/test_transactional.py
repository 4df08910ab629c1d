"""Compaction with transactions as a machine: explored, and broken on purpose, one rule at a time."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.compaction.machine import DELETED
from tidegauge.spec.compaction.transactional import Entry, Kind, Map, State, TransactionalCompaction
from tidegauge.spec.kernel.explorer import explore

QUICK = TransactionalCompaction(max_records=2, keys=1, tombstones=False)
DEEP = (
    TransactionalCompaction(max_records=2),
    TransactionalCompaction(max_records=3, keys=1, tombstones=False),
    TransactionalCompaction(max_records=3, copies=False),
    TransactionalCompaction(max_records=2, producers=2, copies=False),
)


def test_what_is_committed_stays_and_nothing_opens_again() -> None:
    exploration = explore(QUICK, converges=True)
    assert exploration.complete
    assert counted(exploration) == (5_709, 18_410)
    assert exploration.holds, exploration.violations[0]


@pytest.mark.deep
@pytest.mark.parametrize("machine", DEEP)
def test_nothing_is_lost_in_larger_logs(machine: TransactionalCompaction) -> None:
    exploration = explore(machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations[0]


@attrs.frozen
class CleansWhatIsOpen(TransactionalCompaction):
    """A round ends with the closed segments."""

    def cleanable_end(self, state: State) -> int:
        return state.segments[-1]


@attrs.frozen
class AbortedRecordsSupersede(TransactionalCompaction):
    def supersedes(self, state: State, entry: Entry) -> bool:
        return not entry.is_empty and not entry.is_marker


@attrs.frozen
class MarkersSupersede(TransactionalCompaction):
    """The other half of KAFKA-14055, which Kafka never had: a marker takes along the records that have its key."""

    def supersedes(self, state: State, entry: Entry) -> bool:
        return not entry.is_empty and not self.is_aborted(state, entry)


@attrs.frozen
class AbortedRecordsStay(TransactionalCompaction):
    def keeps(self, state: State, map_: Map, entry: Entry) -> bool:
        return self.is_aborted(state, entry) or super().keeps(state, map_, entry)


@attrs.frozen
class MarkersGoAtOnce(TransactionalCompaction):
    """A marker that nothing needs gets no time."""

    def keeps_marker(self, state: State, map_: Map, entry: Entry, *, needed: bool) -> bool:
        return needed and super().keeps_marker(state, map_, entry, needed=needed)


@attrs.frozen
class MarkersAgeFromTheirFirstRound(TransactionalCompaction):
    """A marker's time begins while records need it, and ends whether they do or not."""

    def horizon(self, state: State, map_: Map, entry: Entry, *, needed: bool) -> int:
        return super().horizon(state, map_, entry, needed=False)

    def keeps_marker(self, state: State, map_: Map, entry: Entry, *, needed: bool) -> bool:
        return super().keeps_marker(state, map_, entry, needed=False)


@pytest.mark.parametrize(
    ("machine", "invariant"),
    [
        (CleansWhatIsOpen(max_records=2, keys=1, tombstones=False, copies=False), "NewestCommittedValues"),
        (AbortedRecordsSupersede(max_records=2, keys=1, tombstones=False, copies=False), "NewestCommittedValues"),
        (MarkersSupersede(max_records=2, tombstones=False, copies=False), "NewestCommittedValues"),
        (AbortedRecordsStay(max_records=3, keys=1, tombstones=False, copies=False), "CleanPart"),
        (MarkersGoAtOnce(max_records=2, keys=1, tombstones=False), "PromptReplica"),
        (
            MarkersAgeFromTheirFirstRound(max_records=2, retention=0, max_time=0, tombstones=False, copies=False),
            "NothingOpensAgain",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, TransactionalCompaction) else value,
)
def test_each_rule_is_needed(machine: TransactionalCompaction, invariant: str) -> None:
    exploration = explore(machine)
    assert exploration.violations, "nothing is violated"
    assert exploration.violations[0].invariant == invariant


@pytest.mark.parametrize("between", [False, True])
def test_a_marker_is_needed_by_what_comes_after_the_one_before_it(between: bool) -> None:
    """A former round has left two markers in a row: the second one ends nothing any more, and goes in its time."""
    first, last = Entry(0, 0, 1, producer=0), Entry(4, 0, 2)
    log = (
        first,
        Entry(1, 0, DELETED, kind=Kind.COMMIT, producer=0),
        *((Entry(2, 1, 1, producer=0),) if between else ()),
        Entry(3, 0, DELETED, horizon=0, kind=Kind.COMMIT, producer=0),
        last,
    )
    machine = TransactionalCompaction(max_records=4)
    cleaned = machine.cleaned(State(log, (0, 5), history=(*log, *(last,) * (5 - len(log))), now=1), 2)
    assert (3 in [entry.offset for entry in cleaned.log]) is between
