"""What transaction coordinators decide, held against the actions of `spec.transactions`, decision by decision.

Theory of operation
-------------------
Each broker that leads a partition of the transaction log is followed by itself: what it has loaded of a transactional
id, and what it has written that is not committed yet, is a `Coordination` of the specification. A decision is taken for
an action of the machine, in a state in which that id is the only one and the request is on its way (`late`): the action
must be enabled, and write the record that was written; or its guard must refuse the request with the error that the
response has. So the errors that fence a zombie, the epochs that rise, the time-outs and the complete records are the
specification's.

The log is the truth. What a coordinator writes has a place: the next offset, in its leader epoch. Each replica's log is
kept as a list of such places, as the trace tells them, and what a coordinator has loaded must be what its own log says,
with all of it committed. A record counts for the coordinator when it is committed, and not before.

Partitions are held against the coordinators too: a transactional record is appended where the coordinator had added the
partition for that epoch before; a marker is appended for a prepare record that was committed, and only in a partition
of it; what acknowledges a marker has it. A transaction ends in one way. In version 2 of the protocol it has an epoch
for itself. In version 1 many have one and the same, one after the other: a complete record that is
committed is between them, and a marker is that of the last prepare record that was committed before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import attrs

from tidegauge.impl.coordinators.transactions.messages import AddPartitions, EndTxn, InitProducerId
from tidegauge.impl.coordinators.transactions.metadata import (
    EPOCH_PER_TRANSACTION,
    MAX_EPOCH,
    TopicPartition,
    TransactionMetadata,
)
from tidegauge.impl.coordinators.transactions.rules import TransactionRules as CoreRules
from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.impl.server.trace import coordination, events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.cores.transaction_abstraction import metadata_of
from tidegauge.model_tests.harness.validation.markers import Ended, MarkerKey
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.transactions import coordinating, partitioning
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.actions import TransactionAction
from tidegauge.spec.transactions.machine import Transactions

OF_VERSION_1: Final = {"TRANSACTION_ABORTABLE": "INVALID_TXN_STATE"}
"""What a coordinator tells a leader, and the leader its client."""

Place: TypeAlias = tuple[int, int]
"""(offset, leader epoch) in one partition of the transaction log."""
End: TypeAlias = tuple[int, int]
"""(producer id, epoch) of a marker, or of a transaction's records."""


class Prepared(NamedTuple):
    """What a prepare record says."""

    decision: spec.Decision
    partitions: frozenset[int]
    version: int


UNPREPARED: Final = Prepared(spec.Decision.NONE, frozenset(), 0)


@attrs.define
class Coordinator:
    """One leader epoch of one broker."""

    leader_epoch: int
    elected_with: tuple[Place, ...]
    """Its log at the election."""
    is_loading: bool = True
    ids: dict[str, spec.Coordination] = attrs.field(factory=dict)

    def of(self, name: str) -> spec.Coordination:
        """What it knows of a transactional id."""
        return spec.Coordination(cached=None) if self.is_loading else self.ids.get(name, spec.Coordination())


@attrs.frozen
class ValidatedCoordinators:
    """How far the decisions of coordinators are actions of the specification."""

    matched: int
    events: int
    """Of coordinators."""
    actions: Counter[str]
    mismatch: str | None
    decided: Mapping[MarkerKey, Ended]
    """What became of each transaction that was prepared, by its markers."""

    @property
    def holds(self) -> bool:
        return self.mismatch is None

    def __str__(self) -> str:
        if self.mismatch is None:
            return f"coordinators: all {self.events} decisions are actions of the specification"
        return f"coordinators: decision {self.matched + 1} is no action of the specification:\n{self.mismatch}"


def validate_coordinators(
    trace: Sequence[TraceEvent], *, max_epoch: int = MAX_EPOCH, lossless: bool = True
) -> ValidatedCoordinators:
    """Validate the decisions of all coordinators of a trace.

    `lossless`: no unclean election has cost the transaction log a record that was committed. Where one has, a
    transaction may have ended in two ways.
    """
    following, matched = Coordinators(max_epoch, lossless=lossless), 0
    of_coordinators = sum(isinstance(event.decision, coordination.OfCoordinator) for event in trace)
    mismatch = None
    for place, event in enumerate(trace):
        try:
            following.follow(event)
        except Wrong as wrong:
            mismatch = f"event {place} ({event}): {wrong}"
            break
        matched += isinstance(event.decision, coordination.OfCoordinator)
    return ValidatedCoordinators(matched, of_coordinators, following.actions, mismatch, following.ended)


