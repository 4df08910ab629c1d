"""Settings that change while a partition is written to, by hand and exhaustively."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import settings
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.settings import ChangeSettings, Settings, TopicSettings
from tidegauge.spec.replication.faults import ExpireSession
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE, Error

BOUNDS = Bounds(ShrinkIsr=1, ExpireSession=9, ChangeSettings=9)


def walking(min_insync: int = 1) -> Walk:
    return Walk(
        Replication(brokers=3, max_records=3, min_insync_replicas=min_insync, bounds=BOUNDS, extensions=(Settings(),))
    )


def eligible(walk: Walk) -> tuple[int, ...]:
    return walk.state.controller.elr


def test_a_leader_commits_by_what_it_has_received() -> None:
    walk = walking(2).do(ExpireSession(1), ExpireSession(2), ApplyMetadata(0))
    assert not walk.enabled(Append(0))
    walk.do(ChangeSettings(1, elects_uncleanly=False))
    assert not walk.enabled(Append(0)), "it does not know it yet"
    walk.do(ApplyMetadata(0), Append(0))
    assert walk.state.replicas[0].high_watermark == 1


def test_who_is_eligible_is_looked_at_anew_when_the_number_is_lowered() -> None:
    walk = walking(2).do(ExpireSession(1), ExpireSession(2))
    assert eligible(walk) == (2,)
    walk.do(ChangeSettings(1, elects_uncleanly=False))
    assert eligible(walk) == ()


def test_a_partition_that_waits_gets_a_leader_when_its_topic_prefers_one() -> None:
    walk = walking().do(ExpireSession(1), ExpireSession(2), ExpireSession(0))
    assert walk.state.controller.leader == NONE
    walk.do(ChangeSettings(1, elects_uncleanly=True))
    assert walk.state.controller.leader == NONE, "nobody is live"
    assert TopicSettings.of(walk.state.controller).elects_uncleanly


@pytest.mark.parametrize("name", [pytest.param("settings", marks=pytest.mark.deep), "settings-unclean"])
def test_explored_to_the_end_every_invariant_holds(name: str) -> None:
    found = explore(MODELS[name].machine, converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations
    assert name not in COUNTS or counted(found) == COUNTS[name]


@pytest.mark.parametrize("bug", settings.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates


def test_a_proposal_that_a_change_has_overtaken_is_refused() -> None:
    walk = Walk(Replication(brokers=2, max_records=3, initial_isr=(0,), bounds=BOUNDS, extensions=(Settings(),)))
    walk.fetch(1).do(ChangeSettings(2, elects_uncleanly=False)).decide()
    (refusal,) = walk.state.network.alter_responses
    assert refusal.error is Error.INVALID_UPDATE_VERSION


def test_without_the_raised_epoch_a_leader_commits_without_a_replica_that_is_eligible() -> None:
    bug = next(bug for bug in settings.BUGS if bug.name == "raises_no_epoch")
    last = explore(bug.machine()).violations[0].trace.last
    assert any(len(last.replicas[broker].log) < len(last.history.committed) for broker in last.controller.elr)


@pytest.mark.deep
@pytest.mark.parametrize("bug", settings.BUGS, ids=lambda bug: bug.name)
def test_the_model_in_which_a_wrong_rule_shows_holds_with_the_right_one(bug: Bug[Replication]) -> None:
    found = explore(bug.correct_machine())
    assert (found.violations, found.cut) == ((), None)
