"""What the specification refuses a cluster refuses: real requests over the network, and a mutant for each refusal.

The counterpart of `test_refusals`, with the same mutants. A late response is no refusal here: a connection delivers it,
and nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import attrs
import pytest

from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, failure_of
from tidegauge.model_tests.harness.lockstep.lockstep import Difference
from tidegauge.model_tests.harness.lockstep.replication_walks import large_machine
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.model_tests.lockstep.refusal_mutants import MUTANTS
from tidegauge.model_tests.lockstep.test_refusals import EXPECTED
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import Append, HoldFetch, ReceiveFetch, SendFetch
from tidegauge.spec.replication.extensions.reassignment import CancelReassignment, Reassignment, StartReassignment
from tidegauge.spec.replication.extensions.settings import ChangeSettings, Settings
from tidegauge.spec.replication.state import AlterPartitionRequest, AlterPartitionResponse, Error, FetchRequest

SEED: Final = 2
WALKS: Final = 4
"""Within so many a cluster without a refusal is found, unless a scenario says how."""

LATE_RESPONSES: Final = {("ReceiveFetchResponse", "OK"), ("ReceiveAlterPartitionResponse", "OK")}
LATE: Final = "late fetch response"
"""It is on its way when the follower's leader changes, and so no refusal: a walk delivers it."""
EVERYBODY: Final = ((0, 0), (1, 0), (2, 0))
OF_FENCED: Final = FetchRequest(1, 0, 0, 0, -1, 0)
WITH_FENCED: Final = AlterPartitionRequest(0, 0, 0, 1, ((0, 0), (1, 0), (2, -1)))
REFUSED: Final = AlterPartitionResponse(0, 0, 1, Error.INELIGIBLE_REPLICA, (0, 2), 1, controller_epoch=0)
IS_REFUSED: Final = (
    faults.ExpireSession(1),
    control.ApplyMetadata(0),
    SendFetch(1),
    HoldFetch(OF_FENCED),
    control.ReceiveAlterPartition(WITH_FENCED),
)
"""A leader that knows no better proposes a fenced broker, and the refusal is on its way."""
OF_NEW_PROCESS: Final = FetchRequest(2, 0, 0, 0, -1, 1)

SCENARIOS: Final[Mapping[str, tuple[Machine[Any], tuple[Action, ...]]]] = {
    "append below min ISR": (
        large_machine(min_insync_replicas=2),
        (faults.ExpireSession(1), faults.ExpireSession(2), control.ApplyMetadata(0), Append(0)),
    ),
    "fetch of an older leader epoch": (
        large_machine(),
        (faults.ExpireSession(0), control.ApplyMetadata(1), ReceiveFetch(FetchRequest(0, 1, 0, 0, -1, 0))),
    ),
    "fetch of a former process": (
        large_machine(),
        (
            faults.Crash(2, kept=0),
            faults.Restart(2),
            faults.Register(2),
            control.ApplyMetadata(2),
            SendFetch(2),
            HoldFetch(OF_NEW_PROCESS),
            ReceiveFetch(attrs.evolve(OF_NEW_PROCESS, broker_epoch=0)),
        ),
    ),
    "proposal of an older leader epoch": (
        large_machine(),
        (faults.ExpireSession(0), control.ReceiveAlterPartition(AlterPartitionRequest(1, 0, 0, 1, EVERYBODY))),
    ),
    "proposal with a fenced broker": (
        large_machine(),
        (faults.ExpireSession(1), control.ReceiveAlterPartition(AlterPartitionRequest(0, 0, 0, 1, EVERYBODY))),
    ),
    "preferred election of who is not in sync": (
        large_machine(),
        (faults.ExpireSession(0), control.PreferredElection()),
    ),
    "unclean election without live brokers": (
        large_machine(),
        (*map(faults.ExpireSession, range(3)), control.UncleanElection()),
    ),
    "heartbeat before catch-up": (
        large_machine(),
        (faults.Crash(2, kept=0), faults.Restart(2), faults.Register(2), faults.Unfence(2)),
    ),
    "cancellation that leaves nobody": (
        large_machine(extensions=(Reassignment(),)),
        (
            faults.Crash(0, kept=0),
            faults.Restart(0),
            faults.Register(0),
            faults.Crash(1, kept=0),
            faults.Restart(1),
            faults.Register(1),
            StartReassignment((1, 2)),
            CancelReassignment(),
        ),
    ),
}
"""Refusal -> where it is rare in walks, a machine and actions of which the last one is refused."""


