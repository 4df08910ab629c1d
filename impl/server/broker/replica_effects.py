"""What follows from a change of a replica: who is woken, and which part of the broker acts on it.

A replica's core returns effects (`impl.partition.messages.Effect`). The caller of a core calls `carry_out` right after
it. Nothing is awaited between the two, so that no other task sees a replica whose effects are still to come.

    effect                  woken                              acts
    HighWatermarkAdvanced   produces, consumers' fetches
    LogEndAdvanced          followers' fetches
    FollowerLogStartMoved   deletions
    IsrChanged              produces, followers' fetches
    LeadershipChanged       all                                the fetchers, the coordinators
    SendAlterPartition                                         the ISR proposals

A replica that goes away, with its log directory or by the metadata, wakes all too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from tidegauge.impl.partition.messages import (
    FollowerLogStartMoved,
    HighWatermarkAdvanced,
    IsrChanged,
    LeadershipChanged,
    LogEndAdvanced,
    SendAlterPartition,
)
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.purgatory import Purgatory
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.impl.storage.log_observer import LogUpkeep


class IsrProposer(Protocol):
    """Sends leaders' proposals to the controller."""

    def propose(self, partition: Partition) -> None:
        """Send the ISR that the replica's core proposes."""


class Fetchers(Protocol):
    """Fetch for the replicas that follow."""

    def leader_changed(self, partition: Partition) -> None:
        """A new leader epoch has begun: the replica may follow another leader now, or none."""

    def fetch_changed(self, partition: Partition) -> None:
        """The replica's next fetch is another one than its last, or there is none any more."""


class SegmentUpkeep(Protocol):
    """Flushes segments in the background, and removes the files of deleted ones."""

    def rolled(self, partition: Partition) -> None:
        """The log has closed a segment, which may be flushed."""

    def segments_deleted(self, partition: Partition) -> None:
        """The log has deleted segments, whose files are to be removed later."""


class DirectoryFailureObserver(Protocol):
    """Tells the controller which log directories have failed."""

    def directory_failed(self, directory: LogDirectory, lost: list[Partition]) -> None:
        """The directory is offline, and these replicas with it."""

    def replica_damaged(self, partition: Partition, reason: str) -> None:
        """The replica is offline, because its log is damaged."""

    def replica_withdrawn(self, partition: Partition, reason: str) -> None:
        """The replica is offline until the controller knows that its log is damaged."""

    def replica_held_back(self) -> None:
        """A replica waits until the controller knows its directory."""

    def replica_without_log(self, key: TopicPartition, partition: Partition | None) -> None:
        """The replica is offline, because its log cannot be opened, or made; None: it was not hosted before."""


