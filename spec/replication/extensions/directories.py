"""Log directories that fail: a broker that lives on without one of its replicas (KIP-112, KIP-858).

Theory of operation
-------------------
A log directory whose disk fails is offline until its broker starts again: nobody knows what of it is on stable storage.
The replicas in it are gone for that process. It leads and follows none of them, answers for them KAFKA_STORAGE_ERROR,
and goes on with the others; its session does not lapse.

So nothing takes such a replica out of the ISR but its broker's word. When the controller hears it, the replica is
*offline*: it leaves the ISR and leads no more, as if its broker had been fenced. It stays eligible (ELR), for what it
holds is not lost as far as anybody knows, but it is not elected while it is offline. Unflushed records may be gone all
the same: the next process of the broker finds what the disk kept. It is no process that has stopped cleanly, whatever
its other directories say, and so it is neither in sync nor eligible before it has caught up.

This is `ControlledShutdown`, and with it `Replication`, with such directories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Invariant
from tidegauge.spec.replication.actions import BrokerAction, ReplicationAction, not_acting, not_hosting
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    BrokerId,
    Controller,
    Error,
    FetchRequest,
    Perturbation,
    Replica,
    State,
)

# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class FailDirectory(BrokerAction):
    """The disk of a replica's log fails: its broker has no such replica any more."""

    def guard(self, machine: Replication, state: State) -> str:
        if not machine.may_perturb(state, Perturbation.DIRECTORY_FAILURE):
            return "no more directory failures in this model"
        return not_hosting(state, self.broker)

    def effect(self, machine: Replication, state: State) -> State:
        replica = state.replicas[self.broker]
        lost = attrs.evolve(
            replica,
            offline=True,
            leader=NONE,
            isr=(),
            epoch_start_offset=NONE,
            remote=(),
            pending_isr=(),
            outstanding=(),
            pulled=None,
        )
        return state.with_replica(self.broker, lost).spend(Perturbation.DIRECTORY_FAILURE)


@attrs.frozen
class ReplicaOffline(BrokerAction):
    """The controller hears that the directory of a broker's replica has failed."""

    def guard(self, machine: Replication, state: State) -> str:
        if self.broker in state.controller.offline:
            return f"the replica of broker {self.broker} is offline"
        replica = state.replicas[self.broker]
        if speaks(state, self.broker) and not replica.offline:
            return f"the log directory of broker {self.broker} works"
        return "" if replica.offline else f"broker {self.broker} has said nothing of its log directory"

    def effect(self, machine: Replication, state: State) -> State:
        controller = machine.without(state.controller, self.broker, clean=True)
        offline = tuple(sorted((*controller.offline, self.broker)))
        controller, unclean = machine.with_leader(attrs.evolve(controller, offline=offline))
        return committed(state, controller, unclean=unclean)


@attrs.frozen
class ReplicaOnline(BrokerAction):
    """The controller hears that a broker has a replica in a directory that works."""

    def guard(self, machine: Replication, state: State) -> str:
        if self.broker not in state.controller.offline:
            return f"the replica of broker {self.broker} is not offline"
        if not speaks(state, self.broker):
            return f"broker {self.broker} has not registered"
        offline = f"the log directory of broker {self.broker} has failed" if state.replicas[self.broker].offline else ""
        return not_acting(state, self.broker) or offline

    def effect(self, machine: Replication, state: State) -> State:
        offline = tuple(b for b in state.controller.offline if b != self.broker)
        controller, unclean = machine.with_leader(attrs.evolve(state.controller, offline=offline))
        return committed(state, controller, unclean=unclean)


def speaks(state: State, broker: int) -> bool:
    """Whether the broker's process is the one that the controller knows."""
    return state.replicas[broker].broker_epoch == state.controller.sessions[broker].broker_epoch


