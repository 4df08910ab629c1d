"""Our explorer and TLC agree on the published KIP-320 model: states, levels, steps and shortest counterexamples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model_tests.spec.published import found_by_tlc
from tidegauge.model_tests.spec.published.found_by_tlc import Shortest, Space
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import Exploration, Stop, explore
from tidegauge.spec.kernel.machine import Action, Invariant, NotEnabled
from tidegauge.spec.kernel.simulation import walk
from tidegauge.spec.kernel.traces import replay
from tidegauge.spec.published.kip320 import variants
from tidegauge.spec.published.kip320.actions import (
    BecomeFollower,
    ControllerElectLeader,
    ControllerShrinkIsr,
    FollowerFetch,
    LeaderExpandIsr,
    LeaderWrite,
)
from tidegauge.spec.published.kip320.machine import Kip320, leader_in_isr
from tidegauge.spec.published.kip320.state import LeaderAndIsr, Record, Replica, State

QUICK = 10
"""Counterexamples of up to so many states are found at once, whatever the size."""


def sized(case: Space | Shortest) -> str:
    return f"{case.variant.__name__}-{','.join(map(str, case.size))}"


@cache
def explored(machine: Kip320) -> Exploration[State]:
    """Up to the last invariant's fall; the whole space if one holds. Several tests look at the same."""
    return explore(machine, stop=Stop.EACH)


def check_space(space: Space, engine: Engine | None = None) -> None:
    if engine is None and not space.symmetric:
        found = explored(space.machine())
    else:
        found = explore(space.machine(), symmetry=space.symmetric, stop=Stop.EACH, engine=engine)
    assert found.complete
    assert engine in (None, found.engine)
    assert (found.distinct, found.depth) == (space.distinct, space.depth)
    if space.generated is not None:
        assert found.generated + found.levels[0] == space.generated


def check_shortest(case: Shortest) -> None:
    found = explored(case.machine())
    assert (length(found, "WeakIsr"), length(found, "StrongIsr")) == (case.weak_isr, case.strong_isr)
    for violation in found.violations:
        again = replay(case.machine(), violation.trace.actions, invariant=violation.invariant).violation
        assert again is not None
        assert again.trace == violation.trace


def length(found: Exploration[State], invariant: str) -> int | None:
    violation = found.violation(invariant)
    return None if violation is None else len(violation.trace)


def test_level_sizes_are_those_of_tlc() -> None:
    found = explored(Kip320())
    assert found.levels == found_by_tlc.LEVELS_2_2_1
    assert found.generated + found.levels[0] == 102_220
    assert found.holds
    assert not found.never_enabled
    assert found.unreached == ()


@attrs.frozen
class ElectsNobodyAgain(Kip320):
    """The controller has no second leader to offer."""

    def is_electable(self, state: State, replica: int) -> bool:
        return state.quorum.leader_epoch < 0


def test_a_goal_that_no_state_reaches_is_told() -> None:
    assert len(Kip320().sometimes) == 5
    assert explore(ElectsNobodyAgain()).unreached == ("two replicas presume leadership", "two logs have parted")


@pytest.mark.parametrize("space", found_by_tlc.SMALL_SPACES, ids=sized)
def test_state_counts_are_those_of_tlc(space: Space) -> None:
    check_space(space)


@pytest.mark.deep
@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("space", [*found_by_tlc.SMALL_SPACES, found_by_tlc.LARGE_SPACES[0]], ids=sized)
def test_state_counts_are_those_of_tlc_on_each_engine(space: Space, engine: Engine) -> None:
    check_space(space, engine)


@pytest.mark.deep
@pytest.mark.parametrize("space", found_by_tlc.LARGE_SPACES, ids=sized)
def test_large_state_counts_are_those_of_tlc(space: Space) -> None:
    check_space(space)


@pytest.mark.parametrize("case", found_by_tlc.ONE_EPOCH_CHANGE, ids=sized)
def test_shortest_counterexamples_are_those_of_tlc(case: Shortest) -> None:
    check_shortest(case)


def is_quick(case: Shortest) -> bool:
    return case.weak_isr is not None and case.strong_isr is not None and max(case.weak_isr, case.strong_isr) <= QUICK


@pytest.mark.parametrize("case", [case for case in found_by_tlc.TWO_EPOCH_CHANGES if is_quick(case)], ids=sized)
def test_short_counterexamples_over_two_epoch_changes_are_those_of_tlc(case: Shortest) -> None:
    check_shortest(case)


@pytest.mark.deep
@pytest.mark.parametrize("case", [case for case in found_by_tlc.TWO_EPOCH_CHANGES if not is_quick(case)], ids=sized)
def test_long_counterexamples_over_two_epoch_changes_are_those_of_tlc(case: Shortest) -> None:
    check_shortest(case)


def test_symmetric_replicas_lose_no_state() -> None:
    found = explore(Kip320(), symmetry=True)
    assert found.orbits == 39_619
    assert found.depth == 22
    assert found.distinct < 39_619 / 5


def test_every_variant_is_in_the_tables() -> None:
    named = {case.variant for case in found_by_tlc.ONE_EPOCH_CHANGE}
    assert named == {Kip320, *variants.OLDER, *variants.ONE_RULE_CHANGED}


@attrs.frozen
class TypedAndMended(Kip320):
    """What is true of types, and of the leader and the ISR once there is a leader."""

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "TypeOk": self.type_ok,
            "LeaderInIsr": lambda state: state.quorum.leader is None or leader_in_isr(state),
        }


