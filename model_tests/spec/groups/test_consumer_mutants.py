"""Every rule of consumer groups matters: without it a property fails, and every property fails without some rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.groups.consumer_mutants import MUTANTS, STABLE, RuleMutant
from tidegauge.spec.groups.consumer.coordinator_rules import CoordinatorRules
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.kernel.explorer import Limits, Stop, explore

NOT_MUTATED: Final[Mapping[str, str]] = {
    "heartbeat_error": "which of the other rules are asked",
    "away": "what it saves is time: without it what the member had to give back is free when its session ends",
    "instance_of": "a constant of the model",
    "started": "what a process begins with",
    "heartbeat_request": "what a process has to send, as its state says",
    "leave_request": "what a process has to send, as its state says",
    "commit_request": "what a process has to send, as its state says",
    "has_topic": "what there is, as the state says",
    "is_there": "a topic that has come and has not gone, and its partitions",
    "racks_of": "where replicas are, as the state says",
    "expression_of": "a constant of the model",
    "removal": "that it is written, and what is written is `removed`",
    "written": "the group as it is; one that goes over is written as another one",
    "committing_error": "`commit_error`, of the group as it is now",
    "taken_over": "there are classic groups in a migration only (`test_migration_mutants`)",
    "to_give_back": "what a process has to give back, as its state says",
}
"""Why no mutant of the rule is in the list."""
LARGE: Final = ("RaisesTheEpoch", "CommitsWhatIsGivenBack", "HasItForEver")
"""Mutants that take many states to find."""


def rules() -> Iterator[str]:
    """The rules of the machine, by name."""
    for kind in (CoordinatorRules, ConsumerRules):
        yield from (name for name, value in vars(kind).items() if callable(value) and not name.startswith("_"))


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


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.violates == STABLE], ids=lambda mutant: mutant.name)
def test_a_group_never_comes_to_one_epoch_without_what_leads_to_it(mutant: RuleMutant) -> None:
    found = explore(mutant.machine, converges=True)
    assert found.responses is not None
    assert found.responses.names == tuple(lasso.goal for lasso in found.responses.lassos)


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.also], ids=lambda mutant: mutant.name)
@pytest.mark.deep
def test_a_search_that_goes_on_finds_what_else_is_violated(mutant: RuleMutant) -> None:
    found = explore(mutant.machine, stop=Stop.NEVER, limits=Limits(states=100_000))
    assert {*mutant.also, mutant.violates} <= {violation.invariant for violation in found.violations}


@pytest.mark.parametrize("model", list(dict.fromkeys(mutant.model for mutant in MUTANTS)))
@pytest.mark.deep
def test_the_right_rules_violate_nothing_in_that_model(model: ConsumerGroups) -> None:
    assert explore(model, converges=True).holds


def test_every_rule_has_a_mutant_or_a_reason() -> None:
    mutated = {mutant.rule for mutant in MUTANTS}
    assert not mutated & NOT_MUTATED.keys()
    assert set(rules()) - mutated == NOT_MUTATED.keys()


def test_every_property_fails_in_a_mutant() -> None:
    machine = ConsumerGroups()
    violated = {name for mutant in MUTANTS for name in (mutant.violates, *mutant.also)}
    assert {*machine.invariants, *machine.step_invariants, *machine.converges} - violated == set()
