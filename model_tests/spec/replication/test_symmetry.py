"""Followers are interchangeable where the leader stays: as many states in the orbits as there are without symmetry."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import AsymmetryError, check_symmetry, explore
from tidegauge.spec.kernel.progress import Limits, Stop
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.directories import Directories
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import RemoteReplica, Replica
from tidegauge.spec.replication.symmetry import names_of


def partition(*extensions: ReplicationExtension, **constants: Any) -> Replication:
    """Three brokers, one record, and the bounds among these constants."""
    bounds = Bounds({name: count for name, count in constants.items() if name[0].isupper()})
    rest = {name: value for name, value in constants.items() if not name[0].isupper()}
    return Replication(**{"brokers": 3, "max_records": 1, "bounds": bounds, "extensions": extensions, **rest})


@pytest.mark.parametrize(
    ("machine", "depth"),
    [
        (partition(max_records=0), None),
        (partition(ShrinkIsr=1), 8),
        (partition(ShrinkIsr=1, initial_isr=(1,), initial_leader=1), 8),
        (partition(delayed_metadata=True, ControllerFailover=1, ShrinkIsr=1, min_insync_replicas=2), 5),
        (partition(long_polls=True, DuplicateFetch=1, Disconnect=1, Pause=1), 6),
        (partition(Retention(), DeleteRecords=1), 10),
        (partition(Settings(), ChangeSettings=1, ShrinkIsr=1), 5),
        (partition(ControlledShutdown(), Damage(), delayed_metadata=True, ShrinkIsr=2, min_insync_replicas=3), 7),
        (partition(brokers=4, max_records=0, ShrinkIsr=1), 5),
    ],
)
def test_the_orbits_hold_as_many_states_as_there_are(machine: Replication, depth: int | None) -> None:
    whole = explore(machine, limits=Limits(depth=depth), stop=Stop.NEVER)
    reduced = explore(machine, limits=Limits(depth=depth), stop=Stop.NEVER, symmetry=True)
    assert reduced.orbits == whole.distinct > reduced.distinct
    assert not reduced.violations


@pytest.mark.deep
def test_a_whole_model_is_explored_by_its_orbits() -> None:
    machine = MODELS["shrink"].machine
    assert check_symmetry(machine) == explore(machine, symmetry=True).orbits


ELECTED = "since followers may be elected, which goes by the order of brokers (not with {}): "


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (partition(ExpireSession=1, ShrinkIsr=1), ELECTED.format("ExpireSession=0")),
        (partition(Crash=1, ExpireSession=2), ELECTED.format("Crash=0 ExpireSession=0")),
        (partition(PreferredElection=1), ELECTED.format("PreferredElection=0")),
        (partition(initial_isr=(0, 1)), "since there are fewer than two followers, or not all of them are in sync"),
        (partition(brokers=2), "since there are fewer than two followers, "),
        (partition(Reassignment((0, 1, 2))), "since an extension has an order among brokers: "),
        (partition(ControlledShutdown(), BeginShutdown=1), ELECTED.format("BeginShutdown=0")),
        (partition(ControlledShutdown(), Directories(), FailDirectory=1), ELECTED.format("FailDirectory=0")),
        (partition(Retention(), DeleteRecords=1, Crash=1), ELECTED.format("Crash=0")),
        (partition(*everything((0, 1, 2))), "since an extension has an order among brokers: "),
    ],
)
def test_brokers_that_may_succeed_each_other_are_not_alike(machine: Replication, why: str) -> None:
    with pytest.raises(ValueError, match=f"declares no interchangeable processes, {re.escape(why)}"):
        explore(machine, symmetry=True)


@attrs.frozen(slots=False)
class FollowersSucceed(Replication):
    """Declares its followers alike, though one of them is elected first."""

    @property
    def interchangeable(self) -> int:
        return self.brokers - 1


@attrs.frozen(slots=False)
class TheSecondLags(Replication):
    """A leader takes one of its followers for one that always lags."""

    def lagging(self, leader: Replica, broker: int) -> tuple[int, ...]:
        return tuple(b for b in leader.isr if b == 2)


@pytest.mark.parametrize(
    ("machine", "depth"),
    [
        (FollowersSucceed(brokers=3, max_records=0, bounds=Bounds(ExpireSession=1)), 4),
        (TheSecondLags(brokers=3, max_records=0, bounds=Bounds(ShrinkIsr=1)), 4),
    ],
)
def test_a_machine_that_treats_its_followers_unlike_is_found_out(machine: Replication, depth: int) -> None:
    with pytest.raises(AsymmetryError, match="treats processes unlike"):
        check_symmetry(machine, limits=Limits(depth=depth))


def test_the_leader_keeps_its_name_and_everything_that_names_a_follower_changes() -> None:
    assert names_of(4, 1, (1, 2, 0)) == (2, 1, 3, 0)
    machine = partition(initial_leader=1)
    (state,) = machine.initial()
    known = attrs.evolve(
        state.replicas[1], remote=(RemoteReplica(3), RemoteReplica(), RemoteReplica(5)), pending_isr=(0, 1)
    )
    renamed = machine.permute(state.with_replica(1, known), (1, 0))
    assert renamed.replicas[1].remote == (RemoteReplica(5), RemoteReplica(), RemoteReplica(3))
    assert (renamed.replicas[1].leader, renamed.replicas[1].pending_isr) == (1, (1, 2))
