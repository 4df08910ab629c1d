"""Trace validation: what a cluster says that it decided must be a behaviour of the specification.

Theory of operation
-------------------
A cluster's trace is a list of decisions of all its nodes in the order in which they were taken. For one partition,
each event is turned into actions of `ComposedReplication` (a batch of n records is n Appends, a fetch response is found
among those on their way, ...), the actions are taken one after the other, and after each event three things must hold:

* the action was enabled: else the guard that failed is shown;
* what the event says of its outcome and of the node's state afterwards is what the specification says;
* no invariant has fallen.

The first event for which that is not so ends the validation: what came before is the longest matching prefix, and the
state there, the event and the reason are shown. Messages need no matching by hand: a message that was sent is in the
specification's network until it is received, in whatever order that happens. What a real network does beyond the
model is in `observed`, action by action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from tidegauge.model_tests.harness.validation import observed
from tidegauge.model_tests.harness.validation.observed_events import Untranslatable, actions_of
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.kernel.traces import fallen, fallen_step
from tidegauge.spec.replication.actions import ReceiveFetchResponse, ReplicationAction
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    Controller,
    FetchRequest,
    FetchResponse,
    Log,
    Replica,
    Session,
    State,
)

CHECKED = (
    *("leader", "leader_epoch", "partition_epoch", "controller_epoch"),
    *("log_end_offset", "high_watermark", "log_start", "isr", "pending_isr"),
)
"""What an event of a broker says of its replica right after it."""


WRITTEN = (
    *("leader", "leader_epoch", "partition_epoch", "isr", "elr", ""),
    *("replicas", "adding", "removing", "offline", ""),
)
"""What a decision of the controller says of a partition after its name; "" is not compared."""


class Event(Protocol):
    """A decision, as `impl.server.trace.TraceEvent` records it."""

    @property
    def time(self) -> int: ...
    @property
    def node(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def fields(self) -> Mapping[str, Any]: ...


@attrs.frozen
class Mismatch:
    """The first event that the specification does not allow."""

    position: int
    """The event's place in the whole trace, from 0."""
    event: Event
    reason: str
    """The guard that failed, the field that differs, or the invariant that fell."""
    state: State
    """The specification's state before the event."""
    actions: tuple[ReplicationAction, ...]
    """What the event was taken for."""

    def __str__(self) -> str:
        taken = "; ".join(plain(action) for action in self.actions) or "nothing in the specification"
        return f"event {self.position} ({self.event}): {self.reason}\n  taken for: {taken}"


@attrs.frozen
class Validated:
    """How far a partition's trace is a behaviour of the specification."""

    topic: str
    partition: int
    matched: int
    """Events of this partition that matched."""
    events: int
    """Events of this partition."""
    actions: Counter[str]
    """Actions taken, by name; those of `observed` show what the network did beyond the model."""
    mismatch: Mismatch | None
    kept: Mapping[int, int] = attrs.field(factory=dict)
    """Leader epoch -> for a leader that took over after an unclean election: where its log parts from what had been
    committed, and from the logs of those that still think they lead; what lies below survives."""

    @property
    def holds(self) -> bool:
        return self.mismatch is None

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        if self.mismatch is None:
            return f"{where}: all {self.events} events are a behaviour of the specification"
        return f"{where}: the first {self.matched} of {self.events} events match, then\n{self.mismatch}"


@attrs.frozen
class Settings:
    """The constants of the partition that the specification depends on."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False


class Wrong(Exception):  # noqa: N818 - a finding
    """The event is not what the specification says."""


def validate(trace: Sequence[Event], topic: str, partition: int, settings: Settings = Settings()) -> Validated:
    """Hold the events of one partition against the specification."""
    concerning = [(place, event) for place, event in enumerate(trace) if concerns(event, topic, partition)]
    follower = Follower(topic, partition, settings)
    for count, (place, event) in enumerate(concerning):
        before = follower.state
        try:
            follower.follow(event)
        except (Wrong, NotEnabled, Untranslatable) as wrong:
            reason = f"the guard fails: {wrong.guard}" if isinstance(wrong, NotEnabled) else str(wrong)
            state = before or follower.state
            assert state is not None, "until the partition exists nothing is held against it"
            mismatch = Mismatch(place, event, reason, state, follower.taken)
            return Validated(topic, partition, count, len(concerning), follower.actions, mismatch, follower.kept)
    return Validated(topic, partition, len(concerning), len(concerning), follower.actions, None, follower.kept)


def concerns(event: Event, topic: str, partition: int) -> bool:
    """Whether the event is the partition's, or a whole node's."""
    named = event.fields.get("topic")
    return named is None or (named == topic and event.fields.get("partition", partition) == partition)


def partitions(trace: Iterable[Event]) -> list[tuple[str, int]]:
    """The partitions that brokers learned of, in the order in which they did."""
    known = {(e.fields["topic"], e.fields["partition"]): None for e in trace if e.name == "ApplyMetadata"}
    return list(known)


@attrs.define
class World:
    """What is known of the cluster before the partition exists: brokers, their incarnations, the controller's epoch."""

    epochs: dict[tuple[int, int], int] = attrs.field(factory=dict)
    """(broker, broker epoch in the cluster) -> its incarnations so far, as the specification counts them."""
    registrations: Counter[int] = attrs.field(factory=Counter)
    fenced: dict[int, bool] = attrs.field(factory=dict)
    running: dict[int, bool] = attrs.field(factory=dict)
    controller_epoch: int = 0
    shutting_down: dict[int, bool] = attrs.field(factory=dict)

    def note(self, event: Event) -> None:
        broker = event.fields.get("broker", event.node)
        match event.name:
            case "Register":
                self.epochs[broker, event.fields["broker_epoch"]] = self.registrations[broker]
                self.registrations[broker] += 1
                self.fenced[broker], self.running[broker], self.shutting_down[broker] = True, True, False
            case "Unfence" | "LapseSession" | "Shutdown" | "GrantShutdown":
                self.fenced[broker] = event.name != "Unfence"
                self.shutting_down[broker] |= event.name in ("Shutdown", "GrantShutdown")
            case "BeginShutdown":
                self.shutting_down[broker] = True
            case "Crash" | "Restart" | "Stop":
                self.running[broker] = event.name == "Restart"
            case "ControllerFailover":
                self.controller_epoch = event.fields["controller_epoch"]


