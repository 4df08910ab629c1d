"""Trace validation: the decisions that a cluster recorded must be a behaviour of the specification.

Theory of operation
-------------------
A cluster's trace is a list of decisions of all its nodes in the order in which they were taken. For one partition,
each event is turned into actions of `ComposedReplication` (a batch of n records is n Appends, a fetch response is found
among those on their way, ...), the actions are taken one after the other, and after each event three things must hold:

* the action was enabled: else the guard that failed is shown;
* what the event says of its outcome and of the node's state afterwards is what the specification says;
* no invariant is violated.

The first event for which that is not so ends the validation: what came before is the longest matching prefix, and the
state there, the event and the reason are shown. Messages need no matching by hand: a message that was sent is in the
specification's network until it is received, in whatever order that happens. What a real network does beyond the
model is in `observed`, action by action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

import attrs

from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.trace import coordination, events, groups
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation import observed
from tidegauge.model_tests.harness.validation.behaviour import Behaviour
from tidegauge.model_tests.harness.validation.contents import Contents
from tidegauge.model_tests.harness.validation.followed import DEFAULTS, Followed, Settings
from tidegauge.model_tests.harness.validation.incarnations import succeeds_another
from tidegauge.model_tests.harness.validation.observed_events import Untranslatable, ways_of
from tidegauge.model_tests.harness.validation.producers import Remembering
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.explaining import told
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.kernel.parts import parts_of
from tidegauge.spec.kernel.traces import Step as TraceStep
from tidegauge.spec.kernel.traces import Trace, first_violated
from tidegauge.spec.replication.actions import ReceiveFetchResponse, ReplicationAction
from tidegauge.spec.replication.extensions.directories import offline
from tidegauge.spec.replication.extensions.lost_logs import lost
from tidegauge.spec.replication.extensions.reassignment import Assignment, assigned
from tidegauge.spec.replication.extensions.retention import knows_below, log_start_of
from tidegauge.spec.replication.extensions.settings import TopicSettings
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ShuttingDown
from tidegauge.spec.replication.extensions.unregistering import Unregistered
from tidegauge.spec.replication.state import (
    NONE,
    Controller,
    Log,
    Replica,
    Session,
    State,
)

REGISTERED: Mapping[str, Callable[[Controller], object]] = {
    **{name: attrgetter(name) for name in ("leader", "leader_epoch", "partition_epoch", "isr", "elr")},
    "replicas": assigned,
    "adding_replicas": lambda controller: Assignment.of(controller).adding,
    "removing_replicas": lambda controller: Assignment.of(controller).removing,
    "offline_replicas": offline,
    "lost_replicas": lost,
}
"""Fields of a registration that are compared -> the same in the specification."""


@attrs.frozen
class Mismatch:
    """The first event that the specification does not allow."""

    position: int
    """The event's place in the whole trace, from 0."""
    event: TraceEvent
    reason: str
    """The guard that failed, the field that differs, or the invariant that is violated."""
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
    lossless: frozenset[int] = frozenset()
    """The epochs of those of them that have all that had been committed."""
    behaviour: Behaviour | None = attrs.field(default=None, eq=False)
    """What was followed, where it was to be kept, and the partition was there."""

    @property
    def holds(self) -> bool:
        return self.mismatch is None

    @property
    def name(self) -> str:
        """The partition's, as Kafka has it."""
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        if self.mismatch is None:
            return f"{self.name}: all {self.events} events are a behaviour of the specification"
        decision = f"decision {self.matched + 1} of {self.events}"
        return f"{self.name}: {decision} is no behaviour of the specification:\n{self.mismatch}"


