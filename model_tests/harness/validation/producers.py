"""What replicas remember of idempotent producers, held against the rules of `spec.idempotence`, decision by decision.

Theory of operation
-------------------
Memory is a function of the log, so the log of each replica is kept here as the trace tells it (batches with producer,
epoch and sequence), and beside it what the replica says that it remembers. After each decision:

* what a leader appends must be no repeat, and the next of its producer, by the memory before it (`sequence_error`);
  what it acknowledges as a repeat must be one (`repeated`), what it refuses must deserve it;
* where batches are appended, memory must be exactly the one before with those batches (`with_batch`), at followers too;
* where producers expire, exactly those are missing;
* where memory is made again, at a restart, after a cut or a repair, it must be what the log says
  (`ProducerStateMatchesLog`): the last five batches of each producer, fewer only where they are deleted or expired;
* where a disk has damaged the log, memory may lack what can no longer be read, and a snapshot may still tell of it:
  what is remembered must have been in the log, and the newest batch of each producer that can be read is remembered
  (`_made_of_the_rest`). It is so until the process ends; the next one finds the damage again, or a log that is whole;
* no batch of one producer is in a log twice (`NoDuplicate`), unless it was taken on trust: it came again to a leader
  that does not know its producer any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.contents import LoggedBatch as TracedBatch
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.properties import producer_state_matches_log
from tidegauge.spec.idempotence.rules import IdempotenceRules
from tidegauge.spec.idempotence.state import (
    Batch,
    BatchMetadata,
    Error,
    Log,
    LoggedBatch,
    ProducerEntry,
    Producers,
    Replica,
    State,
    entry_of,
    without_entry,
)
from tidegauge.spec.kernel.changes import plain

SEQUENCES: Final = 1 << 31
"""Kafka's; a run may count modulo less."""
BATCHES_SHOWN: Final = 8


