"""Every rule matters: each of every machine has a wrong one that a small model notices, or a reason why it has none.

A wrong rule is one of the zoo, of `teeth`, of the tables of mutants, or a class in the tests of a machine. Extensions
of replication have a test of their own, which goes through the registry as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from tidegauge.model_tests.spec import test_teeth
from tidegauge.model_tests.spec.administration import rule_mutants as administration
from tidegauge.model_tests.spec.administration import wrong_rules as wrong_administration
from tidegauge.model_tests.spec.authentication import rule_mutants as authentication
from tidegauge.model_tests.spec.authentication import test_authentication
from tidegauge.model_tests.spec.compaction import rule_mutants as compaction
from tidegauge.model_tests.spec.groups import (
    consumer_mutants,
    loading_mutants,
    migration_mutants,
    test_consumer_mutants,
    test_migration_mutants,
)
from tidegauge.model_tests.spec.groups import rule_mutants as group_mutants
from tidegauge.model_tests.spec.groups import test_rule_mutants as test_group_mutants
from tidegauge.model_tests.spec.idempotence import rule_mutants as idempotence
from tidegauge.model_tests.spec.lag import rule_mutants as lag
from tidegauge.model_tests.spec.membership import rule_mutants as membership
from tidegauge.model_tests.spec.membership import test_membership, test_placement, test_succession
from tidegauge.model_tests.spec.offsets import rule_mutants as offsets
from tidegauge.model_tests.spec.published import rule_mutants as published
from tidegauge.model_tests.spec.recovery import rule_mutants as recovery
from tidegauge.model_tests.spec.replication import rule_mutants as replication_mutants
from tidegauge.model_tests.spec.replication import test_rule_mutants as test_replication_mutants
from tidegauge.model_tests.spec.rule_mutant import RuleMutant, noticed, reached
from tidegauge.model_tests.spec.rules import Rule, rules_of, wrong_in
from tidegauge.model_tests.spec.teeth import WRONG
from tidegauge.model_tests.spec.transactions import rule_mutants as transaction_mutants
from tidegauge.model_tests.spec.transactions import test_rule_mutants as test_transaction_mutants
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.registry import REGISTRY, Registration

MUTANTS: Final[tuple[RuleMutant, ...]] = (
    *idempotence.MUTANTS,
    *offsets.MUTANTS,
    *loading_mutants.MUTANTS,
    *compaction.MUTANTS,
    *recovery.MUTANTS,
    *lag.MUTANTS,
    *administration.MUTANTS,
    *authentication.MUTANTS,
    *membership.MUTANTS,
    *published.MUTANTS,
)
"""Those of the machines whose tests have no table of their own."""
NOT_MUTATED: Final[Mapping[Rule, str]] = {
    ("AdministrationRules", "change_error"): (
        "an operation that is refused would leave legal settings: lockstep notices, by `TakesAnyOperation`"
    ),
    ("AdministrationRules", "may_elect_uncleanly"): (
        "an election where a live replica in sync leads changes nothing: lockstep notices, by `ElectsThoughOneLeads`"
    ),
    ("Authentication", "proper"): "what a well-behaved peer does, and not the gate",
    ("CommittedReads", "found"): "the right rules make no use of it: KAFKA-9807 and KAFKA-5376 do",
    ("Placement", "is_told"): "when a directory may fail: an assumption about the disks, which the machine states",
    ("Replication", "without_bounds"): "the machine for a trace of any length, which checks no other rule",
    **recovery.NOT_MUTATED,
    **published.NOT_MUTATED,
}
"""Why a rule has no wrong one; the tables of some machines have reasons of their own."""
REASONS: Final[Mapping[type[Machine[Any]], Mapping[str, str]]] = {
    type(REGISTRY.registration("replication").machine): test_replication_mutants.NOT_MUTATED,
    type(REGISTRY.registration("transactions").machine): test_transaction_mutants.NOT_MUTATED,
    type(REGISTRY.registration("classic-groups").machine): test_group_mutants.NOT_MUTATED,
    type(REGISTRY.registration("consumer-groups").machine): test_consumer_mutants.NOT_MUTATED,
    type(REGISTRY.registration("group-migration").machine): test_migration_mutants.NOT_MUTATED,
}
"""Machine -> why rules of it have no wrong one, in the table that its own test goes through."""
TABLES: Final[tuple[tuple[Any, ...], ...]] = (
    MUTANTS,
    tuple(mutant for mutant, _ in published.COUNTED),
    replication_mutants.MUTANTS,
    transaction_mutants.MUTANTS,
    group_mutants.MUTANTS,
    consumer_mutants.MUTANTS,
    migration_mutants.MUTANTS,
)


def wrong_kinds() -> Iterator[type[Any]]:
    """Every class with a wrong rule that a test goes through."""
    for one in REGISTRY:
        yield from (bug.buggy for bug in one.bugs)
    yield from (type(machine) for _, machine, _ in WRONG)
    for tests in test_teeth.TESTS.values():
        for test in tests:
            yield from kinds_in([mark.args for mark in getattr(test, "pytestmark", ())])
    yield from (
        test_authentication.NobodyRenews,
        test_membership.UnknownIsDeleted,
        test_placement.FirstCounts,
        test_succession.ADirectoryIsProof,
    )


def kinds_in(parameter: object) -> Iterator[type[Any]]:
    """The machines in a parameter of a test."""
    if isinstance(parameter, tuple | list):
        for one in parameter:
            yield from kinds_in(one)
    elif isinstance(parameter, Machine):
        yield type(parameter)
    elif isinstance(parameter, type) and issubclass(parameter, Machine):
        yield parameter


def declared(machine: Machine[Any], name: str) -> Rule:
    """A rule of a machine by its name, with the class that declares it for that machine."""
    return next((kind, rule) for kind, rule in rules_of(machine) if rule == name)


def with_a_wrong_one() -> set[Rule]:
    found = {rule for kind in wrong_kinds() for rule in wrong_in(kind)}
    return found | {declared(mutant.model, mutant.rule) for table in TABLES for mutant in table}


def with_a_reason() -> set[Rule]:
    """The reasons of a machine's own table are about its rules, by whichever of its classes they are declared."""
    found = set(NOT_MUTATED)
    for one in REGISTRY:
        for kind, reasons in REASONS.items():
            if type(one.machine) is kind:
                found |= {rule for rule in rules_of(one.machine) if rule[1] in reasons}
    return found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{type(mutant.model).__name__}-{mutant.name}")