def validate(
    trace: Sequence[TraceEvent],
    topic: str,
    partition: int,
    settings: Settings = DEFAULTS,
    reached: Callable[[int, State], None] | None = None,
    *,
    kept: bool = False,
) -> Validated:
    """Validate the events of one partition against the specification.

    `reached` is called with the place of each event and the state after it. With `kept` the result has all states and
    actions: they take more memory than the events.
    """
    concerning = [(place, event) for place, event in enumerate(trace) if concerns(event, topic, partition)]
    validator = Validator(topic, partition, settings, succeeds=succeeds_another(trace, topic), kept=kept)
    validator.arrivals.update(
        (event.node, event.decision.fetch)
        for _, event in concerning
        if isinstance(event.decision, events.ReceiveFetch | events.HoldFetch)
    )
    validator.found.update(found_by_next(trace, topic, partition))
    for count, (place, event) in enumerate(concerning):
        before = validator.state
        try:
            validator.follow(event)
            if reached is not None and validator.state is not None and validator.state is not before:
                reached(place, validator.state)
        except (Wrong, NotEnabled, Untranslatable) as wrong:
            reason = f"the guard fails: {wrong.guard}" if isinstance(wrong, NotEnabled) else str(wrong)
            state = before or validator.state
            assert state is not None, "until the partition exists nothing is validated"
            mismatch = Mismatch(place, event, reason, state, validator.taken)
            return validator.validated(count, len(concerning), mismatch)
    return validator.validated(len(concerning), len(concerning), None)


def found_by_next(trace: Sequence[TraceEvent], topic: str, partition: int) -> dict[int, list[int]]:
    """Broker -> for each end of its processes, the last one first, where the next one finds the log to end.

    Damage may hide that from who looks at the disk when the process ends, also where it lies below the log's start.
    """
    found: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    for event in reversed(trace):
        match event.decision:
            case events.DamageFound(damaged=damaged):
                mine = (one.log_end_offset for one in damaged if (one.topic, one.partition) == (topic, partition))
                ends[event.node] = max(mine, default=ends.get(event.node, 0))
            case events.Restart(topic=name, partition=index, state=state) if (name, index) == (topic, partition):
                ends[event.node] = state.log_end_offset
            case events.Crash() | events.Stop():
                found.setdefault(event.node, []).append(ends.pop(event.node, 0))
    return found


def concerns(event: TraceEvent, topic: str, partition: int) -> bool:
    """Whether the event is the partition's, its topic's, or a whole node's."""
    match event.decision:
        case events.OfPartition() | events.PartitionDecision() as decision:
            return (decision.topic, decision.partition) == (topic, partition)
        case events.TopicDecision() as decision:
            return decision.topic == topic
        case coordination.OfCoordinator() | groups.OfGroups():
            return False
        case _:
            return True


def partitions(trace: Iterable[TraceEvent]) -> list[tuple[str, int]]:
    """The partitions that brokers learned of, in the order in which they did."""
    known: dict[tuple[str, int], None] = {}
    for event in trace:
        if isinstance(event.decision, events.ApplyMetadata):
            known[event.decision.topic, event.decision.partition] = None
    return list(known)


