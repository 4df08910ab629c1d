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
`properties`, the constants and the rules in `rules`. A historical bug (`spec.bugs`) is a subclass that overrides one of
the rules. What else may happen to a partition is in `extensions`: each wraps rules, and adds actions, invariants and
parts of the state; `Replication(extensions=(Retention(), …))` is the machine with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Self, TypeVar

import attrs

from tidegauge.spec.kernel.bounds import UNBOUNDED, Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.extension import check_extensions, wrap_rules
from tidegauge.spec.kernel.machine import (
    Action,
    Invariant,
    LeadsTo,
    Machine,
    StepInvariant,
    check_processes,
    constants_of,
)
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication import properties as replication_properties
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.convergence import converging, owed
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
    Controller,
    PartitionMetadata,
    RemoteReplica,
    Replica,
    Session,
    State,
)
from tidegauge.spec.replication.symmetry import LEADER_STAYS, names_of, renamed_state

T = TypeVar("T")


@attrs.frozen(slots=False)  # so that extensions' rules can stand in the place of its own
class Replication(ReplicationRules):
    """The replication machine; its fields, those of the rules included, are the constants of the model."""

    action_base = ReplicationAction
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
    cutting_types = (protocol.ReceiveFetchResponse, control.ApplyMetadata, faults.Crash)
    refused_types = (faults.HeartbeatOfFormerProcess, faults.RegisterBesideProcess)

    extensions: tuple[ReplicationExtension, ...] = ()
    """The last one is the outermost: it sees a rule's outcome after all the others."""

    def __attrs_post_init__(self) -> None:
        """Raises ValueError for a list of extensions that does not work, or a bound on no action of the machine."""
        check_extensions(self.extensions)
        wrap_rules(self, self.extensions, ReplicationExtension)
        added = chain.from_iterable(extension.all_action_types for extension in self.extensions)
        self.__dict__["action_types"] = (*self.action_types, *added)
        refused = chain.from_iterable(extension.refused_types for extension in self.extensions)
        self.__dict__["refused_types"] = (*self.refused_types, *refused)
        cutting = chain.from_iterable(extension.cutting_types for extension in self.extensions)
        self.__dict__["cutting_types"] = (*self.cutting_types, *cutting)
        self.__dict__["part_types"] = tuple(chain.from_iterable(one.part_types for one in self.extensions))
        self.bounds.check(self.name, self.perturbations)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), constants_of(self))

    # --- the machine -------------------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[type[object], ...]:
        return (type(self), *map(type, self.extensions))

    def exchanged(self, kind: type[object], other: Callable[..., Any]) -> Machine[State]:
        if kind is type(self):
            return super().exchanged(kind, other)
        if kind not in self.kinds:
            raise ValueError(f"{self.name} is not made of {kind.__name__}")
        extensions = tuple(
            other(**attrs.asdict(one, recurse=False)) if type(one) is kind else one for one in self.extensions
        )
        return evolve(self, extensions=extensions)

    def without_bounds(self) -> Self:
        """The same machine, whose perturbations may happen as often as they do."""
        return evolve(self, bounds=Bounds(dict.fromkeys(self.perturbations, UNBOUNDED)))

    def initial(self) -> Iterable[State]:
        """An empty partition in epoch 0, of which every broker knows. Raises ValueError if the constants fit none."""
        check_processes("brokers", self.brokers)
        isr, lead = self.in_sync_at_first()
        if len(set(isr)) < len(isr) or not set(isr) <= set(range(self.brokers)):
            raise ValueError(f"initial_isr={isr} must name brokers from 0 to {self.brokers - 1}, each once")
        if lead not in isr:
            raise ValueError(f"initial_leader={lead} is not in the initial ISR {isr}: choose one of it")
        follower = Replica(broker_epoch=0, controller_epoch=0, leader=lead, leader_epoch=0, partition_epoch=0, isr=isr)
        leader = evolve(follower, epoch_start_offset=0, remote=(RemoteReplica(),) * self.brokers)
        replicas = tuple(leader if broker == lead else follower for broker in range(self.brokers))
        sessions = (Session(),) * self.brokers
        state = State(replicas, Controller(0, sessions, leader=lead, leader_epoch=0, partition_epoch=0, isr=isr))
        for extension in self.extensions:
            state = extension.initial(self, state)
        yield state

    @cached_property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            **replication_properties.invariants(self),
            **_merged(extension.invariants for extension in self.extensions),
        }

    @cached_property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {
            **replication_properties.step_invariants(self),
            **_merged(extension.step_invariants(self) for extension in self.extensions),
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {**replication_properties.goals(self), **_merged(one.goals(self) for one in self.extensions)}

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return {**converging(self), **_merged(one.converges(self) for one in self.extensions)}

    @property
    def leads_to(self) -> Mapping[str, LeadsTo[State]]:
        return {**owed(self.converges), **_merged(one.leads_to(self) for one in self.extensions)}

    def is_fair(self, before: State, action: Action, after: State) -> bool:
        return super().is_fair(before, action, after) and not (
            self.may_stay_down and isinstance(action, faults.Restart)
        )

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        return {
            **_merged(extension.explain(state) for extension in self.extensions),
            **replication_properties.explain(invariant, state),
        }

    @property
    def leader_stays(self) -> bool:
        """Whether nothing in this model can end the first leadership."""
        return not self.ends_leaderships and not any(one.orders_brokers for one in self.extensions)

    @property
    def ends_leaderships(self) -> tuple[str, ...]:
        """The perturbations of this model that may end the first leadership."""
        harmless = LEADER_STAYS.union(*(one.leader_stays for one in self.extensions))
        return tuple(name for name in self.bounds if name not in harmless)

    @property
    def interchangeable(self) -> int:
        """The followers, as long as they are no leader's successors."""
        isr, leader = self.in_sync_at_first()
        alike = len(isr) == self.brokers or isr == (leader,)
        return self.brokers - 1 if alike and self.leader_stays else 0

    @property
    def why_unlike(self) -> str:
        if self.ends_leaderships:
            ending = " ".join(f"{name}=0" for name in self.ends_leaderships)
            return f"followers may be elected, which goes by the order of brokers (not with {ending})"
        if not self.leader_stays:
            return "an extension has an order among brokers"
        return "there are fewer than two followers, or not all of them are in sync at first"

    def permute(self, state: State, permutation: tuple[int, ...]) -> State:
        _, leader = self.in_sync_at_first()
        return renamed_state(state, names_of(self.brokers, leader, permutation))

    # --- rules that actions share ------------------------------------------------------------------------------

    def metadata_applied(self, state: State, broker: int, replica: Replica, metadata: PartitionMetadata) -> State:
        return control.metadata_applied(self, state, broker, replica, metadata)


def _merged(mappings: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """One mapping of all; the later one counts where two have a name."""
    return {name: value for mapping in mappings for name, value in mapping.items()}


def _rebuilt(kind: type[Replication], constants: Mapping[str, Any]) -> Replication:
    return kind(**constants)
