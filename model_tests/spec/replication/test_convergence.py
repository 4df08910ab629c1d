"""Each goal of a replicated partition fails where the one rule that leads to it is missing; no invariant is violated.

That the machines as they are reach their goals is tested with their models (`test_replication`, `extensions/`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.liveness import minimise_lasso
from tidegauge.spec.kernel.parts import Parts
from tidegauge.spec.kernel.traces import replay
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReceiveFetch, ReplicationAction
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage, RepairLog
from tidegauge.spec.replication.extensions.deletion import Deletion
from tidegauge.spec.replication.extensions.directories import Directories, ReplicaOffline, ReplicaOnline
from tidegauge.spec.replication.extensions.late import LateMessages
from tidegauge.spec.replication.extensions.lost_logs import LostLogs, ReportFound, lost
from tidegauge.spec.replication.extensions.reads import Reads
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.running_damage import ReportDamaged, RunningDamage
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown, GrantShutdown, Stop
from tidegauge.spec.replication.extensions.unregistering import Unregister, Unregistering
from tidegauge.spec.replication.faults import Crash, Restart
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    Controller,
    Error,
    FetchRequest,
    FetchResponse,
    Log,
    PartitionMetadata,
    Replica,
    State,
)


def never(*kinds: type[ReplicationAction]) -> tuple[type[ReplicationAction], ...]:
    """The actions of the machine but these."""
    return tuple(kind for kind in Replication.action_types if kind not in kinds)


@attrs.frozen(slots=False)
class SessionsNeverExpire(Replication):
    action_types = never(faults.ExpireSession)


@attrs.frozen(slots=False)
class NobodyRegisters(Replication):
    action_types = never(faults.Register)


@attrs.frozen(slots=False)
class NobodyIsUnfenced(Replication):
    action_types = never(faults.Unfence)


@attrs.frozen(slots=False)
class NobodyAppliesMetadata(Replication):
    action_types = never(control.ApplyMetadata)


@attrs.frozen(slots=False)
class LostProposalsAreNotRetried(Replication):
    action_types = never(control.RetryAlterPartition)


@attrs.frozen(slots=False)
class NobodyRejoins(Replication):
    """A leader never proposes a larger ISR."""

    def may_join_isr(self, leader: Replica, follower: int) -> bool:
        return False


@attrs.frozen(slots=False)
class NobodyIsEligible(Replication):
    """The controller takes nobody back into the ISR."""

    def is_eligible_for_isr(self, controller: Controller, broker: int, broker_epoch: int) -> bool:
        return broker in controller.isr and super().is_eligible_for_isr(controller, broker, broker_epoch)


@attrs.frozen(slots=False)
class EveryProposalIsOutOfDate(Replication):
    """A proposal on the right partition epoch is refused as one on an older."""

    def alter_partition_error(self, controller: Controller, request: AlterPartitionRequest) -> Error:
        return super().alter_partition_error(controller, request) or Error.INVALID_UPDATE_VERSION


@attrs.frozen(slots=False)
class HighWatermarkIsNotTold(Replication):
    def served(self, leader: Replica, request: FetchRequest, records: Log) -> FetchResponse:
        return attrs.evolve(super().served(leader, request, records), high_watermark=0)


@attrs.frozen(slots=False)
class FetchesAreNotNoted(Replication):
    """A leader never learns how far a follower is."""

    def may_update_follower(self, leader: Replica, request: FetchRequest) -> bool:
        return False


@attrs.frozen(slots=False)
class NothingIsServed(Replication):
    def served(self, leader: Replica, request: FetchRequest, records: Log) -> FetchResponse:
        return super().served(leader, request, ())


@attrs.frozen
class NeverCompletes(Reassignment):
    def may_complete(self, controller: Controller, target: tuple[int, ...]) -> bool:
        return False


@attrs.frozen
class NeverStops(ControlledShutdown):
    action_types = tuple(kind for kind in ControlledShutdown.action_types if kind is not Stop)


@attrs.frozen
class NeverGrants(ControlledShutdown):
    action_types = tuple(kind for kind in ControlledShutdown.action_types if kind is not GrantShutdown)


@attrs.frozen
class FailuresAreNotReported(Directories):
    action_types = tuple(kind for kind in Directories.action_types if kind is not ReplicaOffline)


@attrs.frozen
class RecoveriesAreNotReported(Directories):
    action_types = tuple(kind for kind in Directories.action_types if kind is not ReplicaOnline)


@attrs.frozen
class NothingIsRepaired(Damage):
    action_types = tuple(kind for kind in Damage.action_types if kind is not RepairLog)


@attrs.frozen
class DamageIsNotReported(RunningDamage):
    action_types = tuple(kind for kind in RunningDamage.action_types if kind is not ReportDamaged)


@attrs.frozen
class SettingsAreNotTold(Settings):
    def parts_with_metadata(
        self,
        machine: ReplicationRules,
        inner: Callable[[Parts, PartitionMetadata], Parts],
        parts: Parts,
        metadata: PartitionMetadata,
    ) -> Parts:
        return inner(parts, metadata)


@attrs.frozen
class LogStartsAreNotTold(Retention):
    def served(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest, Log], FetchResponse],
        leader: Replica,
        request: FetchRequest,
        records: Log,
    ) -> FetchResponse:
        return inner(leader, request, records)


@attrs.frozen
class NothingIsShown(Reads):
    def shown(self, replica: Replica, offset: int) -> Log:
        return ()


@attrs.frozen(slots=False)
class TheFirstProcessCounts(Replication):
    """A leader goes by the process of a follower that it knew first."""

    def fetch_error(self, leader: Replica, broker: int, request: FetchRequest) -> Error:
        error = super().fetch_error(leader, broker, request)
        known = leader.remote[request.follower].broker_epoch if not error else NONE
        return Error.NOT_LEADER_OR_FOLLOWER if NONE < known < request.broker_epoch else error


@attrs.frozen
class ReceiveFetchOfTheLiving(ReceiveFetch):
    def guard(self, machine: ReplicationRules, state: State) -> str:
        lives = self.request.broker_epoch == state.replicas[self.request.follower].broker_epoch
        return super().guard(machine, state) if lives else "its sender has died"


@attrs.frozen(slots=False)
class TheDeadAreNotServed(Replication):
    """Nobody receives what a process has sent that has died."""

    action_types = (*never(ReceiveFetch), ReceiveFetchOfTheLiving)


@attrs.frozen
class NothingIsFound(LostLogs):
    action_types = tuple(kind for kind in LostLogs.action_types if kind is not ReportFound)


@attrs.frozen
class NobodyLeadsWhoHasLostAll(LostLogs):
    def best_left(self, controller: Controller, replicas: tuple[int, ...]) -> int:
        return NONE if set(replicas) <= set(lost(controller)) else super().best_left(controller, replicas)


@attrs.frozen
class NobodyComesBack(Unregistering):
    """A process whose broker was removed does not register again."""

    action_types = (Unregister,)


ALONE: dict[str, Any] = {"brokers": 1, "Crash": 1, "LoseLog": 1}


def small(kind: type[Replication], *extensions: ReplicationExtension, **constants: object) -> Replication:
    """The machine with two brokers, one record, and the bounds among these constants."""
    bounds = Bounds({name: count for name, count in constants.items() if name[0].isupper()})  # type: ignore[misc]
    rest: dict[str, Any] = {name: value for name, value in constants.items() if not name[0].isupper()}
    return kind(bounds=bounds, extensions=extensions, **{"brokers": 2, "max_records": 1, **rest})


LEADS = "a live candidate leads"
COUNTS = "a live broker is registered and not fenced"
KNOWS = "a live broker has the metadata"
CATCHES_UP = "a live follower catches up"
REJOINS = "a follower that has caught up is in sync"
TOLD = "the high watermark is the log's end, and told"
SETTLED = "a proposal is settled"

WRONG: tuple[tuple[Replication, str], ...] = (
    (small(SessionsNeverExpire, may_stay_down=True, max_records=0, Crash=1), LEADS),
    (small(NobodyRegisters, Crash=1), COUNTS),
    (small(NobodyIsUnfenced, ExpireSession=1), COUNTS),
    (small(NobodyAppliesMetadata, ExpireSession=1), KNOWS),
    (small(NobodyAppliesMetadata, ExpireSession=1), LEADS),
    (small(NothingIsServed), CATCHES_UP),
    (small(NobodyRejoins, ShrinkIsr=1), REJOINS),
    (small(NobodyIsEligible, ShrinkIsr=1), REJOINS),
    (small(HighWatermarkIsNotTold), TOLD),
    (small(FetchesAreNotNoted), TOLD),
    (small(LostProposalsAreNotRetried, ShrinkIsr=1, Disconnect=1), SETTLED),
    (small(EveryProposalIsOutOfDate, ShrinkIsr=1), SETTLED),
    (small(Replication, NeverCompletes((0,), ((1,),)), StartReassignment=1), "a reassignment to live replicas ends"),
    (small(Replication, NeverStops(), max_records=0, BeginShutdown=1), "a controlled shutdown ends"),
    (small(Replication, NeverGrants(), max_records=0, BeginShutdown=1), "a controlled shutdown ends"),
    (small(Replication, ControlledShutdown(), FailuresAreNotReported(), FailDirectory=1), LEADS),
    (
        small(Replication, ControlledShutdown(), FailuresAreNotReported(), FailDirectory=1),
        "the controller knows which directories work",
    ),
    (
        small(
            Replication,
            ControlledShutdown(),
            RecoveriesAreNotReported(),
            max_records=0,
            FailDirectory=1,
            Crash=1,
        ),
        "the controller knows which directories work",
    ),
    (
        small(Replication, ControlledShutdown(), NothingIsRepaired(), DamageLog=1, BeginShutdown=1),
        "a damaged replica that follows is repaired",
    ),
    (
        small(Replication, LogStartsAreNotTold(), DeleteRecords=1),
        "a live follower's log starts no lower than its leader's",
    ),
    (
        small(Replication, SettingsAreNotTold(), ChangeSettings=1, min_insync_replicas=2),
        "a live broker knows min.insync.replicas",
    ),
    (
        small(TheFirstProcessCounts, LateMessages(), max_records=0, Crash=1, ArriveLate=1),
        "of a live follower the process counts that lives",
    ),
    (
        small(TheDeadAreNotServed, LateMessages(), max_records=0, Crash=1, ArriveLate=1),
        "nothing of a former process is on its way",
    ),
    (
        small(Replication, ControlledShutdown(), Damage(), NothingIsFound(), **ALONE),
        "a replica that has its log again is in a directory",
    ),
    (
        small(Replication, ControlledShutdown(), Damage(), NobodyLeadsWhoHasLostAll(), **ALONE),
        "the replica leads that has most of what is left",
    ),
    (
        small(Replication, ControlledShutdown(), Damage(), LostLogs(), DamageIsNotReported(), MeetDamage=1),
        "a replica that met damage is repaired in the life of its process",
    ),
    (small(Replication, NobodyComesBack(), max_records=0, Unregister=1), "a broker that runs is registered"),
    (
        small(NobodyAppliesMetadata, Reassignment(), Deletion(), DeleteTopic=1),
        "a deleted topic leaves no log behind",
    ),
    (small(NobodyAppliesMetadata, Reassignment(), Deletion(former=(1,))), "no log of a former topic is left"),
    (
        small(Replication, NothingIsShown()),
        "a consumer is shown all that is committed, and told where it ends",
    ),
)

OWED: dict[str, str] = {
    LEADS: "an offline partition gets a live candidate for its leader",
    REJOINS: "a follower that has caught up gets into the ISR",
    TOLD: "the high watermark gets to the log's end, and is told",
    SETTLED: "a proposal gets its response, and is settled",
    "a reassignment to live replicas ends": "a reassignment that is under way comes to its end",
    "a controlled shutdown ends": "a broker that is to shut down comes to stop",
}
"""What comes again and again though clients never rest, by the goal that comes."""
NEVER_COMES: tuple[tuple[Replication, str], ...] = tuple(
    (machine, OWED[goal]) for machine, goal in WRONG if goal in OWED
)


def named(machine: Replication) -> str:
    own = [kind.__name__ for kind in machine.kinds if kind.__module__ == __name__]
    return "-".join(own)


@pytest.mark.parametrize(("machine", "goal"), WRONG, ids=[f"{named(machine)}-{goal}" for machine, goal in WRONG])
def test_a_goal_fails_where_the_rule_that_leads_to_it_is_missing(machine: Replication, goal: str) -> None:
    found = explore(machine, converges=True)
    assert not found.violations
    assert found.convergence is not None
    lassos = {lasso.goal: lasso for lasso in found.convergence.lassos}
    assert goal in lassos
    again = replay(machine, lassos[goal].trace.actions)
    assert not again.skipped
    assert again.trace.last == lassos[goal].stem.last


@pytest.mark.parametrize(("machine", "owed"), NEVER_COMES, ids=[f"{named(one)}-{owed}" for one, owed in NEVER_COMES])
def test_what_is_owed_never_comes_where_the_rule_that_leads_to_it_is_missing(machine: Replication, owed: str) -> None:
    found = explore(machine, converges=True)
    assert found.responses is not None
    (lasso,) = (lasso for lasso in found.responses.lassos if lasso.goal == owed)
    then = machine.leads_to[owed].then
    assert not any(then(state) for state in (lasso.stem.last, *(step.state for step in lasso.cycle)))
    assert not replay(machine, lasso.trace.actions).skipped


def test_every_model_is_asked_what_it_owes() -> None:
    every = {owed for model in MODELS.values() for owed in model.machine.leads_to}
    assert every == {owed for _, owed in NEVER_COMES}


def test_every_goal_fails_in_one_of_these() -> None:
    every = {goal for model in MODELS.values() for goal in model.machine.converges}
    assert every == {goal for _, goal in WRONG}


def test_a_crashed_leader_is_replaced_though_it_stays_down() -> None:
    found = explore(MODELS["failover"].machine, converges=True)
    assert found.holds, found.convergence
    assert found.convergence is not None
    stays_down = explore(
        SessionsNeverExpire(may_stay_down=True, bounds=Bounds(Crash=1), brokers=2, max_records=0), converges=True
    )
    assert stays_down.convergence is not None
    (lasso,) = (each for each in stays_down.convergence.lassos if each.goal == LEADS)
    assert lasso.stem.actions == (Crash(0, 0),)
    assert not lasso.cycle


def test_a_broker_that_comes_back_is_not_counted_on_where_it_may_stay_down() -> None:
    """With restarts, sessions that never expire are healed by the registration."""
    comes_back = small(SessionsNeverExpire, max_records=0, Crash=1)
    assert explore(comes_back, converges=True).holds
    machine = small(Replication, may_stay_down=True, Crash=1)
    (state,) = machine.initial()
    down = machine.step(state, Crash(0, 0))
    assert not machine.is_fair(down, Restart(0), machine.step(down, Restart(0)))
    assert machine.is_fair(down, faults.ExpireSession(0), machine.step(down, faults.ExpireSession(0)))


def test_a_found_failure_cannot_be_shortened() -> None:
    machine = small(NobodyRejoins, ShrinkIsr=1)
    found = explore(machine, converges=True)
    assert found.convergence is not None
    (lasso,) = (each for each in found.convergence.lassos if each.goal == REJOINS)
    assert len(minimise_lasso(machine, lasso).stem) == len(lasso.stem)
