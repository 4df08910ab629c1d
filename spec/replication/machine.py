"""Replication of one partition: Kafka's protocol as it stands after KIP-101, 279, 320, 497, 841, 903 and 966.

Theory of operation
-------------------
A partition has a replica on each broker. The *controller* names one of them leader for a *leader epoch* and keeps the
in-sync replicas (ISR). Producers append at the leader; followers pull: a fetch carries the follower's log end offset,
so that the leader learns how far each has got. The *high watermark* is the least end offset over the ISR; what lies
below it is *committed*: shown to consumers, acknowledged to producers that wait for all, and never lost again.

Everything hard comes from who knows what when:

* A replica goes by the metadata that it last applied (`ApplyMetadata`). Several may think that they lead; each
  fetch and each ISR change carries epochs, and the older one is refused.
* A new follower's log may have a tail that the leader lacks. The leader sees it in the fetch (last fetched epoch,
  offset) and responds with where the logs diverge; the follower truncates there and nowhere else.
* An ISR change counts when the controller has written it. Until a leader knows the outcome it waits for the larger of
  both (`maximal_isr`), so that it can't commit what a future leader might lack.
* A crash takes the unflushed tail along. The broker comes back under a new *broker epoch*; the controller takes it
  out of the ISR before anything else, for it may lack committed records. Replicas that left while the ISR was below
  min.insync.replicas stay *eligible leaders* (ELR), since nothing is committed in that time.

The actions are in `actions` (records), `control` (ISR, metadata, elections) and `faults`, the invariants in
`properties`; here are the machine's constants and its rules. A historical bug (`spec.bugs`) is a subclass that
overrides one of these rules. What else may happen to a partition is in `extensions`: each wraps rules, and adds
actions, invariants and parts of the state; `Replication(extensions=(Retention(), …))` is the machine with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Self

import attrs

from tidegauge.spec.kernel.bounds import UNBOUNDED, Bounds
from tidegauge.spec.kernel.extension import check_extensions, wrap_rules
from tidegauge.spec.kernel.machine import (
    Action,
    Invariant,
    Machine,
    NotEnabled,
    StepInvariant,
    check_processes,
    constants_of,
)
from tidegauge.spec.kernel.parts import Parts
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication import properties as replication_properties
from tidegauge.spec.replication.actions import ReplicationAction, not_acting
from tidegauge.spec.replication.extension import ReplicationExtension
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
    Session,
    State,
)

DEFAULT_BOUNDS = Bounds(ShrinkIsr=1, ExpireSession=1)


@attrs.frozen(slots=False)  # so that extensions' rules can stand in the place of its own
class Replication(Machine[State]):
    """The replication machine; its fields are the constants of the model."""

    action_types: ClassVar[tuple[type[ReplicationAction], ...]] = (
        protocol.Append,
        protocol.SendFetch,
        protocol.ReceiveFetch,
        protocol.HoldFetch,
        protocol.ReceiveFetchResponse,
        control.ShrinkIsr,
        control.RetryAlterPartition,
        control.ReceiveAlterPartition,
        control.ReceiveAlterPartitionResponse,
        control.PullMetadata,
        control.ApplyMetadata,
        control.PreferredElection,
        control.UncleanElection,
        faults.ExpireSession,
        faults.Register,
        faults.Unfence,
        faults.ControllerFailover,
        faults.Flush,
        faults.CheckpointHighWatermark,
        faults.Crash,
        faults.Restart,
        faults.Pause,
        faults.Resume,
        faults.Disconnect,
        faults.DisconnectController,
    )

    brokers: int = 3
    max_records: int = 2
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    acks: tuple[Acks, ...] = (Acks.ALL,)
    long_polls: bool = False
    delayed_metadata: bool = False
    initial_leader: int = 0
    initial_isr: tuple[int, ...] = ()
    bounds: Bounds = DEFAULT_BOUNDS
    extensions: tuple[ReplicationExtension, ...] = ()
    """The last one is the outermost: it sees a rule's outcome after all the others."""

    def __attrs_post_init__(self) -> None:
        """Raises ValueError for a list of extensions that does not work, or a bound on no action of the machine."""
        check_extensions(self.extensions)
        wrap_rules(self, self.extensions, ReplicationExtension)
        added = chain.from_iterable(extension.all_action_types for extension in self.extensions)
        self.__dict__["action_types"] = (*self.action_types, *added)
        self.__dict__["part_types"] = tuple(chain.from_iterable(one.part_types for one in self.extensions))
        self.bounds.check(self.name, self.perturbations)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), constants_of(self))

    # --- the machine -------------------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[type[Any], ...]:
        return (type(self), *map(type, self.extensions))

    def exchanged(self, kind: type[Any], other: type[Any]) -> Machine[State]:
        if kind is type(self):
            return super().exchanged(kind, other)
        if kind not in self.kinds:
            raise ValueError(f"{self.name} is not made of {kind.__name__}")
        extensions = tuple(
            other(**attrs.asdict(one, recurse=False)) if type(one) is kind else one for one in self.extensions
        )
        return attrs.evolve(self, extensions=extensions)

    def without_bounds(self) -> Self:
        """The same machine, whose perturbations may happen as often as they do."""
        return attrs.evolve(self, bounds=Bounds(dict.fromkeys(self.perturbations, UNBOUNDED)))

    def initial(self) -> Iterable[State]:
        """An empty partition in epoch 0, of which every broker knows. Raises ValueError if the constants fit none."""
        check_processes("brokers", self.brokers)
        isr, lead = self.in_sync_at_first()
        if len(set(isr)) < len(isr) or not set(isr) <= set(range(self.brokers)):
            raise ValueError(f"initial_isr={isr} must name brokers from 0 to {self.brokers - 1}, each once")
        if lead not in isr:
            raise ValueError(f"initial_leader={lead} is not in the initial ISR {isr}: choose one of it")
        follower = Replica(broker_epoch=0, controller_epoch=0, leader=lead, leader_epoch=0, partition_epoch=0, isr=isr)
        leader = attrs.evolve(follower, epoch_start_offset=0, remote=(RemoteReplica(),) * self.brokers)
        replicas = tuple(leader if broker == lead else follower for broker in range(self.brokers))
        sessions = (Session(),) * self.brokers
        state = State(replicas, Controller(0, sessions, leader=lead, leader_epoch=0, partition_epoch=0, isr=isr))
        for extension in self.extensions:
            state = extension.initial(self, state)
        yield state

    def actions(self, state: State) -> Iterable[ReplicationAction]:
        for kind in self._possible:
            for action in kind.candidates(self, state):
                if not action.guard(self, state):
                    yield action

    def step(self, state: State, action: Action) -> State:
        if not isinstance(action, ReplicationAction):
            raise TypeError(f"{action!r} is not an action of the replication machine")
        if failed := action.guard(self, state):
            raise NotEnabled(action, failed)
        return action.effect(self, state)

    def successors(self, state: State) -> Iterable[tuple[Action, State]]:
        for action in self.actions(state):
            yield action, action.effect(self, state)

    @cached_property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            **replication_properties.INVARIANTS,
            **_merged(extension.invariants for extension in self.extensions),
        }

    @cached_property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {
            **replication_properties.STEP_INVARIANTS,
            **_merged(extension.step_invariants for extension in self.extensions),
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {**replication_properties.goals(self), **_merged(one.goals(self) for one in self.extensions)}

    def explain(self, invariant: str, state: State) -> Mapping[str, Any]:
        return {
            **_merged(extension.explain(state) for extension in self.extensions),
            **replication_properties.explain(invariant, state),
        }

    @cached_property
    def _possible(self) -> tuple[type[ReplicationAction], ...]:
        """The classes of action that the constants let happen."""
        return tuple(kind for kind in self.action_types if kind.is_possible(self))

    def may_perturb(self, state: State, name: str) -> bool:
        """Whether the bounds allow the perturbation once more."""
        return self.bounds.allow(name, state.spent)

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
        if leader.leader != broker or request.broker_epoch < leader.remote[request.follower].broker_epoch:
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
        return attrs.evolve(follower, log=log, high_watermark=min(response.high_watermark, len(log)))

    def truncated(self, replica: Replica, offset: int) -> Replica:
        """The replica without its records from `offset` on."""
        if offset >= replica.log_end_offset:
            return replica
        return attrs.evolve(
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
        return attrs.evolve(replica, flushed=replica.log_end_offset, checkpoint=replica.high_watermark)

    def survivor(self, replica: Replica, kept: int) -> Replica:
        """What a crash leaves on the disk when the first `kept` records survive."""
        return Replica(running=False, log=replica.log[:kept], flushed=kept, checkpoint=replica.checkpoint)

    def stopped(self, replica: Replica) -> Replica:
        """What a process leaves on the disk that writes everything before it ends."""
        return self.survivor(self.written(replica), replica.log_end_offset)

    def restarted(self, replica: Replica) -> Replica:
        """The replica when a new process has opened its log."""
        return attrs.evolve(replica, running=True, high_watermark=min(replica.checkpoint, replica.log_end_offset))

    def registered(self, replica: Replica, broker_epoch: int) -> Replica:
        """The replica when its broker has registered."""
        return attrs.evolve(replica, broker_epoch=broker_epoch)

    def parts_with_metadata(self, parts: Parts, metadata: PartitionMetadata) -> Parts:
        """A replica's parts when it has applied the metadata."""
        return parts

    def metadata_applied(self, state: State, broker: int, replica: Replica, metadata: PartitionMetadata) -> State:
        """The broker, whose replica this is, leads or follows as the metadata say."""
        return control.metadata_applied(self, state, broker, replica, metadata)

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
        return attrs.evolve(controller, isr=isr, elr=elr)

    def settled(self, old: Controller, new: Controller) -> tuple[Controller, bool]:
        """The partition after a change, with all that follows from it; and whether that was an unclean election."""
        return new, False

    def with_registration(self, controller: Controller, replica: Replica, broker: int) -> Controller:
        """The partition when a new process of the broker has registered."""
        return self.on_unclean_registration(controller, broker)

    def not_unfenced(self, controller: Controller, broker: int) -> str:
        """Why a fenced broker stays fenced though it has the metadata; empty if it does not."""
        return ""

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
        if not all(self.is_eligible_for_isr(controller, broker, epoch) for broker, epoch in request.isr):
            return Error.INELIGIBLE_REPLICA
        return Error.OK

    def is_eligible_for_isr(self, controller: Controller, broker: int, broker_epoch: int) -> bool:
        """A live broker (KIP-841), and the very incarnation that the leader means (KIP-903)."""
        session = controller.sessions[broker]
        return not session.fenced and broker_epoch in (NONE, session.broker_epoch)

    def without(self, controller: Controller, broker: int, *, clean: bool) -> Controller:
        """`broker` leaves the ISR; below min ISR it stays eligible to lead, unless it lost data (KIP-966)."""
        isr = tuple(b for b in controller.isr if b != broker)
        elr = tuple(b for b in controller.elr if b != broker)
        if clean and broker in controller.isr:
            elr = tuple(sorted((*elr, broker)))
        return attrs.evolve(controller, isr=isr, elr=self.elr_after(controller, isr, elr))

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
            controller = attrs.evolve(controller, isr=(leader,), elr=elr)
        return self.led_by(controller, leader), was_unclean

    def led_by(self, controller: Controller, leader: int) -> Controller:
        """A change of leader, to none as well, begins a leader epoch."""
        if leader == controller.leader:
            return controller
        last_known = controller.leader if leader == NONE else leader
        return attrs.evolve(
            controller, leader=leader, leader_epoch=controller.leader_epoch + 1, last_known_leader=last_known
        )

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


def _merged(mappings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One mapping of all; the later one counts where two have a name."""
    return {name: value for mapping in mappings for name, value in mapping.items()}


def _rebuilt(kind: type[Replication], constants: Mapping[str, Any]) -> Replication:
    return kind(**constants)