LATE_SCENARIOS: Final[Mapping[str, tuple[Machine[Any], tuple[Action, ...]]]] = {
    "response of an older controller": (
        large_machine(),
        (
            *IS_REFUSED,
            faults.ControllerFailover(),
            control.ApplyMetadata(0),
            control.ReceiveAlterPartitionResponse(REFUSED),
        ),
    ),
    "response to another proposal": (
        large_machine(extensions=(Settings(),)),
        (
            *IS_REFUSED,
            ChangeSettings(min_insync=2, elects_uncleanly=False),
            control.ApplyMetadata(0),
            HoldFetch(OF_FENCED),
            control.ReceiveAlterPartitionResponse(REFUSED),
        ),
    ),
}
"""Response -> a machine and actions, of which the last delivers it when it is too late."""


def often(machine: str) -> Registration:
    """The machine's walks with something forbidden before every second action."""
    registration = HARNESS[machine]
    return attrs.evolve(registration, plan=attrs.evolve(registration.walk_plan(), forbidden_share=0.5))


def perform(machine: Machine[Any], actions: tuple[Action, ...], roles: object = None) -> Counter[tuple[str, str]]:
    """What a cluster has refused of these actions: only the last one is to be."""
    pair = CheckedLockstep(machine, HARNESS.of(machine).bind(Side.CLUSTER, roles)(machine))
    try:
        assert all(map(pair.perform, actions[:-1]))
        assert not pair.perform(actions[-1])
        return pair.refused
    finally:
        pair.close()


@pytest.mark.parametrize("refusal", sorted(set(MUTANTS) - {LATE} - set(LATE_SCENARIOS) - set(SCENARIOS)))
def test_a_cluster_without_a_refusal_is_found_within_few_walks(refusal: str) -> None:
    machine, roles = MUTANTS[refusal]
    failures = (one.failure for one in often(machine).walks(SEED, WALKS, side=Side.CLUSTER, roles=roles) if one.failure)
    noticed = next((failure for failure in failures if failure.expected.name != "error"), None)
    assert noticed is not None, f"{refusal}: nothing but exceptions was noticed in {WALKS} walks of {machine}"


def test_a_cluster_that_takes_late_fetch_responses_is_found() -> None:
    machine, roles = MUTANTS[LATE]
    walks = HARNESS[machine].walks(SEED, 2 * WALKS, side=Side.CLUSTER, roles=roles)
    failure = next(one.failure for one in walks if one.failure is not None)
    assert failure.expected.name != "error"
    assert "ReceiveFetchResponse" in failure.words


@pytest.mark.parametrize("refusal", SCENARIOS)
def test_a_cluster_refuses_in_a_scenario_what_its_mutant_does_not(refusal: str) -> None:
    machine, actions = SCENARIOS[refusal]
    assert perform(machine, actions).total() == 1
    with pytest.raises(Difference) as found:
        perform(machine, actions, MUTANTS[refusal][1])
    assert found.value.action == actions[-1]
    assert found.value.path != "error"


@pytest.mark.parametrize("response", LATE_SCENARIOS)
def test_a_response_that_comes_too_late_changes_nothing_in_a_cluster(response: str) -> None:
    machine, actions = LATE_SCENARIOS[response]
    bind = HARNESS.of(machine).bind
    assert failure_of(CheckedLockstep(machine, bind(Side.CLUSTER)(machine)), actions) is None
    found = failure_of(CheckedLockstep(machine, bind(Side.CLUSTER, MUTANTS[response][1])(machine)), actions)
    assert found is not None
    assert (found.expected.kind, found.actions) == (Failure.DIFFERENCE, actions)
    assert found.expected.name.startswith("replicas[0].pending_isr")


@pytest.mark.parametrize(("machine", "walks"), [("replication", 8), ("retention", 1), ("reassignment", 1)])
def test_every_refusal_of_a_machine_is_sent_to_a_cluster(machine: str, walks: int) -> None:
    sent = Counter[tuple[str, str]]()
    for found in often(machine).walks(SEED, walks, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        sent.update(found.refused)
    assert set(sent) >= EXPECTED[machine] - LATE_RESPONSES - {("UncleanElection", "ELIGIBLE_LEADERS_NOT_AVAILABLE")}


@pytest.mark.deep
@pytest.mark.parametrize(
    "machine", ["replication", "retention", "reassignment", "controlled-shutdown", "settings", "idempotence"]
)
def test_many_walks_find_no_request_that_a_cluster_does_not_refuse(machine: str) -> None:
    for seed in range(100, 104):
        for found in often(machine).walks(seed, 50, side=Side.CLUSTER):
            assert found.failure is None, f"walk {found.number} of seed {seed}: {found.failure.words}"
