"""The models that are explored: the machines of this room with constants small enough to visit every state.

No single model has every perturbation at once; each turns some on, so that it is finished in seconds and that together
they cover every action, and that each wrong rule of the tests is noticed in one that every verification explores
(`test_rule_mutants`). `QUICK` is a tenth of the work.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.deletion import Deletion
from tidegauge.spec.replication.extensions.directories import Directories
from tidegauge.spec.replication.extensions.late import LateMessages
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.reads import Reads
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.running_damage import RunningDamage
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.extensions.unregistering import Unregistering
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks

TWO_BROKERS = Replication(brokers=2, max_records=1)
TWO_RECORDS = Replication(brokers=2, max_records=2)
THREE_BROKERS = Replication(brokers=3, max_records=1)


def extended(machine: Replication, *extensions: ReplicationExtension) -> Replication:
    return evolve(machine, extensions=extensions)


def _model(name: str, machine: Replication, bounds: Bounds, shows: str) -> Model[Replication]:
    return Model(name, evolve(machine, bounds=bounds), shows)


# fmt: off
_ALL = (
    _model("isr", TWO_RECORDS, Bounds(ShrinkIsr=1, ExpireSession=1),
           "an ISR that shrinks and grows while the leader changes; logs that part and are mended"),
    _model("elections", THREE_BROKERS, Bounds(ExpireSession=1),
           "three replicas and an election: whom the new leader must wait for"),
    _model("shrink", THREE_BROKERS, Bounds(ShrinkIsr=1),
           "three replicas, of which one or two fall out of the ISR and come back"),
    _model("preferred", TWO_BROKERS, Bounds(ExpireSession=1, PreferredElection=1, ShrinkIsr=1),
           "leadership that goes to and fro"),
    _model("eligible", evolve(TWO_BROKERS, max_records=0, min_insync_replicas=2), Bounds(Crash=1, ExpireSession=1),
           "nobody in sync: the eligible lead before the last known leader does (KIP-966)"),
    _model("crash", TWO_BROKERS, Bounds(Crash=1),
           "an unflushed tail that is lost, and the new incarnation's way back"),
    _model("failover", evolve(TWO_BROKERS, may_stay_down=True), Bounds(Crash=1),
           "a broker that may stay down: the other one goes on without it"),
    _model("crash-and-shrink", TWO_BROKERS, Bounds(Crash=1, ShrinkIsr=1),
           "a crash while the ISR changes (KIP-903)"),
    _model("rejoin", evolve(TWO_BROKERS, initial_isr=(0,)), Bounds(Crash=1, Disconnect=1),
           "a follower that has fetched, dies, comes back and fetches again: which of its processes may join"),
    _model("unclean", evolve(TWO_RECORDS, unclean_leader_election=True), Bounds(ExpireSession=1),
           "a topic that prefers availability"),
    _model("unclean-by-hand", TWO_BROKERS, Bounds(ShrinkIsr=1, ExpireSession=1, UncleanElection=1),
           "an operator who accepts loss: what goes is what was declared"),
    _model("network", evolve(TWO_BROKERS, long_polls=True),
           Bounds(Disconnect=1, DuplicateFetch=1, Pause=1, ShrinkIsr=1),
           "duplicates, broken connections, long polls and pauses"),
    _model("controller", TWO_BROKERS, Bounds(ControllerFailover=1, ShrinkIsr=1),
           "a new controller while an ISR change is under way"),
    _model("delayed-metadata", evolve(TWO_BROKERS, delayed_metadata=True), Bounds(ShrinkIsr=1, ExpireSession=1),
           "brokers that act on what the controller said before it changed its mind"),
    _model("acks", evolve(TWO_RECORDS, min_insync_replicas=2, acks=tuple(Acks)), Bounds(ShrinkIsr=1),
           "acks 0, 1 and all beside each other, with an ISR that gets too small"),
    _model("reassignment", extended(THREE_BROKERS, Reassignment((0, 1), ((1, 2),))), Bounds(StartReassignment=1),
           "a partition that moves from two brokers to two others, or changes its mind on the way"),
    _model("reassignment-crash", extended(TWO_BROKERS, Reassignment((0,), ((1,),))),
           Bounds(Crash=1, StartReassignment=1),
           "a move during which a broker dies and comes back with what it had"),
    _model("reassignment-back", extended(TWO_BROKERS, Reassignment((0,), ((1,), (0,)))), Bounds(StartReassignment=2),
           "a replica that is deleted and added again: what it once had counts no more"),
    _model("controlled-shutdown", extended(TWO_BROKERS, ControlledShutdown()), Bounds(BeginShutdown=1, ShrinkIsr=1),
           "a broker that hands over and leaves while the ISR changes, and its return"),
    _model("retention", extended(TWO_RECORDS, Retention()), Bounds(DeleteRecords=1, ExpireSession=1),
           "records deleted before and after an election; followers that are out of range and start over"),
    _model("retention-shrink", extended(TWO_RECORDS, Retention()), Bounds(DeleteRecords=1, ShrinkIsr=1),
           "records deleted that a follower outside the ISR has never had"),
    _model("retention-crash", extended(TWO_BROKERS, Retention()), Bounds(Crash=1, DeleteRecords=1),
           "what a broker knows of its log start after a crash"),
    _model("retention-unclean", extended(evolve(TWO_BROKERS, unclean_leader_election=True), Retention()),
           Bounds(DeleteRecords=1, ExpireSession=1),
           "a leader that lacks what others have already deleted"),
    _model("directories", extended(TWO_BROKERS, ControlledShutdown(), Directories()),
           Bounds(FailDirectory=1, ShrinkIsr=1),
           "a broker that lives on without its replica while the ISR changes"),
    _model("damage", extended(TWO_BROKERS, ControlledShutdown(), Damage()),
           Bounds(BeginShutdown=1, DamageLog=1),
           "a log that the disk damages after a clean stop, and its repair from the leader"),
    _model("lying-sync", extended(evolve(TWO_BROKERS, min_insync_replicas=2), ControlledShutdown(), Damage()),
           Bounds(BeginShutdown=1, LoseEnd=1),
           "a log whose end was said to be on stable storage and is not, after a clean stop"),
    _model("lost-log", extended(evolve(TWO_BROKERS, initial_isr=(0,)), ControlledShutdown(), Damage(), LostLogs()),
           Bounds(Crash=1, LoseLog=1),
           "a last known leader that comes back without its log, and a replica outside the ISR that has records"),
    _model("running-damage",
           extended(evolve(TWO_BROKERS, min_insync_replicas=2),
                    ControlledShutdown(), Damage(), LostLogs(), RunningDamage()),
           Bounds(MeetDamage=1),
           "damage that a leader or a follower meets while it runs, and its repair in the same process"),
    _model("running-damage-unread",
           extended(evolve(TWO_BROKERS, min_insync_replicas=2),
                    ControlledShutdown(), Damage(), LostLogs(), RunningDamage()),
           Bounds(MeetDamage=1, ReportUnread=1),
           "the same, reported once more by a broker that has not read that it is out already"),
    _model("running-damage-late",
           extended(evolve(TWO_BROKERS, min_insync_replicas=2),
                    ControlledShutdown(), Damage(), LostLogs(), RunningDamage()),
           Bounds(MeetDamage=1, ReportArrivesLate=1),
           "the same, reported once more after the repair"),
    _model("late-messages", extended(evolve(TWO_BROKERS, min_insync_replicas=2), LateMessages()),
           Bounds(ArriveLate=1, Crash=1),
           "what a process had sent before it died, and arrives when its successor is at work"),
    _model("unregistering", extended(TWO_BROKERS, Unregistering()), Bounds(Unregister=1),
           "a broker that is removed while it leads, and comes back"),
    _model("unregistering-shrink", extended(TWO_BROKERS, Unregistering()), Bounds(ShrinkIsr=1, Unregister=1),
           "a broker that is removed while the ISR changes"),
    _model("deletion", extended(TWO_BROKERS, Reassignment(), Deletion()), Bounds(DeleteTopic=1, ShrinkIsr=1),
           "a topic that is deleted while it is written to and its ISR changes"),
    _model("recreation",
           extended(evolve(TWO_RECORDS, initial_isr=(0,)), Reassignment(), Deletion(former=(0, 1))),
           Bounds(DeleteTopic=1),
           "a topic whose brokers still have the log of a deleted one of its name"),
    _model("recreation-crash",
           extended(evolve(TWO_RECORDS, initial_isr=(0,)), Reassignment(), Deletion(former=(0, 1))),
           Bounds(Crash=1, DeleteTopic=1),
           "the same with a broker that dies before, between or after"),
    _model("reads", extended(evolve(TWO_BROKERS, initial_leader=1), Reads()), Bounds(PreferredElection=1),
           "a consumer of leader and follower while the leadership moves: what it was told it is told again"),
    _model("reads-elections", extended(evolve(TWO_BROKERS, initial_leader=1), Reads()),
           Bounds(ExpireSession=1, PreferredElection=1),
           "a consumer that follows two elections, and is refused by who lags behind"),
    _model("settings", extended(evolve(TWO_BROKERS, min_insync_replicas=2), Settings(unclean_values=(False,))),
           Bounds(ChangeSettings=1, ExpireSession=1),
           "min.insync.replicas that is lowered or raised while replicas are eligible"),
    _model("settings-unclean", extended(TWO_BROKERS, Settings(min_insync_values=(1,))),
           Bounds(ChangeSettings=1, ExpireSession=1),
           "a topic that comes to prefer availability, or ceases to"),
    _model("moving-and-deleting", extended(TWO_BROKERS, *everything((0,), ((1,),))),
           Bounds(DeleteRecords=1, StartReassignment=1),
           "a replica that is added where records are gone already"),
    _model("moving-and-failing", extended(TWO_BROKERS, *everything((0,), ((1,),))),
           Bounds(FailDirectory=1, StartReassignment=1),
           "a move from a broker, or to one, whose directory fails"),
)
# fmt: on

MODELS: Mapping[str, Model[Replication]] = {model.name: model for model in _ALL}

QUICK = ("crash", "unclean", "network", "controller")
"""A few seconds, most of the actions."""

NIGHTLY = (
    "lost-log",
    "lying-sync",
    "reads-elections",
    "recreation-crash",
    "running-damage-late",
    "unregistering-shrink",
)
"""Together larger than the others: left to the deep tests."""
