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
* a marker is appended where `spec.transactions` takes its epoch, and is part of memory and log as batches are; whose
  transaction is open since when, and where read_committed ends, is what the log says (`markers`), after each decision
  of a replica;
* no batch of one producer is in a log twice (`NoDuplicate`), unless it was taken on trust: it came again to a leader
  that does not know its producer any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.contents import LoggedBatch as TracedBatch
from tidegauge.impl.server.trace.contents import RememberedBatch
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation import markers
from tidegauge.model_tests.harness.validation.markers import WithMarkers, logged_batch
from tidegauge.model_tests.harness.validation.ways import Wrong
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
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.transactions.state import Memory

SEQUENCES: Final = 1 << 31
"""Kafka's; a run may count modulo less."""
BATCHES_SHOWN: Final = 8


class Remembering:
    """The replicas of one partition, and what they remember."""

    def __init__(
        self, sequences: int = SEQUENCES, *, succeeds: bool = False, decided: markers.Decided | None = None
    ) -> None:
        """`succeeds`: there was a topic of the name, and producers may go on from what they sent to that.

        `decided`: what coordinators have decided; without it nothing is asked of the index of aborted transactions.
        """
        self._succeeds = succeeds
        self._decided = decided
        self.machine: IdempotenceRules = WithMarkers(sequences=sequences)
        self._matches_log = producer_state_matches_log(self.machine)
        self._replicas: dict[int, Replica] = {}
        """By broker: those whose process runs; `Batch.first` is the checksum, which is the batch's for good."""
        self._past: dict[int, Log] = {}
        """By broker: what the log had when its process ended."""
        self._damaged: set[int] = set()
        """Brokers whose processes have found damage in this log."""
        self._transactions: dict[int, tuple[Log, Memory]] = {}
        """By broker: a log, and what it says of transactions."""
        self._passed: dict[int, int] = {}
        """By broker: the greatest high watermark that its process has had. A follower's moves back to that of a new
        leader; what it had passed stays committed, and so may stay stable."""

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
            case events.WithdrawReplica():
                self._damaged.add(node)
            case events.RemoveReplica():
                self._end(node)
                self._past.pop(node, None)
            case events.OfReplica() as decision:
                before = self._replicas.get(node) or Replica(forgot=told_forgot(decision))
                before = evolve(before, log_start=decision.state.log_start)
                self._replicas[node] = self._after(decision, before, self._past.get(node, ()), node in self._damaged)
                if node not in self._damaged:
                    self._check_transactions(decision, node)

    def _end(self, node: int) -> None:
        self._damaged.discard(node)
        self._passed.pop(node, None)
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
                    return self._made_of_the_rest(decision, evolve(replica, log=had))
                return self._made_again(decision, evolve(replica, log=before + batches))
            case events.Append():
                return self._kept(decision, self._appended(decision, replica))
            case events.ReceiveFetchResponse(accepted=True, outcome=outcome):
                if outcome.error is ErrorCode.none and outcome.diverging_epoch is None:
                    return self._kept(decision, self._with(replica, outcome.batches))
                left = cut(decision, replica)
                return self._made_of_the_rest(decision, left) if damaged else self._made_again(decision, left)
            case events.HasRoom():
                return self._made_again(decision, replica)
            case events.RepairReplica():
                return self._made_of_the_rest(decision, cut(decision, replica))
            case events.ExpireProducers(expired=expired):
                known = replica.producers
                for producer in expired:
                    known = without_entry(known, producer)
                return self._kept(decision, evolve(replica, producers=known, forgot=True))
            case events.AcknowledgeRepeat() | events.RefuseSequence():
                self._check_response(decision, replica)
                return self._kept(decision, replica)
            case events.OfLog():
                return self._kept(decision, replica)
            case events.ApplyMetadata() if self._succeeds:
                return evolve(replica, forgot=True)
        return replica

    # --- transactions ------------------------------------------------------------------------------------------------

    def _check_transactions(self, decision: events.OfReplica, node: int) -> None:
        """What a replica says of transactions against what its log says."""
        memory, state = self._transactions_of(node), decision.state
        passed = self._passed[node] = max(state.high_watermark, self._passed.get(node, 0))
        least = max(markers.last_stable_offset(memory, state.high_watermark), state.log_start)
        most = min(max(markers.last_stable_offset(memory, passed), state.log_start), state.high_watermark)
        between = {span.first for span in memory.unreplicated if least < span.first < most}
        if state.last_stable_offset not in (allowed := {least, most} | between):
            wanted = " or ".join(map(str, sorted(allowed)))
            raise Wrong(f"the last stable offset is {state.last_stable_offset}, the specification's {wanted}")
        for one in decision.producers.producers if isinstance(decision, events.OfLog) else ():
            expected = markers.open_from(memory, one.producer_id)
            if one.open_from != expected:
                who = f"of producer {one.producer_id} a transaction"
                raise Wrong(f"{who} is open from {one.open_from}, in the specification from {expected} (-1: none)")
        if self._decided is not None and isinstance(decision, events.OfLog):
            indexed = [one for one in decision.producers.aborted if one.last_offset >= state.log_start]
            spans = [(span.producer_id, span.first, span.last) for span in memory.aborted]
            wanted_ones = [span for span in spans if span[2] >= state.log_start]
            if indexed != wanted_ones:
                said = f"the index of aborted transactions has {plain(tuple(indexed))}"
                raise Wrong(f"{said}, the specification's {plain(tuple(wanted_ones))}")

    def _transactions_of(self, node: int) -> Memory:
        """Made of the log; of what was appended since, where that is all that has changed."""
        log, (known, memory) = self._replicas[node].log, self._transactions.get(node, ((), Memory()))
        decided = self._decided or markers.NOTHING_DECIDED
        if log is not known:
            if log[: len(known)] == known:
                for one in log[len(known) :]:
                    memory = markers.with_entry_of_log(memory, one, decided)
            else:
                memory = markers.of_log(log, decided)
            self._transactions[node] = log, memory
        return memory

    # --- the leader's rules ------------------------------------------------------------------------------------------

    def _appended(self, decision: events.Append, replica: Replica) -> Replica:
        for traced in decision.batches:
            if traced.is_marker:
                known = entry_of(replica.producers, traced.producer_id)
                ended = markers.ended_by(batch_of(traced), self._decided or markers.NOTHING_DECIDED)
                memory = markers.of_log(replica.log)
                refusal = markers.marker_error(known, memory, batch_of(traced), ended.version)
                if refusal:
                    raise Wrong(f"{told(traced)} is appended, the specification responds {refusal.name}")
            elif traced.producer_id >= 0 and traced.base_sequence < 0:
                known = entry_of(replica.producers, traced.producer_id)
                if refusal := markers.coordinators_batch_error(known, batch_of(traced)):
                    raise Wrong(f"{told(traced)} is appended, the specification responds {refusal.name}")
            elif traced.producer_id >= 0:
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
            unknown = one.batch.sequence > 0 and entry_of(producers, one.batch.producer) is None
            more.append(evolve(one, on_trust=unknown))
            producers = self.machine.with_batch(producers, one.batch, one.base_offset)
        return evolve(replica, log=(*replica.log, *more), producers=producers)

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
        replica = evolve(replica, producers=remembered(found), forgot=found.forgot)
        has = {one.batch.producer for one in replica.log} | {entry.producer for entry in replica.producers}
        for producer in sorted(has):
            log = tuple(one for one in replica.log if one.batch.producer == producer)
            known = entry_of(replica.producers, producer)
            newest = tuple(one for one in log if one.batch.epoch == log[-1].batch.epoch)
            if newest and not (shown := tuple(one for one in newest if one.batch.sequence >= 0)):
                self._check_marked(replica, known, newest[-1])
                continue
            alone = evolve(replica, log=shown if newest else (), producers=() if known is None else (known,))
            if not self._matches_log(State((), (alone,), 0, 0, ())):
                has_not = f"ProducerStateMatchesLog is violated: of producer {producer} the replica remembers"
                raise Wrong(f"{has_not} {known_as(known)}, its log from {replica.log_start} on has {in_log(log)}")
        return replica

    def _check_marked(self, replica: Replica, known: ProducerEntry | None, marker: LoggedBatch) -> None:
        """A marker is the last of a producer in the log, and of another epoch than what came before."""
        expected = ProducerEntry(marker.batch.producer, marker.batch.epoch, ())
        forgotten = known is None and (replica.forgot or marker.base_offset < replica.log_start)
        if known != expected and not forgotten:
            told_of = f"of producer {expected.producer} the replica remembers {known_as(known)}"
            raise Wrong(f"ProducerStateMatchesLog is violated: {told_of}, its log ends it with {known_as(expected)}")

    def _made_of_the_rest(self, decision: events.OfLog, replica: Replica) -> Replica:
        """Memory comes from a disk that has damaged the log."""
        found = decision.producers
        replica = evolve(replica, producers=remembered(found), forgot=found.forgot)
        had = {(one.batch.producer, one.batch.epoch, self._metadata(one)) for one in without_markers(replica.log)}
        for entry in replica.producers:
            if not had.issuperset((entry.producer, entry.epoch, batch) for batch in entry.batches):
                who = f"of producer {entry.producer} the replica remembers"
                raise Wrong(f"{who} {known_as(entry)}, which its log never had")
        readable = logged(decision.batches) if isinstance(decision, events.Restart) and not found.forgot else ()
        newest_of = {one.batch.producer: self._metadata(one) for one in without_markers(readable)}
        for producer, newest in newest_of.items():
            known = entry_of(replica.producers, producer)
            later = [one.base_offset for one in readable if one.batch.producer == producer and one.batch.sequence < 0]
            marked = known is not None and not known.batches and max(later, default=-1) > newest.last_offset
            if not marked and (known is None or last_offset(known) < newest.last_offset):
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
    return evolve(replica, log=kept)


