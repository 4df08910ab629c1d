"""What clients saw, as a history: an observer of the clients' operations, and a trace that knows when it was written.

A produce that failed but may have been carried out is unknown (info); any other failure certainly did nothing. Unclean
elections, which the cluster's trace shows, are added as declarations (see docs/history.md).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeVar

import attrs
import trio

from tidegauge.impl.client.client import EARLIEST
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.observer import Operation
from tidegauge.impl.client.requests import Fetched, ListedOffset
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import Trace, TraceEvent
from tidegauge.linearizability.history import History, Kind
from tidegauge.model_tests.harness.validation.incarnations import name_of, told_apart

T = TypeVar("T")

MOST_AT_ONE_TIME: Final = 3_000
"""Decisions in no time: many times those with which a whole cluster begins."""
KINDS = {"produce": Kind.PRODUCE, "fetch": Kind.FETCH, "list_offsets": Kind.LIST_OFFSETS}


def now_ns() -> int:
    """The run's virtual time in nanoseconds."""
    return round(trio.current_time() * 1e9)


class StandstillError(Exception):
    """Nodes decide for ever, and time does not pass: one tries again at once what cannot succeed."""


class TimedTrace(Trace):
    """A trace that notes the virtual time of each event in nanoseconds, finer than the nodes' clocks."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[int] = []

    def append(self, event: TraceEvent) -> None:
        """Raises StandstillError."""
        super().append(event)
        self.times.append(now := now_ns())
        if len(self) > MOST_AT_ONE_TIME and self.times[-MOST_AT_ONE_TIME] == now:
            raise StandstillError(
                f"{MOST_AT_ONE_TIME} decisions at one time, {event.name} of node {event.node} is the last"
            )

    def told_apart(self) -> TimedTrace:
        """The same, with topics that share a name told apart."""
        apart = TimedTrace()
        apart.extend(told_apart(self))
        apart.times = self.times
        return apart


class Recorder:
    """Satisfies `impl.client.observer.Observer`."""

    def __init__(self, history: int) -> None:
        self.history = History(history)
        self._processes: dict[tuple[str, int], int] = {}
        self._busy: set[int] = set()
        self._transactions = count()
        self._process_of: dict[int, int] = {}
        """Operation that has not returned -> its process."""
        self._asked: dict[int, Operation] = {}
        """Those that a client has asked for -> what they are."""

    def process(self, client_id: str, place: int = 0) -> int:
        """The history's number of a client; one with several operations in flight is as many processes."""
        return self._processes.setdefault((client_id, place), len(self._processes))

    def _free_process(self, client_id: str) -> int:
        return next(one for place in count() if (one := self.process(client_id, place)) not in self._busy)

    def invoked(self, operation: Operation) -> int | None:
        """The operation's index in the history; None for what a history has no word for."""
        if operation.name == "list_offsets" and operation.offset == EARLIEST:
            return None
        token = self.called(
            operation.client_id,
            kind=KINDS[operation.name],
            topic=operation.topic,
            partition=operation.partition,
            values=[int(value) for value in operation.values],
            position=operation.offset if operation.name == "fetch" else -1,
            acks=operation.acks,
        )
        self._asked[token] = operation
        return token

    # --- what no observer is told of ---------------------------------------------------------------------------------

    def next_transaction(self) -> int:
        """The number of a transaction that begins."""
        return next(self._transactions)

    def called(self, client_id: str, **asked: Any) -> int:
        """An operation of a client begins; returns its index. `asked`: as for `History.invoke`."""
        process = self._free_process(client_id)
        token = self.history.invoke(process=process, call=now_ns(), **asked)
        self._busy.add(process)
        self._process_of[token] = process
        return token

    def ended(self, token: int, **told: Any) -> None:
        """It succeeded. `told`: as for `History.ok`."""
        self._end(token)
        self.history.ok(token, returned=now_ns(), **told)

    async def watched(
        self,
        client_id: str,
        run: Callable[[], Awaitable[T]],
        told: Callable[[T], Mapping[str, Any]],
        **asked: Any,
    ) -> T:
        """Run an operation and note how it ends; what it raises goes on."""
        return await self.numbered(client_id, lambda _: run(), told, **asked)

    async def numbered(
        self,
        client_id: str,
        run: Callable[[int], Awaitable[T]],
        told: Callable[[T], Mapping[str, Any]],
        **asked: Any,
    ) -> T:
        """The same with an operation that is told its index in the history."""
        token = self.called(client_id, **asked)
        try:
            result = await run(token)
        except BaseException as error:
            self.failed(token, error)
            raise
        self.ended(token, **told(result))
        return result

    def tell_apart(self, topics: Collection[str]) -> None:
        """Call each topic of these names by its id as well: an operation is of the one that it was last asked of."""
        for token, operation in self._asked.items():
            if operation.topic in topics and operation.topic_ids:
                self.history.of_topic(token, name_of(operation.topic, operation.topic_ids[-1]))

    def _end(self, token: int) -> None:
        self._busy.discard(self._process_of.pop(token))

    def returned(self, token: int | None, result: Any) -> None:
        if token is None:
            return
        if isinstance(result, Fetched):
            self.ended(
                token,
                values=[int(record.value or b"") for record in result.records],
                offsets=[record.offset for record in result.records],
                high_watermark=result.high_watermark,
            )
        elif isinstance(result, ListedOffset):
            self.ended(token, offset=result.offset)
        else:
            self.ended(token, offset=result)

    def failed(self, token: int | None, error: BaseException) -> None:
        if token is None:
            return
        self._end(token)
        if isinstance(error, KafkaError) and not error.maybe_done:
            self.history.fail(token, returned=now_ns(), meta=f'{{"error": "{error.code.name}"}}')
        elif isinstance(error, KafkaError):
            self.history.info(token, returned=now_ns(), meta=f'{{"error": "{error.code.name}"}}')
        else:
            self.history.info(token)


