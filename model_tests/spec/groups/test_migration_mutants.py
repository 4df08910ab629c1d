"""Every rule of a group that goes over matters: without it a property fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.groups.consumer_mutants import RuleMutant
from tidegauge.model_tests.spec.groups.migration_mutants import MUTANTS
from tidegauge.model_tests.spec.variants import VARIANTS, properties
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.rules import MigrationRules
from tidegauge.spec.kernel.explorer import Limits, explore

NOT_MUTATED: Final[Mapping[str, str]] = {
    "is_classic": "a constant of the model",
    "heartbeat_error": "which of the other rules are asked",
    "committing_error": "which of the other rules are asked",
    "may_expire_rebalance": "which of two time-outs removes a classic member that is too slow",
    "heartbeat_request": "what a process has to send, as its state says",
    "leave_request": "what a process has to send, as its state says",
    "after_response": "a process in its generation; `after_assignment` has the rest",
    "after_asking_for_an_id": "what a process knows of the member id that it was given",
    "after_loss": "what it saves is time: a process that goes on with SyncGroup is told to join again",
}
"""Why no mutant of the rule is in the list."""
LARGE: Final = (
    "ForgetsWhatIsLeftOver",
    "HasNothingMore",
    "BeginsEpochsAnew",
    "TakesAnyGeneration",
    "TellsWhatIsNotInTheLog",
)
"""Mutants that take many states to find."""
OF_BOTH: Final = {"TargetCovers", "ToldIsKept", "MembersKnowTheirOffsets", "OffsetsDoNotGoBack"}
"""Properties of consumer groups, each of which fails in a mutant there."""


def rules() -> Iterator[str]:
    """The rules of the machine, by name."""
    yield from (name for name, value in vars(MigrationRules).items() if callable(value) and not name.startswith("_"))


@pytest.mark.parametrize(
    "mutant", [pytest.param(one, id=one.name, marks=[pytest.mark.deep] * (one.name in LARGE)) for one in MUTANTS]
)
def test_a_wrong_rule_violates_what_the_right_one_is_for(mutant: RuleMutant) -> None:
    found = explore(mutant.machine, converges=True, limits=Limits(states=50_000))
    if found.violations:
        assert found.violations[0].invariant == mutant.violates
    else:
        assert found.convergence is not None
        assert mutant.violates in {lasso.goal for lasso in found.convergence.lassos}


@pytest.mark.parametrize("model", list(dict.fromkeys(mutant.model for mutant in MUTANTS)))
@pytest.mark.deep
def test_the_right_rules_violate_nothing_in_that_model(model: GroupMigration) -> None:
    assert explore(model, converges=True).holds


def test_every_rule_has_a_mutant_or_a_reason() -> None:
    mutated = {mutant.rule for mutant in MUTANTS}
    assert not mutated & NOT_MUTATED.keys()
    assert set(rules()) - mutated == NOT_MUTATED.keys()


def test_every_property_fails_in_a_mutant_here_or_of_consumer_groups() -> None:
    own = dict(properties(GroupMigration()))
    violated = {name for mutant in MUTANTS for name in (mutant.violates, *mutant.also)}
    violated |= {name for machine, _, name in VARIANTS if machine == "group-migration"}
    assert own.keys() - violated == OF_BOTH
    consumers = dict(properties(ConsumerGroups()))
    assert {name: consumers[name] for name in OF_BOTH} == {name: own[name] for name in OF_BOTH}
