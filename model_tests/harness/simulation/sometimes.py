"""What a campaign must have seen at least once, or it has proved little: rare events, counted.

The names are reported with their counts. One that stays at zero over a large campaign fails it: the faults are too
weak, too strong, or switched off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import Trace, TraceEvent
from tidegauge.linearizability.history import Kind, Operation, Outcome
from tidegauge.model_tests.harness.simulation.recorder import UncleanElection
from tidegauge.model_tests.harness.validation.incarnations import is_namesake

GOALS: Final = (
    "a follower truncated its log",
    "a fetch was fenced",
    "a fetch was held and handled again",
    "the ISR shrank",
    "the ISR grew",
    "an ISR change was refused",
    "two brokers thought that they led",
    "a leader crashed",
    "a crash lost records",
    "a log directory failed",
    "a broker lived on without one of its log directories",
    "a leader was lost with its disk",
    "a broker found damage when it started",
    "a broker met damage while it ran",
    "a damaged log was repaired",
    "a log was gone when its broker started",
    "a sync that had lied cost records",
    "a broker crashed while a sync waited",
    "a paused broker was deposed",
    "a controller took over",
    "a reassignment was completed",
    "a reassignment was taken back",
    "a replica was deleted",
    "records were deleted",
    "retention took records",
    "a follower started over where its leader's log begins",
    "a setting by which the controller decides was changed",
    "a broker was removed",
    "a leader was removed, and did not know it",
    "a broker that was removed came back",
    "a topic was deleted and created again",
    "a leader took records for a topic that was deleted",
    "a broker came back with the log of a topic that was deleted",
    "a consumer was reset to where the log begins",
    "a produce that waits for all was acknowledged",
    "a produce has an unknown outcome",
    "a produce certainly failed",
    "an unclean election lost records",
    "an operator had a leader elected that lacks records",
    "a repeat was acknowledged",
    "a batch out of order was refused",
    "a batch in which sequences wrap was appended",
    "an idempotent producer was forgotten",
    "an idempotent producer began a new epoch",
    "a replica remembered producers after a restart",
    "a crashed leader was replaced in time",
    "a partition took writes without its leader",
)


def seen(trace: Trace, rows: Sequence[Operation], elections: Sequence[UncleanElection]) -> dict[str, int]:
    """How often each goal was reached in one run."""
    counts: Counter[str] = Counter(dict.fromkeys(GOALS, 0))
    leads: dict[tuple[str, int], dict[int, int]] = {}
    ends: dict[tuple[int, str, int], int] = {}
    flushed: dict[tuple[int, str, int], int] = {}
    paused: set[int] = set()
    removed: set[int] = set()
    deleted: set[str] = set()
    moving: set[tuple[str, int]] = set()
    for event in trace:
        _note_event(event, counts)
        _note_producers(event, counts)
        _note_moves(event, counts, moving)
        _note_leadership(event, counts, leads, paused)
        _note_removals(event, counts, leads, removed)
        _note_deletions(event, counts, deleted)
        _note_loss(event, counts, ends)
        _note_lies(event, counts, flushed)
    for row in rows:
        if row.kind is Kind.PRODUCE:
            counts["a produce that waits for all was acknowledged"] += row.acks == -1 and row.outcome is Outcome.OK
            counts["a produce has an unknown outcome"] += row.outcome is Outcome.INFO
            counts["a produce certainly failed"] += row.outcome is Outcome.FAIL
        elif row.kind is Kind.FETCH and row.outcome is Outcome.FAIL:
            counts["a consumer was reset to where the log begins"] += "offset_out_of_range" in (row.meta or "")
    counts["an unclean election lost records"] += len(elections)
    counts["a controller took over"] -= 1  # the first one takes over from nobody
    return dict(counts)


FENCED: Final = (ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch)


def _note_event(event: TraceEvent, counts: Counter[str]) -> None:
    match event.decision:
        case events.ReceiveFetch(outcome=outcome):
            counts["a fetch was fenced"] += outcome.error in FENCED
        case events.ReceiveFetchResponse(outcome=outcome, accepted=accepted):
            out_of_range = outcome.error is ErrorCode.offset_out_of_range and accepted
            counts["a follower started over where its leader's log begins"] += out_of_range
        case events.HoldFetch():
            counts["a fetch was held and handled again"] += 1
        case events.ShrinkIsr():
            counts["the ISR shrank"] += 1
        case events.ReceiveAlterPartition(error=error):
            counts["an ISR change was refused"] += error is not ErrorCode.none
        case events.ReceiveAlterPartitionResponse(error=error, request=request):
            counts["the ISR grew"] += error is ErrorCode.none and len(request.isr) > 1
        case events.UncleanElection():
            counts["an operator had a leader elected that lacks records"] += 1
        case events.ControllerFailover():
            counts["a controller took over"] += 1
        case events.LogDirectoryFailed() if not isinstance(event.decision, events.ReplicaDamaged):
            counts["a log directory failed"] += 1
        case events.DamageFound(damaged=damaged):
            counts["a broker found damage when it started"] += any(one.start < one.log_end_offset for one in damaged)
            counts["a log was gone when its broker started"] += any(one.is_gone for one in damaged)
        case events.WithdrawReplica():
            counts["a broker met damage while it ran"] += 1
        case events.RepairReplica():
            counts["a damaged log was repaired"] += 1
        case events.DirectoriesOffline():
            counts["a broker lived on without one of its log directories"] += 1
        case events.DeleteRecords(offset=offset, state=state):
            counts["records were deleted"] += state.log_start == offset > 0
        case events.Retain():
            counts["retention took records"] += 1
        case events.AlterConfigs(changed=changed):
            counts["a setting by which the controller decides was changed"] += changed != ()


def _note_producers(event: TraceEvent, counts: Counter[str]) -> None:
    match event.decision:
        case events.AcknowledgeRepeat():
            counts["a repeat was acknowledged"] += 1
        case events.RefuseSequence(error=error):
            counts["a batch out of order was refused"] += error is ErrorCode.out_of_order_sequence_number
        case events.ExpireProducers(expired=expired):
            counts["an idempotent producer was forgotten"] += len(expired)
        case events.Restart(producers=memory):
            counts["a replica remembered producers after a restart"] += bool(memory.producers)
        case events.Append(batches=batches, producers=memory):
            for batch in batches:
                known = next((one for one in memory.producers if one.producer_id == batch.producer_id), None)
                remembered = () if known is None or batch.is_marker else known.batches
                wraps = any(one.last_sequence < batch.base_sequence for one in remembered[-1:])
                counts["a batch in which sequences wrap was appended"] += wraps


def _note_moves(event: TraceEvent, counts: Counter[str], moving: set[tuple[str, int]]) -> None:
    """Partitions that are on their way, until they have arrived or are taken back."""
    decision = event.decision
    counts["a replica was deleted"] += isinstance(decision, events.RemoveReplica)
    for one in decision.changed if isinstance(decision, events.ControllerDecision) else ():
        place = one.topic, one.partition
        if one.registration.is_reassigned:
            moving.add(place)
        elif place in moving:
            moving.discard(place)
            taken_back = isinstance(decision, events.CancelReassignment)
            counts[f"a reassignment was {'taken back' if taken_back else 'completed'}"] += 1


def _note_leadership(
    event: TraceEvent, counts: Counter[str], leads: dict[tuple[str, int], dict[int, int]], paused: set[int]
) -> None:
    match event.decision:
        case events.ApplyMetadata(topic=topic, partition=partition, state=state):
            leaders = leads.setdefault((topic, partition), {})
            leaders.pop(event.node, None)
            if state.leader == event.node:
                leaders[event.node] = state.leader_epoch
                counts["two brokers thought that they led"] += len(leaders) > 1
                counts["a paused broker was deposed"] += any(other in paused for other in leaders)
        case events.LogDirectoryFailed(lost=lost):
            for one in lost:
                led = leads.get((one.topic, one.partition), {}).pop(event.node, None)
                counts["a leader was lost with its disk"] += led is not None
        case events.Crash():
            for leaders in leads.values():
                counts["a leader crashed"] += leaders.pop(event.node, None) is not None
            paused.discard(event.node)
        case events.Pause():
            paused.add(event.node)
        case events.Resume():
            paused.discard(event.node)


def _note_removals(
    event: TraceEvent, counts: Counter[str], leads: dict[tuple[str, int], dict[int, int]], removed: set[int]
) -> None:
    match event.decision:
        case events.UnregisterBroker(broker=broker):
            removed.add(broker)
            counts["a broker was removed"] += 1
            counts["a leader was removed, and did not know it"] += any(broker in leaders for leaders in leads.values())
        case events.Register(broker=broker) if broker in removed:
            removed.discard(broker)
            counts["a broker that was removed came back"] += 1


def _note_deletions(event: TraceEvent, counts: Counter[str], deleted: set[str]) -> None:
    """Of topics that are told apart where they share a name."""
    match event.decision:
        case events.DeleteTopic(topic=topic):
            deleted.add(topic)
        case events.CreateTopic(topic=topic):
            counts["a topic was deleted and created again"] += any(is_namesake(topic, other) for other in deleted)
        case events.Append(topic=topic):
            counts["a leader took records for a topic that was deleted"] += topic in deleted
        case events.Restart(topic=topic):
            counts["a broker came back with the log of a topic that was deleted"] += topic in deleted


def _note_loss(event: TraceEvent, counts: Counter[str], ends: dict[tuple[int, str, int], int]) -> None:
    match event.decision:
        case events.RemoveReplica(topic=topic, partition=partition):
            ends.pop((event.node, topic, partition), None)
        case events.Crash(kept=kept):
            for (topic, partition), end in kept.items():
                counts["a crash lost records"] += end < ends.get((event.node, topic, partition), 0)
                ends[event.node, topic, partition] = end
        case events.OfReplica(topic=topic, partition=partition, state=state):
            place = event.node, topic, partition
            counts["a follower truncated its log"] += state.log_end_offset < ends.get(place, 0)
            ends[place] = state.log_end_offset


def _note_lies(event: TraceEvent, counts: Counter[str], flushed: dict[tuple[int, str, int], int]) -> None:
    """Logs that end, when a process opens them, before what the last one was told to be on stable storage."""
    if isinstance(event.decision, events.OfReplica):
        place, end = (event.node, event.decision.topic, event.decision.partition), event.decision.state.log_end_offset
        if isinstance(event.decision, events.Flush):
            flushed[place] = end
        elif isinstance(event.decision, events.Restart):
            counts["a sync that had lied cost records"] += end < flushed.pop(place, 0)
        elif end < flushed.get(place, 0):
            flushed[place] = end