@attrs.frozen
class UncleanElection:
    """A leader from outside ISR and ELR: what it lacked is declared lost."""

    topic: str
    partition: int
    leader_epoch: int
    elected: int
    """When, in ns."""
    offset: int
    """What lies below survives: the log end offset of the first leader that took over since, or where its log parts
    from what had been committed."""
    deposed: int | None
    """When the last replica that led under an older epoch stopped; None: it still does."""


Kept = Mapping[tuple[str, int, int], int]
"""(topic, partition, leader epoch) -> the offset below which everything survived that leader's unclean election."""


def unclean_elections(
    trace: TimedTrace, kept: Kept, lossless: Container[tuple[str, int, int]] = ()
) -> list[UncleanElection]:
    """Every unclean election after which some leader took over, but for those in `lossless`.

    `kept` knows where a new leader's log parts from the committed one; without it, nothing below its end is declared.
    """
    found: list[UncleanElection] = []
    known: dict[tuple[str, int], PartitionRegistration] = {}
    for place, event in enumerate(trace):
        decision = event.decision
        for changed in decision.changed if isinstance(decision, events.ControllerDecision) else ():
            partition, now = (changed.topic, changed.partition), changed.registration
            before = known.get(partition)
            known[partition] = now
            if before is None or now.leader == NO_LEADER or now.leader_epoch == before.leader_epoch:
                continue
            if now.leader not in before.isr | before.elr | _proposed(decision):
                election = _election(trace, kept, lossless, place, *partition, now.leader_epoch)
                found += [election] if election is not None else []
    return found


def _proposed(decision: events.Decision) -> frozenset[int]:
    """Whom a proposal that was written has brought into the ISR: the same decision may make one of them leader."""
    return decision.request.members if isinstance(decision, events.ReceiveAlterPartition) else frozenset()


def _election(
    trace: TimedTrace,
    kept: Kept,
    lossless: Container[tuple[str, int, int]],
    place: int,
    topic: str,
    partition: int,
    epoch: int,
) -> UncleanElection | None:
    for event in trace[place:]:
        state = _applied(event, topic, partition)
        if state is not None and state.leader == event.node and state.leader_epoch >= epoch:
            if (topic, partition, state.leader_epoch) in lossless:
                return None
            survives = kept.get((topic, partition, state.leader_epoch), state.log_end_offset)
            offset = min(state.log_end_offset, survives)
            deposed = _deposed(trace, place, topic, partition, epoch)
            return UncleanElection(topic, partition, epoch, trace.times[place], offset, deposed)
    return None


def _deposed(trace: TimedTrace, place: int, topic: str, partition: int, epoch: int) -> int | None:
    """When the last leader of an epoch before `epoch` stopped leading; the election's own time if none led any more."""
    leads: dict[int, int] = {}
    last = trace.times[place]
    for now, event in enumerate(trace):
        if (state := _applied(event, topic, partition)) is not None:
            led = leads.pop(event.node, epoch)
            if state.leader == event.node and state.leader_epoch < epoch:
                leads[event.node] = state.leader_epoch
            elif led < epoch:
                last = max(last, trace.times[now])
        elif _ends_replica(event.decision, topic, partition) and leads.pop(event.node, epoch) < epoch:
            last = max(last, trace.times[now])
    return None if leads else last


def _applied(event: TraceEvent, topic: str, partition: int) -> events.ReplicaState | None:
    """The state of the replica when the event is that it takes over metadata."""
    match event.decision:
        case events.ApplyMetadata(topic=name, partition=index, state=state) if (name, index) == (topic, partition):
            return state
        case _:
            return None


def _ends_replica(decision: events.Decision, topic: str, partition: int) -> bool:
    """Whether the node has no such replica any more, for now."""
    match decision:
        case events.LogDirectoryFailed(lost=lost):
            return any((one.topic, one.partition) == (topic, partition) for one in lost)
        case events.RemoveReplica():
            return (decision.topic, decision.partition) == (topic, partition)
        case _:
            return isinstance(decision, events.Crash | events.Stop)


def declare(recorder: Recorder, elections: Sequence[UncleanElection]) -> None:
    """Add the elections to the history."""
    for election in elections:
        recorder.history.election(
            topic=election.topic,
            partition=election.partition,
            offset=election.offset,
            call=election.elected,
            returned=election.deposed,
            meta=f'{{"leader_epoch": {election.leader_epoch}}}',
        )
