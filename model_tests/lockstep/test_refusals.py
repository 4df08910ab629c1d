"""What the specification refuses the cores refuse: a lockstep misses each refusal that is removed within few walks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.cores.stored_log import StoredLog
from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Failure, Found, load, save
from tidegauge.model_tests.harness.counterexamples.replay import Level, replay
from tidegauge.model_tests.harness.lockstep.lockstep import Difference
from tidegauge.model_tests.harness.lockstep.minimising import minimise
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.lockstep.replication_walks import large_machine
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.model_tests.lockstep import refusal_mutants as mutants
from tidegauge.spec.kernel.guarded import EnumeratingMachine, Refusal
from tidegauge.spec.kernel.simulation import walk
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.shutdown import BeginShutdown, ControlledShutdown, GrantShutdown
from tidegauge.spec.replication.faults import ExpireSession, HeartbeatOfFormerProcess, Unfence
from tidegauge.spec.replication.state import Acks, Error

WALKS = 60
"""Within so many the removal of a refusal is found."""
SEED = 5


def often(machine: str) -> Registration:
    """The machine's walks with something forbidden before every fourth action."""
    registration = HARNESS[machine]
    return attrs.evolve(registration, plan=attrs.evolve(registration.walk_plan(), forbidden_share=0.25))


@pytest.mark.parametrize("refusal", mutants.MUTANTS)
def test_cores_without_a_refusal_are_found_within_few_walks(refusal: str) -> None:
    machine, roles = mutants.MUTANTS[refusal]
    failures = (found.failure for found in often(machine).walks(SEED, WALKS, roles=roles) if found.failure)
    noticed = next((failure for failure in failures if failure.expected.name != "error"), None)
    assert noticed is not None, f"{refusal}: nothing but exceptions was noticed in {WALKS} walks of {machine}"
    assert noticed.expected.kind is Failure.DIFFERENCE


@pytest.mark.parametrize(("machine", "walks"), [("replication", WALKS), ("retention", 5), ("reassignment", 5)])
def test_every_refusal_of_a_machine_is_sent(machine: str, walks: int) -> None:
    """All classes of action that can be refused are, with every error that their guards name."""
    sent = Counter[tuple[str, str]]()
    for found in often(machine).walks(SEED, walks):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        sent.update(found.refused)
    assert set(sent) >= EXPECTED[machine]


