"""Every rule of classic groups matters: without it a property fails, and every property fails without some rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.groups.rule_mutants import MUTANTS, RuleMutant
from tidegauge.spec.bugs.groups import GROUP_BUGS
from tidegauge.spec.groups.classic.coordinator_rules import CoordinatorRules
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.kernel.explorer import Limits, Stop, explore

NOT_MUTATED: Final[Mapping[str, str]] = {
    "asks_back": "an option (KIP-394): without it members without a process stay until their time is over",
    "instance_of": "a constant of the model",
    "protocols_of": "a constant of the model",
    "started": "what a process begins with",
    "preparing": "the harm of what is revoked too late is that of `kept_on_joining`, which it calls",
    "rejoining": "what a process forgets is that of `after_error`, which calls it",
    "join_request": "what a process has to send, as its state says",
    "sync_request": "what a process has to send, as its state says",
    "heartbeat_request": "what a process has to send, as its state says",
    "leave_request": "what a process has to send, as its state says",
    "commit_request": "what a process has to send, as its state says",
}
"""Why no mutant of the rule is in the list."""


def rules() -> Iterator[str]:
    """The rules of the machine, by name."""
    for kind in (CoordinatorRules, GroupRules):
        yield from (name for name, value in vars(kind).items() if callable(value) and not name.startswith("_"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_rule_violates_what_the_right_one_is_for(mutant: RuleMutant) -> None:
    found = explore(mutant.machine, converges=True, limits=Limits(states=2_000))
    if found.violations:
        assert found.violations[0].invariant == mutant.violates
    else:
        assert found.convergence is not None
        assert mutant.violates in {lasso.goal for lasso in found.convergence.lassos}


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.also], ids=lambda mutant: mutant.name)
def test_a_search_that_goes_on_finds_what_else_is_violated(mutant: RuleMutant) -> None:
    found = explore(mutant.machine, stop=Stop.NEVER, limits=Limits(states=3_500))
    assert {*mutant.also, mutant.violates} <= {violation.invariant for violation in found.violations}


@pytest.mark.parametrize("model", list(dict.fromkeys(mutant.model for mutant in MUTANTS)))
@pytest.mark.deep
def test_the_right_rules_violate_nothing_in_that_model(model: ClassicGroups) -> None:
    assert explore(model, converges=True).holds


def test_every_rule_has_a_mutant_or_a_reason() -> None:
    of_the_zoo = {name for bug in GROUP_BUGS.values() for name in vars(bug.buggy)}
    mutated = {mutant.rule for mutant in MUTANTS}
    assert not mutated & NOT_MUTATED.keys()
    assert set(rules()) - mutated - of_the_zoo == NOT_MUTATED.keys()


def test_every_property_fails_in_a_mutant_or_a_bug() -> None:
    machine = ClassicGroups()
    violated = {name for mutant in MUTANTS for name in (mutant.violates, *mutant.also)}
    for bug in GROUP_BUGS.values():
        violated.update(bug.violates)
    assert {*machine.invariants, *machine.step_invariants, *machine.converges} - violated == set()
