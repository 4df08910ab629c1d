"""A cluster does what the specification of transactions says, action by action, over the network.

The counterexamples of the bugs are replayed on it with all others (`model_tests/counterexamples/test_replay.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.impl.coordinators.transactions import coordinator, log_format
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import Ruling, TransactionRules
from tidegauge.impl.partition.producer_state import BatchMetadata, ProducerStates
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog
from tidegauge.model_tests.bugs.transactions import TRANSACTION_BUGS, CoreBug
from tidegauge.model_tests.harness.cluster.transactions import STEPS
from tidegauge.model_tests.harness.cores.transaction_clients import BY_CLIENTS
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, Outcome, failure_of
from tidegauge.model_tests.harness.lockstep.transaction_walks import TRANSACTION_WALKS, large_machine
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.model_tests.spec.transactions.refusals import EVERY, OF_GROUPS, pairs
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.actions import TransactionAction
from tidegauge.spec.transactions.consuming import FetchOffset
from tidegauge.spec.transactions.coordinating import ExpireTransaction, Load, ReceiveAdd, ReceiveEnd, ReceiveInit
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.models import NIGHTLY_TRANSACTIONS, TRANSACTION_MODELS
from tidegauge.spec.transactions.partitioning import Append, Elect, Verify, WriteMarker
from tidegauge.spec.transactions.producing import Begin, End, Send, Start

SEED = 7
WALKS = 8
FEW = 4
MANY = 200
"""Within so many walks each bug is found, but for those of `RARE`."""
IN_THE_SMALLEST = {"kafka_8803": (0, 1), "kafka_9777": (0, 57)}
"""What large machines come to only now and then: a seed and a walk of the smallest model, which show it."""
RARE = (*IN_THE_SMALLEST, "kafka_16352")
"""What large machines come to so seldom: the explorer's own way shows it (`zoo/test_shortest_counterexamples.py`)."""
HARNESSED = HARNESS["transactions"]
SMALL = ("transactions-recovery",)

REFUSALS = {
    "ReceiveInit": {"PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS"},
    "ReceiveAdd": {"PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"},
    "ReceiveEnd": {"PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"},
    "Verify": {"PRODUCER_FENCED", "INVALID_TXN_STATE"},
    "Append": {"INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH"},
    "WriteMarker": {"INVALID_PRODUCER_EPOCH"},
}
"""What a few walks send though it is refused, with errors that come often."""
SELDOM = {
    *((action, "COORDINATOR_LOAD_IN_PROGRESS") for action in ("ReceiveAdd", "ReceiveEnd", "Verify")),
    ("ReceiveAdd", "INVALID_TXN_STATE"),
    ("Verify", "INVALID_PRODUCER_ID_MAPPING"),
}
"""What two hundred walks do not always come to on a cluster; on the cores they do."""


def failed(machine: Transactions, actions: tuple[Action, ...], roles: object = None) -> Outcome | None:
    """What goes wrong when a cluster takes these actions."""
    return failure_of(CheckedLockstep(machine, HARNESSED.bind(Side.CLUSTER, roles)(machine)), actions)


def test_every_action_of_the_specification_has_a_step() -> None:
    assert {*STEPS, *BY_CLIENTS} == set(Transactions.action_types)
    assert not set(STEPS) & set(BY_CLIENTS)


def test_random_walks_find_no_difference_and_send_what_is_refused() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in HARNESSED.walks(SEED, WALKS, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert set(STEPS) - taken <= {ExpireTransaction}, "others take it"
    assert pairs(REFUSALS) <= set(refused) <= EVERY


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_walks_find_no_difference_and_send_all_that_is_refused(seed: int) -> None:
    refused = Counter[tuple[str, str]]()
    for found in HARNESSED.walks(seed, 200, side=Side.CLUSTER, length=120):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        refused.update(found.refused)
    assert EVERY - pairs(OF_GROUPS) - SELDOM <= set(refused) <= EVERY


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] * (name not in SMALL))
        for name in TRANSACTION_MODELS
        if name not in NIGHTLY_TRANSACTIONS
    ],
)
def test_the_ways_to_a_models_goals_are_the_clusters_ways_too(name: str) -> None:
    machine = TRANSACTION_MODELS[name].machine
    reached = explore(machine).reached
    assert reached
    for goal, trace in reached.items():
        failure = failed(machine, trace.actions)
        assert failure is None, f"{goal}: {failure.words}"


@pytest.mark.deep
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, id=name) for name, bug in TRANSACTION_BUGS.items() if bug.on_cluster and name not in RARE]
)
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[TransactionRoles]) -> None:
    found = HARNESSED.first_failure(3, MANY, side=Side.CLUSTER, roles=bug.roles)
    assert found is not None, f"{bug.name} went unnoticed in {MANY} walks"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert HARNESSED.walk(3, found.number, side=Side.CLUSTER).failure is None, "without the bug it shows nothing"


