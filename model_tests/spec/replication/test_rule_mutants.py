"""Every rule of replication matters: without it a property fails, and every property fails without some rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tidegauge.model_tests.spec.replication.rule_mutants import MUTANTS, RuleMutant
from tidegauge.spec.bugs import BUGS
from tidegauge.spec.bugs.late import BUGS as LATE_BUGS
from tidegauge.spec.kernel.explorer import Limits, Stop, explore
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules

NOT_MUTATED: Final[Mapping[str, str]] = {
    "has_lost_since": "an invariant asks it, no action: a wrong one hides or invents a violation",
    "in_sync_at_first": "a constant of the model: where a behaviour begins",
    "replica_count": "a constant of the model, which reassignment makes a rule",
    "replica_order": "any order of the replicas is as good as another: it is the operator's",
    "refusal": "a response with an error changes nothing at who receives it",
    "not_hosting": "the machine alone loses no directory: `directories` does",
    "taken_away": "the machine alone takes no replica away: `reassignment` does",
    "on_disk": "a process of the machine alone loses no replica that its disk has: `directories` does",
    "written": "only a clean stop writes everything: `controlled-shutdown` has one",
    "stopped": "only a clean stop: `controlled-shutdown` has one",
    "survivor": "what a crash leaves is the environment's choice, and no process that crashed is trusted (KIP-966)",
    "cut_off": "the machine alone loses what a dead process sent: `late-messages` does not",
    "parts_with_metadata": "the machine alone has no parts: `settings` has",
    "settled": "nothing follows from a change in the machine alone: `reassignment` has what does",
}
"""Why no mutant of the rule is in the list."""


def rules() -> Iterator[str]:
    """The rules of the machine, by name."""
    return (name for name, value in vars(ReplicationRules).items() if callable(value) and not name.startswith("_"))


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, id=mutant.name, marks=[pytest.mark.deep] * mutant.large) for mutant in MUTANTS],
)
def test_a_wrong_rule_violates_what_the_right_one_is_for(mutant: RuleMutant) -> None:
    found = explore(mutant.machine, converges=True)
    if found.violations:
        assert found.violations[0].invariant == mutant.violates
    else:
        assert found.convergence is not None
        assert mutant.violates in {lasso.goal for lasso in found.convergence.lassos}


def is_large(model: Replication) -> bool:
    """Whether it takes seconds to explore without a violation."""
    return max(model.brokers, model.max_records + 1) > 2 or sum(model.bounds[name] for name in model.bounds) > 1


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, marks=[pytest.mark.deep] * is_large(model))
        for place, model in enumerate(dict.fromkeys(mutant.model for mutant in MUTANTS if not mutant.large))
    ],
)
def test_the_right_rules_violate_nothing_in_that_model(model: Replication) -> None:
    assert explore(model, converges=True).holds


def test_every_rule_has_a_mutant_or_a_reason() -> None:
    of_the_zoo = {name for bug in (*BUGS.values(), *LATE_BUGS) for name in vars(bug.buggy)}
    mutated = {mutant.rule for mutant in MUTANTS}
    assert not mutated & NOT_MUTATED.keys()
    assert set(rules()) - mutated - of_the_zoo == NOT_MUTATED.keys()


def test_an_acknowledged_record_is_missed_where_a_crashed_process_is_trusted() -> None:
    """A replica that lacks it lacks a committed record as well, which is what is found first."""
    (mutant,) = (each for each in MUTANTS if each.name == "trusts_a_crashed_process")
    found = explore(mutant.machine, stop=Stop.EACH, limits=Limits(states=5_000))
    assert found.violation("NoCommittedRecordLost") is not None


def test_every_property_fails_in_a_mutant_or_a_bug() -> None:
    machine = Replication()
    violated = {mutant.violates for mutant in MUTANTS} | {"NoCommittedRecordLost"}  # the test above
    for bug in (*BUGS.values(), *LATE_BUGS):
        violated.update(bug.violates)
    assert {*machine.invariants, *machine.step_invariants} - violated == set()