def told_forgot(decision: events.OfReplica) -> bool:
    """What a replica that is new here says of itself: a topic that succeeds another of its name has forgotten that."""
    return isinstance(decision, events.OfLog) and decision.producers.forgot


def batch_of(traced: TracedBatch) -> Batch:
    return logged_batch(traced).batch


def logged(batches: Sequence[TracedBatch]) -> Log:
    """Those of idempotent producers, markers among them."""
    return tuple(logged_batch(one) for one in batches if one.producer_id >= 0)


def without_markers(log: Log) -> Log:
    return tuple(one for one in log if one.batch.sequence >= 0)


def last_offset(known: ProducerEntry) -> int:
    """Of the batches that are remembered; -1 where a marker is all that is."""
    return known.batches[-1].last_offset if known.batches else -1


def remembered(memory: events.ProducerMemory) -> Producers:
    return tuple(
        ProducerEntry(one.producer_id, one.epoch, tuple(map(_remembered_batch, one.batches)))
        for one in memory.producers
    )


def _remembered_batch(said: RememberedBatch) -> BatchMetadata:
    last_sequence = markers.last_sequence(said.last_sequence, said.offset_delta)
    return BatchMetadata(last_sequence, said.last_offset, said.offset_delta)


def told(traced: TracedBatch) -> str:
    if traced.is_marker:
        return f"the marker of producer {traced.producer_id}, epoch {traced.producer_epoch},"
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
    return f"epoch {entry.epoch} with " + (f"the last sequences {batches}" if batches else "no sequence")
