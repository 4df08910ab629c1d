"""The coordinator's core and the partitions' do what the specification of transactions says, action by action."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import attrs
import pytest

from tidegauge.impl.coordinators.transactions import coordinator, log_format
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import TransactionRules
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles
from tidegauge.model_tests.harness.cores.transactions import STEPS
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.lockstep.transaction_walks import WHOLE_TRANSACTION_WALKS
from tidegauge.model_tests.harness.lockstep.walks import first_failure, walks
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.model_tests.spec.transactions.refusals import EVERY, REFUSALS, pairs
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.transactions.coordinating import Load
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.models import NIGHTLY_TRANSACTIONS, TRANSACTION_MODELS

WALKS = 16
SEED = 2
SMALL = ("transactions-two-partitions", "transactions-recovery")
HARNESSED = HARNESS["transactions"]

RARE = {("ReceiveAdd", "INVALID_TXN_STATE")}
"""What few walks come to: nothing is added to a transaction of version 1 that was taken over."""
SENT = pairs(REFUSALS) - RARE
"""What walks send though it is refused, with every error that the specification names for it."""


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(Transactions.action_types)


def test_random_walks_find_no_difference_take_every_action_and_send_what_is_refused() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in HARNESSED.walks(SEED, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert {kind.__name__ for kind in set(Transactions.action_types) - taken} <= {"DelayAdd"}, "it does harm"
    late = {pair for pair in SENT if pair[1] == "COORDINATOR_LOAD_IN_PROGRESS"}
    assert SENT - late <= set(refused) <= EVERY


@pytest.mark.deep
def test_many_walks_find_no_difference_and_send_all_that_is_refused() -> None:
    refused = Counter[tuple[str, str]]()
    for seed in range(100, 104):
        for found in HARNESSED.walks(seed, 100, length=120):
            assert found.failure is None, f"seed {seed}, walk {found.number}: {found.failure.words}"
            refused.update(found.refused)
    assert SENT | RARE <= set(refused) <= EVERY


def test_walks_of_whole_transactions_over_logs_of_any_version_find_no_difference() -> None:
    ended, versions = Counter[str](), Counter[int]()
    for found in walks(WHOLE_TRANSACTION_WALKS, HARNESSED.bind(Side.CORES, None), SEED, 2 * WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        ended.update(type(action).__name__ for action in found.actions)
        versions[found.machine.log_version] += 1
    assert ended["Complete"] > WALKS
    assert versions[0] > 2


def of_log_version_0(rng: Random) -> Transactions:
    """A machine as it is drawn, where nothing needs version 1 of the log's values."""
    machine = HARNESSED.walk_plan().draw(rng)
    assert isinstance(machine, Transactions)
    if machine.version > 1 or machine.two_phase or "Upgrade" in machine.bounds:
        return of_log_version_0(rng)
    return evolve(machine, log_version=0)


def test_a_coordinator_whose_log_has_values_of_version_0_forgets_what_the_specification_says() -> None:
    plan = attrs.evolve(HARNESSED.walk_plan(), draw=of_log_version_0)
    loaded = 0
    for found in walks(plan, HARNESSED.bind(Side.CORES, None), SEED, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        loaded += sum(isinstance(action, Load) for action in found.actions)
    assert loaded


def test_a_value_of_version_0_that_said_all_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "value_version", lambda *_: log_format.FLEXIBLE_VERSION)
    plan = attrs.evolve(HARNESSED.walk_plan(), draw=of_log_version_0)
    found = first_failure(plan, HARNESSED.bind(Side.CORES, None), SEED, WALKS)
    assert found is not None
    assert found.failure is not None
    assert re.match(r"coordination\[\d\]\.logged\.", found.failure.expected.name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] * (name not in SMALL))
        for name in TRANSACTION_MODELS
        if name not in NIGHTLY_TRANSACTIONS
    ],
)
def test_the_ways_to_a_models_goals_are_the_cores_ways_too(name: str) -> None:
    machine = TRANSACTION_MODELS[name].machine
    reached = explore(machine).reached
    assert reached
    for goal, trace in reached.items():
        failure = failure_of(CoresLockstep(machine), trace.actions)
        assert failure is None, f"{goal}: {failure.words}"


@attrs.frozen
class ForgetsPartitions(TransactionRules):
    def loaded(self, logged: TransactionMetadata) -> TransactionMetadata:
        return attrs.evolve(logged, partitions=frozenset(), previous_producer_id=-1)


def test_a_difference_names_the_action_and_the_field() -> None:
    found = HARNESSED.first_failure(SEED, WALKS, roles=TransactionRoles(rules=ForgetsPartitions))
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert re.match(r"coordination\[\d\]\.cached\.", found.failure.expected.name)
    assert "after Load" in found.failure.words