def of_its_model(bug: CoreBug[TransactionRoles]) -> Registration:
    """Walks of the smallest model that shows a bug."""
    return attrs.evolve(HARNESSED, plan=attrs.evolve(TRANSACTION_WALKS, draw=lambda _: bug.twin.model))


@pytest.mark.parametrize("name", IN_THE_SMALLEST)
def test_walks_of_the_smallest_model_show_what_large_machines_seldom_come_to(name: str) -> None:
    bug, (seed, number) = TRANSACTION_BUGS[name], IN_THE_SMALLEST[name]
    found = of_its_model(bug).first_failure(seed, 1, first=number, side=Side.CLUSTER, roles=bug.roles)
    assert found is not None, f"{name} went unnoticed"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert of_its_model(bug).walk(seed, number, side=Side.CLUSTER).failure is None, "without the bug it shows nothing"


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name, bug in TRANSACTION_BUGS.items() if bug.on_cluster])
def test_walks_of_the_smallest_model_find_no_difference_without_the_bug(name: str) -> None:
    for found in of_its_model(TRANSACTION_BUGS[name]).walks(SEED, 60, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


def test_a_reader_of_a_leader_that_knows_of_nothing_committed_gets_nothing_yet() -> None:
    """OFFSET_NOT_AVAILABLE (KIP-207): a harness that took it for a difference ended this walk."""
    found = of_its_model(TRANSACTION_BUGS["kafka_16352"]).walk(1, 38, side=Side.CLUSTER)
    assert found.failure is None, found.failure.words
    assert any(isinstance(action, Elect) and action.kept for action in found.actions)


@attrs.frozen
class ForgetsPartitions(TransactionRules):
    def loaded(self, logged: TransactionMetadata) -> TransactionMetadata:
        return attrs.evolve(logged, partitions=frozenset())


def test_a_coordinator_that_reads_its_log_wrong_differs_by_name() -> None:
    found = HARNESSED.first_failure(2, WALKS, side=Side.CLUSTER, roles=TransactionRoles(rules=ForgetsPartitions))
    assert found is not None
    assert found.failure is not None
    assert re.match(r"coordination\[\d\]\.cached\.", found.failure.expected.name)
    assert "after Load" in found.failure.words


def test_what_a_database_has_prepared_is_taken_over_on_a_cluster_as_in_the_specification() -> None:
    """Over coordinators that change too, and where the epochs of a producer id are used up."""

    def draw(rng: Random) -> Transactions:
        return attrs.evolve(large_machine(rng, ("two-phase",)), max_epoch=2, version=2)

    by_databases = attrs.evolve(HARNESSED, plan=attrs.evolve(TRANSACTION_WALKS, draw=draw))
    taken_over: list[spec.Metadata] = []
    for found in by_databases.walks(SEED, FEW, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        state = next(iter(found.machine.initial()))
        for action in found.actions:
            assert isinstance(action, TransactionAction)
            state = action.effect(found.machine, state)
            taken_over += [one.logged for one in state.coordination if one.logged.ongoing_epoch != spec.NONE]
    assert any(one.ongoing_producer_id == one.producer_id for one in taken_over)
    assert any(one.ongoing_producer_id != one.producer_id for one in taken_over)
    assert any(one.status in spec.PREPARED for one in taken_over)


def of_level_0(rng: Random) -> Transactions:
    """One partition and one id of which a coordinator, and a producer's epoch, change twice."""
    machine = TRANSACTION_MODELS["transactions-version-0"].machine
    return attrs.evolve(machine, transactions=2, bounds=Bounds(GiveUp=2, DelayInit=1, FailOver=2))


AT_LEVEL_0 = attrs.evolve(HARNESSED, plan=attrs.evolve(TRANSACTION_WALKS, draw=of_level_0))


def test_a_cluster_at_level_0_of_transaction_version_forgets_what_the_specification_says() -> None:
    """Its coordinators load values that do not say who had the epoch before."""
    loaded = 0
    for found in AT_LEVEL_0.walks(SEED, WALKS, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        loaded += sum(isinstance(action, Load) for action in found.actions)
    assert loaded


def test_a_cluster_that_says_all_at_level_0_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "value_version", lambda *_: log_format.FLEXIBLE_VERSION)
    found = AT_LEVEL_0.first_failure(SEED, WALKS, side=Side.CLUSTER)
    assert found is not None
    assert found.failure is not None
    assert re.match(r"coordination\[\d\]\.logged\.", found.failure.expected.name)


def grouped(rng: Random) -> Transactions:
    """A machine whose members commit a group's offset."""
    return large_machine(rng, ("group",))


GROUPED = attrs.evolve(HARNESSED, plan=attrs.evolve(TRANSACTION_WALKS, draw=grouped))


@pytest.mark.deep
@pytest.mark.parametrize("seed", [5, 6, 8])
def test_offsets_in_transactions_go_with_their_groups_coordinator_over_leaders_that_change(seed: int) -> None:
    committed = 0
    for found in GROUPED.walks(seed, 60, side=Side.CLUSTER, length=120):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        committed += sum(isinstance(one, Append) and one.request.sequence == spec.NONE for one in found.actions)
    assert committed > 10


TO_ADD = (Start, ReceiveInit, FetchOffset, Begin)
TO_COMMIT = (*TO_ADD, ReceiveAdd, Send, Verify, Append)
TO_END = (*TO_COMMIT, End, ReceiveEnd, WriteMarker)


@pytest.mark.parametrize(
    ("version", "wanted", "errors"),
    [
        pytest.param(1, TO_ADD, {"INVALID_TXN_STATE"}, id="of a transaction without the partition"),
        pytest.param(1, TO_COMMIT, {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"}, id="of another member, version 1"),
        pytest.param(2, TO_COMMIT, {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"}, id="of another member"),
        pytest.param(2, TO_END, {"INVALID_PRODUCER_EPOCH"}, id="of an epoch that is fenced"),
    ],
)
def test_a_group_refuses_offsets_by_name(
    version: int, wanted: tuple[type[TransactionAction], ...], errors: set[str]
) -> None:
    machine = Transactions(transactional_ids=2, incarnations=1, partitions=1, inputs=2, version=version)
    lockstep = CheckedLockstep(machine, HARNESSED.bind(Side.CLUSTER)(machine))
    try:
        for kind in wanted:
            found = [one for one in kind.candidates(machine, lockstep.state) if lockstep.is_enabled(one)]
            assert not found or lockstep.perform(found[0])
        for action, _ in list(machine.refused(lockstep.state, Append)):
            assert not lockstep.perform(action)
    finally:
        lockstep.close()
    assert {error for _, error in lockstep.refused} >= errors


# --- what a broker may get wrong -------------------------------------------------------------------------------------


def takes_any_generation(core: GroupCoordinator, commit: Commit) -> ErrorCode:
    return ErrorCode.none


def asks_nobody(*_: object) -> ErrorCode:
    return ErrorCode.none


def tells_what_is_not_stable(core: GroupCoordinator, key: OffsetKey, *, require_stable: bool) -> CommittedOffset | None:
    return core.offsets.get(key)


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [
        (GroupCoordinator, "_commit_error", takes_any_generation),
        (GroupCoordinator, "fetch", tells_what_is_not_stable),
        (CoordinatorLog, "append_marker", None),
        (PartitionReplica, "coordinators_batch_error", asks_nobody),
        (ProducerStates, "metadata", None),
    ],
    ids=["any generation", "not stable", "acknowledged early", "not verified", "numbers what has no sequence"],
)
@pytest.mark.deep
def test_a_broker_with_one_wrong_rule_of_offsets_differs(
    monkeypatch: pytest.MonkeyPatch, place: type[object], name: str, wrong: object
) -> None:
    if wrong is None:
        wrong = {"append_marker": applied_never(CoordinatorLog.append_marker), "metadata": numbered}[name]
    monkeypatch.setattr(place, name, wrong)
    found = GROUPED.first_failure(5, MANY, side=Side.CLUSTER, length=120)
    assert found is not None, "it went unnoticed"


def applied_never(append_marker: Any) -> Any:
    """Offsets stay pending: the coordinator is not told of markers."""

    async def append(log: object, led: object, marker: object, apply: object, *, timeout_ms: float) -> ErrorCode:
        error: ErrorCode = await append_marker(log, led, marker, lambda base_offset: None, timeout_ms=timeout_ms)
        return error

    return append


def numbered(producers: ProducerStates, header: BatchHeader, base_offset: int) -> BatchMetadata:
    """As it was: a batch without a sequence ends at the last one that there is."""
    delta = header.last_offset_delta
    return BatchMetadata(
        producers.advanced(header.base_sequence, delta), base_offset + delta, delta, header.max_timestamp
    )


@attrs.frozen
class ForgetsWhatWasBegun(TransactionRules):
    def keeping_ruling(self, metadata: TransactionMetadata, new_id: int, now_ms: int) -> Ruling:
        ruling = super().keeping_ruling(metadata, new_id, now_ms)
        assert ruling.metadata is not None
        return Ruling(metadata=attrs.evolve(ruling.metadata, ongoing_epoch=metadata.epoch + 1))


def test_a_coordinator_that_tells_another_transaction_than_the_prepared_one_differs() -> None:
    machine = Transactions(partitions=1, transactions=1, two_phase=True, bounds=Bounds(CrashProducer=1))
    (trace,) = (each for goal, each in explore(machine).reached.items() if "older one has prepared" in goal)
    assert failed(machine, trace.actions) is None
    failure = failed(machine, trace.actions, TransactionRoles(rules=ForgetsWhatWasBegun))
    assert failure is not None
    assert "ongoing" in failure.words
