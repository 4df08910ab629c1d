"""Histories of groups: whose partitions they are, who commits, and which commit a read has found."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Kind
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.linearizability.tapped.recorded import IN_TRANSACTION, Recorded


class Members(Recorded):
    """Lines of groups besides."""

    def ends(self) -> dict[str, int]:
        return self._times_of_one()

    def assigned(self, member: str, generation: int, *partitions: int, **fields: Any) -> None:
        where = {"group": "readers", "member": member, "generation": generation, "topics": {"orders": partitions}}
        self.add("assign", **{**where, **self.ends(), **fields})

    def committed(self, offset: int, error: int | None = 0, **fields: Any) -> None:
        where = {"group": "readers", "topic": "orders", "partition": 0, "offset": offset}
        ends = {} if error is None else {**self.ends(), "error": error}
        self.add("commit_offsets", **{**where, **ends, **fields})

    def found(self, offset: int | None, **fields: Any) -> None:
        where = {"group": "readers", "topic": "orders", "partition": 0, "offset": offset}
        self.add("read_offsets", **{**where, **self.ends(), **fields})

    def anomalies(self, level: Level = Level.KAFKA) -> set[str]:
        return {anomaly.name.value for anomaly in check(self.resolved().operations, level).anomalies}

    def reads(self) -> list[int | None]:
        """For each read the offset that it has found, by the commit that it names."""
        rows = self.rows()
        return [None if row.found is None else rows[row.found].offset for row in rows if row.kind is Kind.READ_OFFSETS]


@pytest.mark.parametrize(("other", "anomalies"), [("b", {"assigned-twice"}), ("a", set())])
def test_one_partition_is_of_one_member_in_a_generation(other: str, anomalies: set[str]) -> None:
    recorded = Members()
    recorded.assigned("a", 3, 0, 1)
    recorded.assigned(other, 3, 1)
    recorded.assigned("b", 4, 0, 1)
    assert recorded.anomalies() == anomalies


def test_two_members_that_commit_in_one_generation_are_found() -> None:
    recorded = Members()
    recorded.committed(1, member="a", generation=3)
    recorded.committed(2, member="b", generation=3)
    assert recorded.anomalies() == {"two-committers"}


@pytest.mark.parametrize(("protocol", "anomalies"), [("classic", {"commit-of-former-generation"}), ("consumer", set())])
def test_a_commit_of_a_former_generation_is_found_but_not_of_a_members_own_epoch(
    protocol: str, anomalies: set[str]
) -> None:
    recorded = Members()
    recorded.assigned("a", 3, 0, 1, protocol=protocol)
    recorded.assigned("b", 4, 1, protocol=protocol)
    recorded.committed(1, member="a", generation=3)
    assert recorded.anomalies() == anomalies


def test_a_read_finds_the_commit_of_its_offset() -> None:
    recorded = Members()
    recorded.found(None)
    recorded.committed(5)
    recorded.found(5)
    recorded.committed(7, metadata="ab")
    recorded.found(7)
    recorded.found(7, metadata="ab")
    recorded.found(9)
    assert recorded.reads() == [None, 5, 7], "what nobody has committed is left out"
    assert recorded.anomalies(Level.STRICT) == set()
    recorded.found(5)
    assert recorded.anomalies(Level.STRICT) == {"committed-offset-order"}
    assert recorded.anomalies() == set(), "a coordinator that is none any more may be late"


def test_a_read_of_an_offset_that_was_committed_again_later_is_left_out() -> None:
    recorded = Members()
    recorded.committed(5)
    recorded.committed(5)
    recorded.found(5)
    assert recorded.reads() == [5]
    recorded.committed(7)
    recorded.committed(5)
    recorded.found(5)
    assert recorded.reads() == [5], "before or after 7"


def test_a_refused_commit_is_not_found() -> None:
    recorded = Members()
    recorded.committed(5, error=22)
    recorded.found(5)
    assert recorded.reads() == []
    recorded.committed(6, error=None)
    recorded.found(6)
    assert recorded.reads() == [6]
    assert recorded.anomalies(Level.STRICT) == set()


def test_offsets_in_transactions_are_of_the_history_of_these() -> None:
    recorded = Members()
    recorded.sent(100 | IN_TRANSACTION, offset=0, producer=[7, 0, 0], transactional=True)
    recorded.committed(5, producer=[7, 0])
    recorded.ended((7, 0), commit=False)
    assert {row.history for row in recorded.rows()} == {0}
    assert recorded.anomalies(Level.STRICT) == set()
    recorded.found(5, stable=True)
    assert "failed-commit-read" in recorded.anomalies(Level.STRICT)


def test_each_other_group_is_a_history_of_its_own() -> None:
    recorded = Members()
    recorded.sent(4, offset=0)
    recorded.committed(1)
    recorded.committed(1, group="others")
    assert [row.history for row in recorded.rows()] == [0, 1, 2]
    assert recorded.anomalies() == set()
