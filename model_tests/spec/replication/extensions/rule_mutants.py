"""A wrong rule for the rules of replication's extensions that no bug and no other test has one for.

What the zoo (`spec.bugs`), `teeth` and the tests of the extensions show is not repeated here. Each is found in the
smallest model that shows it: by an invariant, by a step invariant, by a goal that no behaviour reaches for good, or by
a state that the right rules reach and the wrong ones do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, Final

import attrs

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage, Damaged, Eligible
from tidegauge.spec.replication.extensions.deletion import Deletion, FormerLog, is_deleted
from tidegauge.spec.replication.extensions.directories import Directories, FailedDirectory, has_failed
from tidegauge.spec.replication.extensions.late import LateMessages
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.reads import Reads
from tidegauge.spec.replication.extensions.reassignment import Assignment, Reassignment, listed
from tidegauge.spec.replication.extensions.retention import Retention, log_start_of
from tidegauge.spec.replication.extensions.running_damage import RunningDamage
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown, is_shutting_down
from tidegauge.spec.replication.extensions.unregistering import Unregistering, is_unregistered
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import NONE, Error, State

LEADS: Final = "a live candidate leads"
COUNTS: Final = "a live broker is registered and not fenced"
KNOWS: Final = "a live broker has the metadata"
CATCHES_UP: Final = "a live follower catches up"
REJOINS: Final = "a follower that has caught up is in sync"
MOVED: Final = "a record is committed on other brokers altogether"
DELETED: Final = "a log is deleted with its topic"
LATE: Final = "a fetch of a former process is on its way"


@attrs.frozen
class Call:
    """What a wrong rule is asked in place of: of a wrapping rule the machine and the inner rule as well."""

    extension: Any
    right: Callable[..., Any]
    machine: Any = None
    inner: Callable[..., Any] = lambda *args, **kwargs: None


Wrong = Callable[..., Any]
"""What is done instead: takes the call, and the rule's arguments without machine and inner rule of a wrapping one."""


@attrs.frozen
class ExtensionMutant:
    """One wrong rule, the model that shows it, and what is noticed there."""

    name: str
    extension: type[ReplicationExtension]
    rule: str
    wrong: Wrong
    model: Replication
    shown: str
    states: int = 1_100
    """By then it is noticed."""

    @property
    def machine(self) -> Replication:
        """The model with the wrong rule."""
        kind = type(self.name, (self.extension,), {self.rule: self._method(), "__doc__": self.name})
        machine = self.model.exchanged(self.extension, kind)
        assert isinstance(machine, Replication)
        return machine

    def _method(self) -> Callable[..., Any]:
        right, wrong = getattr(self.extension, self.rule), self.wrong
        if not is_wrapping(right):
            return lambda one, *args, **kwargs: wrong(Call(one, partial(right, one)), *args, **kwargs)

        def wrapping(one: Any, machine: Any, inner: Callable[..., Any], *args: object, **kwargs: object) -> Any:
            return wrong(Call(one, partial(right, one, machine, inner), machine, inner), *args, **kwargs)

        return wrapping


def is_wrapping(rule: FunctionType) -> bool:
    """Whether a rule takes the machine and the inner rule."""
    return rule.__code__.co_varnames[1:3] == ("machine", "inner")


def _left_out(call: Call, *args: object, **kwargs: object) -> Any:
    return call.inner(*args, **kwargs)


def _always(outcome: object) -> Wrong:
    return lambda call, *args, **kwargs: outcome


def _untouched(call: Call, replica: Any, *args: object) -> Any:
    """A process goes on as it was."""
    return replica


def _not_applied(call: Call, state: State, broker: int, replica: Any, metadata: Any) -> State:
    return state.with_replica(broker, replica)


def _small(*extensions: ReplicationExtension, records: int = 0, **constants: Any) -> Replication:
    bounds = Bounds({name: constants.pop(name) for name in list(constants) if name[0].isupper()})
    return Replication(
        **{"brokers": 2, "max_records": records, "bounds": bounds, "extensions": extensions, **constants}
    )


