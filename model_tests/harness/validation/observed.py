"""The specification's machine as a real network and a real disk show it: looser in twelve ways, and no more.

The specification's network either brings a message or has lost it for good, its followers wait until a connection
breaks as a whole, and its disks do nothing that their broker does not say. A cluster is looser in twelve ways, which
trace validation must be able to follow; each is an action of its own, so that a validated trace says how often it was
needed.

* `ProposalOutlives`: a proposal reaches the controller though its leader, which lives, has given the connection up.
* `AbandonFetch`: a follower stops waiting for one response.
* `ReceiveMetadata`: as `PullMetadata`, at the moment at which the response arrives: by then it may have been overtaken,
  and it may replace one that said nothing new. What it says is what the metadata log said up to the offset that the
  broker names, and that never decreases while its process lives.
* `RegisterAgain`: a broker registers once more, since the response to its registration was lost or is late: it has sent
  that request when, by its own trace, it had not learned the epoch that the controller knew (`registrations`).
* `NoteOutdated`: a broker stops cleanly that never received the response to its registration, and notes an older epoch.
  The trace has the epoch that is in the note on the disk, and it is the last one that the process has learned.
* `UnfenceUnread`: a broker that had registered before the topic was created is unfenced before it has read of it.
* `UnfenceUnhosted`: a broker is unfenced that has read of a replica, and has no room or descriptors for its log.
* `TakeInPart`: a follower's disk failed behind an append, as its trace says: of the response it has the records alone.
* `EpochForgotten`: a directory that failed while a log started over, or a disk that damages, has not the epoch of the
  last record that is gone, as after `DieStartingOver`.
* `ForgetFollowers`: a leader that has waited for room opens its log again, and knows of no follower any more.
* `CheckpointOvertaken`: a high watermark that is written down has moved on while the disk took its time.
* `CheckpointUnsaid`: a high watermark was on the disk when its process ended, before the broker could tell. That needs
  a disk that was slow, or one that failed in the life of that process.

What arrives of processes that have died is not among them: `spec.replication.extensions.late` says what may.

All invariants of `spec.replication.composed` are checked on the way, so none of the twelve weakens what is concluded.
Of `LowWatermarkIsTrue` a replica is left out whose records the disk has taken: what a leader knows of it is older.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.bounds import UNBOUNDED
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, NotEnabled, StepInvariant
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import ReceiveFetchResponse, ReplicationAction, on_network
from tidegauge.spec.replication.composed import everything, low_watermark_is_true
from tidegauge.spec.replication.control import become_leader
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage, LoseEnd
from tidegauge.spec.replication.extensions.deletion import Deletion
from tidegauge.spec.replication.extensions.late import LateMessages, unfenced_has_caught_up
from tidegauge.spec.replication.extensions.lost_logs import LoseLog, LostLogs
from tidegauge.spec.replication.extensions.retention import (
    ForgottenEpoch,
    LeaderLogStart,
    LogStart,
    knows_below,
    log_start_of,
)
from tidegauge.spec.replication.extensions.running_damage import RunningDamage
from tidegauge.spec.replication.extensions.shutdown import CleanStop
from tidegauge.spec.replication.extensions.unregistering import Unregistering
from tidegauge.spec.replication.faults import Register, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    BrokerId,
    FetchRequest,
    FetchResponse,
    PartitionMetadata,
    Replica,
    State,
    sent,
)


@attrs.frozen
class RegisteredBefore(Part):
    """Of a replica: its broker's process had registered when the topic was created."""

    is_before: bool = False


@attrs.frozen
class Taken(Part):
    """Of a replica: its disk has taken records, and it has not been made anew since."""

    by_disk: bool = False


@attrs.frozen
class ObservedAction(ReplicationAction):
    """An action that only a trace can show: no search proposes it."""

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return ()


@attrs.frozen
class ProposalOutlives(ObservedAction):
    """A proposal is on its way though its connection is gone; the validator knows that it once was sent.

    Its process may have registered again since: then the controller responds STALE_BROKER_EPOCH.
    """

    request: AlterPartitionRequest

    def guard(self, machine: ReplicationRules, state: State) -> str:
        leader = self.request.leader
        if self.request.broker_epoch <= state.replicas[leader].broker_epoch:
            return ""
        return f"broker {leader} has not registered with the epoch {self.request.broker_epoch}"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return on_network(state, alters=sent(state.network.alters, self.request))


