"""The machine of classic groups: explored, walked, and with each of its historical bugs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from random import Random

import attrs
import pytest

from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.groups import GROUP_BUGS
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.models import GROUP_MODELS, NIGHTLY_GROUPS, QUICK_GROUPS
from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.groups.classic.state import NONE, Phase, State
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.codec import read_trace, trace_lines
from tidegauge.spec.kernel.explorer import Exploration, explore
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.kernel.simulation import simulate

every_bug = pytest.mark.parametrize("bug", GROUP_BUGS.values(), ids=GROUP_BUGS)

# --- small models, exhaustively ------------------------------------------------------------------------------------

SECONDS = ("groups-coordinator", "groups-cooperative")
"""What of the quick ones takes seconds."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] * (name not in QUICK_GROUPS or name in SECONDS))
        for name in GROUP_MODELS
        if name not in NIGHTLY_GROUPS
    ],
)
def test_every_reachable_state_satisfies_every_invariant_and_goals_are_reached(name: str) -> None:
    exploration = explore(GROUP_MODELS[name].machine, converges=True)
    assert exploration.holds, exploration.violations or exploration.convergence
    assert not exploration.unreached
    assert name not in COUNTS or counted(exploration) == COUNTS[name]


def test_the_models_together_turn_every_perturbation_on() -> None:
    turned_on = {name for model in GROUP_MODELS.values() for name in model.machine.bounds}
    assert turned_on == set(ClassicGroups().perturbations)


def test_walks_of_large_machines_keep_every_invariant() -> None:
    """Four processes, two of them of one static member, and everything goes wrong: more than can be explored."""
    machine = ClassicGroups(
        processes=4,
        instances=(0, 0, NONE, 1),
        cooperative=True,
        partitions=3,
        topics=2,
        commits=3,
        bounds=Bounds(dict.fromkeys(ClassicGroups().perturbations, 2)),
    )
    found = simulate(machine, 3, 12, length=100)
    assert found.holds, found.violations
    taken = {row.action for row in found.coverage if row.taken}
    assert taken >= {kind.__name__ for kind in ClassicGroups.action_types} - {"NoticePartitions"}


# --- what a generation promises ------------------------------------------------------------------------------------


def test_a_generation_that_nobody_was_assigned_may_come_again_after_a_fail_over() -> None:
    """Its number was told by JoinGroup and lost with the coordinator; no assignment had it."""
    machine = ClassicGroups(processes=1, partitions=1, bounds=Bounds(FailOver=1, Leave=1))
    numbers = set[tuple[int, int]]()

    def again(before: State, action: Action, after: State) -> bool:
        if before.group is not None and after.group is None:
            last = before.log.groups[-1].generation if before.log.groups else 0
            numbers.add((before.group.generation, last))
        return True

    kind = type("Watched", (ClassicGroups,), {"step_invariants": {"watched": again}})
    assert explore(kind(**attrs.asdict(machine, recurse=False))).holds
    assert {(1, 0), (2, 1)} <= numbers


def test_the_shares_of_a_lost_generation_may_leave_a_partition_to_nobody() -> None:
    """Its number comes again, begun by a JoinGroup that was late: the leader's assignment is one for others."""
    machine = ClassicGroups(requires_id=False, bounds=Bounds(FailOver=1, DelayJoin=1))

    def all_is_given(state: State) -> bool:
        given = [[one.partitions for one in record.members] for record in state.log.groups if record.members]
        return all(sum(map(len, one)) == machine.partitions for one in given)

    kind = type("Strict", (ClassicGroups,), {"invariants": {"all is given": all_is_given}, "sometimes": {}})
    (violation,) = explore(kind(**attrs.asdict(machine, recurse=False))).violations
    after = violation.trace.last
    assert after.log.groups[-1].generation == after.lost
    assert all(holds(after) for holds in machine.invariants.values())


def test_the_only_process_of_a_static_member_may_be_fenced_by_a_coordinator_that_has_no_record_of_it() -> None:
    """No record tells of a process that has replaced another one while a rebalance went on, in Kafka neither."""
    machine = ClassicGroups(processes=1, instances=(0,), partitions=1, bounds=Bounds(Crash=1, FailOver=1))
    fenced = {"fenced": lambda state: state.processes[0].phase is Phase.FENCED}
    kind = type("Watched", (ClassicGroups,), {"sometimes": fenced})
    assert not explore(kind(**attrs.asdict(machine, recurse=False))).unreached
    without = attrs.evolve(machine, bounds=Bounds(Crash=1))
    assert explore(kind(**attrs.asdict(without, recurse=False))).unreached == ("fenced",)


# --- refusals ------------------------------------------------------------------------------------------------------