_STOPS: Final = ControlledShutdown()
_DISKS: Final = (_STOPS, Damage(), LostLogs())
_RUNNING: Final = (*_DISKS, RunningDamage())
_MOVE: Final = Reassignment((0,), ((1,),))
_UNSET: Final = Settings((2,), (False,))

# fmt: off
MUTANTS: Final[tuple[ExtensionMutant, ...]] = (
    # --- controlled shutdown
    ExtensionMutant("refuses_the_last_who_leaves", ControlledShutdown, "is_eligible_for_isr",
                    lambda call, controller, broker, epoch: (
                        not is_shutting_down(controller.sessions[broker]) and call.inner(controller, broker, epoch)),
                    _small(_STOPS, initial_isr=(0,), BeginShutdown=1), "a controlled shutdown ends", states=400),
    ExtensionMutant("hands_over_when_asked_alone", ControlledShutdown, "settled", _left_out,
                    _small(_STOPS, BeginShutdown=1, ShrinkIsr=1), "ShuttingDownLeadsLast"),
    ExtensionMutant("stays_in_sync", ControlledShutdown, "without_leaving",
                    lambda call, machine, controller: controller,
                    _small(_STOPS, BeginShutdown=1), "ShuttingDownLeadsLast"),
    ExtensionMutant("elects_nobody", ControlledShutdown, "elect",
                    lambda call, controller, unclean: (NONE, False), _small(_STOPS, BeginShutdown=1), LEADS),
    ExtensionMutant("asks_who_leaves_alone", ControlledShutdown, "is_active",
                    lambda call, controller, broker: not is_shutting_down(controller.sessions[broker]),
                    _small(_STOPS, ExpireSession=2), "IsrIsUnfenced"),
    ExtensionMutant("waits_for_ever", ControlledShutdown, "must_wait", _always(True),
                    _small(_STOPS, BeginShutdown=1), "a controlled shutdown ends"),
    ExtensionMutant("comes_back_in_sync", ControlledShutdown, "back_from_a_clean_stop",
                    lambda call, machine, controller, broker: controller,
                    _small(_STOPS, BeginShutdown=1), "IsrIsUnfenced"),
    ExtensionMutant("grants_the_stop_of_who_has_not_asked", ControlledShutdown, "not_unfenced",
                    _always("the stop was granted"), _small(_STOPS, BeginShutdown=1), COUNTS),
    ExtensionMutant("notes_a_stop_before_it_writes", ControlledShutdown, "stopped",
                    lambda call, replica: with_part(
                        call.machine.survivor(replica, replica.flushed), CleanStop(replica.broker_epoch)),
                    _small(_STOPS, records=1, min_insync_replicas=2, BeginShutdown=1), "LeaderCandidateCompleteness"),
    # --- log directories
    ExtensionMutant("fails_for_all_that_works", Directories, "fetch_error", _always(Error.KAFKA_STORAGE_ERROR),
                    _small(_STOPS, Directories(), records=1), CATCHES_UP),
    ExtensionMutant("hosts_what_has_failed", Directories, "not_hosting", _left_out,
                    _small(_STOPS, Directories(), FailDirectory=1), REJOINS),
    ExtensionMutant("has_its_directory_and_no_process", Directories, "restarted",
                    lambda call, replica: with_part(replica, FailedDirectory()),
                    _small(_STOPS, Directories(), FailDirectory=1, Crash=1), LEADS),
    ExtensionMutant("notes_no_metadata_of_what_has_failed", Directories, "metadata_applied",
                    lambda call, state, broker, replica, metadata: (
                        _not_applied(call, state, broker, replica, metadata) if has_failed(replica)
                        else call.right(state, broker, replica, metadata)),
                    _small(_STOPS, Directories(), FailDirectory=1), KNOWS),
    ExtensionMutant("lets_the_offline_join", Directories, "is_eligible_for_isr", _left_out,
                    _small(_STOPS, Directories(), FailDirectory=1), "OfflineIsOutOfSync"),
    # --- reassignment
    ExtensionMutant("counts_brokers_for_replicas", Reassignment, "replica_count", _left_out,
                    _small(_MOVE, _UNSET, records=1, min_insync_replicas=2, StartReassignment=1), MOVED),
    ExtensionMutant("knows_the_first_list_for_ever", Reassignment, "parts_with_metadata", _left_out,
                    _small(_MOVE, StartReassignment=1), "a reassignment to live replicas ends"),
    ExtensionMutant("keeps_what_was_taken_away", Reassignment, "metadata_applied", _left_out,
                    _small(_MOVE, StartReassignment=1), "RemovedReplicasAreEmpty"),
    ExtensionMutant("serves_the_first_of_the_list", Reassignment, "fetch_error",
                    lambda call, leader, broker, request: call.right(leader, broker, request) or (
                        Error.OK if request.follower in listed(leader)[:1] else Error.NOT_LEADER_OR_FOLLOWER),
                    _small(Reassignment((0,), ((0, 1),)), StartReassignment=1),
                    "a reassignment to live replicas ends"),
    ExtensionMutant("tells_no_list", Reassignment, "metadata", _left_out, _small(_MOVE, StartReassignment=1), LEADS),
    ExtensionMutant("elects_off_the_list", Reassignment, "replica_order", _left_out,
                    _small(_MOVE, StartReassignment=1), REJOINS),
    ExtensionMutant("wants_the_target_alone", Reassignment, "alter_partition_error",
                    lambda call, controller, request: call.right(controller, request) or (
                        Error.INVALID_REQUEST
                        if {broker for broker, _ in request.isr} & set(Assignment.of(controller).removing)
                        else Error.OK),
                    _small(_MOVE, StartReassignment=1), "a reassignment to live replicas ends"),
    ExtensionMutant("leads_off_the_list", Reassignment, "settled", _left_out,
                    _small(_MOVE, StartReassignment=1), "LeaderInIsr"),
    # --- damage
    ExtensionMutant("calls_everybody_eligible", Damage, "metadata",
                    lambda call, controller: with_part(
                        call.inner(controller), Eligible(tuple(range(len(controller.sessions))))),
                    _small(_STOPS, Damage(), records=1, BeginShutdown=1, DamageLog=1),
                    "a damaged replica that follows is repaired"),
    ExtensionMutant("goes_on_without_damage", Damage, "survivor",
                    lambda call, replica, kept: with_part(replica, Damaged()),
                    _small(_STOPS, Damage(), records=1, Crash=1), CATCHES_UP),
    # --- deletion
    ExtensionMutant("tells_nobody_of_the_deletion", Deletion, "metadata", _left_out,
                    _small(Reassignment(), Deletion(), records=1, DeleteTopic=1), DELETED),
    ExtensionMutant("notes_no_deletion", Deletion, "parts_with_metadata", _left_out,
                    _small(Reassignment(), Deletion(), records=1, DeleteTopic=1), DELETED),
    ExtensionMutant("takes_the_former_log_for_its_own", Deletion, "survivor",
                    lambda call, replica, kept: attrs.evolve(
                        call.right(replica, kept), log=FormerLog.of(replica).log or call.right(replica, kept).log),
                    _small(Reassignment(), Deletion(former=(0, 1)), records=2, initial_isr=(0,), Crash=1),
                    "NothingOfTheFormerTopic"),
    ExtensionMutant("takes_every_proposal", Deletion, "alter_partition_error",
                    lambda call, controller, request: Error.UNKNOWN_TOPIC_ID if is_deleted(controller) else Error.OK,
                    _small(Reassignment(), Deletion(), ShrinkIsr=1, ExpireSession=1), "IsrIsUnfenced"),
    ExtensionMutant("does_not_know_a_topic_of_a_known_name", Deletion, "fetch_error",
                    lambda call, leader, broker, request: (
                        Error.UNKNOWN_TOPIC_ID if call.extension.former else call.right(leader, broker, request)),
                    _small(Reassignment(), Deletion(former=(0, 1)), records=2, initial_isr=(0,)), CATCHES_UP),
    # --- late messages
    ExtensionMutant("takes_what_was_sent_along", LateMessages, "cut_off", _left_out,
                    _small(LateMessages(), min_insync_replicas=2, ArriveLate=1, Crash=1), LATE),
    ExtensionMutant("forgets_what_was_sent", LateMessages, "survivor", _left_out,
                    _small(LateMessages(), min_insync_replicas=2, ArriveLate=1, Crash=1), LATE),
    ExtensionMutant("keeps_messages_and_applies_nothing", LateMessages, "metadata_applied", _not_applied,
                    _small(LateMessages(), min_insync_replicas=2, ArriveLate=1, Crash=1), KNOWS),
    # --- retention
    ExtensionMutant("writes_no_log_start", Retention, "with_log_start_written", lambda call, replica: replica,
                    _small(Retention(), records=1, Crash=1, DeleteRecords=1), "LowWatermarkIsTrue"),
    ExtensionMutant("cuts_nothing", Retention, "truncated", lambda call, replica, offset: replica,
                    _small(Retention(), records=2, ExpireSession=1), CATCHES_UP, states=2_500),
    ExtensionMutant("stops_without_its_log_start", Retention, "written", _left_out,
                    _small(_STOPS, Retention(), records=1, BeginShutdown=1, DeleteRecords=1), "LogStartMonotone",
                    states=2_300),
    ExtensionMutant("starts_at_zero_after_a_crash", Retention, "survivor", _left_out,
                    _small(Retention(), records=1, Crash=1, DeleteRecords=1), "LogStartMonotone"),
    ExtensionMutant("serves_what_is_gone", Retention, "fetch_error", _left_out,
                    _small(Retention(), records=1, ShrinkIsr=1, DeleteRecords=1), "a follower is out of range"),
    ExtensionMutant("sees_no_divergence", Retention, "diverging_epoch", _always(None),
                    _small(Retention(), records=1, ExpireSession=1), CATCHES_UP, states=1_500),
    ExtensionMutant("knows_no_epoch", Retention, "known_end_offset",
                    lambda call, machine, replica, epoch: (NONE, log_start_of(replica)),
                    _small(Retention(), records=1, DeleteRecords=1), "CommonPrefixKept"),
    ExtensionMutant("tells_the_log_start_for_the_divergence", Retention, "divergence",
                    lambda call, leader, request, epoch, end: call.right(leader, request, epoch, 0),
                    _small(Retention(), records=2, ExpireSession=1), "CommonPrefixKept", states=1_500),
    ExtensionMutant("never_starts_over", Retention, "starts_over", _always(False),
                    _small(Retention(), records=1, ShrinkIsr=1, DeleteRecords=1), CATCHES_UP),
    ExtensionMutant("has_nothing_in_common_with_who_diverges", Retention, "nothing_in_common",
                    lambda call, machine, follower, response: response.diverging_end_offset != NONE,
                    _small(Retention(), records=2, ExpireSession=1), "CommonPrefixKept", states=1_500),
    ExtensionMutant("cuts_to_its_log_start", Retention, "truncation_offset",
                    lambda call, follower, epoch, end: log_start_of(follower),
                    _small(Retention(), records=2, ExpireSession=1), "CommonPrefixKept", states=1_500),
    # --- settings
    ExtensionMutant("commits_by_the_first_number", Settings, "required_insync", _left_out,
                    _small(_UNSET, records=1, initial_isr=(0,), ChangeSettings=1), "AcknowledgedByEnough"),
    ExtensionMutant("elects_by_the_first_setting", Settings, "elects_uncleanly", _left_out,
                    _small(Settings((1,)), unclean_leader_election=True,
                           ChangeSettings=1, ShrinkIsr=1, ExpireSession=1), "LossIsAccepted"),
    # --- lost logs
    ExtensionMutant("finds_who_joins_and_lets_nobody", LostLogs, "with_isr",
                    lambda call, controller, isr: call.extension.in_sync_found(controller),
                    _small(*_DISKS, ShrinkIsr=1), "a proposal is settled"),
    ExtensionMutant("elects_who_stays_lost", LostLogs, "with_leader", _left_out,
                    _small(*_DISKS, records=1, brokers=1, Crash=1, LoseLog=1), "InSyncIsNotLost"),
    ExtensionMutant("lets_in_who_has_not_said_it", LostLogs, "not_unfenced", _left_out,
                    _small(*_DISKS, records=1, initial_isr=(0,), Crash=1, LoseLog=1), "LostLogLeadsLast", states=2_000),
    ExtensionMutant("is_filled_by_nobody", LostLogs, "metadata_applied", _not_applied,
                    _small(*_DISKS, ShrinkIsr=1), KNOWS),
    ExtensionMutant("goes_on_with_its_log", LostLogs, "survivor", _untouched,
                    _small(*_DISKS, records=1, Crash=1), CATCHES_UP),
    # --- reads
    ExtensionMutant("shows_nothing_of_its_epoch", Reads, "read_error",
                    lambda call, replica, broker, offset, epoch: call.right(replica, broker, offset, epoch) or (
                        Error.OFFSET_NOT_AVAILABLE if offset >= replica.epoch_start_offset else Error.OK),
                    _small(Reads(), records=1, initial_leader=1),
                    "a consumer is shown all that is committed, and told where it ends"),
    # --- damage that is met
    ExtensionMutant("makes_nothing_of_a_report", RunningDamage, "taken_out",
                    lambda call, machine, controller, broker: (controller, False),
                    _small(*_RUNNING, records=1, min_insync_replicas=2, MeetDamage=1),
                    "a replica that met damage is repaired in the life of its process"),
    ExtensionMutant("serves_nobody", RunningDamage, "fetch_error", _always(Error.KAFKA_STORAGE_ERROR),
                    _small(*_RUNNING, records=1, min_insync_replicas=2), CATCHES_UP),
    ExtensionMutant("goes_on_withdrawn", RunningDamage, "survivor", _untouched,
                    _small(*_RUNNING, records=1, Crash=1), CATCHES_UP),
    ExtensionMutant("drops_its_note_and_goes_on", RunningDamage, "stopped",
                    lambda call, replica: with_part(replica, CleanStop()),
                    _small(*_RUNNING, BeginShutdown=1), "a controlled shutdown ends"),
    # --- brokers that are removed
    ExtensionMutant("believes_every_heartbeat", Unregistering, "heartbeat_error",
                    lambda call, controller, broker, epoch: (
                        Error.BROKER_ID_NOT_REGISTERED if is_unregistered(controller, broker) else Error.OK),
                    _small(LateMessages(), Unregistering(), Crash=1, ArriveLate=1), "UnfencedHasCaughtUp"),
    ExtensionMutant("takes_every_proposal_of_who_is_registered", Unregistering, "alter_partition_error",
                    lambda call, controller, request: (
                        Error.STALE_BROKER_EPOCH if is_unregistered(controller, request.leader) else Error.OK),
                    _small(Unregistering(), ShrinkIsr=1, ExpireSession=1), "LeaderInIsr"),
    ExtensionMutant("lets_nobody_back_in", Unregistering, "not_unfenced",
                    lambda call, controller, replica, broker: (
                        "it was removed" if controller.sessions[broker].broker_epoch > 1
                        else call.right(controller, replica, broker)),
                    _small(Unregistering(), Unregister=1), COUNTS),
)
# fmt: on
