"""What the published model of replication 3.5 is made of; TLC's counts of it are in `test_tlc`."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.published.replication35 import variants
from tidegauge.spec.published.replication35.machine import Replication35
from tidegauge.spec.published.replication35.state import EpochEnd, Follower, Metadata, Record, Replica, Role

LOG = (Record(1, 0), Record(3, 1))


def replica(role: Role, epoch: int = 5, log: tuple[Record, ...] = LOG) -> Replica:
    return Replica((Follower(),) * 3, role, Metadata(leader_epoch=epoch), log)


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(0, EpochEnd(0, 0)), (1, EpochEnd(1, 1)), (2, EpochEnd(1, 1)), (3, EpochEnd(3, 2)), (4, EpochEnd(3, 2))],
)
def test_an_epoch_ends_where_a_later_one_begins(epoch: int, end: EpochEnd) -> None:
    assert Replication35().end_of_epoch(replica(Role.LEADER), epoch) == end
    assert Replication35().end_of_epoch(replica(Role.FOLLOWER), epoch) == end


def test_the_leaders_own_epoch_ends_where_its_log_does() -> None:
    assert Replication35().end_of_epoch(replica(Role.LEADER), 5) == EpochEnd(5, 2)
    assert Replication35().end_of_epoch(replica(Role.FOLLOWER), 5) == EpochEnd(3, 2)
    assert Replication35().end_of_epoch(replica(Role.LEADER, log=()), 2) == EpochEnd(2, 0)


def test_a_follower_truncates_where_both_logs_have_the_epoch() -> None:
    own = replica(Role.FOLLOWER)
    ends = (EpochEnd(0, 0), EpochEnd(1, 0), EpochEnd(1, 2), EpochEnd(2, 2), EpochEnd(3, 5))
    assert [Replication35().truncation_offset(own, end) for end in ends] == [0, 0, 1, 1, 2]


def test_who_is_outside_the_isr_at_first_is_fenced_and_knows_nothing_of_it() -> None:
    (state,) = Replication35().initial()
    assert [each.is_fenced for each in state.registrations] == [False, False, True]
    assert [each.replica.metadata.isr for each in state.brokers] == [(0, 1), (0, 1), (0, 1, 2)]
    assert [len(each.metadata_log) for each in state.brokers] == [1, 1, 0]


@pytest.mark.parametrize("constant", ["brokers", "values", "min_isr"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    changed: dict[str, Any] = {constant: 0}
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(attrs.evolve(Replication35(), **changed).initial()))


@pytest.mark.parametrize("larger", [{"min_isr": 3}, {"initial_isr": 4}, {"replication_factor": 4}])
def test_each_size_is_at_least_the_one_before(larger: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="as large as the one before"):
        next(iter(attrs.evolve(Replication35(), **larger).initial()))


def test_a_violation_shows_who_leads_and_the_logs() -> None:
    found = explore(variants.CountsTheRecordFetched(), stop=Stop.FIRST)
    values: dict[str, Any] = dict(found.violations[0].values)
    assert values["leader"] == (0, 1)
    assert values["ISR"] == (0, 1)
    assert values["high watermarks"] == [1, 0, 0]
    assert values["logs"] == [(Record(1, 0),), (), ()]
    assert values["writes"] == ["ACKED"]