class Validator(Followed):
    """Moves the specification's state along the trace."""

    def __init__(
        self, topic: str, partition: int, settings: Settings, *, succeeds: bool = False, kept: bool = False
    ) -> None:
        """`succeeds`: a topic of the same name was deleted before. `kept`: the behaviour is part of the result."""
        super().__init__(topic, partition, settings)
        self.walked: list[TraceStep[State]] | None = [] if kept else None
        self.stepped: list[TraceStep[State]] = []
        """What the last event was taken for, with the states after it."""
        self.created: State | None = None
        self.contents = Contents()
        self.remembering = Remembering(settings.sequences, succeeds=succeeds, decided=settings.decided)
        self.lossless: set[int] = set()

    def validated(self, matched: int, of: int, mismatch: Mismatch | None) -> Validated:
        """The result after so many of so many events."""
        lossless = frozenset(self.lossless)
        behaviour = self._behaviour(tried=mismatch is not None)
        return Validated(
            self.topic, self.partition, matched, of, self.actions, mismatch, self.kept, lossless, behaviour
        )

    def _behaviour(self, *, tried: bool) -> Behaviour | None:
        """What was followed, and with `tried` what the last event was taken for."""
        if self.walked is None or self.created is None or self.machine is None:
            return None
        steps = (*self.walked, *self.stepped) if tried else self.walked
        return Behaviour(self.machine, Trace(self.created, tuple(steps)))

    def follow(self, event: TraceEvent) -> None:
        """Take one event's actions. Raises Wrong, NotEnabled or Untranslatable."""
        self.taken, self.stepped = (), []
        if (unreasonable := self.registrations.follow(event)) and self.state is not None:
            raise Wrong(unreasonable)
        waits = event.node in self.without_room and not isinstance(event.decision, events.HasRoom)
        if isinstance(event.decision, events.OfReplica) and waits:
            raise Wrong(f"the replica of broker {event.node} waits for room, and does nothing until it has it")
        self._follow(event)
        self.remembering.follow(event, self.topic, self.partition)
        if isinstance(event.decision, events.LogDirectoryFailed):
            self.failed_directories.add(event.node)
        elif isinstance(event.decision, events.Crash | events.Stop):
            self.ended(event.node)
        elif isinstance(event.decision, events.Register):
            self.may_have_lied.discard(event.decision.broker)
        if self.walked is not None:
            self.walked += self.stepped

    def _follow(self, event: TraceEvent) -> None:
        if self.state is None:
            created = isinstance(event.decision, events.CreateTopic | events.CreatePartitions)
            if created and (changed := self.changes(event.decision)):
                self._create(changed[0])
            else:
                self.world.note(event)
            return
        if isinstance(event.decision, events.Register):
            self.world.note_registration(event.decision.broker, event.decision.broker_epoch)
        elif isinstance(event.decision, events.UnregisterBroker):
            self.world.note_unregistration(event.decision.broker)
        failed: Exception = Wrong("no message on its way is what this event received")
        for choice in ways_of(event, self):
            try:
                self._take(event, choice)
            except (Wrong, NotEnabled) as wrong:
                failed = wrong
                continue
            return
        raise failed

    def _create(self, created: events.ChangedPartition) -> None:
        """The partition just created: the controller has written it, and no broker knows it yet."""
        registration = created.registration
        world = self.world
        self.brokers = tuple(sorted(world.registrations))
        self.machine = observed.observed_machine(
            len(self.brokers),
            self.settings.min_insync_replicas,
            unclean_leader_election=self.settings.unclean_leader_election,
        )
        incarnations = {b: world.registrations[b] - 1 for b in self.brokers}
        sessions = (
            Session(
                incarnations[b],
                world.fenced[b],
                parts_of(ShuttingDown(world.shutting_down[b]), Unregistered(world.unregistered[b])),
            )
            for b in self.brokers
        )
        controller = Controller(
            world.controller_epoch,
            tuple(sessions),
            leader=self.index(registration.leader),
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            isr=tuple(sorted(map(self.index, registration.isr))),
            elr=tuple(sorted(map(self.index, registration.elr))),
            last_known_leader=self.index(registration.leader),
            parts=parts_of(
                Assignment(tuple(map(self.index, registration.replicas))),
                TopicSettings(self.settings.min_insync_replicas, self.settings.unclean_leader_election),
            ),
        )
        self.state = self.created = State(tuple(self._host(b, incarnations[b]) for b in self.brokers), controller)
        self.written.append((created.metadata_offset, controller))

    def _host(self, broker: int, incarnation: int) -> Replica:
        """What a broker has of the partition that was just created: nothing, whatever its process has gone through."""
        world = self.world
        if broker not in world.registered:
            note = parts_of(CleanStop(world.noted[broker])) if broker in world.noted else ()
            return Replica(running=world.running.get(broker, False), paused=broker in world.paused, parts=note)
        registered = parts_of(observed.RegisteredBefore(is_before=True))
        return Replica(paused=broker in world.paused, broker_epoch=incarnation, parts=registered)

    def _take(self, event: TraceEvent, choice: Sequence[Callable[[State], ReplicationAction]]) -> None:
        """All of one event's actions, or none of them."""
        assert self.machine is not None
        assert self.state is not None
        state, taken = self.state, []
        self.stepped = []
        for make in choice:
            action = make(state)
            taken.append(action)
            self.taken = tuple(taken)
            after = observed.step(self.machine, state, action)
            self.stepped.append(TraceStep(action, after))
            if (found := first_violated(self.machine, state, action, after)) is not None:
                name, values = found
                raise Wrong(f"{name} is violated: {'; '.join(told(values))}")
            state = after
        self._compare(event, state)
        if self.state.history.unsettled and not state.history.unsettled:
            leader = self.index(event.node)
            epoch, kept = surviving(self.state, state, leader)
            self.kept[epoch] = kept
            committed = self.state.history.committed
            if common_prefix(state.replicas[leader].log, committed) == len(committed):
                self.lossless.add(epoch)
        self.state = state
        self.note_high_watermark(event, state)
        self.actions.update(action.name for action in taken)
        self.sent.update(dict.fromkeys((*state.network.fetches, *state.network.alters)))
        self._note_responses(state, taken)
        if isinstance(event.decision, events.ControllerFailover | events.DeleteTopic):
            self.written.append((event.decision.metadata_offset, state.controller))
        for changed in self.changes(event.decision):
            self.written.append((changed.metadata_offset, state.controller))

    def _note_responses(self, state: State, taken: Sequence[ReplicationAction]) -> None:
        """Keep each response until it is received, or its follower no longer waits for it."""
        self.responses.update(dict.fromkeys(state.network.fetch_responses))
        for action in taken:
            if isinstance(action, ReceiveFetchResponse):
                self.responses.pop(action.response, None)
            elif isinstance(action, observed.AbandonFetch):
                self.responses = {one: None for one in self.responses if one.request != action.request}

    def _compare(self, event: TraceEvent, state: State) -> None:
        """The node's own account of itself against the specification's."""
        decision = event.decision
        if isinstance(decision, events.ControllerDecision) and not isinstance(decision, events.DeleteTopic):
            self._compare_controller(self.changed(decision), state.controller)
        elif isinstance(decision, events.OfReplica):
            replica = state.replicas[self.index(event.node)]
            said: dict[str, object] = attrs.asdict(decision.state, recurse=False)
            del said["last_stable_offset"]  # replication knows of no transactions: `producers` looks at it
            if isinstance(decision, events.HasRoom):
                said = {name: said[name] for name in ("log_end_offset", "high_watermark", "log_start")}
            if isinstance(decision, events.ApplyMetadata):
                said["controller_epoch"] = decision.controller_epoch
            if isinstance(decision, events.Restart):
                said["log_start_epoch"] = decision.log_start_epoch
            for name, value in said.items():
                expected = self._seen(name, replica)
                if value != expected:
                    where = f"broker {event.node}"
                    raise Wrong(f"{name} is {plain(value)} at {where}, {plain(expected)} in the specification")
            self.contents.compare(decision, replica)

    def _compare_controller(self, changed: Sequence[PartitionRegistration], controller: Controller) -> None:
        if not changed and self.state is not None:
            before, after = self.state.controller.partition_epoch, controller.partition_epoch
            if before != after:
                raise Wrong(f"the controller wrote nothing, the specification partition epoch {after}")
        for registration in changed[:1]:
            for name, expected in REGISTERED.items():
                self._compare_registered(name, getattr(registration, name), expected(controller))

    def _compare_registered(self, name: str, said: object, expected: object) -> None:
        if name == "leader":
            assert isinstance(expected, int)
            expected = self.broker(expected)
        elif isinstance(expected, tuple):
            expected = tuple(map(self.broker, expected))
        if isinstance(said, frozenset):
            said = tuple(sorted(said))
        if said != expected:
            raise Wrong(f"the controller wrote {name} {plain(said)}, the specification {plain(expected)}")

    def _seen(self, name: str, replica: Replica) -> object:
        """A field of the specification's replica in the cluster's terms."""
        match name:
            case "log_start":
                return log_start_of(replica)
            case "log_start_epoch":
                start = log_start_of(replica)
                return replica.log[start - 1].epoch if start and knows_below(replica) else NONE
            case "leader":
                return self.broker(replica.leader)
            case "isr":
                return tuple(sorted(map(self.broker, replica.isr)))
            case "pending_isr":
                return tuple(sorted(map(self.broker, replica.pending_isr))) or None
        value: object = getattr(replica, name)
        return value


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
