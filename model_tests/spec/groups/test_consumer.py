"""The machine of consumer groups (KIP-848): explored, walked, and what its guards refuse."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.models import CONSUMER_MODELS, NIGHTLY_CONSUMERS, QUICK_CONSUMERS
from tidegauge.spec.groups.consumer.state import NONE, State
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.simulation import simulate

# --- small models, exhaustively ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] * (name not in QUICK_CONSUMERS))
        for name in CONSUMER_MODELS
        if name not in NIGHTLY_CONSUMERS
    ],
)
def test_every_reachable_state_satisfies_every_invariant_and_goals_are_reached(name: str) -> None:
    exploration = explore(CONSUMER_MODELS[name].machine, converges=True)
    assert exploration.holds, exploration.violations or exploration.convergence
    assert not exploration.unreached
    assert name not in COUNTS or counted(exploration) == COUNTS[name]


def test_the_models_together_turn_every_perturbation_on() -> None:
    turned_on = {name for model in CONSUMER_MODELS.values() for name in model.machine.bounds}
    assert turned_on == set(ConsumerGroups().perturbations)


def test_walks_of_large_machines_keep_every_invariant() -> None:
    """Four processes, two of them of one static member, and everything goes wrong: more than can be explored."""
    machine = ConsumerGroups(
        processes=4,
        instances=(0, 0, NONE, 1),
        partitions=4,
        topics=2,
        matches=((0,), (0, 1)),
        expressions=(NONE, 0, 1),
        named=(1,),
        commits=3,
        bounds=Bounds(dict.fromkeys(ConsumerGroups().perturbations, 2)),
        spaces_targets=True,
    )
    found = simulate(machine, 3, 20, length=120)
    assert found.holds, found.violations
    taken = {row.action for row in found.coverage if row.taken}
    assert taken == {kind.__name__ for kind in ConsumerGroups.action_types}


# --- what the protocol does not promise ------------------------------------------------------------------------------


def test_a_late_copy_of_a_heartbeat_may_take_what_its_process_is_never_told_of() -> None:
    """Nobody reads that partition until the next epoch: the gap that the machine's page speaks of."""

    def is_orphaned(state: State) -> bool:
        group = state.group
        if group is None or state.heartbeats or not all(process.epoch == group.epoch for process in state.processes):
            return False
        settled = all(one.assigned is None and one.owned == one.said and not one.full for one in state.processes)
        given = {one.member_id: {partition for partition, _ in one.assigned} for one in group.members}
        return settled and any(given[process.member_id] - {*process.owned} for process in state.processes)

    machine = ConsumerGroups(bounds=Bounds(DelayHeartbeat=1))
    kind = type("Watched", (ConsumerGroups,), {"sometimes": {"orphaned": is_orphaned}})
    assert not explore(kind(**attrs.asdict(machine, recurse=False))).unreached
    without = attrs.evolve(machine, bounds=Bounds(LoseResponse=1))
    assert explore(kind(**attrs.asdict(without, recurse=False))).unreached == ("orphaned",)


# --- refusals ------------------------------------------------------------------------------------------------------

REFUSED = {
    ("ReceiveHeartbeat", "NONE"),
    ("ReceiveHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("ReceiveHeartbeat", "UNKNOWN_MEMBER_ID"),
    ("ReceiveHeartbeat", "FENCED_INSTANCE_ID"),
    ("ReceiveHeartbeat", "FENCED_MEMBER_EPOCH"),
    ("ReceiveHeartbeat", "UNRELEASED_INSTANCE_ID"),
    ("ReceiveCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("ReceiveCommit", "UNKNOWN_MEMBER_ID"),
    ("ReceiveCommit", "STALE_MEMBER_EPOCH"),
    ("ReceiveLeave", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("ReceiveLeave", "UNKNOWN_MEMBER_ID"),
    ("ReceiveLeave", "FENCED_INSTANCE_ID"),
}


def test_every_refusal_is_attempted_with_the_error_of_its_response() -> None:
    """Requests that are late, and near misses of what the coordinator knows."""
    machine = ConsumerGroups(
        processes=3, instances=(0, 0), commits=1, bounds=Bounds(FailOver=2, Crash=1, DelayHeartbeat=1, Leave=1)
    )
    found = set[tuple[str, str]]()
    for seed in range(40):
        found |= refusals_on_a_walk(machine, Random(seed))
        if found >= REFUSED:
            break
    assert found >= REFUSED, REFUSED - found


def refusals_on_a_walk(machine: ConsumerGroups, rng: Random) -> set[tuple[str, str]]:
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


# --- constants -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constants", "told"),
    [
        ({"processes": 0}, "processes=0"),
        ({"partitions": 0}, "partitions=0"),
        ({"topics": 0}, "topics=0"),
        ({"instances": (0, 0, 0)}, "instances="),
    ],
)
def test_constants_that_fit_no_group_are_refused(constants: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        explore(ConsumerGroups(**constants))  # type: ignore[arg-type]
