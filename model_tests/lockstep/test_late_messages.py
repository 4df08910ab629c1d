"""Cores that take what a dead process or an older controller has sent are found: by actions, not by what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.lockstep.lockstep import Difference
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.lockstep.replication_walks import large_machine
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.lockstep import refusal_mutants as mutants
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication.actions import Append, HoldFetch, ReceiveFetch, ReceiveFetchResponse, SendFetch
from tidegauge.spec.replication.control import (
    ApplyMetadata,
    ReceiveAlterPartition,
    ReceiveAlterPartitionResponse,
    ShrinkIsr,
)
from tidegauge.spec.replication.extensions.late import (
    FetchArrivesLate,
    HeartbeatArrivesLate,
    LateMessages,
    ProposalArrivesLate,
)
from tidegauge.spec.replication.faults import ControllerFailover, Crash, ExpireSession, Register, Restart
from tidegauge.spec.replication.state import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    Error,
    FetchRequest,
    FetchResponse,
    Record,
)

WALKS: Final = 20
FIRST: Final = FetchRequest(1, 0, 0, 0, -1, 0)
SECOND: Final = FetchRequest(1, 0, 0, 1, 0, 0)
OF_NEXT_PROCESS: Final = FetchRequest(1, 0, 0, 0, -1, 1)
SHRINK: Final = AlterPartitionRequest(0, 0, 0, 0, ((0, 0), (2, -1)))
GROW: Final = AlterPartitionRequest(0, 0, 0, 1, ((0, 0), (1, 0), (2, -1)))
AGAIN: Final = (Restart(1), Register(1), ApplyMetadata(1))

SCENARIOS: Final[Mapping[str, tuple[Roles, tuple[Action, ...]]]] = {
    "the fetch of a follower's former process": (
        Roles(replica=mutants.ServesFormerProcesses),
        (
            Append(0),
            SendFetch(1),
            ReceiveFetch(FIRST),
            ReceiveFetchResponse(FetchResponse(FIRST, records=(Record(0, 0),), high_watermark=0)),
            SendFetch(1),
            Crash(1, kept=0),
            *AGAIN,
            SendFetch(1),
            ReceiveFetch(OF_NEXT_PROCESS),
            FetchArrivesLate(SECOND),
            ReceiveFetch(SECOND),
        ),
    ),
    "the proposal of a leader's former process": (
        mutants.writes_isr_despite(ErrorCode.stale_broker_epoch),
        (
            Append(0),
            ShrinkIsr(0, (1,)),
            Crash(0, kept=0),
            Restart(0),
            Register(0),
            ProposalArrivesLate(SHRINK),
            ReceiveAlterPartition(SHRINK),
        ),
    ),
    "the heartbeat of a broker's former process": (
        mutants.members_of(mutants.TakesHeartbeatsOfFormerProcesses),
        (Crash(1, kept=0), Restart(1), Register(1), HeartbeatArrivesLate(1, 0)),
    ),
    "the response of an older controller": (
        Roles(replica=mutants.TakesResponsesOfOlderControllers),
        (
            ExpireSession(1),
            ApplyMetadata(0),
            SendFetch(1),
            HoldFetch(FIRST),
            ReceiveAlterPartition(GROW),
            ControllerFailover(),
            ApplyMetadata(0),
            ReceiveAlterPartitionResponse(
                AlterPartitionResponse(0, 0, 1, Error.INELIGIBLE_REPLICA, (0, 2), 1, controller_epoch=0)
            ),
        ),
    ),
}
"""What comes too late -> cores without the check that ignores it, and actions, of which the last is the arrival."""


@pytest.mark.parametrize("message", SCENARIOS)
def test_a_message_that_comes_too_late_changes_nothing(message: str) -> None:
    roles, actions = SCENARIOS[message]
    machine = large_machine(extensions=(LateMessages(),))
    correct = CoresLockstep(machine)
    assert [action for action in actions if not correct.perform(action)] == []
    wrong = CoresLockstep(machine, roles)
    assert all(map(wrong.perform, actions[:-1]))
    with pytest.raises(Difference) as found:
        wrong.perform(actions[-1])
    assert found.value.path != "error"


def without_refusals() -> Any:
    registration = HARNESS["late-messages"]
    return attrs.evolve(registration, plan=attrs.evolve(registration.walk_plan(), forbidden_share=0.0))


def test_cores_do_with_late_messages_as_the_machine_says() -> None:
    for found in HARNESS["late-messages"].walks(1, amount(8, deep=WALKS)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


def test_walks_alone_find_who_takes_heartbeats_of_the_dead() -> None:
    roles = mutants.members_of(mutants.TakesHeartbeatsOfFormerProcesses)
    assert without_refusals().first_failure(1, WALKS, roles=roles) is not None


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in HARNESS["late-messages"].walks(100, 2_000):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
