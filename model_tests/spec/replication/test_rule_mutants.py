"""Every rule of replication matters: without it a property fails, and every property fails without some rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.replication.rule_mutants import MUTANTS, RuleMutant
from tidegauge.spec.bugs import BUGS
from tidegauge.spec.bugs.late import BUGS as LATE_BUGS
from tidegauge.spec.kernel.explorer import Limits, Stop, explore
from tidegauge.spec.kernel.machine import constants_of
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS, NIGHTLY
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


VERIFIED: Final[Mapping[str, Replication]] = {
    name: model.machine for name, model in MODELS.items() if name not in NIGHTLY
}
"""The models that every verification explores to their end."""
ELSEWHERE: Final[Mapping[str, str]] = {
    "counts_the_fenced_as_live": "preferred",
    "trusts_who_lost_its_tail": "late-messages",
    "trusts_a_crashed_process": "late-messages",
    "writes_a_proposal_on_an_older_partition_epoch": "settings",
}
"""Mutant -> a verified model that shows it, though the mutant's own one is part of none."""
PASSED_ALL: Final[Mapping[str, str]] = {
    "notes_the_fetch_of_a_new_process_at_once": "rejoin",
    "elects_the_last_known_before_the_eligible": "eligible",
    "writes_a_proposal_on_an_older_partition_epoch": "settings",
}
"""Three mutants that once passed all models of the machine -> a verified one in which each is found."""


def is_part_of(model: Replication, verified: Replication) -> bool:
    """Whether all that may happen in a model may happen in the other one too: a wrong rule is found there as well."""
    larger = ("max_records", "acks", "bounds")
    has_all = set(model.acks) <= set(verified.acks) and model.max_records <= verified.max_records
    has_all = has_all and all(model.bounds[name] <= verified.bounds[name] for name in model.bounds)
    one, other = constants_of(model), constants_of(verified)
    return has_all and all(one[name] == other[name] for name in one if name not in larger)


def is_verified(model: Replication) -> bool:
    return any(is_part_of(model, verified) for verified in VERIFIED.values())


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


RIGHT = sorted(dict.fromkeys(mutant.model for mutant in MUTANTS if not mutant.large), key=is_large)


@pytest.mark.parametrize("model", RIGHT[: amount(2, deep=len(RIGHT))])
def test_the_right_rules_violate_nothing_in_that_model(model: Replication) -> None:
    assert explore(model, converges=True).holds


def test_every_rule_has_a_mutant_or_a_reason() -> None:
    of_the_zoo = {name for bug in (*BUGS.values(), *LATE_BUGS) for name in vars(bug.buggy)}
    mutated = {mutant.rule for mutant in MUTANTS}
    assert not mutated & NOT_MUTATED.keys()
    assert set(rules()) - mutated - of_the_zoo == NOT_MUTATED.keys()


def test_every_wrong_rule_is_noticed_by_every_verification() -> None:
    """So the models are chosen: in each verified one or in a part of it a wrong rule fails, and each rule has one."""
    rare = {mutant.name for mutant in MUTANTS if not is_verified(mutant.model)}
    assert rare == ELSEWHERE.keys()
    of_the_zoo = {name for bug in (*BUGS.values(), *LATE_BUGS) if is_verified(bug.model) for name in vars(bug.buggy)}
    assert set(rules()) - {mutant.rule for mutant in MUTANTS} - of_the_zoo == NOT_MUTATED.keys()


@pytest.mark.parametrize(
    ("name", "model"),
    [
        pytest.param(name, model, marks=[pytest.mark.deep] * (model == "rejoin"))
        for name, model in sorted({*ELSEWHERE.items(), *PASSED_ALL.items()})
    ],
)
def test_a_verified_model_shows_a_wrong_rule_that_is_rare(name: str, model: str) -> None:
    (mutant,) = (each for each in MUTANTS if each.name == name)
    found = explore(attrs.evolve(mutant, model=VERIFIED[model]).machine)
    assert [violation.invariant for violation in found.violations] == [mutant.violates]


def test_an_acknowledged_record_is_missed_where_a_crashed_process_is_trusted() -> None:
    """A replica that lacks it lacks a committed record as well, which is what is found first."""
    (mutant,) = (each for each in MUTANTS if each.name == "trusts_a_crashed_process")
    found = explore(mutant.machine, stop=Stop.EACH, limits=Limits(states=5_000))
    assert found.violation("NoCommittedRecordLost") is not None
