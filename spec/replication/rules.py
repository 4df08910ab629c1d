"""The rules of replication, and the constants that they ask: what an action does is decided here.

A rule is a method, so that a historical bug (`spec.bugs`) can override it and an extension can wrap it. The actions are
in `actions`, `control` and `faults`, the machine that is made of both in `machine`, which also tells how it works.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratingMachine
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import Parts
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    AlterPartitionRequest,
    Controller,
    Error,
    FetchRequest,
    FetchResponse,
    Log,
    PartitionMetadata,
    RemoteReplica,
    Replica,
    State,
)

DEFAULT_BOUNDS = Bounds(ShrinkIsr=1, ExpireSession=1)


def not_acting(state: State, broker: int) -> str:
    """Why a broker can't do anything now."""
    replica = state.replicas[broker]
    if not replica.running:
        return f"broker {broker} is down"
    return f"broker {broker} is paused" if replica.paused else ""


@attrs.frozen(slots=False)  # so that extensions' rules can stand in the place of its own
class ReplicationRules(EnumeratingMachine[State]):
    """What a machine of replication decides; its fields are the constants of the model."""

    cutting_types: ClassVar[tuple[type[Action], ...]] = ()
    """The actions by which a log may get shorter."""

    brokers: int = 3
    max_records: int = 2
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    acks: tuple[Acks, ...] = (Acks.ALL,)
    long_polls: bool = False
    delayed_metadata: bool = False
    may_stay_down: bool = False
    """Whether nobody promises that a broker that is down comes back; then its session expires, whatever the bounds."""
    initial_leader: int = 0
    initial_isr: tuple[int, ...] = ()
    bounds: Bounds = DEFAULT_BOUNDS

    # --- the partition and its settings ------------------------------------------------------------------------

    def in_sync_at_first(self) -> tuple[tuple[int, ...], int]:
        """The initial ISR and leader."""
        return self.initial_isr or tuple(range(self.brokers)), self.initial_leader

    def replica_count(self, known: Replica | Controller) -> int:
        """How many replicas there are, as far as a leader or the controller knows."""
        return self.brokers

    def required_insync(self, known: Replica | Controller) -> int:
        """How many must be in sync for anything to be committed, as far as a leader or the controller knows."""
        return self.min_insync_replicas

    def elects_uncleanly(self, controller: Controller) -> bool:
        """Whether the topic prefers a leader that may lack committed records to none."""
        return self.unclean_leader_election

    # --- rules of the leader -----------------------------------------------------------------------------------

    def fetch_error(self, leader: Replica, broker: int, request: FetchRequest) -> Error:
        """Epoch fencing of fetches (KIP-320), and only the latest process of a follower counts (KIP-903)."""
        if request.leader_epoch < leader.leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        if request.leader_epoch > leader.leader_epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        if leader.leader != broker or request.follower >= self.brokers:
            return Error.NOT_LEADER_OR_FOLLOWER
        if request.broker_epoch < leader.remote[request.follower].broker_epoch:
            return Error.NOT_LEADER_OR_FOLLOWER
        return Error.OK

    def refusal(self, leader: Replica, request: FetchRequest, error: Error) -> FetchResponse:
        """The response to a fetch that cannot be served."""
        return FetchResponse(request, error)

    def divergence(self, leader: Replica, request: FetchRequest, epoch: int, end_offset: int) -> FetchResponse:
        """The response to a follower whose log diverges from the leader's (KIP-595)."""
        return FetchResponse(
            request,
            high_watermark=leader.high_watermark,
            diverging_epoch=epoch,
            diverging_end_offset=end_offset,
        )

    def served(self, leader: Replica, request: FetchRequest, records: Log) -> FetchResponse:
        """The response with records, or with none when there is nothing new."""
        return FetchResponse(request, records=records, high_watermark=leader.high_watermark)

    def diverging_epoch(self, leader: Replica, request: FetchRequest) -> tuple[int, int] | None:
        """Where the follower's log diverges from the leader's: (epoch, end offset), or None while it is a prefix."""
        if request.offset == 0:
            return None
        epoch, end_offset = self.end_offset_for_epoch(leader.log, request.last_fetched_epoch)
        if epoch < request.last_fetched_epoch or end_offset < request.offset:
            return epoch, end_offset
        return None

    def end_offset_for_epoch(self, log: Log, epoch: int) -> tuple[int, int]:
        """The largest epoch of `log` that is not above `epoch`, and the offset at which it ends; (-1, 0) if none is."""
        end = len(log)
        while end and log[end - 1].epoch > epoch:
            end -= 1
        return (log[end - 1].epoch, end) if end else (NONE, 0)

    def next_high_watermark(self, leader: Replica, broker: int) -> int:
        """The least end offset over the maximal ISR; it stays while the ISR is too small or one has not fetched."""
        if len(leader.isr) < self.required_insync(leader):
            return leader.high_watermark
        reached = leader.log_end_offset
        for member in leader.maximal_isr:
            if member != broker:
                reached = min(reached, leader.remote[member].end_offset)
        return max(leader.high_watermark, reached)

    def may_join_isr(self, leader: Replica, follower: int) -> bool:
        """Caught up with what is committed, and with where this epoch began (KAFKA-7128)."""
        end_offset = leader.remote[follower].end_offset
        return end_offset >= leader.high_watermark and end_offset >= leader.epoch_start_offset

    def remote_replica(self, request: FetchRequest) -> RemoteReplica:
        """What the leader learns of a follower from its fetch."""
        return RemoteReplica(request.offset, request.broker_epoch)

    def may_update_follower(self, leader: Replica, request: FetchRequest) -> bool:
        """Not of a new process of a replica that is proposed: the proposal, sent again, must not vouch for that one."""
        known = leader.remote[request.follower].broker_epoch
        proposed = request.follower in leader.maximal_isr and request.follower not in leader.isr
        return not proposed or known in (NONE, request.broker_epoch)

    def has_lost_since(self, leader: Replica, follower: int, replica: Replica) -> bool:
        """Whether a follower, whose replica this is, may lack again what its last fetch told the leader."""
        return leader.remote[follower].broker_epoch < replica.broker_epoch

    def lagging(self, leader: Replica, broker: int) -> tuple[int, ...]:
        """The in-sync followers that are not known to have reached the leader's end."""
        end = leader.log_end_offset
        return tuple(b for b in leader.isr if b != broker and leader.remote[b].end_offset < end)

    def isr_with_broker_epochs(self, leader: Replica, broker: int, isr: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """A proposal names the incarnation of each member whose fetch the leader has received (KIP-903)."""
        return tuple((b, leader.broker_epoch if b == broker else leader.remote[b].broker_epoch) for b in isr)

    # --- rules of the follower ---------------------------------------------------------------------------------

    def accepts_fetch_response(self, follower: Replica, response: FetchResponse) -> bool:
        """Only the response to a fetch of this epoch and from this offset (KAFKA-18991)."""
        request = response.request
        return request.leader_epoch == follower.leader_epoch and request.offset == follower.log_end_offset

    def before_fetch(self, replica: Replica) -> Replica:
        """What a follower does before it tells its leader how far it is."""
        return replica

    def fetch_request(self, follower: Replica, broker: int) -> FetchRequest:
        """The fetch that a follower sends next."""
        return FetchRequest(
            broker,
            follower.leader,
            follower.leader_epoch,
            follower.log_end_offset,
            follower.last_epoch,
            follower.broker_epoch,
        )

    def after_response(self, follower: Replica, response: FetchResponse) -> Replica:
        """The follower after a response that it accepts."""
        if response.error:
            return follower
        if response.diverging_end_offset != NONE:
            epoch, end_offset = response.diverging_epoch, response.diverging_end_offset
            return self.truncated(follower, self.truncation_offset(follower, epoch, end_offset))
        log = follower.log + response.records
        return evolve(follower, log=log, high_watermark=min(response.high_watermark, len(log)))

    def truncated(self, replica: Replica, offset: int) -> Replica:
        """The replica without its records from `offset` on."""
        if offset >= replica.log_end_offset:
            return replica
        return evolve(
            replica,
            log=replica.log[:offset],
            flushed=min(replica.flushed, offset),
            high_watermark=min(replica.high_watermark, offset),
        )

    def truncation_offset(self, follower: Replica, epoch: int, end_offset: int) -> int:
        """How far the follower's log agrees with the leader's, as far as the leader's response tells (KIP-279)."""
        own_epoch, own_end = self.end_offset_for_epoch(follower.log, epoch)
        return min(own_end, end_offset) if own_epoch == epoch else own_end

    def truncation_on_becoming_follower(self, follower: Replica) -> int:
        """Nothing is cut before the new leader has shown where the logs part."""
        return follower.log_end_offset

    # --- rules of a broker's process and disk ------------------------------------------------------------------

    def not_hosting(self, state: State, broker: int) -> str:
        """Why a broker can't do anything to its log now; empty if it can."""
        return not_acting(state, broker)

    def written(self, replica: Replica) -> Replica:
        """The replica with all that it has on stable storage."""
        return evolve(replica, flushed=replica.log_end_offset, checkpoint=replica.high_watermark)

    def cut_off(self, state: State, broker: int) -> State:
        """The state without the connections of a broker whose process has ended: what was on them is lost."""
        return evolve(state, network=state.network.without_broker(broker))

    def taken_away(self, replica: Replica) -> Replica:
        """What a process has of a replica that the metadata have taken away from its broker: nothing."""
        return Replica(running=replica.running, paused=replica.paused, broker_epoch=replica.broker_epoch)

    def on_disk(self, replica: Replica) -> Replica:
        """The replica of which a broker's disk has the log: its process knows of no other."""
        return replica

    def survivor(self, replica: Replica, kept: int) -> Replica:
        """What a crash leaves on the disk when the first `kept` records survive."""
        return Replica(running=False, log=replica.log[:kept], flushed=kept, checkpoint=replica.checkpoint)

    def stopped(self, replica: Replica) -> Replica:
        """What a process leaves on the disk that writes everything before it ends."""
        return self.survivor(self.written(replica), replica.log_end_offset)

    def restarted(self, replica: Replica) -> Replica:
        """The replica when a new process has opened its log."""
        return evolve(replica, running=True, high_watermark=min(replica.checkpoint, replica.log_end_offset))

    def registered(self, replica: Replica, broker_epoch: int) -> Replica:
        """The replica when its broker has registered."""
        return evolve(replica, broker_epoch=broker_epoch)

    def parts_with_metadata(self, parts: Parts, metadata: PartitionMetadata) -> Parts:
        """A replica's parts when it has applied the metadata."""
        return parts

    @abstractmethod
    def metadata_applied(self, state: State, broker: int, replica: Replica, metadata: PartitionMetadata) -> State:
        """The broker, whose replica this is, leads or follows as the metadata say."""

    # --- rules of the controller -------------------------------------------------------------------------------

    def replica_order(self, controller: Controller) -> Sequence[int]:
        """The replica list, the preferred leader first."""
        return range(self.brokers)

    def is_active(self, controller: Controller, broker: int) -> bool:
        """Whether the broker may be given the leadership."""
        return not controller.sessions[broker].fenced

    def metadata(self, controller: Controller) -> PartitionMetadata:
        """What the metadata log says of the partition to brokers."""
        return PartitionMetadata(
            controller.epoch,
            controller.leader,
            controller.leader_epoch,
            controller.partition_epoch,
            controller.isr,
        )

    def with_isr(self, controller: Controller, isr: tuple[int, ...]) -> Controller:
        """The partition with the ISR that its leader proposed."""
        departed = tuple(b for b in controller.isr if b not in isr)
        elr = self.elr_after(controller, isr, tuple(sorted({*controller.elr, *departed})))
        return evolve(controller, isr=isr, elr=elr)

    def settled(self, old: Controller, new: Controller) -> tuple[Controller, bool]:
        """The partition after a change, with all that follows from it; and whether that was an unclean election."""
        return new, False

    def with_registration(self, controller: Controller, replica: Replica, broker: int) -> Controller:
        """The partition when a new process of the broker has registered."""
        return self.on_unclean_registration(controller, broker)

    def not_unfenced(self, controller: Controller, replica: Replica, broker: int) -> str:
        """Why a fenced broker stays fenced though it has the metadata; empty if it does not."""
        return ""

    def heartbeat_error(self, controller: Controller, broker: int, broker_epoch: int) -> Error:
        """A heartbeat counts if the registered process has sent it (KIP-631)."""
        registered = controller.sessions[broker].broker_epoch
        return Error.OK if broker_epoch == registered else Error.STALE_BROKER_EPOCH

    def alter_partition_error(self, controller: Controller, request: AlterPartitionRequest) -> Error:
        """ISR changes are conditional updates: of the right incarnation, leader epoch and partition epoch."""
        if request.broker_epoch != controller.sessions[request.leader].broker_epoch:
            return Error.STALE_BROKER_EPOCH
        if request.leader_epoch < controller.leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        if request.leader_epoch > controller.leader_epoch or request.leader != controller.leader:
            return Error.INVALID_REQUEST
        if request.partition_epoch != controller.partition_epoch:
            return Error.INVALID_UPDATE_VERSION
        if not request.isr or any(broker >= self.brokers for broker, _ in request.isr):
            return Error.INVALID_REQUEST
        if not all(self.is_eligible_for_isr(controller, broker, epoch) for broker, epoch in request.isr):
            return Error.INELIGIBLE_REPLICA
        return Error.OK

    def is_eligible_for_isr(self, controller: Controller, broker: int, broker_epoch: int) -> bool:
        """A live broker (KIP-841), and the very incarnation that the leader means (KIP-903)."""
        if broker >= self.brokers:
            return False
        session = controller.sessions[broker]
        return not session.fenced and broker_epoch in (NONE, session.broker_epoch)

    def without(self, controller: Controller, broker: int, *, clean: bool) -> Controller:
        """`broker` leaves the ISR; below min ISR it is or stays eligible to lead, unless it lost data (KIP-966)."""
        isr = tuple(b for b in controller.isr if b != broker)
        elr = tuple(b for b in controller.elr if b != broker)
        if clean and (broker in controller.isr or broker in controller.elr):
            elr = tuple(sorted((*elr, broker)))
        return evolve(controller, isr=isr, elr=self.elr_after(controller, isr, elr))

    def elr_after(self, controller: Controller, isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, ...]:
        """Eligible leaders are kept as long as nothing can be committed without them."""
        return tuple(b for b in elr if b not in isr) if len(isr) < self.required_insync(controller) else ()

    def on_unclean_registration(self, controller: Controller, broker: int) -> Controller:
        """A new incarnation may have lost its tail: neither in sync nor eligible before it has caught up (KIP-966)."""
        return self.without(controller, broker, clean=False)

    def with_leader(self, controller: Controller, *, unclean: bool = False) -> tuple[Controller, bool]:
        """The partition with its leader kept if it can be, else elected anew; and whether that election was unclean."""
        if controller.leader in controller.isr and not controller.sessions[controller.leader].fenced:
            return controller, False
        leader, was_unclean = self.elect(controller, unclean=unclean or self.elects_uncleanly(controller))
        if leader != NONE and leader not in controller.isr:
            elr = () if was_unclean else self.elr_after(controller, (leader,), controller.elr)
            controller = evolve(controller, isr=(leader,), elr=elr)
        return self.led_by(controller, leader), was_unclean

    def led_by(self, controller: Controller, leader: int) -> Controller:
        """A change of leader, to none as well, begins a leader epoch."""
        if leader == controller.leader:
            return controller
        last_known = controller.leader if leader == NONE else leader
        return evolve(controller, leader=leader, leader_epoch=controller.leader_epoch + 1, last_known_leader=last_known)

    def elect(self, controller: Controller, *, unclean: bool) -> tuple[int, bool]:
        """(leader, whether uncleanly elected): by replica order in the ISR, then the ELR, then the rest."""
        live = [b for b in self.replica_order(controller) if self.is_active(controller, b)]
        for candidates in (controller.isr, controller.elr):
            for broker in live:
                if broker in candidates:
                    return broker, False
        if unclean and live:
            return live[0], True
        if not controller.isr and not controller.elr and controller.last_known_leader in live:
            return controller.last_known_leader, True
        return NONE, False