REFUSED = {
    ("ReceiveJoin", "UNKNOWN_MEMBER_ID"),
    ("ReceiveJoin", "FENCED_INSTANCE_ID"),
    ("ReceiveJoin", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("ReceiveJoin", "INCONSISTENT_GROUP_PROTOCOL"),
    ("ReceiveSync", "UNKNOWN_MEMBER_ID"),
    ("ReceiveSync", "FENCED_INSTANCE_ID"),
    ("ReceiveSync", "ILLEGAL_GENERATION"),
    ("ReceiveSync", "INCONSISTENT_GROUP_PROTOCOL"),
    ("ReceiveSync", "REBALANCE_IN_PROGRESS"),
    ("ReceiveHeartbeat", "NONE"),
    ("ReceiveHeartbeat", "UNKNOWN_MEMBER_ID"),
    ("ReceiveHeartbeat", "FENCED_INSTANCE_ID"),
    ("ReceiveHeartbeat", "ILLEGAL_GENERATION"),
    ("ReceiveHeartbeat", "REBALANCE_IN_PROGRESS"),
    ("ReceiveCommit", "UNKNOWN_MEMBER_ID"),
    ("ReceiveCommit", "FENCED_INSTANCE_ID"),
    ("ReceiveCommit", "ILLEGAL_GENERATION"),
    ("ReceiveCommit", "REBALANCE_IN_PROGRESS"),
    ("ReceiveCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("ReceiveLeave", "UNKNOWN_MEMBER_ID"),
    ("ReceiveLeave", "FENCED_INSTANCE_ID"),
    ("ReceiveLeave", "COORDINATOR_LOAD_IN_PROGRESS"),
}


def test_every_refusal_is_attempted_with_the_error_of_its_response() -> None:
    """Requests that are late, and near misses of what the coordinator knows."""
    machine = ClassicGroups(
        processes=3,
        instances=(0,),
        protocols=((0,), (0, 1), (1,)),
        commits=1,
        bounds=Bounds(FailOver=2, Crash=1, DelayJoin=1, Leave=1),
    )
    found = set[tuple[str, str]]()
    for seed in range(40):
        found |= refusals_on_a_walk(machine, Random(seed))
        if found >= REFUSED:
            break
    assert found >= REFUSED, REFUSED - found


def refusals_on_a_walk(machine: ClassicGroups, rng: Random) -> set[tuple[str, str]]:
    """What is refused on one walk: the class of the action and the error."""
    state, found = next(iter(machine.initial())), set[tuple[str, str]]()
    for step in range(60):
        for kind in machine.attempted_types if step % 3 == 0 else ():
            found.update((kind.__name__, reason.error.name) for _, reason in machine.refused(state, kind))
        steps = list(machine.successors(state))
        if not steps:
            break
        _, state = rng.choice(steps)
    return found


# --- the zoo -------------------------------------------------------------------------------------------------------


@cache
def found(name: str) -> Exploration[State]:
    return explore(GROUP_BUGS[name].machine(), converges=True)


def shown(name: str) -> tuple[str, Sequence[Action]]:
    """The property that the bug breaks first, and how."""
    exploration = found(name)
    if exploration.violations:
        return exploration.violations[0].invariant, exploration.violations[0].trace.actions
    assert exploration.convergence is not None
    lasso = exploration.convergence.lassos[0]
    return lasso.goal, lasso.stem.actions


@every_bug
def test_the_explorer_finds_the_bug_by_a_property_that_it_breaks(bug: Bug[ClassicGroups]) -> None:
    assert shown(bug.name)[0] in bug.violates
    assert found(bug.name).distinct < 3_000
    assert len(shown(bug.name)[1]) <= 20


@every_bug
def test_the_counterexample_is_harmless_without_the_bug(bug: Bug[ClassicGroups]) -> None:
    machine = bug.correct_machine()
    state = next(iter(machine.initial()))
    for action in shown(bug.name)[1]:
        with suppress(NotEnabled):
            state = machine.step(state, action)
        assert all(holds(state) for holds in machine.invariants.values())


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=name, marks=[pytest.mark.deep] * (name in ("kafka_9801", "kafka_13419")))
        for name, bug in GROUP_BUGS.items()
    ],
)
def test_without_the_bug_its_model_converges(bug: Bug[ClassicGroups]) -> None:
    assert explore(bug.correct_machine(), converges=True).holds


@every_bug
def test_a_counterexample_can_be_written_and_read_back(bug: Bug[ClassicGroups]) -> None:
    for violation in found(bug.name).violations:
        assert read_trace(bug.machine(), trace_lines(bug.machine(), violation.trace, violation)) == violation.trace


@every_bug
def test_a_bug_overrides_one_rule_and_no_action(bug: Bug[ClassicGroups]) -> None:
    own = {name for name, value in vars(bug.buggy).items() if callable(value) and not name.startswith("_")}
    assert len(own) == 1
    assert all(hasattr(GroupRules, rule) for rule in own)
    assert bug.buggy.action_types is ClassicGroups.action_types


# --- constants -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constants", "told"),
    [
        ({"processes": 0}, "processes=0"),
        ({"partitions": 0}, "partitions=0"),
        ({"topics": 0}, "topics=0"),
        ({"instances": (0, 0, 0)}, "instances="),
        ({"protocols": ((0,), ())}, "a process knows at least one"),
    ],
)
def test_constants_that_fit_no_group_are_refused(constants: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        explore(ClassicGroups(**constants))  # type: ignore[arg-type]