@attrs.frozen
class AbandonFetch(ObservedAction):
    """A follower no longer waits for the response to `request`, which may still be on its way."""

    request: FetchRequest

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.request in state.replicas[self.request.follower].outstanding:
            return ""
        return f"broker {self.request.follower} does not wait for a response to {self.request}"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.request.follower]
        waiting = tuple(request for request in replica.outstanding if request != self.request)
        return state.with_replica(self.request.follower, evolve(replica, outstanding=waiting))


@attrs.frozen
class ReceiveMetadata(ObservedAction):
    """A broker has read what the controller had written of the partition, and is about to act on it."""

    broker: BrokerId
    metadata: PartitionMetadata

    def guard(self, machine: ReplicationRules, state: State) -> str:
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, evolve(state.replicas[self.broker], pulled=self.metadata))


@attrs.frozen
class RegisterAgain(ObservedAction):
    """`Register` by a broker that already is registered; it goes on under its old epoch until it learns the new one."""

    broker: BrokerId

    def guard(self, machine: ReplicationRules, state: State) -> str:
        return "" if state.replicas[self.broker].running else f"broker {self.broker} is down"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        registered = Register(self.broker).effect(machine, state)
        return registered.with_replica(self.broker, state.replicas[self.broker])


@attrs.frozen
class NoteOutdated(ObservedAction):
    """The note of a clean stop names an epoch before the last one, which its process was given and never learned."""

    broker: BrokerId

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.broker_epoch != NONE or CleanStop.of(replica).broker_epoch == NONE:
            return f"broker {self.broker} has no note of a clean stop to register with"
        if not state.controller.sessions[self.broker].fenced:
            return f"broker {self.broker} has been unfenced in its last epoch, and so has learned it"
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, with_part(state.replicas[self.broker], CleanStop()))


@attrs.frozen
class UnfenceUnread(ObservedAction):
    """`Unfence` of a broker that has read all up to its registration, which was before the topic was created."""

    broker: BrokerId

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica, session = state.replicas[self.broker], state.controller.sessions[self.broker]
        if replica.leader_epoch != NONE or not RegisteredBefore.of(replica).is_before:
            return f"broker {self.broker} has read of the topic, or had to before it registered"
        if not session.fenced or replica.broker_epoch != session.broker_epoch:
            return f"broker {self.broker} is not fenced, or has not registered"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return Unfence(self.broker).effect(machine, state)


@attrs.frozen
class UnfenceUnhosted(ObservedAction):
    """`Unfence` of a broker that has read the metadata, and does not host the replica yet.

    It has no room for the log, and tries that again and again; or it met damage as it opened the log, and has withdrawn
    it.
    """

    broker: BrokerId

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica, session = state.replicas[self.broker], state.controller.sessions[self.broker]
        if replica.pulled is None or replica.leader_epoch != NONE:
            return f"broker {self.broker} has acted on what it has read"
        if not session.fenced or replica.broker_epoch != session.broker_epoch:
            return f"broker {self.broker} is not fenced, or has not registered"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return Unfence(self.broker).effect(machine, state)


@attrs.frozen
class TakeInPart(ObservedAction):
    """A follower's disk failed behind an append: it has the records of a response, and nothing else that it says.

    So it would be had the leader responded a moment earlier, when it knew of the old high watermark and log start.
    """

    response: FetchResponse

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.response not in state.network.fetch_responses:
            return f"{self.response} is not on its way"
        return "" if self.response.records else f"{self.response} has no records"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.response.request.follower]
        known = LeaderLogStart(min(LeaderLogStart.of(self.response).offset, log_start_of(replica)))
        earlier = evolve(with_part(self.response, known), high_watermark=replica.high_watermark)
        responses = tuple(earlier if one == self.response else one for one in state.network.fetch_responses)
        return ReceiveFetchResponse(earlier).effect(machine, on_network(state, fetch_responses=responses))


@attrs.frozen
class EpochForgotten(ObservedAction):
    """The log of a broker that is down has no records, and does not say any more of which epoch the last one was."""

    broker: BrokerId

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.running:
            return f"broker {self.broker} is running"
        if not 0 < log_start_of(replica) == replica.log_end_offset:
            return f"the log of broker {self.broker} has records, or has never had one"
        return "" if knows_below(replica) else f"broker {self.broker} does not know it"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        return state.with_replica(self.broker, with_part(replica, ForgottenEpoch(log_start_of(replica))))


