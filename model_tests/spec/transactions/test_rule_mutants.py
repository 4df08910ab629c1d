"""Every rule of transactions matters: without it a property fails, and every property fails without some rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.transactions.rule_mutants import MUTANTS, RuleMutant
from tidegauge.spec.bugs.transactions import TRANSACTION_BUGS
from tidegauge.spec.kernel.explorer import Limits, explore
from tidegauge.spec.transactions.coordinator_rules import CoordinatorRules
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.partition_rules import PartitionRules
from tidegauge.spec.transactions.rules import TransactionRules

NOT_MUTATED: Final[Mapping[str, str]] = {
    "id_of": "a constant of the model: which process is of which transactional id",
    "is_taken_over": "a name for what a field says",
    "stopped": "what a process knew that has come to its end: nobody asks",
    "at_rest": "the harm of a wrong state between two transactions is that of `after_end`, which calls it",
    "init_request": "what a process waits for, as its state says",
    "end_request": "what a process waits for, as its state says",
    "add_request": "what a process waits for, as its state says",
    "produce_request": "what a process waits for, as its state says",
    "waits_at": "what a process waits for, as its state says",
}
"""Why no mutant of the rule is in the list."""


def rules() -> Iterator[str]:
    """The rules of the machine, by name."""
    for kind in (CoordinatorRules, PartitionRules, TransactionRules):
        yield from (name for name, value in vars(kind).items() if callable(value) and not name.startswith("_"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_rule_violates_what_the_right_one_is_for(mutant: RuleMutant) -> None:
    found = explore(mutant.machine, converges=True, limits=Limits(states=5_000))
    if found.violations:
        assert found.violations[0].invariant == mutant.violates
    else:
        assert found.convergence is not None
        assert mutant.violates in {lasso.goal for lasso in found.convergence.lassos}


@pytest.mark.parametrize("model", list(dict.fromkeys(mutant.model for mutant in MUTANTS)))
@pytest.mark.deep
def test_the_right_rules_violate_nothing_in_that_model(model: Transactions) -> None:
    assert explore(model, converges=True).holds


def test_every_rule_has_a_mutant_or_a_reason() -> None:
    of_the_zoo = {name for bug in TRANSACTION_BUGS.values() for name in vars(bug.buggy)}
    mutated = {mutant.rule for mutant in MUTANTS}
    assert not mutated & NOT_MUTATED.keys()
    assert set(rules()) - mutated - of_the_zoo == NOT_MUTATED.keys()


def test_every_property_fails_in_a_mutant_or_a_bug() -> None:
    machine = Transactions()
    violated = {mutant.violates for mutant in MUTANTS}
    for bug in TRANSACTION_BUGS.values():
        violated.update(bug.violates)
    assert {*machine.invariants, *machine.step_invariants, *machine.converges} - violated == set()
