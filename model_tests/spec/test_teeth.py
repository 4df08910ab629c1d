"""Every property can fail: of each machine each invariant, each step invariant, each goal and all that it owes.

For each there is a wrong rule. `teeth` has those that no bug of the zoo and no other table has. The tables of a
machine's own tests are read from the tests that hold them: what a test says is violated is among its parameters.

A property is what its function decides, and not its name: a machine that has another one's property with an exemption
has a property of its own (`variants`). Its models are asked as well, since some have properties that it has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest

from tidegauge.model_tests.spec.administration import rule_mutants as administration_mutants
from tidegauge.model_tests.spec.administration import test_administration
from tidegauge.model_tests.spec.authentication import rule_mutants as authentication_mutants
from tidegauge.model_tests.spec.authentication import test_authentication
from tidegauge.model_tests.spec.compaction import rule_mutants as compaction_mutants
from tidegauge.model_tests.spec.compaction import test_compaction, test_transactional
from tidegauge.model_tests.spec.groups import (
    consumer_mutants,
    loading_mutants,
    migration_mutants,
    test_consumer_mutants,
)
from tidegauge.model_tests.spec.groups import rule_mutants as group_mutants
from tidegauge.model_tests.spec.idempotence import rule_mutants as idempotence_mutants
from tidegauge.model_tests.spec.idempotence import test_idempotence
from tidegauge.model_tests.spec.lag import rule_mutants as lag_mutants
from tidegauge.model_tests.spec.lag import test_lag
from tidegauge.model_tests.spec.membership import rule_mutants as membership_mutants
from tidegauge.model_tests.spec.membership import test_membership, test_moves, test_placement, test_succession
from tidegauge.model_tests.spec.offsets import rule_mutants as offset_mutants
from tidegauge.model_tests.spec.offsets import test_offsets
from tidegauge.model_tests.spec.published import rule_mutants as published_mutants
from tidegauge.model_tests.spec.recovery import rule_mutants as recovery_mutants
from tidegauge.model_tests.spec.recovery import test_recovery
from tidegauge.model_tests.spec.replication import rule_mutants as replication_mutants
from tidegauge.model_tests.spec.replication import test_convergence, test_rule_mutants
from tidegauge.model_tests.spec.replication.extensions import rule_mutants as extension_mutants
from tidegauge.model_tests.spec.teeth import WRONG, asked_only
from tidegauge.model_tests.spec.transactions import rule_mutants as transaction_mutants
from tidegauge.model_tests.spec.variants import VARIANTS, Deciding, properties
from tidegauge.model_tests.spec.workers import test_workers
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.recovery.properties import WHOLE
from tidegauge.spec.registry import REGISTRY, Registration


@pytest.mark.parametrize(
    ("machine", "violated"),
    [(machine, violated) for _, machine, violated in (*WRONG, *VARIANTS)],
    ids=[f"{name}-{violated}" for name, _, violated in (*WRONG, *VARIANTS)],
)
def test_a_wrong_rule_makes_a_property_false(machine: Machine[Any], violated: str) -> None:
    found = explore(asked_only(machine, violated), converges=violated in {*machine.converges, *machine.leads_to})
    assert [*(one.invariant for one in found.violations), *(lasso.goal for lasso in found.lassos)] == [violated]


def told(parameter: object) -> Iterator[str]:
    """The names in a parameter of a test."""
    if isinstance(parameter, str):
        yield parameter
    elif isinstance(parameter, tuple | list | set | frozenset):
        for one in parameter:
            yield from told(one)


def parameters(test: Callable[..., object]) -> set[str]:
    """The names among the parameters of a test."""
    return {name for mark in getattr(test, "pytestmark", ()) for name in told(mark.args[1:])}


TESTS: Final[Mapping[str, tuple[Callable[..., object], ...]]] = {
    "administration": (test_administration.test_a_rule_that_is_wrong_is_found,),
    "authentication": (test_authentication.test_a_rule_that_is_wrong_is_found,),
    "compaction": (
        test_compaction.test_each_rule_is_needed,
        test_compaction.test_a_cleaner_or_a_reader_that_stands_still_is_found,
    ),
    "transactional-compaction": (test_transactional.test_each_rule_is_needed,),
    "idempotence": (test_idempotence.test_a_goal_fails_where_what_leads_to_it_does_not_happen,),
    "lag": (test_lag.test_a_rule_that_is_wrong_is_found,),
    "membership": (test_membership.test_a_rule_that_is_wrong_is_found,),
    "moves": (test_moves.test_a_rule_that_is_wrong_is_found,),
    "placement": (test_placement.test_a_rule_that_is_wrong_is_found,),
    "offsets": (test_offsets.test_every_rule_is_needed,),
    "recovery": (test_recovery.test_each_rule_is_needed,),
    "workers": (test_workers.test_every_rule_is_needed,),
}
"""The tests of a machine whose parameters say what a wrong rule violates."""
ONE_EACH: Final[Mapping[str, Mapping[str, Callable[..., object]]]] = {
    "authentication": {
        "a session that is not renewed ends": (
            test_authentication.test_a_gate_that_ends_no_session_or_serves_nobody_for_good_is_found
        ),
    },
    "membership": {
        "a broker has read its own cluster's log, unless that has lost what was read": (
            test_membership.test_a_broker_that_never_gets_into_its_cluster_is_found
        ),
    },
    "succession": {
        "OfTwoLiveProcessesOneServes": test_succession.test_one_proof_is_not_enough,
        "where processes run, one of them is the broker": (
            test_succession.test_a_broker_id_that_stays_without_a_broker_is_found
        ),
    },
    "placement": {
        "a replica that is listed is in a directory that the controller knows": (
            test_placement.test_a_place_that_is_never_told_is_found
        ),
    },
    "moves": {"nothing is left of a move": test_moves.test_what_is_never_removed_is_found},
    "recovery": {WHOLE: test_recovery.test_a_damaged_log_that_is_never_repaired_is_found},
    "workers": {
        "every record is processed, and that is committed": (
            test_workers.test_records_of_a_worker_that_hangs_are_processed_by_another_one
        ),
    },
    "consumer-groups": {
        "the group comes to one epoch, in which each process has its part": (
            test_consumer_mutants.test_a_group_never_comes_to_one_epoch_without_what_leads_to_it
        ),
    },
    "replication": {
        "NoCommittedRecordLost": (
            test_rule_mutants.test_an_acknowledged_record_is_missed_where_a_crashed_process_is_trusted
        ),
    },
}
"""Tests of one property, by what it is."""
MUTANTS: Final[tuple[Any, ...]] = (
    *replication_mutants.MUTANTS,
    *transaction_mutants.MUTANTS,
    *group_mutants.MUTANTS,
    *consumer_mutants.MUTANTS,
    *migration_mutants.MUTANTS,
    *loading_mutants.MUTANTS,
    *administration_mutants.MUTANTS,
    *membership_mutants.MUTANTS,
    *recovery_mutants.MUTANTS,
    *idempotence_mutants.MUTANTS,
    *offset_mutants.MUTANTS,
    *compaction_mutants.MUTANTS,
    *lag_mutants.MUTANTS,
    *authentication_mutants.MUTANTS,
    *published_mutants.MUTANTS,
)
"""Tables that a test goes through row by row."""


def violated() -> Iterator[tuple[Machine[Any], Iterable[str]]]:
    """Each wrong machine, or the right one of its rules, with what a test finds violated there."""
    for _, machine, name in (*WRONG, *VARIANTS):
        yield machine, (name,)
    yield from ((bug.model, bug.violates) for bug in REGISTRY.bugs.values())
    for mutant in MUTANTS:
        yield mutant.model, (mutant.violates, *getattr(mutant, "also", ()))
    yield from ((mutant.model, (mutant.shown,)) for mutant in extension_mutants.MUTANTS)
    yield from ((machine, (goal,)) for machine, goal in (*test_convergence.WRONG, *test_convergence.NEVER_COMES))
    for one in REGISTRY:
        names = {*ONE_EACH.get(one.name, {})}.union(*map(parameters, TESTS.get(one.name, ())))
        yield from ((machine, names) for machine in machines_of(one))


def machines_of(registration: Registration) -> Iterator[Machine[Any]]:
    """The machine and its models."""
    yield registration.machine
    yield from (model.machine for model in registration.models)


@cache
def shown() -> frozenset[Deciding]:
    """The functions that a wrong rule is known to make false."""
    found = ({each for name, each in properties(machine) if name in names} for machine, names in violated())
    return frozenset().union(*found)


@pytest.mark.parametrize("registration", list(REGISTRY), ids=lambda registration: str(registration.name))
def test_every_property_has_a_wrong_rule_that_makes_it_false(registration: Registration) -> None:
    toothless = {
        name for machine in machines_of(registration) for name, each in properties(machine) if each not in shown()
    }
    assert toothless == set(), "name a wrong rule in `teeth` or `variants` that makes it false"


def test_a_property_with_an_exemption_is_another_one() -> None:
    """Neither a name nor the property that it exempts from says that it can fail."""
    plain, repaired = (
        dict(properties(REGISTRY.machine(name)))["HighWatermarkMonotone"] for name in ("replication", "damage")
    )
    assert plain != repaired
    unclean = dict(properties(REGISTRY.machine("unclean-transactions")))["OneOutcome"]
    assert dict(properties(REGISTRY.machine("transactions")))["OneOutcome"] in unclean


def test_each_variant_is_a_property_of_its_machine_and_has_one_row() -> None:
    for number, (name, machine, violated) in enumerate(VARIANTS):
        others = {dict(properties(other))[known] for _, other, known in VARIANTS[:number]}
        each = dict(properties(machine))[violated]
        assert each not in others
        assert each in {known for one in machines_of(REGISTRY.registration(name)) for _, known in properties(one)}