class Coordinators:
    """The coordinators of one cluster, and what partitions have of their decisions."""

    def __init__(self, max_epoch: int = MAX_EPOCH, *, lossless: bool = True) -> None:
        self.actions: Counter[str] = Counter()
        self._at_once = Transactions(transactional_ids=1, incarnations=1, max_epoch=max_epoch)
        """Where a record is committed as soon as it is written: an action's record is in the log after it."""
        self._in_steps = evolve(self._at_once, bounds=Bounds(FailOver=1))
        """Where it is pending until `CommitRecord`."""
        self._forgetful = evolve(self._at_once, version=1, log_version=0)
        """Under level 0 of `transaction.version`."""
        self._core = CoreRules(max_epoch=max_epoch)
        self._lossless = lossless
        self.decided: dict[End, Prepared] = {}
        """What the last prepare record that is committed says of the transaction with these markers."""
        self.ended: dict[MarkerKey, Ended] = {}
        """What each marker was that a leader has appended."""
        self._complete: set[End] = set()
        """Where the last transaction is complete, and another one of version 1 may follow."""
        self._former: dict[End, frozenset[int]] = {}
        """The partitions of former transactions, whose markers may be sent again."""
        self._here: dict[tuple[int, int], Coordinator] = {}
        """By broker and partition of the log."""
        self._logs: dict[tuple[int, int], list[Place]] = {}
        """The same: what the replica has, as far as it was written by a coordinator."""
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._written: dict[tuple[int, Place], tuple[str, spec.Metadata]] = {}
        """By partition and place."""
        self._of_version_0: set[tuple[int, Place]] = set()
        """Where the log does not keep all that was written."""
        self._numbers: dict[TopicPartition, int] = {}
        self._owners: dict[int, str] = {}
        """Producer id -> its transactional id."""
        self._joined: dict[End, set[int]] = {}
        """The partitions of a transaction, by what its records have."""
        self._marked: set[tuple[int, End]] = set()

    def follow(self, event: TraceEvent) -> None:
        """Take in one event. Raises Wrong."""
        match event.decision:
            case events.Crash() | events.Stop():
                self._here = {key: one for key, one in self._here.items() if key[0] != event.node}
            case events.OfReplica() as decision if decision.topic == TRANSACTION_STATE:
                self._replica(event.node, decision)
            case events.Append() as decision:
                self._appended(decision)
            case coordination.OfCoordinator() as decision:
                self._coordinates(event, decision)
                self.actions[type(decision).__name__] += 1

    # --- partitions --------------------------------------------------------------------------------------------------

    def _replica(self, node: int, decision: events.OfReplica) -> None:
        """What a replica of the transaction log has now."""
        key, end = (node, decision.partition), decision.state.log_end_offset
        log = [place for place in self._logs.get(key, ()) if place[0] < end]
        match decision:
            case events.Restart(batches=batches):
                log = _places(batches)
            case events.Append(batches=batches):
                for place in _places(batches):
                    if (decision.partition, place) not in self._written:
                        raise Wrong(f"no coordinator has written what is appended at offset {place[0]}")
                log += _places(batches)
            case events.ReceiveFetchResponse(accepted=True, outcome=outcome):
                log += [place for place in _places(outcome.batches) if place[0] < end]
        self._logs[key] = log
        self._high_watermarks[key] = decision.state.high_watermark

    def _appended(self, decision: events.Append) -> None:
        """A leader of another partition has appended: for a transaction only what its coordinator knows of."""
        number = self._number(TopicPartition(decision.topic, decision.partition))
        for batch in decision.batches:
            end, where = (batch.producer_id, batch.producer_epoch), f"{decision.topic}-{decision.partition}"
            if batch.is_marker:
                prepared = self.decided.get(end, UNPREPARED)
                if number not in prepared.partitions | self._former.get(end, frozenset()):
                    raise Wrong(f"a marker of producer {end[0]}, epoch {end[1]}: no prepare record has {where}")
                self.ended[(*end, batch.checksum)] = Ended(prepared.decision, prepared.version)
                self._marked.add((number, end))
            elif batch.is_transactional and number not in self._joined.get(end, ()):
                raise Wrong(
                    f"a transaction of producer {end[0]}, epoch {end[1]}: its coordinator does not know {where}"
                )

    def _number(self, partition: TopicPartition) -> int:
        """A partition as the specification numbers it."""
        return self._numbers.setdefault(TopicPartition(*partition), len(self._numbers))

    # --- coordinators ------------------------------------------------------------------------------------------------

    def _coordinates(self, event: TraceEvent, decision: coordination.OfCoordinator) -> None:
        key = event.node, decision.log_partition
        match decision:
            case coordination.FailOver():
                self._here[key] = Coordinator(decision.leader_epoch, tuple(self._logs.get(key, ())))
                return
            case coordination.Resign():
                self._here.pop(key, None)
                return
        here = self._here.get(key)
        if here is None or here.leader_epoch != decision.leader_epoch:
            raise Wrong(f"the broker does not coordinate that partition in leader epoch {decision.leader_epoch}")
        match decision:
            case coordination.LoadIds():
                self._load(key, here, decision.ids)
            case coordination.Verify() | coordination.Ruled():
                self._rule(here, decision)
            case coordination.ExpireTransaction(written=written):
                if event.time <= written.start_ms + written.timeout_ms:
                    raise Wrong(f"its time of {written.timeout_ms} ms is not over")
                self._act(here, decision.transactional_id, [coordinating.ExpireTransaction(0)], "NONE", written)
            case coordination.Complete(written=written):
                self._act(here, decision.transactional_id, [coordinating.Complete(0)], "NONE", written)
            case coordination.ExpireId(transactional_id=name):
                known = here.of(name).cached
                if known is None or here.of(name).pending is not None or not self._at_once.is_forgotten(known):
                    raise Wrong("the id is forgotten, and is in use")
                here.ids[name] = evolve(here.of(name), pending=spec.Pending(spec.Metadata()))
            case coordination.AcknowledgeMarker():
                self._acknowledge(here, decision)
            case coordination.OfTransactionalId():
                self._record(key, here, decision)

    def _load(self, key: tuple[int, int], here: Coordinator, said: Iterable[tuple[str, TransactionMetadata]]) -> None:
        """The coordinator knows what its log had at the election, which is committed."""
        log = here.elected_with
        if log and self._high_watermarks[key] <= log[-1][0]:
            raise Wrong(f"what is at offset {log[-1][0]} is loaded, and not committed")
        last: dict[str, spec.Metadata] = {}
        for place in log:
            name, metadata = self._written[key[1], place]
            last[name] = self._forgetful.in_log(metadata) if (key[1], place) in self._of_version_0 else metadata
        found = {name: self._metadata(metadata) for name, metadata in said}
        here.is_loading = False
        for name, logged in sorted(last.items()):
            if logged == spec.Metadata():
                continue
            state = spec.State((spec.Producer(),), (spec.Coordination(logged, None),), ())
            (one,) = self._taken(self._in_steps, coordinating.Load(0), state).coordination
            assert one.cached is not None
            if (loaded := found.pop(name, spec.Metadata())) != _bare(one.cached):
                raise Wrong(f"of {name!r} it loads {plain(loaded)}, its log says {plain(_bare(one.cached))}")
            here.ids[name] = one
            self._true(logged)
        if found:
            raise Wrong(f"it loads {', '.join(found)}, of which its log says nothing")

    def _rule(self, here: Coordinator, decision: coordination.Verify | coordination.Ruled) -> None:
        """A request is taken, or refused, as the specification says."""
        name = decision.transactional_id
        match decision:
            case coordination.Verify(request=request, errors=errors):
                for partition, error in errors:
                    record = self._record_of(request.producer_id, request.epoch, partition, 1)
                    said = OF_VERSION_1.get(error.name.upper(), error.name.upper())
                    self._act(here, name, [partitioning.Verify(record, True)], said, None)
            case coordination.ReceiveInit(request=request):
                self._act(here, name, [coordinating.ReceiveInit(_init(request), True)], *_said(decision))
            case coordination.ReceiveEnd(request=request):
                self._act(here, name, [coordinating.ReceiveEnd(_end(request), True)], *_said(decision))
            case coordination.ReceiveAdd(request=request):
                self._act(here, name, self._adding(request), *_said(decision))

    def _adding(self, request: AddPartitions) -> list[TransactionAction]:
        """One action for each partition."""
        who = request.producer_id, request.epoch
        if request.client_version >= EPOCH_PER_TRANSACTION:
            return [partitioning.Verify(self._record_of(*who, one, 2), True) for one in sorted(request.partitions)]
        numbers = map(self._number, sorted(request.partitions))
        return [coordinating.ReceiveAdd(spec.AddRequest(0, *who, number, 0), True) for number in numbers]

    def _record_of(self, producer_id: int, epoch: int, where: TopicPartition, version: int) -> spec.ProduceRequest:
        return spec.ProduceRequest(0, producer_id, epoch, self._number(where), 0, 0, version)

    def _act(
        self,
        here: Coordinator,
        name: str,
        actions: Sequence[TransactionAction],
        said: str,
        written: TransactionMetadata | None,
    ) -> None:
        """The actions of one decision: what they are refused with, or write, is what was said and written."""
        one, error = here.of(name), "NONE"
        at_rest = one.cached is None or one.pending is not None
        before = one if at_rest else spec.Coordination(one.cached or spec.Metadata(), one.cached)
        state = self._state(before, written, name)
        for action in actions:
            request = getattr(action, "request", None)
            if request is not None:
                state = evolve(state, late=_late(request))
            guard = action.guard(self._at_once, state)
            if isinstance(guard, Refusal):
                error = guard.error.name
                break
            if guard:
                raise Wrong(f"the guard fails: {guard}")
            if isinstance(action, coordinating.ReceiveInit | coordinating.ReceiveEnd):
                error = action.ruling(self._at_once, state).error.name
            state = action.effect(self._at_once, state)
        if said != error:
            raise Wrong(f"the response is {said}, the specification's {error}")
        (after,) = state.coordination
        wanted = None if after.logged == before.logged else after.logged
        found = None if written is None else self._metadata(written)
        if found != (None if wanted is None else _bare(wanted)):
            expected = "nothing" if wanted is None else plain(_bare(wanted))
            raise Wrong(f"it writes {'nothing' if found is None else plain(found)}, the specification {expected}")
        if wanted is not None:
            here.ids[name] = evolve(one, pending=spec.Pending(wanted))

    def _state(self, one: spec.Coordination, written: TransactionMetadata | None, name: str) -> spec.State:
        """A state in which there is this id alone; what it is given as a new producer id, nobody has."""
        known = one.cached or spec.Metadata()
        given = () if written is None else (written.next_producer_id, written.producer_id)
        old = (spec.NONE, known.producer_id, known.next_producer_id)
        new = next((producer_id for producer_id in given if producer_id not in old), None)
        if new is not None and self._owners.setdefault(new, name) != name:
            raise Wrong(f"the producer id {new} is {self._owners[new]!r}'s")
        unknown = 1 + max(self._owners, default=spec.NONE)
        return spec.State(
            (spec.Producer(),),
            (one,),
            (spec.Partition(),) * len(self._numbers),
            producer_ids=unknown if new is None else new,
            transactions=(spec.Transaction(0),),
        )

    # --- records -----------------------------------------------------------------------------------------------------

    def _record(self, key: tuple[int, int], here: Coordinator, decision: coordination.OfTransactionalId) -> None:
        """What was written is appended, is committed, or never will be."""
        name = decision.transactional_id
        one = here.of(name)
        if one.pending is None:
            raise Wrong(f"no record of {name!r} is pending")
        match decision:
            case coordination.AppendRecord(offset=offset, value_version=version):
                where = key[1], (offset, here.leader_epoch)
                self._written[where] = name, one.pending.metadata
                if version == 0:
                    self._of_version_0.add(where)
            case coordination.CommitRecord(offset=offset):
                if self._written.get((key[1], (offset, here.leader_epoch))) != (name, one.pending.metadata):
                    raise Wrong(f"what is at offset {offset} is not what was written")
                if (offset, here.leader_epoch) not in self._logs[key] or self._high_watermarks[key] <= offset:
                    raise Wrong(f"what is at offset {offset} is not committed")
                self._true(one.pending.metadata)
                state = spec.State((spec.Producer(),), (one,), (), transactions=(spec.Transaction(0),))
                here.ids[name] = self._taken(self._in_steps, coordinating.CommitRecord(0), state).coordination[0]
            case coordination.FailRecord():
                here.ids[name] = evolve(one, pending=None)

    def _true(self, record: spec.Metadata) -> None:
        """A record is committed."""
        end = record.producer_id, record.epoch
        is_next = end in self._complete
        if record.status is spec.Status.ONGOING:
            joined = set() if is_next else self._joined.setdefault(end, set())
            self._joined[end] = joined | {*record.partitions}
        elif record.status in spec.PREPARED:
            before = self.decided.get(end, UNPREPARED)
            if is_next and record.version < EPOCH_PER_TRANSACTION:
                self._complete.discard(end)
                self._former[end] = self._former.get(end, frozenset()) | before.partitions
                self._marked -= {(number, end) for number in record.partitions}
                before = UNPREPARED
            self.decided[end] = Prepared(record.decision, before.partitions | {*record.partitions}, record.version)
            if self._lossless and before.decision not in (spec.Decision.NONE, record.decision):
                raise Wrong(
                    f"producer {end[0]}, epoch {end[1]} ends by {record.decision.name}, and by {before.decision.name}"
                )
        elif record.status is not spec.Status.EMPTY:
            self._complete.add(end)

    def _acknowledge(self, here: Coordinator, decision: coordination.AcknowledgeMarker) -> None:
        """The marker is in each partition, and is that of this very end."""
        name, end = decision.transactional_id, (decision.producer_id, decision.epoch)
        one = here.of(name)
        if one.cached is None:
            raise Wrong(f"{name!r} is not loaded")
        cached = one.cached
        for partition in decision.partitions:
            number = self._number(partition)
            if (number, end) not in self._marked:
                raise Wrong(f"{partition.topic}-{partition.partition} does not have the marker that it acknowledges")
            outcome = spec.Decision.COMMIT if decision.is_commit else spec.Decision.ABORT
            request = spec.MarkerRequest(0, number, *end, decision.leader_epoch, outcome, cached.version)
            cached = self._at_once.acknowledged(cached, request)
        if (left := tuple(sorted(map(self._number, decision.left)))) != cached.partitions:
            expected = self._named(cached.partitions)
            raise Wrong(f"{self._named(left)} have yet to acknowledge it, in the specification {expected}")
        here.ids[name] = evolve(one, cached=cached)

    def _named(self, numbers: Iterable[int]) -> str:
        known = list(self._numbers)
        return ", ".join(f"{known[number].topic}-{known[number].partition}" for number in numbers) or "none"

    def _taken(self, machine: Transactions, action: TransactionAction, state: spec.State) -> spec.State:
        if guard := action.guard(machine, state):
            raise Wrong(f"the guard fails: {guard}")
        return action.effect(machine, state)

    def _metadata(self, found: TransactionMetadata) -> spec.Metadata:
        """A record as the specification has it, without what no log says."""
        numbers = tuple(sorted(self._number(TopicPartition(*one)) for one in found.partitions))
        return evolve(metadata_of(found, spec.Metadata(), self._core), partitions=numbers)