@attrs.frozen
class LoseTail(ReplicationAction):
    """A broker has stopped; its failed directory turns out to have kept less than there was."""

    broker: BrokerId
    kept: int

    @classmethod
    def candidates(cls, machine: Replication, state: State) -> Iterable[LoseTail]:
        for broker, replica in enumerate(state.replicas):
            if replica.offline and not replica.running:
                yield from (cls(broker, kept) for kept in range(replica.flushed, replica.log_end_offset))

    def guard(self, machine: Replication, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.running or not replica.offline:
            return f"broker {self.broker} has not stopped with a failed directory"
        if not replica.flushed <= self.kept < replica.log_end_offset:
            return f"the disk of broker {self.broker} has {replica.flushed} to {replica.log_end_offset} records"
        return ""

    def effect(self, machine: Replication, state: State) -> State:
        replica = state.replicas[self.broker]
        return state.with_replica(self.broker, attrs.evolve(replica, log=replica.log[: self.kept], flushed=self.kept))


@attrs.frozen
class LoseNote(BrokerAction):
    """A broker has stopped cleanly as far as this log goes; another of its directories had failed, and has no note."""

    def guard(self, machine: Replication, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.running or replica.stopped_cleanly_in == NONE:
            return f"broker {self.broker} has not stopped cleanly"
        return ""

    def effect(self, machine: Replication, state: State) -> State:
        return state.with_replica(self.broker, attrs.evolve(state.replicas[self.broker], stopped_cleanly_in=NONE))


# --- the machine -----------------------------------------------------------------------------------------------------


@attrs.frozen
class Directories(ControlledShutdown):
    """The replication machine with log directories that fail alone."""

    action_types: ClassVar[tuple[type[ReplicationAction], ...]] = (
        *ControlledShutdown.action_types,
        FailDirectory,
        ReplicaOffline,
        ReplicaOnline,
        LoseTail,
        LoseNote,
    )

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {**super().invariants, **INVARIANTS}

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        wanted: dict[str, Invariant[State]] = dict(super().sometimes)
        if self.bounds.directory_failures:
            wanted["a replica has lost its directory while it leads"] = lambda s: (
                s.controller.leader != NONE and s.replicas[s.controller.leader].offline
            )
            wanted["a replica is offline and its broker live"] = lambda s: any(
                not s.controller.sessions[broker].fenced for broker in s.controller.offline
            )
        return wanted

    # --- rules of the broker -----------------------------------------------------------------------------------------

    def fetch_error(self, leader: Replica, broker: int, request: FetchRequest) -> Error:
        """There is no log to fetch from."""
        return Error.KAFKA_STORAGE_ERROR if leader.offline else super().fetch_error(leader, broker, request)

    def stopped(self, replica: Replica) -> Replica:
        """A directory that has failed is not closed: neither flushed nor noted."""
        if not replica.offline:
            return super().stopped(replica)
        return attrs.evolve(self.survivor(replica, replica.log_end_offset), flushed=replica.flushed, offline=True)

    # --- rules of the controller -------------------------------------------------------------------------------------

    def is_active(self, controller: Controller, broker: int) -> bool:
        return super().is_active(controller, broker) and broker not in controller.offline

    def is_eligible_for_isr(self, controller: Controller, broker: int, broker_epoch: int) -> bool:
        return super().is_eligible_for_isr(controller, broker, broker_epoch) and broker not in controller.offline


def offline_is_out_of_sync(state: State) -> bool:
    """Who is offline is not in the ISR, and so does not lead."""
    return not set(state.controller.offline) & {*state.controller.isr, state.controller.leader}


INVARIANTS: Mapping[str, Invariant[State]] = {"OfflineIsOutOfSync": offline_is_out_of_sync}


# --- as it should not be ---------------------------------------------------------------------------------------------


@attrs.frozen
class ElectsTheOffline(Directories):
    """An eligible replica is elected though its directory has failed."""

    def is_active(self, controller: Controller, broker: int) -> bool:
        return ControlledShutdown.is_active(self, controller, broker)


@attrs.frozen
class NotesAllTheSame(Directories):
    """A broker that has lost a directory stops as if it had lost nothing."""

    def stopped(self, replica: Replica) -> Replica:
        kept = super().stopped(replica)
        return attrs.evolve(kept, stopped_cleanly_in=replica.broker_epoch)
