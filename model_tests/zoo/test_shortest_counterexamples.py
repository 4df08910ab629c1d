"""Each bug that a cluster can show is found on one, along the shortest counterexample that the explorer finds anew.

Random walks of a cluster come to some bugs by luck only: nothing here is drawn, and nothing is read from a file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import attrs
import pytest

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.transaction_roles import CORRECT
from tidegauge.model_tests.harness.counterexamples.explored import shortest_counterexample
from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Failure
from tidegauge.model_tests.harness.counterexamples.replay import Level, Replayed, replay
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.registry import REGISTRY

EXTENDING: Final = Path(__file__).parents[2] / "docs" / "extending.md"
ON_CLUSTER = {
    bug.name: bug
    for registration in HARNESS
    if Side.CLUSTER in registration.sides
    for bug in registration.bugs
    if bug.on_cluster
}
LONG = ("kafka_1211", "kafka_6361", "kafka_7128", "kafka_14139")
"""Their models have more than 10,000 states until it shows: seconds."""
every_bug = pytest.mark.parametrize(
    "bug", [pytest.param(bug, id=name, marks=[pytest.mark.deep] * (name in LONG)) for name, bug in ON_CLUSTER.items()]
)
OF_GROUPS = {
    "kafka_12890": ("ExpireSync", "processes[1].response"),
    "kafka_13419": ("ReceiveSync", "processes[0].member_id"),
    "kafka_9823": ("ReceiveHeartbeat", "processes[0].phase"),
    "kafka_12984": ("ReceiveResponse", "processes[1].shares[0].partitions[1]"),
    "kafka_8069": ("Replicate", "loaded"),
    "kafka_9235": ("FailOver", "former"),
    "kafka_13636": ("Join", "expires"),
    "kafka_17507": ("Replicate", "acknowledged"),
    "kafka_17306": ("Read", "load.group"),
    "kafka_19862": ("Read", "load.group"),
}
"""The same of bugs of groups that campaigns show seldom or never; docs/extending.md has them in a table."""
WHERE = {
    **OF_GROUPS,
    "kafka_8803": ("Verify", "coordination[0].cached.status"),
    "kafka_9777": ("WriteMarker", "coordination[0].unattended"),
    "kafka_16352": ("Replicate", "coordination[0].cached.partitions[0]"),
}
"""The action and the field by which it shows, of those that random walks of a cluster seldom come to."""


@cache
def explored(name: str) -> Counterexample:
    return shortest_counterexample(REGISTRY.bug(name))


@cache
def shown(name: str) -> Replayed:
    """A cluster with the bug, on the explorer's way."""
    return replay(explored(name), Level.CLUSTER)


def taken(replayed: Replayed) -> list[Action]:
    """The actions that both sides have taken or refused."""
    return [step.action for step in replayed.trace.steps]


@every_bug
def test_a_cluster_with_the_bug_goes_the_explorers_way_and_differs(bug: CoreBug[object]) -> None:
    counterexample, found = explored(bug.name), shown(bug.name)
    assert found.failure is not None, f"{bug.name} went unnoticed"
    assert found.failure.kind is Failure.DIFFERENCE, found.words
    assert not found.skipped, "no action of the way is left out until it shows"
    way = (*counterexample.actions, *counterexample.cycle)
    assert taken(found)[: len(way)] == [*way[: found.at]]


@every_bug
def test_a_correct_cluster_goes_the_same_way_and_differs_nowhere(bug: CoreBug[object]) -> None:
    wrong, right = shown(bug.name), replay(explored(bug.name), Level.CLUSTER, with_bug=False)
    assert not right.failed, right.words
    assert not right.passed_over, "the cluster can take every action that the specification allows"
    assert taken(right)[: wrong.at] == taken(wrong), "it goes as far as the one with the bug, and then on"


@pytest.mark.parametrize("name", WHERE)
def test_what_walks_seldom_come_to_shows_where_the_rule_is_wrong(name: str) -> None:
    found = shown(name)
    assert found.failure is not None
    assert (taken(found)[-1].name, found.failure.name) == WHERE[name]


def test_the_docs_say_where_bugs_of_groups_show_on_a_cluster() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `([^`]+)` \|", EXTENDING.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: (action, field) for name, action, field in rows} == OF_GROUPS


def test_a_bug_that_shows_nothing_on_its_way_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = attrs.evolve(ON_CLUSTER["kafka_9777"], roles=CORRECT)
    monkeypatch.setattr(type(HARNESS), "bug", lambda *_: harmless)
    assert not replay(explored("kafka_9777"), Level.CLUSTER).failed


def test_a_specification_that_no_longer_shows_a_bug_is_told() -> None:
    bug = REGISTRY.bug("kafka_9777")
    toothless = attrs.evolve(bug, model=attrs.evolve(bug.model, transactional_ids=1))
    with pytest.raises(AssertionError, match="kafka_9777: the explorer finds nothing in"):
        shortest_counterexample(toothless)
