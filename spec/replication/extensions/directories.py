"""Log directories that fail: a broker that lives on without one of its replicas (KIP-112, KIP-858).

Theory of operation
-------------------
A log directory whose disk fails is offline until its broker starts again: nobody knows what of it is on stable storage.
The replicas in it are gone for that process. It leads and follows none of them, responds for them with
KAFKA_STORAGE_ERROR, and goes on with the others; its session does not expire.

So nothing takes such a replica out of the ISR but its broker's report. When the controller has it, the replica is
*offline*: it leaves the ISR and leads no more, as if its broker had been fenced. It stays eligible (ELR), for what it
holds is not lost as far as anybody knows, but it is not elected while it is offline. Unflushed records may be gone all
the same: the next process of the broker finds what the disk kept. It is no process that has stopped cleanly, whatever
its other directories say, and so it is neither in sync nor eligible before it has caught up.

Where the metadata take such a replica away nothing can be deleted: the failed directory keeps the log (`LeftLog`). The
process has no part in it any more. Its successor finds the log as that of any replica, and deletes it when it reads
that it has none. A replica that is given back before is made anew in another directory, and what was left counts no
more.

The extension requires `ControlledShutdown`: a process that ends with a failed directory does not stop cleanly. It adds
to the controller which replicas are offline, to a replica that its directory has failed, and to one that was taken away
what is left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import BrokerAction, ReplicationAction
from tidegauge.spec.replication.control import committed, with_metadata
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    BrokerId,
    Controller,
    ControllerPart,
    Error,
    FetchRequest,
    Log,
    PartitionMetadata,
    Replica,
    State,
)

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class OfflineReplicas(ControllerPart):
    """Of the controller: replicas whose log directory has failed, as far as their brokers have reported."""

    brokers: tuple[int, ...] = ()

    def only_on(self, replicas: tuple[int, ...]) -> OfflineReplicas:
        return OfflineReplicas(tuple(b for b in self.brokers if b in replicas))


@attrs.frozen
class FailedDirectory(Part):
    """Of a replica: its log directory has failed in the life of the process."""

    failed: bool = False


@attrs.frozen
class LeftLog(Part):
    """Of a replica that was taken away after its log directory failed: what the directory still has of it."""

    replica: Replica | None = None


def has_failed(replica: Replica) -> bool:
    return FailedDirectory.of(replica).failed


def offline(controller: Controller) -> tuple[int, ...]:
    return OfflineReplicas.of(controller).brokers


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class FailDirectory(BrokerAction):
    """The disk of a replica's log fails: its broker has no such replica any more."""

    bounded_as: ClassVar[str] = "FailDirectory"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more directory failures in this model"
        return machine.not_hosting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        lost = evolve(
            with_part(replica, FailedDirectory(failed=True)),
            leader=NONE,
            isr=(),
            epoch_start_offset=NONE,
            remote=(),
            pending_isr=(),
            outstanding=(),
            pulled=None,
        )
        return state.with_replica(self.broker, lost).spend(self.bounded_as)


