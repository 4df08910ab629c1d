"""The core of classic groups does what the specification says, action by action, refusals included."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.messages import SyncGroup
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.classic_groups import STEPS, GroupRoles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.group_walks import TOGETHER_WALKS
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.models import GROUP_MODELS
from tidegauge.spec.groups.classic.processes import NoticePartitions
from tidegauge.spec.groups.classic.state import NONE
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action

WALKS = amount(20, deep=40)
WITHIN = 60
REGISTERED = HARNESS["classic-groups"]
OFTEN = attrs.evolve(REGISTERED, plan=attrs.evolve(REGISTERED.walk_plan(), forbidden_share=0.25))
"""The walks with something forbidden before every fourth action."""


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(ClassicGroups.action_types)


def test_random_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in OFTEN.walks(7, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken >= set(ClassicGroups.action_types) - {NoticePartitions}
    of_members = {"UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
    for kind in ("ReceiveJoin", "ReceiveSync", "ReceiveHeartbeat", "ReceiveCommit", "ReceiveLeave"):
        assert of_members <= {error for name, error in refused if name == kind}
    stale = {kind for kind, error in refused if error == "ILLEGAL_GENERATION"}
    assert stale == {"ReceiveSync", "ReceiveHeartbeat", "ReceiveCommit"}
    assert {("ReceiveHeartbeat", "NONE"), ("ReceiveHeartbeat", "REBALANCE_IN_PROGRESS")} <= set(refused)


def test_walks_in_which_members_come_together_find_no_difference_and_replace_static_members() -> None:
    replaced = 0
    together = attrs.evolve(REGISTERED, plan=TOGETHER_WALKS)
    for found in together.walks(5, 2 * WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        assert isinstance(found.machine, ClassicGroups)
        (state,) = found.machine.initial()
        for action in found.actions:
            state = found.machine.step(state, action)
            replaced += any(entry.replacing != NONE for entry in state.appended)
    assert replaced > 2, "hardly any replacement was on its way into the log"


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in OFTEN.walks(11, 1_500, length=150):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


@pytest.mark.parametrize("name", ["groups-slow-static", "groups-growing"])
def test_the_ways_to_the_goals_are_the_cores_ways_too(name: str) -> None:
    machine = GROUP_MODELS[name].machine
    for trace in explore(machine).reached.values():
        assert failure_of(CoresLockstep(machine), trace.actions) is None


# --- refusals that are removed -------------------------------------------------------------------------------------


def without(error: ErrorCode) -> GroupRoles:
    """A coordinator that overlooks what this error is for, wherever a generation is asked for."""

    class Overlooks(ClassicRules):
        def generation_error(
            self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
        ) -> ErrorCode:
            found = super().generation_error(group, member_id, instance_id, generation)
            return ErrorCode.none if found is error and member_id in group.members else found

    return GroupRoles(rules=Overlooks)


class CommitsWhileItCompletes(ClassicRules):
    def commit_error(self, group: ClassicGroup, commit: Commit) -> ErrorCode:
        found = super().commit_error(group, commit)
        return ErrorCode.none if found is ErrorCode.rebalance_in_progress else found


class SyncsByAnyProtocol(ClassicRules):
    def sync_error(self, group: ClassicGroup, request: SyncGroup) -> ErrorCode:
        return super().sync_error(group, attrs.evolve(request, protocol=None))


class FencesNobody(ClassicRules):
    def member_error(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        return super().member_error(group, member_id, None)


@pytest.mark.parametrize(
    "roles",
    [
        without(ErrorCode.illegal_generation),
        GroupRoles(rules=CommitsWhileItCompletes),
        GroupRoles(rules=SyncsByAnyProtocol),
        GroupRoles(rules=FencesNobody),
    ],
    ids=["generations", "commits", "protocols", "instances"],
)
def test_a_core_without_a_refusal_is_found_within_few_walks(roles: GroupRoles) -> None:
    found = OFTEN.first_failure(5, WITHIN, roles=roles)
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
