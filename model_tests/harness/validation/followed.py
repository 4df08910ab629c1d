"""What is known of one partition after the events of a trace that were followed so far.

The readers of events (`fetch_events`, `leader_events`, `broker_events`, `controller_events`) look at it to find the
actions that an event may stand for; `validation` takes those actions and moves it along.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation.markers import Decided
from tidegauge.model_tests.harness.validation.registrations import Registrations
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    Controller,
    FetchRequest,
    FetchResponse,
    State,
)


@attrs.frozen
class Settings:
    """The constants of the partition that the specification depends on."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    sequences: int = 1 << 31
    """What producers and brokers count sequences modulo."""
    damaging: frozenset[int] | None = None
    """The brokers whose disks may take what was on stable storage; None: any."""
    lied: frozenset[tuple[int, int]] | None = None
    """(broker, which of its processes' ends, from 0) at which a sync had lied that was told of; None: any."""
    damaged: frozenset[tuple[int, int]] | None = None
    """The same with damage to the disk; None: any."""
    decided: Decided | None = None
    """What the coordinator of each marker has decided; None: nobody has asked."""
    slowed: frozenset[int] | None = None
    """The brokers whose syncs took their time; None: any."""
    lacking: frozenset[int] | None = None
    """The brokers that have lacked room or descriptors; None: any."""


DEFAULTS: Final = Settings()
BEGINS_ANEW: Final = (
    events.CheckpointHighWatermark,
    events.RemoveReplica,
    events.Crash,
    events.Stop,
    events.Restart,
)
"""After these no checkpoint is on its way that began before."""


@attrs.define
class World:
    """What is known of the cluster before the partition exists: brokers, their incarnations, the controller's epoch."""

    epochs: dict[tuple[int, int], int] = attrs.field(factory=dict)
    """(broker, broker epoch in the cluster) -> its incarnations so far, as the specification counts them."""
    registrations: Counter[int] = attrs.field(factory=Counter)
    fenced: dict[int, bool] = attrs.field(factory=dict)
    running: dict[int, bool] = attrs.field(factory=dict)
    paused: set[int] = attrs.field(factory=set)
    registered: set[int] = attrs.field(factory=set)
    """Brokers whose present process has registered."""
    noted: dict[int, int] = attrs.field(factory=dict)
    """Broker that has stopped cleanly -> its incarnation then, as the note of that says."""
    controller_epoch: int = 0
    shutting_down: dict[int, bool] = attrs.field(factory=dict)
    unregistered: dict[int, bool] = attrs.field(factory=dict)

    def note(self, event: TraceEvent) -> None:
        match event.decision:
            case events.Register(broker=broker, broker_epoch=broker_epoch):
                self.note_registration(broker, broker_epoch)
                self.fenced[broker], self.running[broker], self.shutting_down[broker] = True, True, False
                self.unregistered[broker] = False
                self.registered.add(broker)
                self.noted.pop(broker, None)
            case events.UnregisterBroker(broker=broker):
                self.note_unregistration(broker)
                self.fenced[broker] = self.unregistered[broker] = True
                self.shutting_down[broker] = False
            case events.Unfence(broker=broker):
                self.fenced[broker] = False
            case events.ExpireSession(broker=broker):
                self.fenced[broker] = True
            case events.Shutdown(broker=broker) | events.GrantShutdown(broker=broker):
                self.fenced[broker] = self.shutting_down[broker] = True
            case events.BeginShutdown(broker=broker):
                self.shutting_down[broker] = True
            case events.Crash() | events.Stop() as end:
                self.running[event.node] = False
                self.paused.discard(event.node)
                self.noted.pop(event.node, None)
                if isinstance(end, events.Stop) and end.noted != NONE:
                    self.noted[event.node] = self.epochs[event.node, end.noted]
                self.registered.discard(event.node)
            case events.Pause():
                self.paused.add(event.node)
            case events.Resume():
                self.paused.discard(event.node)
            case events.Restart():
                self.running[event.node] = True
            case events.ControllerFailover(controller_epoch=epoch):
                self.controller_epoch = epoch

    def note_registration(self, broker: int, broker_epoch: int) -> None:
        """A new broker epoch is the broker's next incarnation."""
        self.epochs[broker, broker_epoch] = self.registrations[broker]
        self.registrations[broker] += 1

    def note_unregistration(self, broker: int) -> None:
        """An incarnation that no process has."""
        self.registrations[broker] += 1


