"""What clients saw, as a history: an observer of the clients' operations, and a trace that knows when it was written.

A produce that failed but may have been carried out is unknown (info); any other failure certainly did nothing. Unclean
elections, which the cluster's trace shows, are added as declarations (see docs/history.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import trio

from tidegauge.impl.client.client import EARLIEST
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.observer import Operation
from tidegauge.impl.client.requests import Fetched, ListedOffset
from tidegauge.impl.server.trace import Trace, TraceEvent
from tidegauge.linearizability.history import History, Kind

KINDS = {"produce": Kind.PRODUCE, "fetch": Kind.FETCH, "list_offsets": Kind.LIST_OFFSETS}


def now_ns() -> int:
    """The run's virtual time in nanoseconds."""
    return round(trio.current_time() * 1e9)


class TimedTrace(Trace):
    """A trace that notes the virtual time of each event in nanoseconds, finer than the nodes' clocks."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[int] = []

    def append(self, event: TraceEvent) -> None:
        super().append(event)
        self.times.append(now_ns())


class Recorder:
    """Satisfies `impl.client.observer.Observer`."""

    def __init__(self, history: int) -> None:
        self.history = History(history)
        self._processes: dict[str, int] = {}

    def process(self, client_id: str) -> int:
        """The history's number of a client."""
        return self._processes.setdefault(client_id, len(self._processes))

    def invoked(self, operation: Operation) -> int | None:
        """The operation's index in the history; None for what a history has no word for."""
        if operation.name == "list_offsets" and operation.offset == EARLIEST:
            return None
        return self.history.invoke(
            process=self.process(operation.client_id),
            kind=KINDS[operation.name],
            topic=operation.topic,
            partition=operation.partition,
            call=now_ns(),
            values=[int(value) for value in operation.values],
            position=operation.offset if operation.name == "fetch" else -1,
            acks=operation.acks,
        )

    def returned(self, token: int | None, result: Any) -> None:
        if token is None:
            return
        if isinstance(result, Fetched):
            self.history.ok(
                token,
                returned=now_ns(),
                values=[int(record.value or b"") for record in result.records],
                offsets=[record.offset for record in result.records],
                high_watermark=result.high_watermark,
            )
        elif isinstance(result, ListedOffset):
            self.history.ok(token, returned=now_ns(), offset=result.offset)
        else:
            self.history.ok(token, returned=now_ns(), offset=result)

    def failed(self, token: int | None, error: BaseException) -> None:
        if token is None:
            return
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


def unclean_elections(trace: TimedTrace, kept: Kept) -> list[UncleanElection]:
    """Every unclean election after which some leader took over.

    `kept` knows where a new leader's log parts from the committed one; without it, nothing below its end is declared.
    """
    found: list[UncleanElection] = []
    known: dict[tuple[str, int], tuple[Any, ...]] = {}
    for place, event in enumerate(trace):
        for changed in event.fields.get("changed", ()):
            topic, partition, leader, leader_epoch, *_ = changed
            before = known.get((topic, partition))
            known[topic, partition] = changed
            if before is None or leader == -1 or leader_epoch == before[3]:
                continue
            if leader not in (*before[5], *before[6], *_proposed(event)):
                election = _election(trace, kept, place, topic, partition, leader_epoch)
                found += [election] if election is not None else []
    return found


def _proposed(event: TraceEvent) -> tuple[int, ...]:
    """Whom a proposal that was written has brought into the ISR: the same decision may make one of them leader."""
    return tuple(member for member, _ in event.fields["request"][4]) if event.name == "ReceiveAlterPartition" else ()


def _election(
    trace: TimedTrace, kept: Kept, place: int, topic: str, partition: int, epoch: int
) -> UncleanElection | None:
    took_over = next(
        (
            event
            for event in trace[place:]
            if _is_of(event, "ApplyMetadata", topic, partition)
            and event.fields["leader"] == event.node
            and event.fields["leader_epoch"] >= epoch
        ),
        None,
    )
    if took_over is None:
        return None
    end: int = took_over.fields["log_end_offset"]
    survives = kept.get((topic, partition, took_over.fields["leader_epoch"]), end)
    deposed = _deposed(trace, place, topic, partition, epoch)
    return UncleanElection(topic, partition, epoch, trace.times[place], min(end, survives), deposed)


def _deposed(trace: TimedTrace, place: int, topic: str, partition: int, epoch: int) -> int | None:
    """When the last leader of an epoch before `epoch` stopped leading; the election's own time if none led any more."""
    leads: dict[int, int] = {}
    last = trace.times[place]
    for now, event in enumerate(trace):
        if _is_of(event, "ApplyMetadata", topic, partition):
            led = leads.pop(event.node, epoch)
            if event.fields["leader"] == event.node and event.fields["leader_epoch"] < epoch:
                leads[event.node] = event.fields["leader_epoch"]
            elif led < epoch:
                last = max(last, trace.times[now])
        elif _ends_replica(event, topic, partition) and leads.pop(event.node, epoch) < epoch:
            last = max(last, trace.times[now])
    return None if leads else last


def _ends_replica(event: TraceEvent, topic: str, partition: int) -> bool:
    """Whether the node has no such replica any more, for now."""
    if event.name == "LogDirectoryFailed":
        return any(lost[:2] == (topic, partition) for lost in event.fields["partitions"])
    return event.name in ("Crash", "Stop") or _is_of(event, "RemoveReplica", topic, partition)


def _is_of(event: TraceEvent, name: str, topic: str, partition: int) -> bool:
    return event.name == name and (event.fields["topic"], event.fields["partition"]) == (topic, partition)


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