def _bare(metadata: spec.Metadata) -> spec.Metadata:
    """Without which transactions are open, which no log says, and by which clock they began."""
    return evolve(metadata, transactions=(), started=spec.NONE)


def _places(batches: Iterable[events.LoggedBatch]) -> list[Place]:
    return [(batch.base_offset, batch.leader_epoch) for batch in batches]


def _said(decision: coordination.Ruled) -> tuple[str, TransactionMetadata | None]:
    return decision.error.name.upper(), decision.written


def _init(request: InitProducerId) -> spec.InitRequest:
    return spec.InitRequest(0, request.producer_id, request.epoch, request.keeps_prepared)


def _end(request: EndTxn) -> spec.EndRequest:
    decision = spec.Decision.COMMIT if request.is_commit else spec.Decision.ABORT
    version = 2 if request.client_version >= EPOCH_PER_TRANSACTION else 1
    return spec.EndRequest(0, request.producer_id, request.epoch, decision, 0, version)


def _late(request: object) -> spec.Late:
    """On its way there is this request alone."""
    match request:
        case spec.InitRequest():
            return spec.Late(inits=(request,))
        case spec.AddRequest():
            return spec.Late(adds=(request,))
        case spec.EndRequest():
            return spec.Late(ends=(request,))
        case spec.ProduceRequest():
            return spec.Late(produces=(request,))
    raise AssertionError(f"no request of a coordinator: {request}")
