"""What an extension of the replication machine may contribute, and every rule that it may wrap.

A method that takes `inner` wraps the rule of that name in `Replication`, where it is described (`spec.kernel.extension`
says how). Here each passes the call on: an extension overrides those that it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant
from tidegauge.spec.kernel.parts import Parts
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
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


@attrs.frozen
class ReplicationExtension(Extension):
    """An extension of `Replication`."""

    # --- contributions -----------------------------------------------------------------------------------------------

    cutting_types: ClassVar[tuple[type[Action], ...]] = ()
    """Actions, its own or the machine's, that with the extension may make a log shorter."""

    leader_stays: ClassVar[frozenset[str]] = frozenset()
    """Of its perturbations those that end no leadership: followers stay interchangeable with them."""
    orders_brokers: ClassVar[bool] = False
    """Whether it treats brokers unlike, by an order among them."""

    @property
    def all_action_types(self) -> tuple[type[Action], ...]:
        """Its actions with these constants."""
        return self.action_types

    def initial(self, machine: ReplicationRules, state: State) -> State:
        """The machine's initial state with the extension's part in it."""
        return state

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        """What holds in every state. A name that an earlier extension gives is replaced."""
        return {}

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        """What holds of every step. A name that an earlier extension gives is replaced."""
        return {}

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        """What a search within the machine's constants must have reached."""
        return {}

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        """What holds for good in the end. A name that the base or an earlier extension gives is replaced."""
        return {}

    def leads_to(self, machine: ReplicationRules) -> Mapping[str, LeadsTo[State]]:
        """What comes whenever it is owed, though clients never rest."""
        return {}

    def explain(self, state: State) -> Mapping[str, object]:
        """The values on which its invariants turn."""
        return {}

    # --- the partition and its settings ------------------------------------------------------------------------------

    def in_sync_at_first(
        self, machine: ReplicationRules, inner: Callable[[], tuple[tuple[int, ...], int]]
    ) -> tuple[tuple[int, ...], int]:
        return inner()

    def replica_count(
        self, machine: ReplicationRules, inner: Callable[[Replica | Controller], int], known: Replica | Controller
    ) -> int:
        return inner(known)

    def required_insync(
        self, machine: ReplicationRules, inner: Callable[[Replica | Controller], int], known: Replica | Controller
    ) -> int:
        return inner(known)

    def elects_uncleanly(
        self, machine: ReplicationRules, inner: Callable[[Controller], bool], controller: Controller
    ) -> bool:
        return inner(controller)

    # --- rules of the leader -----------------------------------------------------------------------------------------

    def fetch_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, FetchRequest], Error],
        leader: Replica,
        broker: int,
        request: FetchRequest,
    ) -> Error:
        return inner(leader, broker, request)

    def refusal(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest, Error], FetchResponse],
        leader: Replica,
        request: FetchRequest,
        error: Error,
    ) -> FetchResponse:
        return inner(leader, request, error)

    def divergence(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest, int, int], FetchResponse],
        leader: Replica,
        request: FetchRequest,
        epoch: int,
        end_offset: int,
    ) -> FetchResponse:
        return inner(leader, request, epoch, end_offset)

    def served(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest, Log], FetchResponse],
        leader: Replica,
        request: FetchRequest,
        records: Log,
    ) -> FetchResponse:
        return inner(leader, request, records)

    def diverging_epoch(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest], tuple[int, int] | None],
        leader: Replica,
        request: FetchRequest,
    ) -> tuple[int, int] | None:
        return inner(leader, request)

    def remote_replica(
        self, machine: ReplicationRules, inner: Callable[[FetchRequest], RemoteReplica], request: FetchRequest
    ) -> RemoteReplica:
        return inner(request)

    def has_lost_since(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, Replica], bool],
        leader: Replica,
        follower: int,
        replica: Replica,
    ) -> bool:
        return inner(leader, follower, replica)

    # --- rules of the follower ---------------------------------------------------------------------------------------

    def before_fetch(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return inner(replica)

    def fetch_request(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], FetchRequest], follower: Replica, broker: int
    ) -> FetchRequest:
        return inner(follower, broker)

    def after_response(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchResponse], Replica],
        follower: Replica,
        response: FetchResponse,
    ) -> Replica:
        return inner(follower, response)

    def truncated(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, offset: int
    ) -> Replica:
        return inner(replica, offset)

    def truncation_offset(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, int], int],
        follower: Replica,
        epoch: int,
        end_offset: int,
    ) -> int:
        return inner(follower, epoch, end_offset)

    # --- rules of a broker's process and disk ------------------------------------------------------------------------

    def not_hosting(
        self, machine: ReplicationRules, inner: Callable[[State, int], str], state: State, broker: int
    ) -> str:
        return inner(state, broker)

    def written(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return inner(replica)

    def cut_off(
        self, machine: ReplicationRules, inner: Callable[[State, int], State], state: State, broker: int
    ) -> State:
        return inner(state, broker)

    def taken_away(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return inner(replica)

    def on_disk(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return inner(replica)

    def survivor(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, kept: int
    ) -> Replica:
        return inner(replica, kept)

    def stopped(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return inner(replica)

    def restarted(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return inner(replica)

    def registered(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, broker_epoch: int
    ) -> Replica:
        return inner(replica, broker_epoch)

    def parts_with_metadata(
        self,
        machine: ReplicationRules,
        inner: Callable[[Parts, PartitionMetadata], Parts],
        parts: Parts,
        metadata: PartitionMetadata,
    ) -> Parts:
        return inner(parts, metadata)

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        return inner(state, broker, replica, metadata)

    # --- rules of the controller -------------------------------------------------------------------------------------

    def replica_order(
        self, machine: ReplicationRules, inner: Callable[[Controller], Sequence[int]], controller: Controller
    ) -> Sequence[int]:
        return inner(controller)

    def is_active(
        self, machine: ReplicationRules, inner: Callable[[Controller, int], bool], controller: Controller, broker: int
    ) -> bool:
        return inner(controller, broker)

    def metadata(
        self, machine: ReplicationRules, inner: Callable[[Controller], PartitionMetadata], controller: Controller
    ) -> PartitionMetadata:
        return inner(controller)

    def with_isr(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, tuple[int, ...]], Controller],
        controller: Controller,
        isr: tuple[int, ...],
    ) -> Controller:
        return inner(controller, isr)

    def settled(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Controller], tuple[Controller, bool]],
        old: Controller,
        new: Controller,
    ) -> tuple[Controller, bool]:
        return inner(old, new)

    def with_leader(
        self,
        machine: ReplicationRules,
        inner: Callable[..., tuple[Controller, bool]],
        controller: Controller,
        *,
        unclean: bool = False,
    ) -> tuple[Controller, bool]:
        return inner(controller, unclean=unclean)

    def with_registration(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Replica, int], Controller],
        controller: Controller,
        replica: Replica,
        broker: int,
    ) -> Controller:
        return inner(controller, replica, broker)

    def not_unfenced(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Replica, int], str],
        controller: Controller,
        replica: Replica,
        broker: int,
    ) -> str:
        return inner(controller, replica, broker)

    def heartbeat_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, int, int], Error],
        controller: Controller,
        broker: int,
        broker_epoch: int,
    ) -> Error:
        return inner(controller, broker, broker_epoch)

    def alter_partition_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, AlterPartitionRequest], Error],
        controller: Controller,
        request: AlterPartitionRequest,
    ) -> Error:
        return inner(controller, request)

    def is_eligible_for_isr(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, int, int], bool],
        controller: Controller,
        broker: int,
        broker_epoch: int,
    ) -> bool:
        return inner(controller, broker, broker_epoch)

    def elect(
        self,
        machine: ReplicationRules,
        inner: Callable[..., tuple[int, bool]],
        controller: Controller,
        *,
        unclean: bool,
    ) -> tuple[int, bool]:
        return inner(controller, unclean=unclean)