class Followed:
    """The specification's state, and what the cluster has told of its nodes and messages."""

    def __init__(self, topic: str, partition: int, settings: Settings) -> None:
        self.topic, self.partition, self.settings = topic, partition, settings
        self.world = World()
        self.registrations = Registrations()
        self.machine: Replication | None = None
        self.state: State | None = None
        self.brokers: tuple[int, ...] = ()
        """All brokers of the cluster; the specification's ids are their places here."""
        self.actions: Counter[str] = Counter()
        self.taken: tuple[ReplicationAction, ...] = ()
        self.sent: dict[FetchRequest | AlterPartitionRequest, None] = {}
        """Every request that was ever sent."""
        self.arrivals: Counter[tuple[int, FollowerFetch]] = Counter()
        """How often a fetch is yet to arrive at a broker: a trace is read when it has ended."""
        self.responses: dict[FetchResponse, None] = {}
        """Responses to fetches that were sent, and that the follower has neither received nor given up."""
        self.refused: dict[FetchRequest, ErrorCode] = {}
        """Fetches that came to a broker without the replica, with the error that it responded."""
        self.metadata_offsets: dict[int, int] = {}
        """Broker -> how far its process has read the metadata log."""
        self.failed_directories: set[int] = set()
        """Brokers of whose directories one has failed, in the life of their processes."""
        self.failed_before: set[int] = set()
        """The same of the processes before those."""
        self.without_room: set[int] = set()
        """Brokers whose replica waits for room or descriptors, and refuses everybody."""
        self.ends: Counter[int] = Counter()
        """Broker -> how many of its processes have ended."""
        self.may_have_lied: set[int] = set()
        """Brokers whose disks have lied about a sync, and whose next processes have yet to open their logs."""
        self.found: dict[int, list[int]] = {}
        """Broker -> for each end of a process that is yet to come, where a damaged log is found to end."""
        self.may_write: dict[int, set[int]] = {}
        """Broker -> the high watermarks that its replica has had since it wrote one down: a slow disk may write any."""
        self.kept: dict[int, int] = {}
        self.written: list[tuple[int, Controller]] = []
        """The controller's word, by the end of the metadata log when it was written."""

    def may_have_written_unsaid(self, node: int) -> bool:
        """Whether a broker's disk was at work when it ended, as far as is known: it was slow, or has failed."""
        return self.settings.slowed is None or node in self.settings.slowed or node in self.failed_directories

    def ended(self, node: int) -> None:
        """A broker's process has ended."""
        self.found[node].pop()
        lied = self.settings.lied
        if lied is None or (node, self.ends[node]) in lied:
            self.may_have_lied.add(node)
        self.ends[node] += 1
        self.failed_before.discard(node)
        self.without_room.discard(node)
        if node in self.failed_directories:
            self.failed_directories.remove(node)
            self.failed_before.add(node)
        self.metadata_offsets.pop(node, None)

    def is_damaged_after_end(self, node: int) -> bool:
        """Whether the disk may be damaged before the next process of a broker that ends now."""
        return self.settings.damaged is None or (node, self.ends[node]) in self.settings.damaged

    def note_high_watermark(self, event: TraceEvent, state: State) -> None:
        """What a node's replica has after an event of that node; a new process and a new log begin anew."""
        if event.node in self.brokers:
            if isinstance(event.decision, BEGINS_ANEW):
                self.may_write.pop(event.node, None)
            had = self.may_write.setdefault(event.node, set())
            had.add(state.replicas[self.index(event.node)].high_watermark)

    def arrives_again(self, node: int, fetch: FollowerFetch) -> bool:
        """Note that a fetch has arrived at a broker; whether the same fetch, or a copy of it, will do so later."""
        self.arrivals[node, fetch] -= 1
        return self.arrivals[node, fetch] > 0

    def changed(self, decision: events.Decision) -> list[PartitionRegistration]:
        """What a decision of the controller made of this partition, if it changed it."""
        return [one.registration for one in self.changes(decision)]

    def changes(self, decision: events.Decision) -> list[events.ChangedPartition]:
        """How a decision of the controller changed this partition, and where the metadata log says so."""
        changed = decision.changed if isinstance(decision, events.ControllerDecision) else ()
        return [one for one in changed if (one.topic, one.partition) == (self.topic, self.partition)]

    def written_at(self, offset: int) -> Controller | None:
        """What the metadata log said of the partition up to an offset; None before it was created."""
        return next((written for end, written in reversed(self.written) if end <= offset), None)

    def index(self, broker: int) -> int:
        """The specification's id of a broker."""
        return self.brokers.index(broker) if broker != NONE else NONE

    def broker(self, index: int) -> int:
        return self.brokers[index] if index != NONE else NONE

    def incarnation(self, broker: int, broker_epoch: int) -> int:
        """The specification's broker epoch."""
        return NONE if broker_epoch == NONE else self.world.epochs[broker, broker_epoch]
