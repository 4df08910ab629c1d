"""Reassignments and controlled shutdowns: the cores do what their machines say, and wrong cores do not."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.membership import RegistrationRules
from tidegauge.impl.controller.replica_lists import ReplicaListRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.bugs.controlled_shutdown import EmptiesTheIsr, TrustsEveryRestart
from tidegauge.spec.bugs.reassignment import CountsTheDeletedReplica, SwapsAtOnce
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.registry import REGISTRY

WALKS = 250
SEED = 5
TAKING_ALL = {"reassignment": (1, amount(80, deep=120)), "controlled-shutdown": (2, amount(30, deep=120))}
"""A seed whose first walks take every action, and how many."""

both = pytest.mark.parametrize("machine", ["reassignment", "controlled-shutdown"])


@both
def test_random_walks_find_no_difference_and_take_every_action(machine: str) -> None:
    taken: set[type[Action]] = set()
    for found in HARNESS[machine].walks(*TAKING_ALL[machine]):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(REGISTRY.registration(machine).machine.action_types)


@pytest.mark.deep
@both
def test_many_walks_find_no_difference(machine: str) -> None:
    for seed in range(100, 105):
        for found in HARNESS[machine].walks(seed, 1_000, length=200):
            assert found.failure is None, f"seed {seed}, walk {found.number}: {found.failure.words}"


class AnyOfTheTarget(ReplicaListRules):
    def may_complete(self, registration: PartitionRegistration, target: tuple[int, ...]) -> bool:
        return not registration.isr.isdisjoint(target)


class CompletesTooSoon(Controller):
    replica_list_rules = AnyOfTheTarget


class ForgetsToFenceTheFormerLife(PartitionReplica):
    """A leader that goes on with what it knows of its followers when a replica has left and come back."""

    def become_leader(self, now_ms: int) -> None:
        known = dict(self.remote_replicas)
        super().become_leader(now_ms)
        self.remote_replicas.update((b, remote) for b, remote in known.items() if b in self.replicas)


class EveryMemberMayLeave(ReplicaListRules):
    def may_leave(self, registration: PartitionRegistration, stopping: set[int]) -> bool:
        return True


class MayBeLeftEmpty(Controller):
    replica_list_rules = EveryMemberMayLeave


class EveryProcessIsTheLast(RegistrationRules):
    def is_last_process(self, image: ClusterImage, broker_id: int, broker_epoch: int) -> bool:
        return True


class TrustsEveryProcess(Controller):
    registration_rules = EveryProcessIsTheLast


@pytest.mark.parametrize(
    ("machine", "roles"),
    [
        ("reassignment", Roles(controller=CompletesTooSoon)),
        ("reassignment", Roles(replica=ForgetsToFenceTheFormerLife)),
        ("controlled-shutdown", Roles(controller=MayBeLeftEmpty)),
        ("controlled-shutdown", Roles(controller=TrustsEveryProcess)),
    ],
    ids=["completes too soon", "forgets to fence", "may be left empty", "trusts every process"],
)
def test_wrong_cores_differ(machine: str, roles: Roles) -> None:
    found = HARNESS[machine].first_failure(SEED, WALKS, roles=roles)
    assert found is not None, f"nothing was noticed in {WALKS} walks"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE


@pytest.mark.parametrize(
    ("machine", "wrong"),
    [
        ("reassignment", SwapsAtOnce),
        ("reassignment", CountsTheDeletedReplica),
        ("controlled-shutdown", EmptiesTheIsr),
        ("controlled-shutdown", TrustsEveryRestart),
    ],
)
def test_a_wrong_machine_is_not_what_the_cores_do(machine: str, wrong: type[Any]) -> None:
    assert HARNESS[machine].first_failure(SEED, WALKS, wrong=wrong) is not None
