"""The machine of transactions: explored, walked, and with each of its historical bugs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.model_tests.spec.transactions.refusals import EVERY, OF_GROUPS, pairs
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.transactions import TRANSACTION_BUGS
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.codec import read_trace, trace_lines
from tidegauge.spec.kernel.explorer import Exploration, Limits, check_symmetry, explore
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.kernel.simulation import simulate
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.models import NIGHTLY_TRANSACTIONS, QUICK_TRANSACTIONS, TRANSACTION_MODELS
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import (
    NONE,
    Decision,
    EndRequest,
    Error,
    Metadata,
    ProducerEntry,
    State,
    Status,
)

every_bug = pytest.mark.parametrize("bug", TRANSACTION_BUGS.values(), ids=TRANSACTION_BUGS)

# --- small models, exhaustively ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] * (name not in QUICK_TRANSACTIONS[: amount(1, deep=5)]))
        for name in TRANSACTION_MODELS
        if name not in NIGHTLY_TRANSACTIONS
    ],
)
def test_every_reachable_state_satisfies_every_invariant_and_goals_are_reached(name: str) -> None:
    exploration = explore(TRANSACTION_MODELS[name].machine, converges=True)
    assert exploration.holds, exploration.violations or exploration.convergence
    assert not exploration.unreached
    assert name not in COUNTS or counted(exploration) == COUNTS[name]


@pytest.mark.parametrize(
    ("machine", "count"),
    [
        (Transactions(partitions=1, transactions=1, two_phase=True, bounds=Bounds(CrashProducer=1)), (905, 1_688)),
        (Transactions(incarnations=1, partitions=2, transactions=1, inputs=1), (156, 281)),
        (
            Transactions(incarnations=1, partitions=1, expiring=False, bounds=Bounds(DelayMarker=1, Elect=1)),
            (539, 1_125),
        ),
    ],
    ids=["a database decides", "a record and its offset", "a leader that loses records and markers"],
)
def test_small_models_hold_and_have_so_many_states_and_steps(machine: Transactions, count: tuple[int, int]) -> None:
    """Of what the quick models leave out."""
    exploration = explore(machine, converges=True)
    assert exploration.holds, exploration.violations or exploration.convergence
    assert not exploration.unreached
    assert counted(exploration) == count


def test_the_models_together_turn_every_perturbation_on() -> None:
    turned_on = {name for model in TRANSACTION_MODELS.values() for name in model.machine.bounds}
    assert turned_on == set(Transactions().perturbations)


def test_walks_of_large_machines_keep_every_invariant() -> None:
    """Two transactional ids, three processes each, and everything goes wrong: more than can be explored."""
    every = dict.fromkeys((name for name in Transactions().perturbations if name not in ("DelayAdd", "Upgrade")), 2)
    machine = Transactions(
        transactional_ids=2,
        incarnations=3,
        partitions=3,
        transactions=3,
        records=2,
        inputs=4,
        max_epoch=5,
        bounds=Bounds(every),
    )
    found = simulate(machine, 3, 30, length=120)
    assert found.holds, found.violations
    taken = {row.action for row in found.coverage if row.taken}
    assert taken >= {kind.__name__ for kind in Transactions.action_types} - {"ReceiveAdd", "DelayAdd", "Upgrade"}


@pytest.mark.parametrize(
    "machine",
    [
        Transactions(incarnations=1, transactions=1, bounds=Bounds(DelayProduce=1, DelayMarker=1)),
        Transactions(incarnations=1, transactions=1, version=1, bounds=Bounds(DelayAdd=1, FailOver=1)),
        Transactions(incarnations=1, transactions=1, partitions=3, inputs=1),
    ],
    ids=["late", "pending", "offsets"],
)
def test_partitions_are_interchangeable(machine: Transactions) -> None:
    """The orbits hold as many states as there are; a partition of offsets is unlike the others."""
    assert check_symmetry(machine, limits=Limits(depth=14)) > 400


# --- the largest epoch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", [Decision.COMMIT, Decision.ABORT])
def test_a_producer_that_has_the_largest_epoch_all_the_same_ends_its_transaction_and_gets_a_new_id(
    decision: Decision,
) -> None:
    """No rule gives it to a producer; a bug of history did (KAFKA-19367), and the logs are still there."""
    machine = Transactions(max_epoch=3)
    stuck = Metadata(Status.ONGOING, producer_id=0, epoch=3, partitions=(0,), version=2)
    request = EndRequest(0, 0, 3, decision, NONE, 2)
    prepared = machine.end_ruling(stuck, request, new_id=1).metadata
    assert prepared is not None
    assert (prepared.epoch, prepared.next_producer_id) == (3, 1)
    assert machine.end_ruling(prepared, request, new_id=2).error is Error.CONCURRENT_TRANSACTIONS
    marker = machine.marker(prepared, 0, 0, 0)
    assert machine.marker_epoch_error(ProducerEntry(0, 3, open_from=0), marker) is Error.NONE
    assert machine.marker_epoch_error(ProducerEntry(0, 2, open_from=0), attrs.evolve(marker, epoch=2)) is not Error.NONE
    completed = machine.completed(machine.acknowledged(prepared, marker))
    assert completed is not None
    assert (completed.producer_id, completed.epoch) == (1, 0)


def test_the_largest_epoch_is_no_producers_and_the_coordinator_goes_no_further() -> None:
    machine = Transactions(max_epoch=3)
    (state,) = machine.initial()
    holds = machine.invariants["EpochsAreInRange"]
    for epoch, is_a_producers, is_the_coordinators in ((2, True, True), (3, False, True), (4, False, False)):
        producer = attrs.evolve(state.producers[0], epoch=epoch)
        logged = attrs.evolve(state.coordination[0], logged=Metadata(Status.EMPTY, producer_id=0, epoch=epoch))
        assert holds(state.with_producer(0, producer)) is is_a_producers
        assert holds(state.with_coordination(0, logged)) is is_the_coordinators


# --- what version 1 of the protocol can't do -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "violated"),
    [("DelayEnd", "CommittedAsAsked"), ("DelayAdd", "OneOutcome"), ("DelayMarker", "ReadsOnlyCommitted")],
)
def test_a_late_request_of_version_1_does_harm_in_the_next_transaction(late: str, violated: str) -> None:
    """Two transactions of a process have one epoch. Version 2 exists for that (KIP-890, KIP-1228)."""
    machine = Transactions(incarnations=1, partitions=1, version=1, bounds=Bounds({late: 1}))
    assert [violation.invariant for violation in explore(machine).violations] == [violated]
    assert explore(attrs.evolve(machine, version=2)).holds


# --- refusals ------------------------------------------------------------------------------------------------------


ONLY_OF_VERSION_1 = {pair for pair in EVERY if pair[0] == "ReceiveAdd"} | {("Verify", "INVALID_TXN_STATE")}
ONLY_OF_DATABASES = {("ReceiveAdd", "INVALID_TXN_STATE")}
MOST = EVERY - pairs(OF_GROUPS) - ONLY_OF_VERSION_1 - {("Verify", "INVALID_PRODUCER_ID_MAPPING")}


def test_the_list_of_refusals_has_every_error() -> None:
    assert {error for _, error in EVERY} == {error.name for error in Error}


@pytest.mark.parametrize(
    ("constants", "refused"),
    [
        ({}, MOST),
        ({"version": 1}, ONLY_OF_VERSION_1 - ONLY_OF_DATABASES),
        (
            {"version": 1, "two_phase": True, "transactions": 1, "bounds": Bounds(CrashProducer=1)},
            ONLY_OF_DATABASES,
        ),
        ({"max_epoch": 2}, {("Verify", "INVALID_PRODUCER_ID_MAPPING")}),
        ({"inputs": 3, "transactional_ids": 2}, pairs(OF_GROUPS)),
    ],
    ids=["version 2", "version 1", "two-phase commit", "epochs", "groups"],
)
def test_every_refusal_is_attempted_with_the_error_of_its_response_and_no_other_one(
    constants: dict[str, Any], refused: set[tuple[str, str]]
) -> None:
    """Requests that are late, and near misses of what the coordinator and the partitions know."""
    bounds = Bounds(FailOver=2, GiveUp=2, CrashProducer=1, DelayProduce=2, Rebalance=1 if "inputs" in constants else 0)
    largest = Transactions(partitions=1, transactions=3, bounds=bounds)
    machine = attrs.evolve(largest, **constants)
    found = set[tuple[str, str]]()
    for seed in range(60):
        found |= refusals_on_a_walk(machine, Random(seed))
        if found >= refused:
            break
    assert found >= refused, refused - found
    assert found <= EVERY, found - EVERY


def refusals_on_a_walk(machine: Transactions, rng: Random) -> set[tuple[str, str]]:
    """What is refused on one walk: the class of the action and the error."""
    state, found = next(iter(machine.initial())), set[tuple[str, str]]()
    for _ in range(80):
        for kind in machine.attempted_types:
            found.update((kind.__name__, reason.error.name) for _, reason in machine.refused(state, kind))
        steps = list(machine.successors(state))
        if not steps:
            break
        _, state = rng.choice(steps)
    return found


# --- the zoo -------------------------------------------------------------------------------------------------------


@cache
def found(name: str) -> Exploration[State]:
    return explore(TRANSACTION_BUGS[name].machine(), converges=True)


def shown(name: str) -> tuple[str, Sequence[Action]]:
    """The property that the bug breaks first, and how."""
    exploration = found(name)
    if exploration.violations:
        return exploration.violations[0].invariant, exploration.violations[0].trace.actions
    assert exploration.convergence is not None
    lasso = exploration.convergence.lassos[0]
    return lasso.goal, lasso.stem.actions


@every_bug
def test_the_explorer_finds_the_bug_by_a_property_that_it_breaks(bug: Bug[Transactions]) -> None:
    assert shown(bug.name)[0] in bug.violates
    assert found(bug.name).distinct < 3_000
    assert len(shown(bug.name)[1]) <= 20


@every_bug
def test_the_counterexample_is_harmless_without_the_bug(bug: Bug[Transactions]) -> None:
    machine = bug.correct_machine()
    state = next(iter(machine.initial()))
    for action in shown(bug.name)[1]:
        with suppress(NotEnabled):
            state = machine.step(state, action)
        assert all(holds(state) for holds in machine.invariants.values())


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=name, marks=[pytest.mark.deep] * (name == "kafka_5231"))
        for name, bug in TRANSACTION_BUGS.items()
    ],
)
def test_without_the_bug_its_model_holds(bug: Bug[Transactions]) -> None:
    assert explore(bug.correct_machine(), converges=True).holds


@every_bug
def test_a_counterexample_can_be_written_and_read_back(bug: Bug[Transactions]) -> None:
    for violation in found(bug.name).violations:
        assert read_trace(bug.machine(), trace_lines(bug.machine(), violation.trace, violation)) == violation.trace


@every_bug
def test_a_bug_overrides_one_rule_and_no_action(bug: Bug[Transactions]) -> None:
    own = {name for name, value in vars(bug.buggy).items() if callable(value) and not name.startswith("_")}
    assert len(own) == 1
    assert all(hasattr(TransactionRules, rule) for rule in own)
    assert bug.buggy.action_types is Transactions.action_types


# --- constants -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constants", "told"),
    [
        ({"version": 3}, "version=3: the protocol of transactions has the versions 1 and 2"),
        ({"max_epoch": 1}, "max_epoch=1: a producer needs an epoch"),
        ({"partitions": 0}, "partitions=0"),
    ],
)
def test_constants_that_fit_no_transaction_are_refused(constants: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        explore(Transactions(**constants))  # type: ignore[arg-type]