class Follower:
    """The specification's state, moved along the trace."""

    def __init__(self, topic: str, partition: int, settings: Settings) -> None:
        self.topic, self.partition, self.settings = topic, partition, settings
        self.world = World()
        self.machine: Replication | None = None
        self.state: State | None = None
        self.brokers: tuple[int, ...] = ()
        """All brokers of the cluster; the specification's ids are their places here."""
        self.actions: Counter[str] = Counter()
        self.taken: tuple[ReplicationAction, ...] = ()
        self.sent: dict[FetchRequest | AlterPartitionRequest, None] = {}
        """Every request that was ever sent, to know a late one."""
        self.answers: dict[FetchResponse, None] = {}
        """Answers to fetches that were sent and that nobody has received, nor given up."""
        self.refused: dict[FetchRequest, str] = {}
        """Fetches that came to a broker without the replica, and what was answered."""
        self.heard: dict[int, int] = {}
        """Broker -> how far its process has read the metadata log."""
        self.failed_directories: set[int] = set()
        """Brokers of whose directories one has failed, in the life of their processes."""
        self.kept: dict[int, int] = {}
        self._written: list[tuple[int, Controller]] = []
        """The controller's word, by the end of the metadata log when it was written."""

    def follow(self, event: Event) -> None:
        """Take one event's actions. Raises Wrong, NotEnabled or Untranslatable."""
        self.taken = ()
        self._follow(event)
        if event.name == "LogDirectoryFailed":
            self.failed_directories.add(event.node)
        elif event.name in ("Crash", "Stop"):
            self.failed_directories.discard(event.node)
            self.heard.pop(event.node, None)

    def _follow(self, event: Event) -> None:
        if self.state is None:
            if event.name in ("CreateTopic", "CreatePartitions") and self.changed(event):
                self._create(*self.changed(event)[0])
            else:
                self.world.note(event)
            return
        if event.name == "Register":
            broker = event.fields["broker"]
            self.world.epochs[broker, event.fields["broker_epoch"]] = self.world.registrations[broker]
            self.world.registrations[broker] += 1
        failed: Exception = Wrong("no message on its way is what this event received")
        for choice in actions_of(event, self):
            try:
                self._take(event, choice)
            except (Wrong, NotEnabled) as wrong:
                failed = wrong
                continue
            return
        raise failed

    def changed(self, event: Event) -> list[tuple[Any, ...]]:
        """What the controller's decision made of this partition, if it changed it."""
        return [one for one in event.fields.get("changed", ()) if one[:2] == (self.topic, self.partition)]

    def written_at(self, offset: int) -> Controller | None:
        """What the metadata log said of the partition up to an offset; None before it was created."""
        return next((written for end, written in reversed(self._written) if end <= offset), None)

    def _create(
        self,
        _topic: str,
        _partition: int,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
        elr: tuple[int, ...],
        _last_known: int,
        replicas: tuple[int, ...],
        _adding: tuple[int, ...],
        _removing: tuple[int, ...],
        _offline: tuple[int, ...],
        end: int,
    ) -> None:
        """The partition just created: the controller has written it, and no broker knows it yet."""
        world = self.world
        self.brokers = tuple(sorted(world.registrations))
        self.machine = observed.ObservedReplication(
            brokers=len(self.brokers),
            max_records=1_000_000_000,
            min_insync_replicas=self.settings.min_insync_replicas,
            unclean_leader_election=self.settings.unclean_leader_election,
            long_polls=True,
            bounds=observed.UNBOUNDED,
        )
        incarnations = {b: world.registrations[b] - 1 for b in self.brokers}
        sessions = (Session(incarnations[b], world.fenced[b], world.shutting_down[b]) for b in self.brokers)
        controller = Controller(
            world.controller_epoch,
            tuple(sessions),
            leader=self.index(leader),
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            isr=tuple(sorted(map(self.index, isr))),
            elr=tuple(sorted(map(self.index, elr))),
            last_known_leader=self.index(leader),
            replicas=tuple(map(self.index, replicas)),
            min_insync=self.settings.min_insync_replicas,
            elects_uncleanly=self.settings.unclean_leader_election,
        )
        hosts = (Replica(running=world.running[b], broker_epoch=incarnations[b]) for b in self.brokers)
        self.state = State(tuple(hosts), controller)
        self._written.append((end, controller))

    def _take(self, event: Event, choice: Sequence[Callable[[State], ReplicationAction]]) -> None:
        """All of one event's actions, or none of them."""
        assert self.machine is not None
        assert self.state is not None
        state, taken = self.state, []
        for make in choice:
            action = make(state)
            taken.append(action)
            self.taken = tuple(taken)
            after = observed.step(self.machine, state, action)
            fell = next(fallen_step(self.machine, state, action, after), None)
            if fell := fell or next(fallen(self.machine, after), None):
                raise Wrong(f"{fell} falls: {plain_values(self.machine.explain(fell, after))}")
            state = after
        self._compare(event, state)
        if self.state.history.unsettled and not state.history.unsettled:
            epoch, kept = surviving(self.state, state, self.index(event.node))
            self.kept[epoch] = kept
        self.state = state
        self.actions.update(action.name for action in taken)
        self.sent.update(dict.fromkeys((*state.network.fetches, *state.network.alters)))
        self._note_answers(state, taken)
        if event.name == "ControllerFailover":
            self._written.append((event.fields["metadata_offset"], state.controller))
        for changed in self.changed(event):
            self._written.append((changed[-1], state.controller))

    def _note_answers(self, state: State, taken: Sequence[ReplicationAction]) -> None:
        """What was answered, until it is received or nobody waits for it."""
        self.answers.update(dict.fromkeys(state.network.fetch_responses))
        for action in taken:
            if isinstance(action, ReceiveFetchResponse):
                self.answers.pop(action.response, None)
            elif isinstance(action, observed.AbandonFetch):
                self.answers = {one: None for one in self.answers if one.request != action.request}

    def _compare(self, event: Event, state: State) -> None:
        """The node's own account of itself against the specification's."""
        changed = self.changed(event)
        if changed:
            self._compare_controller(changed[0], state.controller)
        elif "changed" in event.fields and self.state is not None:
            before, after = self.state.controller.partition_epoch, state.controller.partition_epoch
            if before != after:
                raise Wrong(f"the controller wrote nothing, the specification partition epoch {after}")
        if "log_end_offset" not in event.fields:
            return
        replica = state.replicas[self.index(event.node)]
        for name in (name for name in CHECKED if name in event.fields):
            said, expected = event.fields[name], self._seen(name, replica)
            if said != expected:
                raise Wrong(f"{name} is {plain(said)} at broker {event.node}, {plain(expected)} in the specification")

    def _compare_controller(self, changed: tuple[Any, ...], controller: Controller) -> None:
        for name, said in zip(WRITTEN, changed[2:], strict=True):
            expected: Any = said if name == "" else getattr(controller, name)
            if name == "leader":
                expected = self.broker(expected)
            elif isinstance(expected, tuple) and name:
                expected = tuple(map(self.broker, expected))
            if said != expected:
                raise Wrong(f"the controller wrote {name} {plain(said)}, the specification {plain(expected)}")

    def _seen(self, name: str, replica: Replica) -> Any:
        """A field of the specification's replica in the cluster's terms."""
        value = getattr(replica, name)
        if name == "leader":
            return self.broker(value)
        if name == "isr":
            return tuple(sorted(self.broker(index) for index in value))
        if name == "pending_isr":
            return tuple(sorted(self.broker(index) for index in value)) if value else None
        return value

    def index(self, broker: int) -> int:
        """The specification's id of a broker."""
        return self.brokers.index(broker) if broker != NONE else NONE

    def broker(self, index: int) -> int:
        return self.brokers[index] if index != NONE else NONE

    def incarnation(self, broker: int, broker_epoch: int) -> int:
        """The specification's broker epoch."""
        return NONE if broker_epoch == NONE else self.world.epochs[broker, broker_epoch]


def surviving(before: State, after: State, broker: int) -> tuple[int, int]:
    """A leader took over after an unclean election: (its epoch, the offset below which everything survives)."""
    leader = after.replicas[broker]
    kept = leader.log_end_offset
    committed = before.history.committed
    if common_prefix(leader.log, committed) < len(committed):
        kept = common_prefix(leader.log, committed)
    for other, replica in enumerate(after.replicas):
        if replica.leader == other and replica.running and replica.leader_epoch < leader.leader_epoch:
            kept = min(kept, common_prefix(leader.log, replica.log))
    return leader.leader_epoch, kept


def common_prefix(one: Log, other: Log) -> int:
    """How many records the two have in common from the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((offset for offset, (own, theirs) in pairs if own != theirs), min(len(one), len(other)))


def plain_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items())