def test_types_are_kept_and_the_leader_is_in_the_isr_once_there_is_one() -> None:
    assert explore(TypedAndMended()).holds
    (initial,) = Kip320().initial()
    assert Kip320().type_ok(initial)
    spoilt = attrs.evolve(initial.replicas[1], hw=1)
    assert not Kip320().type_ok(initial.with_replica(1, spoilt))
    for wrong in ({"leader_epoch": Kip320().max_leader_epoch + 1}, {"isr": frozenset({Kip320().replicas})}):
        assert not Kip320().type_ok(initial.with_replica(1, attrs.evolve(initial.replicas[1], **wrong)))


def test_leader_in_isr_is_false_as_published_until_there_is_a_leader() -> None:
    @attrs.frozen
    class AsPublished(Kip320):
        @property
        def invariants(self) -> Mapping[str, Invariant[State]]:
            return {"LeaderInIsr": leader_in_isr}

    assert len(explore(AsPublished()).violations[0].trace) == 1


@pytest.mark.parametrize("variant", [variants.HighWatermarkByMajority, variants.IsrWriteWithoutEpoch])
@pytest.mark.parametrize("invariant", ["WeakIsr", "StrongIsr"])
def test_a_violation_shows_the_logs_that_disagree(variant: type[Kip320], invariant: str) -> None:
    violation = explored(variant()).violation(invariant)
    assert violation is not None
    values: dict[str, Any] = dict(violation.values)
    leader, member, hw = values["leader"], values["member"], values["hw"]
    state = violation.trace.last
    assert state.presumes_leadership(leader)
    assert member in (state.replicas[leader].isr if invariant == "WeakIsr" else state.quorum.isr)
    assert values["log"] == state.replicas[leader].log
    assert values["log"][:hw] != values["member's log"][:hw]


def test_only_presumed_leaders_and_their_own_isr_are_to_blame() -> None:
    log, nobody = (Record(0, 0),), frozenset[int]()
    replicas = (
        Replica(log, 1, 1, 0, frozenset({0, 2})),  # follows: its HW and its ISR promise nothing
        Replica(log, 1, 1, 0, frozenset({0, 1})),
        Replica((), 0, None, -1, nobody),
    )
    state = State(replicas, LeaderAndIsr(1, 0, frozenset({1, 2})), (), 1)
    assert Kip320().explain("WeakIsr", state) == {}
    assert Kip320().explain("StrongIsr", state) == {"leader": 1, "hw": 1, "log": log, "member": 2, "member's log": ()}
    assert Kip320().invariants["WeakIsr"](state)
    assert not Kip320().invariants["StrongIsr"](state)


def test_the_last_member_of_the_isr_stays_in_it() -> None:
    machine = Kip320(replicas=1)
    found = replay(machine, (ControllerElectLeader(0), ControllerShrinkIsr(0))).trace.last
    assert found.quorum == LeaderAndIsr(None, 1, frozenset({0}))


def test_kip101_resorts_to_the_high_watermark() -> None:
    empty = Replica((), 0, 0, 0, frozenset())
    behind = Replica((Record(0, 0),), 0, 0, 0, frozenset())
    ahead = Replica((Record(0, 0), Record(1, 1)), 1, None, -1, frozenset())

    def offset(leader: Replica, follower: Replica) -> int:
        state = State((leader, follower), LeaderAndIsr(0, 0, frozenset()), (), 2)
        return variants.Kip101().truncation_offset(state, 0, 1)

    assert offset(behind, empty) == 0
    assert offset(behind, ahead) == 1  # the leader knows nothing of epoch 1, nor of a later one: the HW
    assert offset(empty, ahead) == 1
    assert offset(ahead, behind) == 1  # epoch 0 ends where epoch 1 begins
    assert offset(ahead, ahead) == 2


MACHINES = (
    Kip320(max_leader_epoch=3),
    variants.Kip279(max_leader_epoch=2),
    variants.Kip320FirstTry(max_leader_epoch=2),
    variants.IsrWriteWithoutEpoch(max_leader_epoch=2),
    variants.WithoutFetchFence(max_leader_epoch=2),
    variants.ExpandWithoutEpoch(max_leader_epoch=2),
    variants.UncleanElection(max_leader_epoch=2),
)


def every_action(machine: Kip320) -> Iterator[Action]:
    """Each kind of action with each choice of its fields, whether or not it makes sense."""
    for kind in machine.action_types:
        ranges = {"leader_epoch": range(machine.max_leader_epoch + 1)}
        fields: list[Any] = [ranges.get(field.name, range(machine.replicas)) for field in attrs.fields(kind)]
        yield from (kind(*values) for values in product(*fields))


@given(st.sampled_from(MACHINES), st.integers(0, 10_000))
def test_no_enabled_action_is_overlooked(machine: Kip320, seed: int) -> None:
    state = walk(machine, seed, length=seed % 40).trace.last
    listed = dict(machine.successors(state))
    assert list(listed) == list(machine.actions(state))
    for action in every_action(machine):
        if action in listed:
            assert machine.step(state, action) == listed[action]
        else:
            with pytest.raises(NotEnabled):
                machine.step(state, action)


@pytest.mark.parametrize(
    ("action", "guard"),
    [
        (LeaderWrite(0), "the replica presumes leadership"),
        (BecomeFollower(1, 0), "the request has been sent"),
        (LeaderExpandIsr(0, 1), "the replica is the true leader"),
        (FollowerFetch(1, 0), "the leader and the follower agree on leader and epoch"),
    ],
)
def test_a_refused_step_names_the_guard(action: Action, guard: str) -> None:
    (initial,) = Kip320().initial()
    with pytest.raises(NotEnabled, match=guard) as caught:
        Kip320().step(initial, action)
    assert caught.value.action == action