@attrs.frozen
class ForgetFollowers(ObservedAction):
    """A leader that has waited for room has opened its log again: it begins as a new leader does, in the same epoch."""

    broker: BrokerId

    def guard(self, machine: ReplicationRules, state: State) -> str:
        return "" if state.replicas[self.broker].leader == self.broker else f"broker {self.broker} does not lead"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        leader = evolve(state.replicas[self.broker], pending_isr=())
        return become_leader(machine, state, self.broker, leader)


@attrs.frozen
class CheckpointOvertaken(ObservedAction):
    """A high watermark is written down that was right when the writing began, and has moved since, up or down.

    What a crash leaves is what it would leave had the disk written at once. Which ones the replica has had is known to
    `followed`; a state shows but the one it has.
    """

    broker: BrokerId
    offset: int

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if self.offset < 0 or self.offset == replica.high_watermark:
            return f"the high watermark of broker {self.broker} has not moved from {replica.high_watermark}"
        return machine.not_hosting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, evolve(state.replicas[self.broker], checkpoint=self.offset))


@attrs.frozen
class CheckpointUnsaid(ObservedAction):
    """A high watermark is written down, and the broker never tells: its process ends first, or its directory failed.

    The disk was at work then. What it has is newer than what was told, and no more than what was committed.
    """

    broker: BrokerId
    offset: int

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if not replica.running:
            return f"broker {self.broker} is down"
        if not replica.checkpoint < self.offset <= replica.high_watermark:
            has = f"{replica.checkpoint}, and knows {replica.high_watermark}"
            return f"broker {self.broker} has written down the high watermark {has}"
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, evolve(state.replicas[self.broker], checkpoint=self.offset))


@attrs.frozen
class Observed(ReplicationExtension):
    """The twelve."""

    action_types: ClassVar[tuple[type[Action], ...]] = (
        ProposalOutlives,
        AbandonFetch,
        ReceiveMetadata,
        RegisterAgain,
        NoteOutdated,
        UnfenceUnread,
        UnfenceUnhosted,
        TakeInPart,
        EpochForgotten,
        ForgetFollowers,
        CheckpointOvertaken,
        CheckpointUnsaid,
    )

    part_types: ClassVar[tuple[type[Part], ...]] = (RegisteredBefore, Taken)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"LowWatermarkIsTrue": low_watermark_is_true_but_for_disks}

    def survivor(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, kept: int
    ) -> Replica:
        """What a disk has taken is gone for later processes as well."""
        left, taken = inner(replica, kept), Taken.of(replica)
        return with_part(left, taken) if taken.by_disk else left

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return {"UnfencedHasCaughtUp": unfenced_has_caught_up_with_what_there_was}


def unfenced_has_caught_up_with_what_there_was(before: State, action: Action, after: State) -> bool:
    """As in `LateMessages`, of a topic that was there when the broker registered."""
    return isinstance(action, UnfenceUnread | UnfenceUnhosted) or unfenced_has_caught_up(before, action, after)


def low_watermark_is_true_but_for_disks(state: State) -> bool:
    """As in `spec.replication.composed`, but of replicas that have nothing left since the disk took their records."""
    starts = (
        with_part(replica, LogStart(UNBOUNDED))
        if Taken.of(replica).by_disk and log_start_of(replica) == replica.log_end_offset
        else replica
        for replica in state.replicas
    )
    return low_watermark_is_true(evolve(state, replicas=tuple(starts)))


def observed_machine(brokers: int, min_insync_replicas: int, *, unclean_leader_election: bool) -> Replication:
    """Replication with all extensions, late messages and the twelve; everything may happen as often as it does."""
    return Replication(
        brokers=brokers,
        max_records=UNBOUNDED,
        min_insync_replicas=min_insync_replicas,
        unclean_leader_election=unclean_leader_election,
        long_polls=True,
        extensions=(
            *everything(),
            Damage(),
            LostLogs(),
            RunningDamage(),
            Unregistering(),
            LateMessages(),
            Deletion(),
            Observed(),
        ),
    ).without_bounds()


def step(machine: ReplicationRules, state: State, action: ReplicationAction) -> State:
    """One step; of records that a disk takes a mark is left. Raises NotEnabled with the guard that failed."""
    if failed := action.guard(machine, state):
        raise NotEnabled(action, failed)
    after = action.effect(machine, state)
    if type(action) is LoseEnd or type(action) is LoseLog:  # `isinstance` takes five times as long for an ABC
        return after.with_replica(action.broker, with_part(after.replicas[action.broker], Taken(by_disk=True)))
    return after