class ReplicaEffects:
    """The requests that wait for a broker's replicas, and the parts of the broker that act on changes of them."""

    def __init__(self, clock: Clock) -> None:
        self.produces: Purgatory[TopicPartition] = Purgatory(clock)
        """Appends with acks=all."""
        self.fetches: Purgatory[TopicPartition] = Purgatory(clock)
        """Consumers' fetches."""
        self.follower_fetches: Purgatory[TopicPartition] = Purgatory(clock)
        """Followers' fetches. A log start that moves wakes them too (`ReplicaManager.delete_records`)."""
        self.deletions: Purgatory[TopicPartition] = Purgatory(clock)
        """DeleteRecords."""
        self._isr_proposals: IsrProposer | None = None
        self._fetchers: Fetchers | None = None
        self.coordinators: dict[str, Callable[[Partition], None]] = {}
        """By the internal topic that a coordinator has its log in: called when a new leader epoch has begun, or the
        replica is gone.
        """
        self._upkeep: SegmentUpkeep | None = None
        self._failures: DirectoryFailureObserver | None = None

    def attach(
        self,
        *,
        isr_proposals: IsrProposer,
        fetchers: Fetchers | None,
        upkeep: SegmentUpkeep,
        failures: DirectoryFailureObserver,
    ) -> None:
        """Name who acts on effects. They need the replicas themselves, so they come after them.
        `fetchers` is None where only a driver sends fetches.

        A directory that fails before that is told to nobody: the broker has not registered yet, and its registration
        tells the controller which directories it has.
        """
        self._isr_proposals, self._fetchers, self._upkeep, self._failures = isr_proposals, fetchers, upkeep, failures

    def carry_out(self, partition: Partition) -> None:
        """Do what the core asks for after a change."""
        if partition.is_offline or partition.is_removed:
            return
        key = partition.topic, partition.index
        for effect in partition.replica.take_effects():
            match effect:
                case HighWatermarkAdvanced():
                    self.produces.wake(key)
                    self.fetches.wake(key)
                    self.follower_fetches.note(key)
                case LogEndAdvanced():
                    self.follower_fetches.wake(key)
                case FollowerLogStartMoved():
                    self.deletions.wake(key)
                case IsrChanged():
                    self.produces.wake(key)
                    self.follower_fetches.wake(key)
                case LeadershipChanged():
                    self.wake_all(key)
                    if self._fetchers is not None:
                        self._fetchers.leader_changed(partition)
                    self._tell_coordinator(partition)
                case SendAlterPartition():
                    if self._isr_proposals is not None:
                        self._isr_proposals.propose(partition)

    def wake_all(self, key: TopicPartition) -> None:
        """Let every request that waits for the partition look again."""
        self.produces.wake(key)
        self.fetches.wake(key)
        self.follower_fetches.wake(key)
        self.deletions.wake(key)

    def _tell_coordinator(self, partition: Partition) -> None:
        tell = self.coordinators.get(partition.topic)
        if tell is not None:
            tell(partition)

    def log_start_moved(self, partition: Partition) -> None:
        """The log start has moved by itself: followers are to learn it, and so is the leader that this one follows."""
        self.follower_fetches.wake(partition.key)
        if self._fetchers is not None:
            self._fetchers.fetch_changed(partition)

    def gone(self, partition: Partition) -> None:
        """The replica is not here any more: wake all who wait for it, and fetch for it no more."""
        self.wake_all(partition.key)
        if self._fetchers is not None:
            self._fetchers.fetch_changed(partition)
        self._tell_coordinator(partition)

    def taken_offline(self, partition: Partition) -> None:
        """The replica has no log for now: wake all who wait for it."""
        self.wake_all(partition.key)
        self._tell_coordinator(partition)

    def rolled(self, partition: Partition) -> None:
        """A log has closed a segment."""
        if self._upkeep is not None:
            self._upkeep.rolled(partition)

    def segments_deleted(self, partition: Partition) -> None:
        """A log has deleted segments."""
        if self._upkeep is not None:
            self._upkeep.segments_deleted(partition)

    def replica_damaged(self, partition: Partition, reason: str) -> None:
        """A replica was given up: tell those who wait for it, and the controller."""
        self.wake_all(partition.key)
        self._tell_coordinator(partition)
        if self._failures is not None:
            self._failures.replica_damaged(partition, reason)

    def replica_withdrawn(self, partition: Partition, reason: str) -> None:
        """A replica is withdrawn: tell those who wait for it, and the controller."""
        self.gone(partition)
        if self._failures is not None:
            self._failures.replica_withdrawn(partition, reason)

    def replica_held_back(self) -> None:
        """A replica waits until the controller knows its directory: tell it."""
        if self._failures is not None:
            self._failures.replica_held_back()

    def replica_without_log(self, key: TopicPartition, partition: Partition | None) -> None:
        """A replica has no log: tell the controller, which may have made it the leader."""
        if self._failures is not None:
            self._failures.replica_without_log(key, partition)

    def directory_failed(self, directory: LogDirectory, lost: list[Partition]) -> None:
        """A log directory has failed: tell those who wait for its replicas, and the controller."""
        for partition in lost:
            self.gone(partition)
        if self._failures is not None:
            self._failures.directory_failed(directory, lost)


@attrs.frozen(eq=False, repr=False)
class HostedLogUpkeep(LogUpkeep):
    """The upkeep of a hosted partition's log."""

    effects: ReplicaEffects
    partition: Partition

    def rolled(self) -> None:
        self.effects.rolled(self.partition)

    def segments_deleted(self) -> None:
        self.effects.segments_deleted(self.partition)