@attrs.frozen
class ReplicaOffline(BrokerAction):
    """A broker reports to the controller that the directory of its replica has failed."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if self.broker in offline(state.controller):
            known = f"the replica of broker {self.broker} is offline"
            return Refusal(known, Error.OK) if has_failed(replica) else known
        if is_registered(state, self.broker) and not has_failed(replica):
            return f"the log directory of broker {self.broker} works"
        if self.broker not in machine.replica_order(state.controller):
            return f"broker {self.broker} has no replica, as far as the controller knows"
        return "" if has_failed(replica) else f"broker {self.broker} has reported nothing of its log directory"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        controller = machine.without(state.controller, self.broker, clean=True)
        brokers = tuple(sorted((*offline(controller), self.broker)))
        controller, unclean = machine.with_leader(with_part(controller, OfflineReplicas(brokers)))
        return committed(state, controller, unclean=unclean)


@attrs.frozen
class ReplicaOnline(BrokerAction):
    """A broker reports to the controller that it has a replica in a directory that works."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.broker not in offline(state.controller):
            return Refusal(f"the replica of broker {self.broker} is not offline", Error.OK)
        if not is_registered(state, self.broker):
            return f"broker {self.broker} has not registered"
        return not_acting(state, self.broker) or _failed(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        brokers = tuple(b for b in offline(state.controller) if b != self.broker)
        controller, unclean = machine.with_leader(with_part(state.controller, OfflineReplicas(brokers)))
        return committed(state, controller, unclean=unclean)


def is_registered(state: State, broker: int) -> bool:
    """Whether the broker's process is the one that the controller knows."""
    return state.replicas[broker].broker_epoch == state.controller.sessions[broker].broker_epoch


def _failed(state: State, broker: int) -> str:
    return f"the log directory of broker {broker} has failed" if has_failed(state.replicas[broker]) else ""


@attrs.frozen
class LoseTail(ReplicationAction):
    """A broker has stopped; its failed directory turns out to have kept less than there was."""

    fair: ClassVar[bool] = False

    broker: BrokerId
    kept: int

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        for broker, replica in enumerate(state.replicas):
            if has_failed(replica) and not replica.running:
                yield from (cls(broker, kept) for kept in range(replica.flushed, replica.log_end_offset))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.running or not has_failed(replica):
            return f"broker {self.broker} has not stopped with a failed directory"
        if not replica.flushed <= self.kept < replica.log_end_offset:
            return f"the disk of broker {self.broker} has {replica.flushed} to {replica.log_end_offset} records"
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        return state.with_replica(self.broker, evolve(replica, log=replica.log[: self.kept], flushed=self.kept))


@attrs.frozen
class LoseNote(BrokerAction):
    """A broker has stopped cleanly as far as this log goes; another of its directories had failed, and has no note."""

    fair: ClassVar[bool] = False

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.running or CleanStop.of(replica).broker_epoch == NONE:
            return f"broker {self.broker} has not stopped cleanly"
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, with_part(state.replicas[self.broker], CleanStop()))


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Directories(ReplicationExtension):
    """Log directories that fail alone."""

    requires: ClassVar[tuple[type[Extension], ...]] = (ControlledShutdown,)
    action_types: ClassVar[tuple[type[Action], ...]] = (
        FailDirectory,
        ReplicaOffline,
        ReplicaOnline,
        LoseTail,
        LoseNote,
    )
    cutting_types: ClassVar[tuple[type[Action], ...]] = (LoseTail,)
    part_types: ClassVar[tuple[type[Part], ...]] = (OfflineReplicas, FailedDirectory, LeftLog)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return INVARIANTS

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return STEP_INVARIANTS

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        if not machine.bounds["FailDirectory"]:
            return {}
        return {
            "a replica has lost its directory while it leads": lambda s: (
                s.controller.leader != NONE and has_failed(s.replicas[s.controller.leader])
            ),
            "a replica is offline and its broker live": lambda s: any(
                not s.controller.sessions[broker].fenced for broker in offline(s.controller)
            ),
        }

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return {"the controller knows which directories work": directories_are_known(machine)}

    # --- rules of the broker -----------------------------------------------------------------------------------------

    def fetch_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, FetchRequest], Error],
        leader: Replica,
        broker: int,
        request: FetchRequest,
    ) -> Error:
        """There is no log to fetch from."""
        return Error.KAFKA_STORAGE_ERROR if has_failed(leader) else inner(leader, broker, request)

    def not_hosting(
        self, machine: ReplicationRules, inner: Callable[[State, int], str], state: State, broker: int
    ) -> str:
        return inner(state, broker) or _failed(state, broker)

    def stopped(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        """A directory that has failed is not closed: neither flushed nor noted."""
        if not has_failed(disk := machine.on_disk(replica)):
            return inner(replica)
        kept = evolve(machine.survivor(disk, disk.log_end_offset), flushed=disk.flushed)
        return with_part(kept, FailedDirectory(failed=True))

    def taken_away(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        """Nothing can be deleted in a directory that has failed: the next process finds the log there."""
        disk = machine.on_disk(replica)
        if not has_failed(disk):
            return inner(replica)
        left = evolve(machine.survivor(disk, disk.log_end_offset), flushed=disk.flushed)
        return with_part(inner(replica), LeftLog(with_part(left, FailedDirectory(failed=True))))

    def on_disk(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return LeftLog.of(replica).replica or inner(replica)

    def restarted(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        """A new process has its directory back, with what the disk kept."""
        return with_part(inner(replica), FailedDirectory())

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        """A replica without its log neither leads nor follows, whatever the metadata say.

        One that is given back is made anew in another directory. What the failed one has of it counts no more.
        """
        if has_failed(replica):
            return state.with_replica(broker, with_metadata(machine, replica, metadata))
        return inner(state, broker, with_part(replica, LeftLog()), metadata)

    # --- rules of the controller -------------------------------------------------------------------------------------

    def is_active(
        self, machine: ReplicationRules, inner: Callable[[Controller, int], bool], controller: Controller, broker: int
    ) -> bool:
        return inner(controller, broker) and broker not in offline(controller)

    def is_eligible_for_isr(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, int, int], bool],
        controller: Controller,
        broker: int,
        broker_epoch: int,
    ) -> bool:
        return inner(controller, broker, broker_epoch) and broker not in offline(controller)


def directories_are_known(machine: ReplicationRules) -> Invariant[State]:
    """A replica of a live broker is offline if, and only if, its directory has failed; who has none reports nothing."""

    def holds(state: State) -> bool:
        return all(
            has_failed(state.replicas[broker]) == (broker in offline(state.controller))
            for broker in machine.replica_order(state.controller)
            if state.replicas[broker].running
        )

    return holds


def offline_is_out_of_sync(state: State) -> bool:
    """A replica that is offline is not in the ISR, and so does not lead."""
    return not set(offline(state.controller)) & {*state.controller.isr, state.controller.leader}


INVARIANTS: Mapping[str, Invariant[State]] = {"OfflineIsOutOfSync": offline_is_out_of_sync}


def failed_keeps_its_log(before: State, action: Action, after: State) -> bool:
    """In the life of a process nothing of a log changes in a directory that has failed.

    It may be forgotten: a replica that was taken away from there is made anew elsewhere when it is given back.
    """
    return all(
        log_that_failed(new) == left or (not has_failed(old) and not log_that_failed(new))
        for old, new in zip(before.replicas, after.replicas, strict=True)
        if new is not old and old.running and new.running and (left := log_that_failed(old))
    )


def log_that_failed(replica: Replica) -> Log:
    """The log of a replica, or of one that was taken away, in a directory that has failed."""
    left = LeftLog.of(replica).replica
    return replica.log if has_failed(replica) else left.log if left is not None else ()


STEP_INVARIANTS: Mapping[str, StepInvariant[State]] = {"FailedKeepsItsLog": failed_keeps_its_log}
