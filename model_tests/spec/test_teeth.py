"""Every property can fail: of each machine each invariant, each step invariant, each goal and all that it owes.

For each there is a wrong rule. `teeth` has those that no bug of the zoo and no other table has. The tables of a
machine's own tests are read from the tests that hold them: what a test says is violated is among its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from tidegauge.model_tests.spec.administration import rule_mutants as administration_mutants
from tidegauge.model_tests.spec.administration import test_administration
from tidegauge.model_tests.spec.authentication import test_authentication
from tidegauge.model_tests.spec.compaction import test_compaction, test_transactional
from tidegauge.model_tests.spec.groups import (
    consumer_mutants,
    loading_mutants,
    migration_mutants,
    test_consumer_mutants,
)
from tidegauge.model_tests.spec.groups import rule_mutants as group_mutants
from tidegauge.model_tests.spec.idempotence import test_idempotence
from tidegauge.model_tests.spec.lag import test_lag
from tidegauge.model_tests.spec.membership import rule_mutants as membership_mutants
from tidegauge.model_tests.spec.membership import test_membership, test_moves, test_placement, test_succession
from tidegauge.model_tests.spec.offsets import test_offsets
from tidegauge.model_tests.spec.recovery import rule_mutants as recovery_mutants
from tidegauge.model_tests.spec.recovery import test_recovery
from tidegauge.model_tests.spec.replication import rule_mutants as replication_mutants
from tidegauge.model_tests.spec.replication import test_convergence, test_rule_mutants
from tidegauge.model_tests.spec.teeth import WRONG, asked_only
from tidegauge.model_tests.spec.transactions import rule_mutants as transaction_mutants
from tidegauge.model_tests.spec.workers import test_workers
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.recovery.properties import WHOLE
from tidegauge.spec.registry import REGISTRY, Registration
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.transactions.machine import Transactions


@pytest.mark.parametrize(
    ("machine", "violated"),
    [(machine, violated) for _, machine, violated in WRONG],
    ids=[f"{name}-{violated}" for name, _, violated in WRONG],
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
TABLES: Final[Mapping[str, set[str]]] = {
    "replication": {mutant.violates for mutant in replication_mutants.MUTANTS}
    | {goal for _, goal in (*test_convergence.WRONG, *test_convergence.NEVER_COMES)},
    "transactions": {mutant.violates for mutant in transaction_mutants.MUTANTS},
    "classic-groups": {name for one in group_mutants.MUTANTS for name in (one.violates, *one.also)},
    "group-migration": {name for one in migration_mutants.MUTANTS for name in (one.violates, *one.also)},
    "group-loading": {mutant.violates for mutant in loading_mutants.MUTANTS},
    "administration": {mutant.violates for mutant in administration_mutants.MUTANTS},
    "membership": {mutant.violates for mutant in membership_mutants.MUTANTS},
    "consumer-groups": {name for one in consumer_mutants.MUTANTS for name in (one.violates, *one.also)},
    "recovery": {mutant.violates for mutant in recovery_mutants.MUTANTS},
}
"""Tables that a test goes through row by row."""
BASES: Final[Mapping[type[Machine[Any]], tuple[str, ...]]] = {
    Replication: tuple(one.name for one in REGISTRY if isinstance(one.machine, Replication)),
    Transactions: ("transactions",),
    GroupMigration: ("consumer-groups",),
}
"""Machines that have properties of others: of extensions of replication, of transactions, of consumer groups."""


def shown(registration: Registration) -> set[str]:
    """What a wrong rule of the machine, or of one that it is made of, is known to violate."""
    names = {registration.name}.union(*(b for kind, b in BASES.items() if isinstance(registration.machine, kind)))
    found = {violated for name, _, violated in WRONG if name in names}
    for name in names:
        found.update(*(bug.violates for bug in REGISTRY.registration(name).bugs))
        found |= TABLES.get(name, set()) | set(ONE_EACH.get(name, {}))
        found.update(*map(parameters, TESTS.get(name, ())))
    return found


@pytest.mark.parametrize("registration", list(REGISTRY), ids=lambda registration: str(registration.name))
def test_every_property_has_a_wrong_rule_that_makes_it_false(registration: Registration) -> None:
    machine = registration.machine
    properties = {*machine.invariants, *machine.step_invariants, *machine.converges, *machine.leads_to}
    assert properties - shown(registration) == set(), "name a wrong rule in `teeth` that makes it false"
