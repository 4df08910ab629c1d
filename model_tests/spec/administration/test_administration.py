"""The machine of administration keeps its properties, and each of its rules is needed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tidegauge.model_tests.spec.administration import wrong_rules as wrong
from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.models import ADMINISTRATION_MODELS
from tidegauge.spec.administration.settings import UNCLEAN
from tidegauge.spec.administration.state import State
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import Exploration, Stop, explore

ALTERED: Final[dict[str, Any]] = {
    "max_partitions": 1,
    "blocks": 0,
    "min_insync": 2,
    "bounds": Bounds(CreateTopic=1, AlterSettings=1, Fence=1),
}
FENCED: Final[dict[str, Any]] = {
    "max_partitions": 1,
    "settings": (UNCLEAN,),
    "min_insync": 2,
    "bounds": Bounds(CreateTopic=1, Fence=1, Restart=1),
}
REMOVED: Final[dict[str, Any]] = {
    "max_partitions": 1,
    "settings": (),
    "min_insync": 2,
    "bounds": Bounds(CreateTopic=1, Restart=1, Unregister=1),
}
MOVED: Final[dict[str, Any]] = {
    "max_partitions": 1,
    "settings": (),
    "blocks": 0,
    "bounds": Bounds(CreateTopic=1, Reassign=1, Fence=1),
}
GROWN: Final[dict[str, Any]] = {
    "settings": (),
    "blocks": 0,
    "bounds": Bounds(CreateTopic=1, DeleteTopic=1, Grow=1, Reassign=1),
}


def found_in(machine: Administration) -> Exploration[State]:
    found = explore(machine, stop=Stop.NEVER, converges=True)
    assert found.holds
    assert found.complete
    assert not found.unreached
    return found


def test_the_small_models_keep_their_properties_and_take_every_action() -> None:
    counts, never = {}, []
    models = {"altered": ALTERED, "fenced": FENCED, "removed": REMOVED, "moved": MOVED, "grown": GROWN}
    for name, constants in models.items():
        found = found_in(Administration(**constants))
        counts[name] = counted(found)
        never.append(set(found.never_enabled))
    assert counts == {
        "altered": (740, 6_066),
        "fenced": (908, 7_252),
        "removed": (662, 5_313),
        "moved": (262, 2_132),
        "grown": (205, 1_821),
    }
    assert not set.intersection(*never)


@pytest.mark.deep
@pytest.mark.parametrize("name", ADMINISTRATION_MODELS)
def test_the_models_keep_their_properties(name: str) -> None:
    found_in(ADMINISTRATION_MODELS[name].machine)


@pytest.mark.parametrize(
    ("mutant", "model", "violated"),
    [
        (wrong.IgnoresTopics, ALTERED, "NumbersAreFenced"),
        (wrong.AlwaysUnclean, MOVED, "OnlyCandidatesLead"),
        (wrong.NeverUnclean, FENCED, "WhoMayLeadsAtOnce"),
        (wrong.TakesAnyValue, FENCED, "SettingsAreValid"),
        (wrong.ForgetsAll, ALTERED, "AllBrokersHaveMinIsr"),
        (wrong.TellsOneBroker, ALTERED, "SettingsAreValid"),
        (wrong.NoConsequences, ALTERED, "NumbersAreFenced"),
        (wrong.SameEpoch, ALTERED, "NumbersAreFenced"),
        (wrong.SameEligible, ALTERED, "EligibleBelowMinIsr"),
        (wrong.EligibleForEver, MOVED, "EligibleBelowMinIsr"),
        (wrong.NobodyEligible, MOVED, "CandidatesRemain"),
        (wrong.KeepsTheEpoch, GROWN, "EpochsGrow"),
        (wrong.Waits, MOVED, "WhoMayLeadsAtOnce"),
        (wrong.FirstIsBest, FENCED, "OnlyCandidatesLead"),
        (wrong.NobodyIsBest, FENCED, "WhoMayLeadsAtOnce"),
        (wrong.PrefersAnyway, FENCED, "OnlyCandidatesLead"),
        (wrong.StaysInSync, MOVED, "IsrIsLive"),
        (wrong.ForgetsTheFenced, MOVED, "CandidatesRemain"),
        (wrong.TrustsNewProcesses, FENCED, "IsrIsLive"),
        (wrong.EligibleThoughGone, REMOVED, "RemovedIsNotEligible"),
        (wrong.ListsTheRemoved, REMOVED, "NewReplicasAreKnown"),
        (wrong.CountsTwice, MOVED, "ReplicasAreLegal"),
        (wrong.AnyNumberOfReplicas, GROWN, "NothingGrowsOnItsWay"),
        (wrong.InSyncThoughDown, MOVED, "IsrIsLive"),
        (wrong.GrowsOnItsWay, GROWN, "NothingGrowsOnItsWay"),
        (wrong.MovesAtOnce, GROWN, "OnlyCandidatesLead"),
        (wrong.NeverThere, GROWN, "a reassignment with a leader ends"),
        (wrong.ThereTooSoon, GROWN, "AllWhoMovedAreInSync"),
        (wrong.InSyncThoughGone, MOVED, "ReplicasAreLegal"),
        (wrong.CancelsAnyway, MOVED, "CandidatesRemain"),
        (wrong.GivesFormerProcesses, REMOVED, "BlocksAreGivenOnce"),
        (wrong.GivesMoreThanThereAre, REMOVED, "BlocksAreGivenOnce"),
    ],
)
def test_a_rule_that_is_wrong_is_found(mutant: type[Administration], model: dict[str, Any], violated: str) -> None:
    found = explore(mutant(**model), converges=True)
    lassos = () if found.convergence is None else found.convergence.lassos
    assert violated in {*(one.invariant for one in found.violations), *(lasso.goal for lasso in lassos)}