class Remembering:
    """The replicas of one partition, and what they remember."""

    def __init__(self, sequences: int = SEQUENCES) -> None:
        self.machine: IdempotenceRules = Idempotence(sequences=sequences)
        self._matches_log = producer_state_matches_log(self.machine)
        self._replicas: dict[int, Replica] = {}
        """By broker: those whose process runs; `Batch.first` is the checksum, which is the batch's for good."""
        self._past: dict[int, Log] = {}
        """By broker: what the log had when its process ended."""
        self._damaged: set[int] = set()
        """Brokers whose processes have found damage in this log."""

    def follow(self, event: TraceEvent, topic: str, partition: int) -> None:
        """Take in one event of this partition or of a whole node. Raises Wrong."""
        node = event.node
        match event.decision:
            case events.Crash() | events.Stop():
                self._end(node)
            case events.LogDirectoryFailed(lost=lost):
                if any((one.topic, one.partition) == (topic, partition) for one in lost):
                    self._end(node)
            case events.DamageFound(damaged=damaged):
                hurt = [one for one in damaged if one.start < one.log_end_offset]  # others have nothing but a torn tail
                if any((one.topic, one.partition) == (topic, partition) for one in hurt):
                    self._damaged.add(node)
            case events.RemoveReplica():
                self._end(node)
                self._past.pop(node, None)
            case events.OfReplica() as decision:
                before = self._replicas.get(node) or Replica(forgot=told_forgot(decision))
                before = attrs.evolve(before, log_start=decision.state.log_start)
                self._replicas[node] = self._after(decision, before, self._past.get(node, ()), node in self._damaged)

    def _end(self, node: int) -> None:
        self._damaged.discard(node)
        if (replica := self._replicas.pop(node, None)) is not None:
            self._past[node] = replica.log

    def _after(self, decision: events.OfReplica, replica: Replica, past: Log, damaged: bool) -> Replica:
        match decision:
            case events.Restart():
                batches = logged(decision.batches)
                first = decision.batches[0].base_offset if decision.batches else decision.state.log_start
                before = tuple(one for one in past if one.end_offset <= first)
                if damaged:
                    had = as_left(past, batches, decision.state.log_end_offset)
                    return self._made_of_the_rest(decision, attrs.evolve(replica, log=had))
                return self._made_again(decision, attrs.evolve(replica, log=before + batches))
            case events.Append():
                return self._kept(decision, self._appended(decision, replica))
            case events.ReceiveFetchResponse(accepted=True, outcome=outcome):
                if outcome.error is ErrorCode.none and outcome.diverging_epoch is None:
                    return self._kept(decision, self._with(replica, outcome.batches))
                left = cut(decision, replica)
                return self._made_of_the_rest(decision, left) if damaged else self._made_again(decision, left)
            case events.RepairReplica():
                return self._made_of_the_rest(decision, cut(decision, replica))
            case events.ExpireProducers(expired=expired):
                known = replica.producers
                for producer in expired:
                    known = without_entry(known, producer)
                return self._kept(decision, attrs.evolve(replica, producers=known, forgot=True))
            case events.AcknowledgeRepeat() | events.RefuseSequence():
                self._check_response(decision, replica)
                return self._kept(decision, replica)
            case events.OfLog():
                return self._kept(decision, replica)
        return replica

    # --- the leader's rules ------------------------------------------------------------------------------------------

    def _appended(self, decision: events.Append, replica: Replica) -> Replica:
        for traced in decision.batches:
            if traced.producer_id >= 0:
                batch = batch_of(traced)
                if self.machine.repeated(replica, batch) is not None:
                    raise Wrong(f"{told(traced)} is appended, though the leader remembers it")
                if error := self.machine.sequence_error(replica, batch):
                    raise Wrong(f"{told(traced)} is appended, the specification responds {error.name}")
                on_trust = entry_of(replica.producers, batch.producer) is None and self.machine.accepts_unknown(replica)
                if not on_trust and any(one.batch == batch for one in replica.log):
                    raise Wrong(f"NoDuplicate is violated: {told(traced)} is in the log already")
            replica = self._with(replica, (traced,))
        return replica

    def _check_response(self, decision: events.AcknowledgeRepeat | events.RefuseSequence, replica: Replica) -> None:
        for traced in decision.batches[:1]:
            known = self.machine.repeated(replica, batch_of(traced))
            if isinstance(decision, events.AcknowledgeRepeat):
                where = known.base_offset if known is not None else None
                if where != decision.base_offset:
                    said = f"acknowledged as a repeat at offset {decision.base_offset}"
                    raise Wrong(f"{told(traced)} is {said}, the specification remembers it at {where}")
                continue
            error = Error.OK if known is not None else self.machine.sequence_error(replica, batch_of(traced))
            if error.name != decision.error.name.upper():
                said = decision.error.name.upper()
                raise Wrong(f"{told(traced)} is refused with {said}, the specification responds {error.name}")

    # --- memory ------------------------------------------------------------------------------------------------------

    def _with(self, replica: Replica, batches: Sequence[TracedBatch]) -> Replica:
        """A replica with more batches in its log and in its memory."""
        producers, more = replica.producers, []
        for one in logged(batches):
            unknown = one.batch.sequence != 0 and entry_of(producers, one.batch.producer) is None
            more.append(attrs.evolve(one, on_trust=unknown))
            producers = self.machine.with_batch(producers, one.batch, one.base_offset)
        return attrs.evolve(replica, log=(*replica.log, *more), producers=producers)

    def _kept(self, decision: events.OfLog, expected: Replica) -> Replica:
        """Memory goes on from the one before."""
        found = remembered(decision.producers)
        for producer in sorted({entry.producer for entry in (*found, *expected.producers)}):
            said, wanted = entry_of(found, producer), entry_of(expected.producers, producer)
            if said != wanted:
                who = f"of producer {producer} the replica remembers"
                raise Wrong(f"{who} {known_as(said)}, the specification {known_as(wanted)}")
        if decision.producers.forgot != expected.forgot:
            verb = "counts" if decision.producers.forgot else "does not count"
            raise Wrong(f"the replica {verb} as one that may have forgotten a producer, the specification's differs")
        return expected

    def _made_again(self, decision: events.OfLog, replica: Replica) -> Replica:
        """Memory comes from the disk."""
        found = decision.producers
        replica = attrs.evolve(replica, producers=remembered(found), forgot=found.forgot)
        has = {one.batch.producer for one in replica.log} | {entry.producer for entry in replica.producers}
        for producer in sorted(has):
            log = tuple(one for one in replica.log if one.batch.producer == producer)
            known = entry_of(replica.producers, producer)
            alone = attrs.evolve(replica, log=log, producers=() if known is None else (known,))
            if not self._matches_log(State((), (alone,), 0, 0, ())):
                has_not = f"ProducerStateMatchesLog is violated: of producer {producer} the replica remembers"
                raise Wrong(f"{has_not} {known_as(known)}, its log from {replica.log_start} on has {in_log(log)}")
        return replica

    def _made_of_the_rest(self, decision: events.OfLog, replica: Replica) -> Replica:
        """Memory comes from a disk that has damaged the log."""
        found = decision.producers
        replica = attrs.evolve(replica, producers=remembered(found), forgot=found.forgot)
        had = {(one.batch.producer, one.batch.epoch, self._metadata(one)) for one in replica.log}
        for entry in replica.producers:
            if not had.issuperset((entry.producer, entry.epoch, batch) for batch in entry.batches):
                who = f"of producer {entry.producer} the replica remembers"
                raise Wrong(f"{who} {known_as(entry)}, which its log never had")
        readable = logged(decision.batches) if isinstance(decision, events.Restart) and not found.forgot else ()
        for producer, newest in {one.batch.producer: self._metadata(one) for one in readable}.items():
            known = entry_of(replica.producers, producer)
            if known is None or known.batches[-1].last_offset < newest.last_offset:
                who = f"of producer {producer} the replica remembers {known_as(known)}"
                raise Wrong(f"{who}, though its log can be read up to offset {newest.last_offset}")
        return replica

    def _metadata(self, one: LoggedBatch) -> BatchMetadata:
        return self.machine.metadata(one.batch, one.base_offset)