def test_a_wrong_rule_is_noticed(mutant: RuleMutant) -> None:
    assert mutant.violates in noticed(mutant.machine, mutant.states)
    if mutant.violates in mutant.model.sometimes:
        assert mutant.violates in reached(mutant.model, mutant.states), "with the right rules it is"


@pytest.mark.parametrize("model", list(dict.fromkeys(mutant.model for mutant in MUTANTS)), ids=str)
@pytest.mark.deep
def test_the_right_rules_violate_nothing_in_that_model(model: Machine[Any]) -> None:
    assert explore(model, converges=True).holds


@pytest.mark.parametrize("registration", list(REGISTRY), ids=lambda registration: str(registration.name))
def test_every_rule_has_a_wrong_one_or_a_reason(registration: Registration) -> None:
    rules = set(rules_of(registration.machine))
    assert rules - with_a_wrong_one() - with_a_reason() == set(), "name a wrong rule in a table of `rule_mutants`"


def test_no_rule_with_a_reason_has_a_wrong_one() -> None:
    assert not with_a_wrong_one() & NOT_MUTATED.keys()
    assert {rule for one in REGISTRY for rule in rules_of(one.machine)} >= NOT_MUTATED.keys()


def test_what_lockstep_alone_notices_is_wrong_in_rules_that_no_model_has_a_wrong_one_for() -> None:
    """That it notices is a test of lockstep, which goes through all wrong rules of administration."""
    rules = set(rules_of(REGISTRY.registration("administration").machine))
    wrong = {rule for kind in wrong_administration.NOTICED_BY_LOCKSTEP for rule in wrong_in(kind)} & rules
    assert wrong == rules & NOT_MUTATED.keys()
    assert len(wrong) == len(wrong_administration.NOTICED_BY_LOCKSTEP)
