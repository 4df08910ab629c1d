"""Settings that change while a partition is written to, by hand and exhaustively."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.test_replication import Walk
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.settings import ChangeSettings, KeepsTheEligible, RaisesNoEpoch, Settings
from tidegauge.spec.replication.faults import LapseSession
from tidegauge.spec.replication.machine import Bounds
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE, Error

BOUNDS = Bounds(lapses=9, setting_changes=9)


def walking(min_insync: int = 1) -> Walk:
    return Walk(Settings(brokers=3, max_records=3, min_insync_replicas=min_insync, bounds=BOUNDS))


def eligible(walk: Walk) -> tuple[int, ...]:
    return walk.state.controller.elr


def test_a_leader_commits_by_what_it_has_heard() -> None:
    walk = walking(2).do(LapseSession(1), LapseSession(2), ApplyMetadata(0))
    assert not walk.enabled(Append(0))
    walk.do(ChangeSettings(1, elects_uncleanly=False))
    assert not walk.enabled(Append(0)), "it has not heard of it"
    walk.do(ApplyMetadata(0), Append(0))
    assert walk.state.replicas[0].high_watermark == 1


def test_who_is_eligible_is_looked_at_anew_when_the_number_falls() -> None:
    walk = walking(2).do(LapseSession(1), LapseSession(2))
    assert eligible(walk) == (2,)
    walk.do(ChangeSettings(1, elects_uncleanly=False))
    assert eligible(walk) == ()


def test_a_partition_that_waits_gets_a_leader_when_its_topic_prefers_one() -> None:
    walk = walking().do(LapseSession(1), LapseSession(2), LapseSession(0))
    assert walk.state.controller.leader == NONE
    walk.do(ChangeSettings(1, elects_uncleanly=True))
    assert walk.state.controller.leader == NONE, "nobody is live"
    assert walk.state.controller.elects_uncleanly


@pytest.mark.parametrize("name", [pytest.param("settings", marks=pytest.mark.deep), "settings-unclean"])
def test_explored_to_the_end_every_invariant_holds(name: str) -> None:
    found = explore(MODELS[name].machine)
    assert (found.violations, found.cut, found.unreached) == ((), None, ())


@pytest.mark.parametrize(
    ("machine", "falls"),
    [
        (
            RaisesNoEpoch(brokers=2, max_records=1, bounds=Bounds(shrinks=1, lapses=0, setting_changes=1)),
            "LeaderCandidateCompleteness",
        ),
        (
            KeepsTheEligible(
                brokers=2,
                max_records=1,
                min_insync_replicas=2,
                bounds=Bounds(shrinks=0, lapses=1, setting_changes=1),
            ),
            "LeaderCandidateCompleteness",
        ),
    ],
    ids=["raises no epoch", "keeps the eligible"],
)
def test_a_wrong_rule_is_found(machine: Settings, falls: str) -> None:
    assert explore(machine).violations[0].invariant == falls


def test_a_proposal_that_a_change_has_overtaken_is_refused() -> None:
    walk = Walk(Settings(brokers=2, max_records=3, initial_isr=(0,), bounds=BOUNDS))
    walk.fetch(1).do(ChangeSettings(2, elects_uncleanly=False)).decide()
    (refusal,) = walk.state.network.alter_responses
    assert refusal.error is Error.INVALID_UPDATE_VERSION