OF_REPLICATION = {
    ("Append", "NOT_LEADER_OR_FOLLOWER"),
    ("Append", "NOT_ENOUGH_REPLICAS"),
    ("ReceiveFetch", "FENCED_LEADER_EPOCH"),
    ("ReceiveFetch", "UNKNOWN_LEADER_EPOCH"),
    ("ReceiveFetch", "NOT_LEADER_OR_FOLLOWER"),
    ("ReceiveFetchResponse", "OK"),
    ("ReceiveAlterPartition", "STALE_BROKER_EPOCH"),
    ("ReceiveAlterPartition", "FENCED_LEADER_EPOCH"),
    ("ReceiveAlterPartition", "INVALID_REQUEST"),
    ("ReceiveAlterPartition", "INVALID_UPDATE_VERSION"),
    ("ReceiveAlterPartition", "INELIGIBLE_REPLICA"),
    ("ReceiveAlterPartitionResponse", "OK"),
    ("PreferredElection", "ELECTION_NOT_NEEDED"),
    ("PreferredElection", "PREFERRED_LEADER_NOT_AVAILABLE"),
    ("UncleanElection", "ELECTION_NOT_NEEDED"),
    ("UncleanElection", "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
    ("Unfence", "OK"),
    ("HeartbeatOfFormerProcess", "STALE_BROKER_EPOCH"),
    ("HeartbeatOfFormerProcess", "BROKER_ID_NOT_REGISTERED"),
    ("RegisterBesideProcess", "DUPLICATE_BROKER_REGISTRATION"),
}
EXPECTED = {
    "replication": OF_REPLICATION,
    "retention": {("DeleteRecords", error) for error in ("OFFSET_OUT_OF_RANGE", "NOT_LEADER_OR_FOLLOWER", "OK")},
    "reassignment": {
        ("StartReassignment", "INVALID_REPLICA_ASSIGNMENT"),
        ("CancelReassignment", "NO_REASSIGNMENT_IN_PROGRESS"),
    },
}


def test_the_last_in_sync_is_not_told_to_stop_while_another_may_join() -> None:
    """Walks are seldom in such a state."""
    machine = large_machine(extensions=(ControlledShutdown(),))
    alone = [ExpireSession(1), ExpireSession(2), ApplyMetadata(0), Unfence(1), BeginShutdown(0)]
    pair = CoresLockstep(machine)
    assert all(map(pair.perform, alone))
    assert not pair.perform(GrantShutdown(0))
    assert pair.refused["GrantShutdown", "OK"] == 1
    wrong = CoresLockstep(machine, mutants.controlled_by(registration_rules=mutants.NobodyMustKeepRunning))
    assert all(map(wrong.perform, alone))
    with pytest.raises(Difference, match="broker 0 is told to stop"):
        wrong.perform(GrantShutdown(0))


def test_stored_logs_refuse_it_too() -> None:
    stored = Roles(log=StoredLog)
    for found in often("retention").walks(SEED, 20, roles=stored):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        assert found.refused
    roles = attrs.evolve(stored, replica=mutants.DeletesWhatIsNotCommitted)
    assert often("retention").first_failure(SEED, WALKS, roles=roles) is not None


def test_walks_take_the_same_actions_whatever_is_refused_between_them() -> None:
    plan = often("replication")
    without = Roles(replica=type("Correct", (PartitionReplica,), {}))
    assert [w.actions for w in plan.walks(3, 5)] == [w.actions for w in plan.walks(3, 5, roles=without)]
    assert any(w.refused for w in plan.walks(3, 5))


def test_a_refusal_names_its_error_and_any_other_reason_none() -> None:
    machine = large_machine(min_insync_replicas=2)
    (state,) = machine.initial()
    at_follower = protocol.Append(1).guard(machine, state)
    assert isinstance(at_follower, Refusal)
    assert (at_follower, at_follower.error) == ("broker 1 does not think it leads", Error.NOT_LEADER_OR_FOLLOWER)
    assert not isinstance(protocol.SendFetch(0).guard(machine, state), Refusal)


def test_an_error_that_is_not_the_one_that_the_guard_names_is_a_difference() -> None:
    pair = CoresLockstep(large_machine(), Roles(replica=_Evasive))
    expected = "refusal: specification NOT_LEADER_OR_FOLLOWER, implementation UNKNOWN_SERVER_ERROR"
    with pytest.raises(Difference, match=expected):
        pair.perform(protocol.Append(1))


class _Evasive(PartitionReplica):
    def append_error(self, acks: int) -> ErrorCode:
        found = super().append_error(acks)
        return found if found is ErrorCode.none else ErrorCode.unknown_server_error


def test_a_counterexample_that_ends_in_a_refusal_is_minimised_saved_and_replayed(tmp_path: Path) -> None:
    roles = mutants.appends_despite(ErrorCode.not_enough_replicas)
    found = often("replication").first_failure(SEED, WALKS, roles=roles)
    assert found is not None
    assert found.failure is not None
    bind = HARNESS["replication"].bind(Side.CORES, roles)
    shortest, difference = minimise(bind, found.machine, found.failure.actions)
    assert isinstance(shortest[-1], protocol.Append)
    assert shortest[-1].acks is Acks.ALL
    assert len(shortest) < 12
    assert difference.path == "refusal"
    case = Counterexample(found.machine, None, shortest, found.failure.expected, Found("a test", SEED))
    save(case, tmp_path / "found.json")
    again = load(tmp_path / "found.json")
    assert again.actions == shortest
    assert not replay(again, Level.CORES).failed


def test_a_request_that_is_never_enabled_has_a_name_in_files(tmp_path: Path) -> None:
    machine = large_machine()
    late = HeartbeatOfFormerProcess(1, 3)
    expected = often("replication").first_failure(SEED, 1, roles=mutants.elections_of(mutants.ElectsPreferredAgain))
    assert expected is not None
    assert expected.failure is not None
    case = Counterexample(machine, None, (late,), expected.failure.expected, Found("a test", SEED))
    save(case, tmp_path / "late.json")
    assert load(tmp_path / "late.json").actions == (late,)
    assert late not in list(machine.actions(next(iter(machine.initial()))))


WITHOUT_REFUSALS = ("workers",)
"""They send nothing: what is refused to a consumer is its group's coordinator's to refuse."""


def test_attempts_are_worth_their_time_in_every_machine() -> None:
    """A machine refuses something from its first steps on, and not so much that a walk is about nothing else."""
    for registration in HARNESS:
        machine = REGISTRY.registration(registration.machine).machine
        if registration.machine in WITHOUT_REFUSALS:
            continue
        if isinstance(machine, EnumeratingMachine) and registration.sides:
            refused = [
                sum(1 for kind in machine.attempted_types for _ in machine.refused(state, kind))
                for state in walk(machine, 1, length=6).trace.states
            ]
            assert any(refused), f"{registration.machine} refuses nothing in its first steps"
            assert max(refused) < 200