def as_left(past: Log, batches: Log, end: int) -> Log:
    """What a log has of which a part can be read: the rest is what the last process left, as far as the log reaches."""
    places = {one.base_offset: one for one in past if one.end_offset <= end} | {one.base_offset: one for one in batches}
    return tuple(places[base_offset] for base_offset in sorted(places))


def cut(decision: events.OfReplica, replica: Replica) -> Replica:
    """The log as far as it still reaches; none of it where it starts over."""
    start, end = decision.state.log_start, decision.state.log_end_offset
    kept = () if start == end else tuple(one for one in replica.log if one.end_offset <= end)
    return attrs.evolve(replica, log=kept)


def told_forgot(decision: events.OfReplica) -> bool:
    """What a replica that is new here says of itself: a topic that succeeds another of its name has forgotten that."""
    return isinstance(decision, events.OfLog) and decision.producers.forgot


def batch_of(traced: TracedBatch) -> Batch:
    return Batch(
        traced.producer_id,
        traced.producer_epoch,
        traced.base_sequence,
        traced.checksum,
        traced.end_offset - traced.base_offset,
    )


def logged(batches: Sequence[TracedBatch]) -> Log:
    """Those of idempotent producers."""
    return tuple(
        LoggedBatch(one.leader_epoch, one.base_offset, batch_of(one)) for one in batches if one.producer_id >= 0
    )


def remembered(memory: events.ProducerMemory) -> Producers:
    return tuple(
        ProducerEntry(one.producer_id, one.epoch, tuple(BatchMetadata(*batch) for batch in one.batches))
        for one in memory.producers
    )


def told(traced: TracedBatch) -> str:
    return f"the batch of producer {traced.producer_id}, epoch {traced.producer_epoch}, sequence {traced.base_sequence}"


def in_log(log: Log) -> str:
    """The end of a producer's part of a log."""
    batches = (
        f"sequence {one.batch.sequence} of epoch {one.batch.epoch} at {one.base_offset}–{one.end_offset - 1}"
        for one in log[-BATCHES_SHOWN:]
    )
    return ", ".join(batches) or "nothing"


def known_as(entry: ProducerEntry | None) -> str:
    if entry is None:
        return "nothing"
    batches = ", ".join(f"{plain(one.last_sequence)} at {one.base_offset}–{one.last_offset}" for one in entry.batches)
    return f"epoch {entry.epoch} with the last sequences {batches}"
